"""The consequences of a change of this cluster's objects: what begins, ends or is refused. Pure.

They are a function of the objects before and after, so that the order in which these are applied
counts for nothing. The decisions are those of the components that will act.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import tenant_of
from liqod.consumer.nodes import nodeplan
from liqod.errors import ConfigError
from liqod.kube.cache.store import Key
from liqod.model import ids
from liqod.model.crossing import overrides
from liqod.model.network import rangechecks
from liqod.model.network.ranges import ClusterCidrs
from liqod.model.objects import quantities
from liqod.procedures import answering
from liqod.procedures.clusterobjects import ClusterObjects, is_own_slice
from liqod.procedures.providerverdict import excess
from liqod.provider.tenants import trust
from liqod.resources import (
    CONFIGURATIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    INCOMING_PEERINGS,
    OUTGOING_PEERINGS,
    OVERRIDE_POLICIES,
    QUOTAS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
    Configuration,
    IncomingPeering,
    OutgoingPeering,
    Quota,
    Resource,
    ResourceSlice,
    Tenant,
    VirtualNode,
)
from liqod.resources.authentication import CORDONED, DRAINED, TOLERATE_NO_HANDSHAKE
from liqod.resources.peering import DENY

Action = Literal["begins", "moves", "changes", "ends", "waits", "refused"]

ALL: Final = "all peers"
"""The place of a consequence for every peer."""


class Consequence(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that comes of a change.

    Attributes:
        action: in one word.
        cluster: the cluster where it happens.
        message: in a sentence.
        nodes: virtual nodes here whose pods leave.
        namespace: the only one whose pods leave; empty for all.
        at_once: whether they end there, and are not moved before.
        unreached: virtual nodes here whose pods run on, but are not reached any more.
    """

    action: Action
    cluster: str
    message: str
    nodes: tuple[str, ...] = ()
    namespace: str = ""
    at_once: bool = False
    unreached: tuple[str, ...] = ()


class Changed(msgspec.Struct, frozen=True):
    """One object before and after, with all others.

    Attributes:
        here: this cluster's id.
        key: namespace and name of the object.
        before, after: all objects.
    """

    here: str
    key: Key
    before: ClusterObjects
    after: ClusterObjects


Found = Iterator[Consequence]
Judge = Callable[[Changed], Found]


def consequences(kind: Kind, changed: Changed) -> list[Consequence]:
    """The consequences of a change of one object; none where its kind has none of its own."""
    return list(JUDGES[kind](changed)) if kind in JUDGES else []


def _pair(kind: Kind, changed: Changed, type_: type[Any]) -> tuple[Any, Any]:
    before = changed.before.get(kind, changed.key, type_)
    return before, changed.after.get(kind, changed.key, type_)


def _amounts(found: Any) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(found.items())) or "the default"


def _namespace(changed: Changed) -> Found:
    before, after = _pair(NAMESPACES, changed, Partial)
    had = (tenant_of(before) if before is not None else "") or ""
    has = (tenant_of(after) if after is not None else "") or ""
    if had and had != has:
        nodes = changed.before.nodes_of(had)
        told = "all of the peering with it, in both directions"
        yield Consequence("ends", had, told, nodes, at_once=True)
    if has and had != has:
        yield Consequence("begins", has, "it has a tenant namespace here, and may peer")


def _outgoing(changed: Changed) -> Found:
    before, after = _pair(OUTGOING_PEERINGS, changed, OutgoingPeering)
    known: OutgoingPeering = after if after is not None else before
    peer = known.status.cluster_id or known.spec.cluster_id or known.name
    if after is None:
        yield _taken_back(changed, peer, before)
    elif after.spec.cluster_id == changed.here:
        yield Consequence("refused", peer, "it is this cluster's own id")
    elif before is None:
        what = "offers to lend to it" if after.spec.lend else "asks it to lend"
        yield Consequence("begins", peer, f"{what}: {_amounts(after.spec.resources)}")
        if not after.spec.key and not after.spec.invitation_secret:
            told = "it names no key, so two people have to compare the words that both sides show"
            yield Consequence("waits", peer, told)
    elif before.spec == after.spec:
        return
    elif before.status.phase == "Done":
        told = "nothing: it is a peering already, which its ResourceSlices and Tenant change"
        yield Consequence("changes", peer, told)
    else:
        yield Consequence("changes", peer, f"asks for {_amounts(after.spec.resources)}")


def _taken_back(changed: Changed, peer: str, request: OutgoingPeering) -> Consequence:
    if request.status.phase != "Done":
        return Consequence("ends", peer, "the request is taken back")
    others = changed.after.store(OUTGOING_PEERINGS).values(OutgoingPeering)
    if not request.is_written:
        told = f"nothing ends by it: `liqod unpeer {peer}` ends the peering"
        return Consequence("changes", peer, told)
    if peer not in changed.after.peers():
        return Consequence("changes", peer, "nothing ends by this alone")
    borrowing = (each for each in others if not each.spec.lend)
    if any(peer in (each.spec.cluster_id, each.status.cluster_id) for each in borrowing):
        return Consequence("changes", peer, "nothing ends: another OutgoingPeering is for it")
    told = "all that is borrowed from it, if none comes back within a minute"
    return Consequence("ends", peer, told, changed.before.nodes_of(peer))


def _incoming(changed: Changed) -> Found:
    before, after = _pair(INCOMING_PEERINGS, changed, IncomingPeering)
    if after is None:
        return
    was = before.spec.decision if before is not None else ""
    peer, named = (
        after.spec.cluster_id,
        answering.name_of(after.spec.cluster_id, answering.key_of(after)),
    )
    if before is None and after.name != named:
        told = f"it must be named {named}, by the id and the key of the cluster that asks"
        yield Consequence("refused", peer, told)
    elif after.spec.decision in ("", was):
        return
    elif after.spec.decision == DENY:
        yield Consequence("ends", peer, "its request is denied")
    else:
        granted = _amounts(after.spec.granted or after.spec.resources)
        when = "it is let in" if after.spec.request else "it is let in when it asks"
        yield Consequence("begins", peer, f"{when}, and granted {granted} at the most")


def _slice(changed: Changed) -> Found:
    before, after = _pair(RESOURCE_SLICES, changed, ResourceSlice)
    known: ResourceSlice = after if after is not None else before
    if not is_own_slice(Partial(metadata=known.metadata)):
        return
    peer, name = known.spec.provider_cluster_id, known.name
    if after is None:
        told = f"nothing more is borrowed by {name}; its virtual node goes"
        yield Consequence("ends", peer, told, (name,))
        return
    asked = after.spec.resources
    problem = _slice_problem(changed, after)
    if not problem and (before is None or before.spec.resources != asked):
        problem = excess(changed.after, after, peer)
    if problem:
        yield Consequence("refused", peer, problem)
    elif before is None:
        node = after.metadata.annotations.get(labels.CREATE_VIRTUAL_NODE) == labels.TRUE
        told = f"asks it for {_amounts(asked)}" + (
            f"; the virtual node {name} here" if node else ""
        )
        yield Consequence("begins", peer, told)
    elif before.spec.resources != asked:
        was = _amounts(before.spec.resources)
        yield Consequence("changes", peer, f"asks it for {_amounts(asked)} instead of {was}")


def _slice_problem(changed: Changed, wanted: ResourceSlice) -> str:
    peer = changed.after.peer_of(wanted.namespace)
    if problem := ids.slice_name_problem(wanted.name):
        return problem
    if not peer:
        return f"{wanted.namespace} is the tenant namespace of no peer"
    if peer != wanted.spec.provider_cluster_id:
        return f"{wanted.namespace} is the tenant namespace of {peer}"
    return _node_problem(changed, wanted.name, peer) or _quantity_problem(wanted.spec.resources)


def _node_problem(changed: Changed, name: str, peer: str) -> str:
    """The reason why a peer can have no virtual node of a name; empty where it can."""
    body = changed.after.store(NODES).get(("", name))
    if body is not None and not nodeplan.is_ours(msgspec.json.decode(body), peer):
        return f"a Node named {name} exists here that is not this peer's"
    return ""


def _virtual_node(changed: Changed) -> Found:
    before, after = _pair(VIRTUAL_NODES, changed, VirtualNode)
    known: VirtualNode = after if after is not None else before
    peer, name = known.spec.cluster_id, known.name
    if after is None:
        yield Consequence("ends", peer, f"the virtual node {name} here", (name,))
    elif problem := _node_problem(changed, name, peer):
        yield Consequence("refused", peer, problem)
    elif before is None:
        yield Consequence("begins", peer, f"the virtual node {name} here stands for it")


def _quantity_problem(found: Any) -> str:
    try:
        amounts = quantities.parse_all(found)
    except ConfigError as error:
        return str(error)
    below = sorted(name for name, amount in amounts.items() if amount < 0)
    return f"negative quantities: {', '.join(below)}" if below else ""


def _tenant(changed: Changed) -> Found:
    before, after = _pair(TENANTS, changed, Tenant)
    if after is None:
        yield Consequence("ends", before.name, "it borrows nothing here any more")
        return
    peer = changed.after.peer_of(after.namespace)
    place = after.namespace
    problem = trust.identity_problem(after, peer, changed.here, place) if peer else None
    if not peer:
        problem = f"{place} is the tenant namespace of no peer"
    if problem:
        yield Consequence("refused", after.spec.cluster_id, problem)
        return
    if before is None and after.spec.authz_policy == TOLERATE_NO_HANDSHAKE:
        yield Consequence("begins", peer, "it may borrow, by credentials that it was given by hand")
    elif before is None:
        yield Consequence("begins", peer, "it may borrow, once it has proved its key")
    was = before.spec.tenant_condition if before is not None else ""
    if after.spec.tenant_condition == was:
        return
    match after.spec.tenant_condition:
        case condition if condition == CORDONED:
            yield Consequence(
                "changes", peer, "nothing new of it is accepted; what runs here stays"
            )
        case condition if condition == DRAINED:
            yield Consequence("ends", peer, "all of its pods here")
        case _ if was:
            yield Consequence("changes", peer, "new pods of it are accepted again")


def _quota(changed: Changed) -> Found:
    before, after = _pair(QUOTAS, changed, Quota)
    peer = changed.after.peer_of(changed.key[0]) or changed.before.peer_of(changed.key[0])
    if after is None:
        yield Consequence("changes", peer, "the daemon writes this quota anew, as it was granted")
    elif problem := _quantity_problem(after.spec.resources):
        yield Consequence("refused", peer, problem)
    elif before is None or before.spec != after.spec:
        told = f"pods of {after.spec.user} here may have {_amounts(after.spec.resources)}"
        yield Consequence("changes", peer, told)


def _override(changed: Changed) -> Found:
    bodies = [each.store(OVERRIDE_POLICIES).get(changed.key) for each in _both(changed)]
    before, after = (overrides.compiled(each) if each is not None else None for each in bodies)
    spec = after.spec if after is not None else before.spec if before is not None else None
    if spec is None:
        return
    if after is not None and after.problem:
        yield Consequence("refused", ", ".join(spec.peers) or ALL, after.problem)
        return
    known = changed.after.peers()
    for peer in spec.peers or (ALL,):
        if peer not in (ALL, *known):
            told = "no peer has this id, so it changes nothing until one has"
            yield Consequence("waits", peer, told)
        elif after is None:
            yield Consequence("changes", peer, "objects are there as they are here again")
        elif before is None or before.spec != after.spec:
            yield Consequence("changes", peer, "objects that it selects are changed there")


def _configuration(changed: Changed) -> Found:
    before, after = _pair(CONFIGURATIONS, changed, Configuration)
    place = changed.key[0]
    peer = changed.after.peer_of(place) or changed.before.peer_of(place) or changed.key[1]
    if after is None:
        yield Consequence("ends", peer, "the networks are joined no more")
        return
    cidr = after.spec.remote.cidr
    claimed = ClusterCidrs(cidr.pod, cidr.external)
    problem = rangechecks.refuse_ranges(claimed, changed.after.node_addresses())
    if problem or not cidr.pod:
        yield Consequence("refused", peer, problem or "spec.remote names no pod range")
    elif before is None:
        yield Consequence("begins", peer, f"its pods are in {', '.join(cidr.pod)}")
    elif before.spec.remote != after.spec.remote:
        yield Consequence("changes", peer, f"its pods are in {', '.join(cidr.pod)} from now on")


def _gateway(kind: Kind) -> Judge:
    def judge(changed: Changed) -> Found:
        before, after = _pair(kind, changed, Resource)
        place = changed.key[0]
        peer = changed.after.peer_of(place) or changed.before.peer_of(place)
        dials = "this cluster dials" if kind == GATEWAY_CLIENTS else "the peer dials"
        if after is None:
            yield Consequence("ends", peer, "the tunnel between the networks")
        elif before is None:
            yield Consequence("begins", peer, f"a tunnel between the networks, which {dials}")
        else:
            yield Consequence("changes", peer, "the tunnel is made anew where its spec differs")

    return judge


def _both(changed: Changed) -> tuple[ClusterObjects, ClusterObjects]:
    return changed.before, changed.after


JUDGES: Final[dict[Kind, Judge]] = {
    NAMESPACES: _namespace,
    OUTGOING_PEERINGS: _outgoing,
    INCOMING_PEERINGS: _incoming,
    RESOURCE_SLICES: _slice,
    VIRTUAL_NODES: _virtual_node,
    TENANTS: _tenant,
    QUOTAS: _quota,
    OVERRIDE_POLICIES: _override,
    CONFIGURATIONS: _configuration,
    GATEWAY_SERVERS: _gateway(GATEWAY_SERVERS),
    GATEWAY_CLIENTS: _gateway(GATEWAY_CLIENTS),
}
