"""Makes viewers' rows, from objects of the API server and from facts. Pure."""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from itertools import chain, islice

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError
from liqod.model.objects.partial import Node
from liqod.model.objects.podsight import LivePod, pod_of, unready
from liqod.model.objects.quantities import Amounts, is_quantity, parse, parse_all, render_all, total
from liqod.model.peering.quota import pod_cost
from liqod.model.view import podwaits
from liqod.model.view.daemonfacts import ReasonFacts, SightingFacts
from liqod.model.view.facts import PeerFacts, Report, WorkFacts
from liqod.model.view.headline import first_failing
from liqod.model.view.networkfacts import NetworkFacts
from liqod.model.view.podwaits import PodWait
from liqod.model.view.requests import unix
from liqod.model.view.rows import (
    Amount,
    ConditionRow,
    Ladder,
    PeerRow,
    PodRow,
    Pulse,
    Reflection,
    Slice,
    SliceRow,
    WidePeerRow,
)
from liqod.resources import ForeignCluster, ResourceSlice, VirtualNode
from liqod.resources.authentication import AUTHENTICATION, RESOURCES
from liqod.resources.core import Module

PROBLEMS = 200
"""Problems that are shown; more would only hide the first."""
REASONS = 100
"""Different reasons of objects that are shown."""


class CountedPod(msgspec.Struct, frozen=True):
    """A pod's row, the pod's cost for a quota, and its wait, where it waits."""

    row: PodRow
    cost: Amounts
    wait: PodWait | None = None


def counted(pod: LivePod) -> CountedPod:
    """The row and the cost of a pod."""
    try:
        cost = pod_cost(pod.spec)
    except ConfigError:
        cost = {}
    status = pod.status
    restarts = sum(each.restart_count for each in status.container_statuses)
    row = PodRow(
        **msgspec.structs.asdict(pod_of(pod)),
        since=unix(pod.metadata.creation_timestamp),
        restarts=restarts,
        ip=status.pod_ip,
    )
    return CountedPod(row, cost, podwaits.waiting(pod))


def readiness(node: Node) -> tuple[str, str]:
    """A node's name and the reason why it is not Ready, empty when it is."""
    return node.metadata.name, unready(node.status)


def usefulness(node: Node) -> tuple[str, str]:
    """A virtual node's name and the reason why no pod can run on it, empty where one can.

    One that is Ready may still accept no pod: the scheduler reads a node without ``pods`` as one
    with none. One that shows a part of a peer may have no share of the grant for now.
    """
    name, problem = readiness(node)
    if labels.PART in node.metadata.labels:
        return name, problem
    pods = node.status.allocatable.get("pods", 0)
    if not problem and (not is_quantity(pods) or parse(pods) <= 0):
        problem = "it has room for no pods: the slice was granted none"
    return name, problem


def origin(pod: Partial) -> str:
    """The consumer that a pod made of a shadow pod came from."""
    return pod.metadata.labels.get(labels.ORIGIN, "")


def quotas(
    slices: Iterable[ResourceSlice], nodes: Iterable[VirtualNode], pods: Iterable[CountedPod]
) -> dict[str, dict[str, Amount]]:
    """The granted and used amounts of each peer, by resource.

    Args:
        slices: those that are borrowed, and lent. A virtual node may show a part of one only.
        nodes: the virtual nodes. They count for a peer without a slice, where somebody made them.
        pods: the offloaded pods.
    """
    nodes = tuple(nodes)
    peers = {node.name: node.spec.cluster_id for node in nodes}
    borrowed = ((owner(each), each.status.resources) for each in slices)
    granted = _sums((peer, found) for (peer, lent), found in borrowed if not lent)
    made = _sums((node.spec.cluster_id, node.spec.resource_quota.hard) for node in nodes)
    used: dict[str, list[Amounts]] = {}
    waiting: dict[str, list[Amounts]] = {}
    for each in pods:
        if each.row.node in peers:
            sums = waiting if each.row.waits else used
            sums.setdefault(peers[each.row.node], []).append(each.cost)
    return {
        peer: _amounts(hard, total(used.get(peer, ())), total(waiting.get(peer, ())))
        for peer, hard in {**made, **granted}.items()
    }


def _sums(found: Iterable[tuple[str, Mapping[str, int | str]]]) -> dict[str, Amounts]:
    """The sum of resources of each peer; what is no quantity is left out."""
    known: dict[str, list[Amounts]] = {}
    for peer, resources in found:
        with suppress(ConfigError):
            known.setdefault(peer, []).append(parse_all(resources))
    return {peer: total(each) for peer, each in known.items()}


def _amounts(granted: Amounts, used: Amounts, waiting: Amounts) -> dict[str, Amount]:
    taken = {name: used.get(name, 0) for name in granted}
    texts, takes, waits = map(render_all, (granted, taken, waiting))
    return {
        name: Amount(
            texts[name],
            takes[name],
            round(taken[name] / amount, 3) if amount else None,
            waits.get(name, "") if waiting.get(name) else "",
        )
        for name, amount in sorted(granted.items())
    }


def pods(found: Iterable[CountedPod], peers: Mapping[str, str]) -> dict[str, PodRow]:
    """The rows of pods by ``namespace/name``, given the peer of each virtual node."""
    rows = (each.row for each in found)
    return {
        f"{row.namespace}/{row.name}": msgspec.structs.replace(row, peer=peers.get(row.node, ""))
        for row in rows
    }


def slices(found: Iterable[ResourceSlice]) -> dict[str, Slice]:
    """The rows of slices, borrowed and lent, by ``namespace/name``."""
    return {
        f"{each.metadata.namespace}/{each.name}": Slice(
            **msgspec.structs.asdict(slice_row(each)),
            peer=owner(each)[0],
            namespace=each.metadata.namespace,
        )
        for each in found
    }


def peer(
    row: PeerRow,
    facts: PeerFacts,
    *,
    quota: dict[str, Amount],
    ladder: Ladder | None,
) -> WidePeerRow:
    """The row of a peer.

    Args:
        row: as ``liqod status`` has it.
        facts: from its objects and from the daemon.
        quota: by resource.
        ladder: the doctor's findings.
    """
    failing = first_failing(ladder)
    return WidePeerRow(
        **msgspec.structs.asdict(row),
        server=facts.server,
        tenant_namespace=facts.tenant_namespace,
        link=facts.link.state,
        since=facts.link.since,
        reason=facts.link.reason,
        version=facts.link.version,
        layer=failing.layer if failing is not None else "",
        verdict=failing.evidence if failing is not None else "",
        layer_since=failing.since if failing is not None else 0.0,
        failure=facts.failure,
        retry_at=facts.retry_at,
        quota=quota,
        conditions=facts.conditions,
    )


def pulse(facts: PeerFacts | None) -> Pulse:
    """The pulse of a peer; empty for one that has no facts yet."""
    if facts is None:
        return Pulse()
    link, work = facts.link, facts.work or WorkFacts()
    return Pulse(
        heard=link.heard,
        rtt=link.rtt,
        p50=link.p50,
        p95=link.p95,
        jitter=link.jitter,
        loss=link.lost,
        lag=work.lag,
        backlog=work.backlog,
        oldest=work.oldest,
        requests=work.requests,
        sent=work.sent,
        received=work.received,
    )


def networks(report: Report) -> dict[str, NetworkFacts]:
    """The facts of each joined network, by peer."""
    return {
        name: facts.network.rounded()
        for name, facts in report.peers.items()
        if facts.network is not None
    }


def reflections(report: Report) -> dict[str, Reflection]:
    """The work of each reflector, by ``peer/reflector``."""
    rows: dict[str, Reflection] = {}
    for peer, facts in report.peers.items():
        for name, queue in facts.reflection.reflectors.items():
            count = facts.reflection.written[name]
            rows[f"{peer}/{name}"] = Reflection(
                peer=peer,
                reflector=name,
                waiting=queue.waiting,
                busy=queue.busy,
                oldest=round(queue.oldest, 1),
                done=count.done,
                failed=count.failed,
                error=count.error,
            )
    return rows


def reasons(report: Report) -> dict[str, ReasonFacts]:
    """The reasons why objects are not as wanted, the first of all peers."""
    every = (each.reasons.items() for each in report.peers.values())
    return dict(islice(chain.from_iterable(every), REASONS))


def sightings(report: Report, peers: Container[str]) -> dict[str, SightingFacts]:
    """The sightings of clusters; nothing is waited for with those that are peers."""
    return {
        key: msgspec.structs.replace(seen, peered=True, waits=False, step="")
        if seen.cluster_id in peers
        else seen
        for key, seen in report.cluster.sightings.items()
    }


def conditions(cluster: ForeignCluster) -> Iterable[ConditionRow]:
    """The conditions of a peer, and of the modules in use with it."""
    modules = cluster.status.modules
    parts: list[tuple[str, Module | None]] = []
    if modules is not None:
        parts = [(name, getattr(modules, name)) for name in modules.__struct_fields__]
    for one in cluster.status.conditions:
        yield ConditionRow("", one.type, one.status, one.last_transition_time, one.message)
    for name, module in parts:
        for one in module.conditions if module is not None and module.enabled else ():
            yield ConditionRow(name, one.type, one.status, one.last_transition_time, one.message)


def owner(item: ResourceSlice) -> tuple[str, bool]:
    """The peer of a slice, and whether the slice is lent to it."""
    marks, spec = item.metadata.labels, item.spec
    if marks.get(labels.REPLICATED) == labels.TRUE:
        return marks.get(labels.ORIGIN_ID, spec.consumer_cluster_id), True
    return spec.provider_cluster_id or marks.get(labels.REMOTE_CLUSTER_ID, ""), False


def slice_row(item: ResourceSlice) -> SliceRow:
    """The row of a slice."""
    return SliceRow(
        item.name,
        "lent" if owner(item)[1] else "borrowed",
        item.spec.class_name or "default",
        {key: str(value) for key, value in item.spec.resources.items()},
        {key: str(value) for key, value in item.status.resources.items()},
        item.verdict(AUTHENTICATION),
        item.verdict(RESOURCES),
        "; ".join(
            f"{one.type}: {one.message}"
            for one in item.status.conditions
            if one.denies and one.message
        ),
        labels.CORDON in item.metadata.annotations,
    )
