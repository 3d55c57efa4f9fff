"""Emptying a virtual node before it goes: cordon, evict, wait, within a deadline.

Evictions respect disruption budgets; the one in the way is named. Pods of DaemonSets stay, as on
any drained node, and so do finished ones. A peer that does not answer cannot confirm that a pod has
ended, so nothing waits for that: its pods go at once, and a budget, which has nothing to keep
available there, counts for a moment only. At the deadline what is left is deleted: the Node goes in
any case, and its pods with it.
"""

from collections.abc import Awaitable, Callable

import msgspec
import trio

from liqod.errors import Conflict, Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.failures import EvictionBlocked
from liqod.kube.kinds import NODES, PODS
from liqod.kube.meta import ObjectMeta
from liqod.model.figures import counted

FIRST_PAUSE = 0.25
LAST_PAUSE = 5.0
"""Seconds between looks, doubling: most pods end soon or late."""
UNANSWERED = 3.0
"""Seconds without an answer of the peer after which budgets do not count any more."""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class Pod(msgspec.Struct, frozen=True):
    """What a drain looks at."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()

    @property
    def stays(self) -> bool:
        """Whether a drain leaves it: pods of DaemonSets, of the node itself, and finished ones."""
        owners = self.metadata.owner_references
        return (
            any(owner.kind == "DaemonSet" and owner.controller for owner in owners)
            or "kubernetes.io/config.mirror" in self.metadata.annotations
            or self.status.phase in ("Succeeded", "Failed")
        )

    @property
    def key(self) -> str:
        """Namespace and name, for people."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


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
        deadline: trio time at which what is left is deleted.
        alive: whether the peer answers; terminating pods are waited for only then.
        report: told, when it changes, what is waited for, in one sentence.
    """
    said, pause = "", FIRST_PAUSE
    silent: float | None = None
    while True:
        pods = await client.list(PODS, fields=f"spec.nodeName={node}", decode=Pod)
        leaving = [pod for pod in pods if not pod.stays]
        staying = [pod for pod in leaving if pod.metadata.deletion_timestamp is None]
        now = trio.current_time()
        silent = None if alive() else now if silent is None else silent
        end = deadline if silent is None else min(deadline, silent + UNANSWERED)
        late = now >= end
        blocked = ""
        for pod in staying:
            if late:
                await _delete(client, pod)
            else:
                blocked = await _evict(client, pod) or blocked
        if silent is not None and (late or not blocked):
            # Nobody will ever confirm their end, and their node goes now.
            for pod in leaving:
                await _delete(client, pod, grace=0)
        if late or not leaving or (not blocked and silent is not None):
            return
        text = blocked or f"{counted(len(leaving), 'pod')} of {node} still ending"
        if text != said:
            said = text
            await report(text)
        await trio.sleep(min(pause, max(end - trio.current_time(), 0.0)))
        pause = min(pause * 2, LAST_PAUSE)


async def _evict(client: Client, pod: Pod) -> str:
    """Evict one pod; what stands in the way, or an empty text."""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": pod.metadata.uid}},
    }
    try:
        await client.create(PODS, eviction, namespace, subresource="eviction", name=name)
    except (NotFound, Conflict):
        return ""
    except Forbidden as error:
        if "being terminated" not in str(error):
            raise
        await _delete(client, pod)  # its namespace goes, and an eviction would be new content in it
    except EvictionBlocked as error:
        return f"pod {pod.key} may not be evicted: {error}"
    return ""


async def _delete(client: Client, pod: Pod, grace: int | None = None) -> None:
    name, namespace = pod.metadata.name, pod.metadata.namespace
    try:
        await client.delete(PODS, name, namespace, uid=pod.metadata.uid, grace=grace)
    except Conflict:
        return  # another pod of that name by now, and not on this node
