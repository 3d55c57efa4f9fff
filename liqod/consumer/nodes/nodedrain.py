"""Emptying a virtual node before it goes: cordon, evict, wait, within a deadline.

Evictions respect disruption budgets; the blocking one is named. Where there is no budget either,
a controller's pods go in steps, each when the replacements of the ones before are ready
(:mod:`liqod.model.objects.disruption`). Pods of DaemonSets stay, as on any drained node, and so do
finished ones. A peer that does not answer cannot confirm that a pod has ended, so nothing waits for
that: its pods go at once, and a budget, which has nothing to keep available there, counts for a
moment only. At the deadline the rest is deleted: the Node goes in any case, and its pods with
it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable

import trio

from liqod.apimachinery.kinds import NODES, PODS
from liqod.errors import Conflict, Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.failures import EvictionBlocked
from liqod.kube.selection import Selection
from liqod.model.objects import disruption
from liqod.model.objects.disruption import EvictablePod, Sizes
from liqod.model.view.figures import counted

FIRST_PAUSE = 0.25
LAST_PAUSE = 4.0
"""Seconds between checks, doubling while nothing moves: most pods end soon or late."""
SOON = 1.0
"""The longest of them where there are few pods: under a budget, the next one may go as soon as what
replaces the one before is ready, and each late check delays every pod once."""
READ = 100
"""Pods that are read in a second, beyond which the checks are fewer."""
REFUSALS = 2
"""Pods of one controller that are tried in one check although their budget is used up: mostly
it is the same for all, and there may be hundreds."""
UNANSWERED = 3.0
"""Seconds without an answer of the peer after which budgets do not count any more."""


def next_pause(pause: float, pods: int) -> float:
    """Seconds until the next check where nothing has moved.

    Args:
        pause: those before this one.
        pods: how many each check reads.
    """
    return min(pause * 2, max(SOON, pods / READ), LAST_PAUSE)


async def cordon(client: Client, node: str) -> None:
    """Let nothing new be scheduled to the node."""
    await client.patch(NODES, node, {"spec": {"unschedulable": True}})


async def drain(
    client: Client,
    node: str,
    *,
    deadline: float,
    alive: Callable[[], bool],
    report: Callable[[str], Awaitable[None]],
) -> None:
    """Evict the node's pods and wait until they are gone.

    Args:
        client: of this cluster.
        node: name of the Node, cordoned already.
        deadline: trio time at which the rest is deleted.
        alive: whether the peer answers; terminating pods are waited for only then.
        report: called with the reason to wait, in one sentence, when it changes.
    """
    said, pause = "", FIRST_PAUSE
    silent: float | None = None
    sizes: Sizes = {}
    before = 0
    while True:
        pods = await client.list(
            PODS, Selection(fields=f"spec.nodeName={node}"), decode=EvictablePod
        )
        leaving = [pod for pod in pods if not pod.stays]
        staying = [pod for pod in leaving if not pod.ending]
        now = trio.current_time()
        silent = None if alive() else now if silent is None else silent
        end = deadline if silent is None else min(deadline, silent + UNANSWERED)
        late = now >= end
        blocked = ""
        if late:
            for pod in staying:
                await delete(client, pod)
        elif silent is not None:
            for pod in staying:
                blocked = await evict(client, pod) or blocked
        elif staying:
            pods = [*leaving, *await _elsewhere(client, staying, node)]
            blocked, sizes = await advance(client, pods, (node,), sizes)
        if silent is not None and (late or not blocked):
            # Nothing will ever confirm their end, and their node goes now.
            for pod in leaving:
                await delete(client, pod, grace=0)
        if late or not leaving or (not blocked and silent is not None):
            return
        text = blocked or f"{counted(len(leaving), 'pod')} of {node} still ending"
        if text != said:
            said = text
            await report(text)
        pause = FIRST_PAUSE if len(leaving) != before else next_pause(pause, len(pods))
        before = len(leaving)
        await trio.sleep(min(pause, max(end - trio.current_time(), 0.0)))


async def advance(
    client: Client, pods: Iterable[EvictablePod], nodes: Collection[str], sizes: Sizes
) -> tuple[str, Sizes]:
    """Evict those that may go now.

    Args:
        client: of this cluster.
        pods: those on the nodes, and all others of their controllers.
        nodes: the names of the nodes that are left.
        sizes: the result of the last call, empty at the first.

    Returns:
        The obstacle, in one sentence or empty; and the sizes for the next call.
    """
    step = disruption.drain_step(pods, nodes, sizes, trio.current_time())
    blocked = ""
    refused: Counter[str] = Counter()
    for pod in step.go:
        group = pod.controller or pod.key
        if refused[group] < REFUSALS:
            why = await evict(client, pod)
            refused[group] += bool(why)
            blocked = why or blocked
    if step.held and not blocked:
        blocked = f"{counted(len(step.held), 'pod')} wait until what replaces others is ready"
    return blocked, step.sizes


async def _elsewhere(
    client: Client, staying: Iterable[EvictablePod], node: str
) -> list[EvictablePod]:
    """The pods beside which those of a node work, on other nodes or on none yet."""
    namespaces = sorted({pod.metadata.namespace for pod in staying if pod.controller})
    found: list[EvictablePod] = []
    for namespace in namespaces:
        listed = await client.list(PODS, Selection(namespace), decode=EvictablePod)
        found += [pod for pod in listed if pod.spec.node_name != node]
    return found


async def evict(client: Client, pod: EvictablePod) -> str:
    """Evict exactly this pod; the obstacle, or an empty text."""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": pod.metadata.uid}},
    }
    try:
        await client.create_subresource(PODS, name, namespace, "eviction", eviction, decode=dict)
    except (NotFound, Conflict):
        return ""
    except Forbidden as error:
        if "being terminated" not in str(error):
            raise
        await delete(client, pod)  # its namespace goes, and an eviction would be new content in it
    except EvictionBlocked as error:
        return f"pod {pod.key} may not be evicted: {error}"
    return ""


async def delete(client: Client, pod: EvictablePod, grace: int | None = None) -> None:
    """Delete exactly this pod; with a grace of 0 its end is not waited for."""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    try:
        await client.delete(PODS, name, namespace, uid=pod.metadata.uid, grace=grace)
    except Conflict:
        return  # the pod was replaced, and the new one is not on this node
