"""The desired Node of a virtual node, and the smallest patch that makes it so.

Pure. A Node has many owners: the node controllers taint it, users cordon it and label it, so each
function here returns only what is liqod's, and lists that merge patches would replace whole come
with the others' entries and a resource version.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.config import PodNetwork
from liqod.model.crossing.noderequests import metrics_path
from liqod.model.objects import conditions, quantities
from liqod.model.objects.patches import contained, digest
from liqod.model.objects.scheduling import TAINT
from liqod.model.peering import capacity, freecapacity, nodesready, places, sizelabels
from liqod.model.peering.freecapacity import FreeCapacity
from liqod.model.peering.heartbeat import HeartbeatVerdict
from liqod.model.peering.places import Left, Sent
from liqod.model.peering.quota import PODS
from liqod.resources.nodes import VirtualNode

Json = dict[str, Any]

OWN_TAINTS: Final = labels.NODE_TAINTS
CLOSED: Final = {"key": labels.CLOSED_TAINT, "value": labels.TRUE, "effect": "NoSchedule"}
"""The taint of nodes of a peer whose daemon does not run, whose API server takes no pods (a webhook
of Liqo's that is down), or of whose nodes none takes pods: its pods stay, and none new
come."""
USUAL_LABELS: Final = {labels.OS: "linux", labels.ARCH: "amd64"}
"""Labels of a Node that its VirtualNode may say otherwise."""
LEFT_ALONE: Final = {labels.NO_SCALE_DOWN: labels.TRUE, labels.NO_DISRUPTION: labels.TRUE}
"""The annotations by which autoscalers of this cluster remove no node that seems to be empty."""
_HEARTBEAT = "lastHeartbeatTime"


class NodeState(msgspec.Struct, frozen=True):
    """The facts that a Node shows and its VirtualNode does not.

    Attributes:
        up: whether the peer answers.
        reason: the reason that it does not, one sentence.
        closed: whether it takes no new pods, though the pods there can be seen.
        pod_network: how the peer's pods are reachable from this cluster.
        unjoined: why a tunnel waits; empty where addresses are translated, or none is wanted.
        broken: the reason that nothing passes an established tunnel; empty without one.
        address: the kubelet API's IP address.
        port: its port.
        version: ``gitVersion`` of the local API server.
        daemon: the state of the peer's daemon.
        waiting: the requests of its pods that no node of the peer has room for, in billionths.
        settled: those of its other pods that were sent long ago.
        held: those of all its other pods.
        placed: their number.
        sent: those of them that were sent not long ago (:mod:`liqod.model.peering.places`).
        provider_ids: whether the Node has a ``providerID`` of our own.
    """

    up: bool
    reason: str = ""
    closed: bool = False
    pod_network: PodNetwork = "none"
    unjoined: str = ""
    broken: str = ""
    address: str = "127.0.0.1"
    port: int = 10270
    version: str = "v1.30.0"
    daemon: HeartbeatVerdict = HeartbeatVerdict()
    waiting: Mapping[str, int] = {}
    settled: Mapping[str, int] = {}
    held: Mapping[str, int] = {}
    placed: int = 0
    sent: Sent = ()
    provider_ids: bool = False


def node_labels(node: VirtualNode) -> dict[str, str]:
    """All labels of the Node; those that make it a virtual node cannot be overridden."""
    return {**USUAL_LABELS, **node.spec.labels, **_fixed_labels(node)}


def shown_labels(node: VirtualNode, facts: NodeState) -> dict[str, str]:
    """The labels of the Node without a zone or region that is held back, and with the sizes that
    have a place."""
    held = {key for key, note in labels.HELD.items() if note in node.spec.annotations}
    told = _told(node)
    left = _left(node, facts, told)
    sizes = sizelabels.size_labels(told, {} if left is None else left.largest)
    shown = {**node_labels(node), **sizes}
    return {k: v for k, v in shown.items() if k not in held}


def has_places(node: VirtualNode | None) -> bool:
    """True if its provider tells of places for pods, which what is sent takes at once."""
    return places.are_told(_told(node))


def counted_pods(node: VirtualNode | None) -> int | None:
    """The number of pods that what its provider tells includes; None where it does not tell."""
    told = _told(node)
    if told is None or PODS not in told.counted:
        return None
    return quantities.parse(told.counted[PODS]) // quantities.NANO


def _told(node: VirtualNode | None) -> FreeCapacity | None:
    notes = {} if node is None else node.metadata.annotations
    return freecapacity.read(notes.get(labels.FREE_CAPACITY))


def _left(node: VirtualNode, facts: NodeState, told: FreeCapacity | None) -> Left | None:
    """The room that the pods leave that its provider does not count yet; None where it does not
    tell which of a part it counts."""
    if labels.PART in node.metadata.labels and (told is None or PODS not in told.counted):
        return None
    return places.left(told, facts.sent, facts.placed)


def _fixed_labels(node: VirtualNode) -> dict[str, str]:
    return {
        labels.TYPE: labels.VIRTUAL_NODE_TYPE,
        labels.NODE_TYPE: labels.NODE_TYPE_VALUE,
        labels.REMOTE_CLUSTER_ID: node.spec.cluster_id,
        labels.HOSTNAME: node.name,
        labels.NODE_ROLE: labels.NODE_ROLE_VALUE,
        labels.EXCLUDE_FROM_BALANCERS: labels.TRUE,
        labels.AZURE_MANAGED: labels.FALSE,
        labels.STORAGE_AVAILABLE: labels.TRUE if node.spec.storage_classes else labels.FALSE,
    }


def is_ours(live: Json, cluster_id: str) -> bool:
    """True if a Node of that name is a virtual node of that peer, and not a real node."""
    found = live.get("metadata", {}).get("labels") or {}
    return (
        found.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE
        and found.get(labels.REMOTE_CLUSTER_ID) == cluster_id
    )


def was_ours(live: Json, cluster_id: str) -> bool:
    """True if a VirtualNode's Node was its own, also where users took its labels off.

    Then the record of our taints distinguishes it from a real node, which has none.
    """
    metadata = live.get("metadata", {})
    whose = (metadata.get("labels") or {}).get(labels.REMOTE_CLUSTER_ID, cluster_id)
    return whose == cluster_id and (
        is_ours(live, cluster_id) or OWN_TAINTS in (metadata.get("annotations") or {})
    )


def made_by_us(live: Json, cluster_id: str) -> bool:
    """True if liqod made that virtual node, so that it may remove it."""
    return is_ours(live, cluster_id) and OWN_TAINTS in (live["metadata"].get("annotations") or {})


def new_node(node: VirtualNode, facts: NodeState, now: str) -> Json:
    """The Node to create: with its taint and status at once, so that nothing lands on it early.

    Only labels that never go away are in it; :func:`metadata_apply` brings the others, so that
    one field manager alone owns them and can take them away again.
    """
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {
                labels.OS: node_labels(node)[labels.OS],
                labels.ARCH: node_labels(node)[labels.ARCH],
                **_fixed_labels(node),
            },
            "annotations": {OWN_TAINTS: _taint_names(desired_taints(node, facts))},
        },
        "spec": {
            "taints": desired_taints(node, facts),
            **({"providerID": provider_id(node)} if facts.provider_ids else {}),
        },
        "status": desired_status(node, facts, (), now),
    }


def provider_id(node: VirtualNode) -> str:
    """The ``providerID`` of the Node: no cloud's, so that a cloud controller finds no machine gone.

    An API server never takes it back: it is the same for as long as the Node is.
    """
    return f"liqod://{node.spec.cluster_id}/{node.name}"


def metadata_apply(node: VirtualNode, facts: NodeState, live: Json) -> Json | None:
    """Labels and annotations for server-side apply, or None if nothing would change."""
    annotations = dict(node.spec.annotations)
    for ours in (OWN_TAINTS, labels.APPLIED_HASH):
        annotations.pop(ours, None)
    annotations |= {labels.METRICS_PATH: metrics_path(node.name), **LEFT_ALONE}
    wanted: Json = {"labels": shown_labels(node, facts), "annotations": annotations}
    fingerprint = digest(wanted)
    metadata = live["metadata"]
    same = (metadata.get("annotations") or {}).get(labels.APPLIED_HASH) == fingerprint
    if same and contained(wanted, metadata):
        return None
    annotations[labels.APPLIED_HASH] = fingerprint
    return {
        "apiVersion": "v1",
        "kind": "Node",
        # The UID keeps an apply from creating the Node anew where it was deleted meanwhile.
        "metadata": {"name": node.name, "uid": metadata["uid"], **wanted},
    }


def desired_taints(node: VirtualNode, facts: NodeState, current: Sequence[Json] = ()) -> list[Json]:
    """The virtual nodes' taint, those of the VirtualNode, and the one that keeps new pods away
    while the peer's daemon does not run, its API server takes none or no node of its does; where
    that is unknown, it stays as it is."""
    ours = {_taint_name(TAINT), _taint_name(CLOSED)}
    own = [
        {"key": each.key, "effect": each.effect, **({"value": each.value} if each.value else {})}
        for each in node.spec.taints
        if f"{each.key}:{each.effect}" not in ours
    ]
    shut = nodesready.takes_none(node.metadata.annotations)
    silent = facts.closed or shut or facts.daemon.state == "silent"
    closed = silent or (
        facts.daemon.state == "unasked"
        and any(_taint_name(each) == _taint_name(CLOSED) for each in current)
    )
    return [dict(TAINT), *([dict(CLOSED)] if closed else []), *own]


def spec_patch(node: VirtualNode, facts: NodeState, live: Json) -> Json | None:
    """The merge patch that sets our taints and keeps all others, and gives the Node a
    ``providerID`` where it is to have one; or None."""
    annotations = live["metadata"].get("annotations") or {}
    before = set(filter(None, annotations.get(OWN_TAINTS, "").split(",")))
    current: list[Json] = live.get("spec", {}).get("taints") or []
    wanted = {_taint_name(each): each for each in desired_taints(node, facts, current)}
    names = ",".join(sorted(wanted))
    merged: list[Json] = []
    for taint in current:
        name = _taint_name(taint)
        if name in wanted:
            mine = wanted.pop(name)
            merged.append(taint if taint.get("value", "") == mine.get("value", "") else mine)
        elif name not in before:
            merged.append(taint)
    merged += wanted.values()
    patch: Json = {}
    if merged != current:
        patch["spec"] = {"taints": merged}
    if facts.provider_ids and not live.get("spec", {}).get("providerID"):
        patch["spec"] = {**patch.get("spec", {}), "providerID": provider_id(node)}
    if annotations.get(OWN_TAINTS) != names:
        patch["metadata"] = {"annotations": {OWN_TAINTS: names}}
    return _guarded(patch, live)


def _taint_name(taint: Mapping[str, Any]) -> str:
    return f"{taint.get('key', '')}:{taint.get('effect', '')}"


def _taint_names(taints: Sequence[Mapping[str, Any]]) -> str:
    return ",".join(sorted(_taint_name(each) for each in taints))


def desired_status(node: VirtualNode, facts: NodeState, current: Sequence[Json], now: str) -> Json:
    """The whole status that is ours, with conditions that keep their times if unchanged."""
    granted = node.spec.resource_quota.hard
    names = node_labels(node)
    declared = node.metadata.annotations.get(labels.DECLARED_FEATURES, "")
    return {
        **({"declaredFeatures": declared.split(",")} if declared else {}),
        "capacity": capacity.with_waiting(granted, {}),
        "allocatable": _allocatable(node, facts),
        "conditions": _conditions(node, facts, current, now),
        # No Hostname: API servers would try that one first, and it does not resolve.
        "addresses": [{"type": "InternalIP", "address": facts.address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": facts.port}},
        "nodeInfo": {
            "architecture": names[labels.ARCH],
            "operatingSystem": names[labels.OS],
            "kubeletVersion": facts.version,
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "",
            "kernelVersion": "",
            "osImage": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


def _allocatable(node: VirtualNode, facts: NodeState) -> dict[str, str]:
    """The grant and what waits at the peer beside it, as far as the peer tells that it has room.

    A node for a part of the peer is bounded by its share already, and by one machine while any pod
    waits. Until the peer counts what was sent last, no more than fits of pods as large as that.
    """
    granted, notes = node.spec.resource_quota.hard, node.metadata.annotations
    if notes.get(labels.WAITING_GIVES_WAY) != labels.TRUE:
        return capacity.with_waiting(granted, {})
    told = _told(node)
    bounded = labels.PART in node.metadata.labels and not facts.waiting
    most = freecapacity.room(None if bounded else told, facts.settled, facts.waiting)
    left = _left(node, facts, told)
    for name, fitting in (left.fitting if left is not None else {}).items():
        bound = facts.held.get(name, 0) + facts.waiting.get(name, 0) + fitting
        most[name] = min(most.get(name, bound), bound)
    return capacity.with_waiting(granted, facts.waiting, most)


def status_patch(node: VirtualNode, facts: NodeState, live: Json, now: str) -> Json | None:
    """The merge patch of the status sub-resource, or None if nothing differs.

    Conditions of others stay; resources that the slice no longer has go.
    """
    current: Json = live.get("status") or {}
    wanted = desired_status(node, facts, current.get("conditions") or (), now)
    patch: Json = {}
    if current.get("declaredFeatures") and "declaredFeatures" not in wanted:
        patch["declaredFeatures"] = None
    for key, value in wanted.items():
        before = current.get(key)
        if key in ("capacity", "allocatable"):
            gone = {name: None for name in before or {} if name not in value}
            if gone or not contained({key: value}, {key: before or {}}):
                patch[key] = {**value, **gone}
        elif key == "nodeInfo":
            if not all((before or {}).get(name, "") == text for name, text in value.items()):
                patch[key] = value
        elif value != before:
            patch[key] = value
    return _guarded({"status": patch} if patch else {}, live)


def _conditions(
    node: VirtualNode, facts: NodeState, current: Sequence[Json], now: str
) -> list[Json]:
    """Ours in place, brought up to date; those of others as they are."""
    wanted = {each["type"]: each for each in _desired_conditions(node, facts)}
    lacks = nodesready.reported(node.metadata.annotations)
    if lacks or conditions.find(current, labels.PEER_NODES_READY) is not None:
        wanted[labels.PEER_NODES_READY] = _nodes(lacks)
    merged: list[Json] = []
    for before in current:
        ours = wanted.pop(before.get("type", ""), None)
        if before.get("type") == labels.PEER_DAEMON_READY and facts.daemon.state == "untold":
            continue
        merged.append(before if ours is None else _dated(ours, before, now))
    return [*merged, *(_dated(each, None, now) for each in wanted.values())]


def _dated(condition: Json, before: Json | None, now: str) -> Json:
    if before is not None and contained(condition, before):
        return before
    known = () if before is None else (before,)
    return conditions.dated({**condition, _HEARTBEAT: now}, known, now)


def _desired_conditions(node: VirtualNode, facts: NodeState) -> list[Json]:
    advertised = "The remote cluster is advertising sufficient resources"
    ready: Json = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "liqod is posting ready status",
    }
    if facts.closed:
        ready["message"] = f"no new pods: {facts.reason}"
    elif nodesready.is_cordoned(node.metadata.annotations):
        ready["message"] = nodesready.CORDONED
    if not facts.up:
        ready = {
            "type": "Ready",
            "status": "False",
            "reason": "PeerUnreachable",
            "message": facts.reason or "the peer does not answer",
        }
    wanted = [
        ready,
        _negative("MemoryPressure", "RemoteClusterHasSufficientMemory", advertised),
        _negative("DiskPressure", "RemoteClusterHasNoDiskPressure", advertised),
        _negative("PIDPressure", "RemoteClusterHasNoPIDPressure", advertised),
    ]
    if not node.spec.disable_network_check:
        wanted.append(_network(facts))
    return [*wanted, *_daemon(facts.daemon)]


def _daemon(verdict: HeartbeatVerdict) -> list[Json]:
    """The condition of the peer's daemon; none if unknown: the Node's own stays, or goes."""
    ready: Json = {"type": labels.PEER_DAEMON_READY}
    if verdict.state == "runs":
        message = "the peer's daemon renews its Lease"
        return [{**ready, "status": "True", "reason": "LeaseRenewed", "message": message}]
    if verdict.state == "silent":
        message = f"the peer's daemon does not run: {verdict.why}"
        return [{**ready, "status": "False", "reason": "LeaseNotRenewed", "message": message}]
    return []


def _nodes(lacks: str) -> Json:
    """The condition of the peer's own nodes, as it reports them; set once one was not Ready."""
    ready: Json = {"type": labels.PEER_NODES_READY}
    if lacks:
        message = nodesready.text(lacks)
        return {**ready, "status": "False", "reason": "NodesNotReady", "message": message}
    message = "the peer's nodes are Ready again"
    return {**ready, "status": "True", "reason": "NodesReady", "message": message}


def _network(facts: NodeState) -> Json:
    """False in any case, since True would keep every pod off the node by a taint."""
    if facts.pod_network == "routed":
        reason, message = "PodNetworkRouted", "The addresses of the peer's pods are routed here"
    elif facts.pod_network == "tunnel" and facts.unjoined:
        reason = "PodNetworkAwaited"
        message = f"Pods run on the peer, but have no address here yet: {facts.unjoined}"
    elif facts.pod_network == "tunnel" and facts.broken:
        reason, message = "PodNetworkBroken", f"Nothing reaches the peer's pods: {facts.broken}"
    elif facts.pod_network == "tunnel":
        reason = "PodNetworkTunnel"
        message = "The peer's pods are reached through a tunnel, by translated addresses"
    else:
        reason, why = "PodNetworkNone", facts.unjoined or "pod_network is none"
        message = (
            "Pods run on the peer, but there is no network between its pods and this cluster's "
            f"({why})"
        )
    return _negative("NetworkUnavailable", reason, message)


def _negative(type_: str, reason: str, message: str) -> Json:
    return {"type": type_, "status": "False", "reason": reason, "message": message}


def _guarded(patch: Json, live: Json) -> Json | None:
    """The patch with the resource version it was computed for, or None if it is empty."""
    if not patch:
        return None
    version = live["metadata"]["resourceVersion"]
    return {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": version}}
