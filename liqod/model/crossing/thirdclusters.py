"""Decides how pods at one peer reach an endpoint at another one. Pure.

Directly, where the two have joined their networks: the consumer tells the address that the
endpoint's own cluster uses, and the reader translates it by the ranges that it has of that cluster,
as Liqo does (``liqo.io/use-direct-connections``). By way of the consumer, where its operator allows
transit between the two: the consumer tells an address of its own. Else the endpoint is left out.

:func:`offered` is the consumer's part, :func:`chosen` the reader's. The reader decides between the
two ways: it knows its own networks, and sees first when a way fails. Nobody's word for being joined
with somebody is asked for, or believed.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.model.ids import ID_LIMIT
from liqod.model.network.ranges import ClusterCidrs, PeerRanges, translate
from liqod.model.network.remapping import Remapped

ANYBODY: Final = "*"
"""The permission for every cluster."""
MOST_OWNERS: Final = 2
"""Clusters of one address that are kept: with two it is already nobody's."""


_SHOWN: Final = 16
"""Digits of a key that a message has."""
MOST_LETTERS: Final = ID_LIMIT + 1
"""Of a cluster's id that are kept, one more than an id has: the reason of each address names it."""


class ThirdCluster(msgspec.Struct, frozen=True):
    """A cluster that has an endpoint, as the consumer knows it.

    Attributes:
        id: its cluster id.
        pod_network: how its pods' addresses are shown here.
        ranges: of this cluster and of it; None where they are not known or not used.
        keys: SHA-256 of the keys that it has proved to have here; empty where none is known.
    """

    id: str
    pod_network: str = "none"
    ranges: PeerRanges | None = None
    keys: frozenset[str] = frozenset()


class Transit(NamedTuple):
    """The address by which a reader reaches an endpoint by way of this cluster.

    Attributes:
        address: an address of this cluster's; empty for none.
        refusal: the reason for none, as a clause.
        awaited: there is none yet, and is to be one in a moment.
    """

    address: str = ""
    refusal: str = ""
    awaited: bool = False


class Way(NamedTuple):
    """The ways to an endpoint at a third cluster that a reader is offered.

    Attributes:
        direct: the endpoint's address as its own cluster uses it; empty where it is not told.
        by_way: an address of the consumer's that leads to it; empty for none.
        problem: the reason why there is neither, as a clause.
        awaited: there is neither yet, and is to be one in a moment.
    """

    direct: str = ""
    by_way: str = ""
    problem: str = ""
    awaited: bool = False


class Facts(NamedTuple):
    """The facts by which a reader chooses a way to an endpoint at a third cluster.

    Attributes:
        permitted: the reader's operator lets this consumer name addresses of that cluster.
        joined: why the reader has no network with that cluster, as a clause; empty if it has one.
        reaches: whether anything gets through to that cluster; None while that is not known.
        direct: the endpoint's address here, by the ranges of that cluster.
        by_way: the address here of the consumer's that leads to it; None where none is offered.
    """

    permitted: bool
    joined: str
    reaches: bool | None
    direct: Remapped
    by_way: Remapped | None = None


class Chosen(NamedTuple):
    """The way that a reader takes to an endpoint at a third cluster.

    Attributes:
        address: the address here; empty where the endpoint is left out.
        direct: whether it is that cluster's, and no address of the consumer's.
        problem: the reason why it is left out, as a clause.
        expected: whether that is as the operators have it.
    """

    address: str = ""
    direct: bool = False
    problem: str = ""
    expected: bool = False


def offered(
    owner: ThirdCluster, reader: str, address: object, *, asked: bool, transit: Transit
) -> Way:
    """The ways to an address at a third cluster that a reader is told.

    Args:
        owner: the cluster that has the endpoint.
        reader: id of the peer that is told.
        address: of the endpoint, as this cluster uses it.
        asked: the Service asks for direct connections.
        transit: the way through this cluster.
    """
    found = as_its_own(owner, address) if asked else Remapped("", "")
    if found.address or transit.address:
        return Way(found.address, transit.address)
    if transit.awaited:
        return Way(problem=transit.refusal, awaited=True)
    if asked:
        return Way(problem=f"{found.problem}; and by way of this cluster, {transit.refusal}")
    told = f'the Service has no annotation {labels.DIRECT_CONNECTIONS}: "true"'
    return Way(problem=f"{told}, by which {reader} reaches them directly; and {transit.refusal}")


def as_its_own(owner: ThirdCluster, address: object) -> Remapped:
    """The address of a pod at a peer, given as this cluster uses it, as the peer itself does."""
    if owner.pod_network == "routed":
        return Remapped(str(address))
    if owner.pod_network != "tunnel" or owner.ranges is None:
        return Remapped("", f"this cluster has joined no network with {owner.id}")
    seen, theirs = owner.ranges.seen.pod, owner.ranges.peer.pod
    found = translate(str(address), ClusterCidrs(seen), ClusterCidrs(theirs))
    if found is None:
        return Remapped("", f"an address there is no pod's of {owner.id}")
    return Remapped(found)


def chosen(owner: str, consumer: str, facts: Facts) -> Chosen:
    """The way that a reader takes: the direct one while it carries, else that of the consumer.

    Args:
        owner: id of the cluster that has the endpoint, as the consumer calls it.
        consumer: id of the consumer.
        facts: what the reader knows by itself.
    """
    direct = facts.permitted and not facts.joined and not facts.direct.problem
    if direct and facts.reaches is not False:
        return Chosen(facts.direct.address, direct=True)
    if facts.by_way is not None and not facts.by_way.problem:
        return Chosen(facts.by_way.address)
    if direct:
        return Chosen(facts.direct.address, direct=True)
    if not facts.permitted:
        where = f"direct_connections of [[peers]] {consumer}"
        why = f"{where} does not name {owner}, so {consumer} may name no address of it"
        return Chosen(problem=why, expected=True)
    if facts.joined:
        return Chosen(problem=facts.joined, expected=True)
    return Chosen(problem=facts.direct.problem)


def permits(named: tuple[str, ...], owner: str) -> bool:
    """True if a setting lets a consumer name addresses of a cluster."""
    return owner in named or ANYBODY in named


class DirectConnections(msgspec.Struct, frozen=True, rename="camel"):
    """The annotation ``liqo.io/direct-connections-data`` of a ShadowEndpointSlice, as Liqo has it.

    Attributes:
        cluster_addresses: addresses in the slice that are a third cluster's, by its id.
    """

    cluster_addresses: dict[str, list[str]] = {}


class ThirdAddresses(NamedTuple):
    """The addresses of a ShadowEndpointSlice that are a third cluster's.

    Attributes:
        owners: the ids of the clusters that the consumer says have an address, by address.
        by_way: the consumer's own address that leads to one of them.
        problem: the reason why the slice cannot be read, as a clause; no address counts then.
        keys: SHA-256 of the keys by which the consumer knows these clusters, by their ids.
    """

    owners: Mapping[str, frozenset[str]] = {}
    by_way: Mapping[str, str] = {}
    problem: str = ""
    keys: Mapping[str, frozenset[str]] = {}


def third_addresses(annotations: Mapping[str, str]) -> ThirdAddresses:
    """Reads the addresses of third clusters from a ShadowEndpointSlice's annotations.

    Where these cannot be read, an address may be anybody's, and is not taken for the consumer's.
    """
    data = annotations.get(labels.DIRECT_CONNECTIONS_DATA)
    if data is None:
        return ThirdAddresses()
    try:
        told = msgspec.json.decode(data, type=DirectConnections)
        by_way = msgspec.json.decode(
            annotations.get(labels.TRANSIT_ADDRESSES, "{}"), type=dict[str, str]
        )
        keys = msgspec.json.decode(
            annotations.get(labels.DIRECT_CONNECTIONS_KEYS, "{}"), type=dict[str, frozenset[str]]
        )
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        where = f"{labels.DIRECT_CONNECTIONS_DATA}, or one beside it,"
        return ThirdAddresses(problem=f"its annotation {where} cannot be read: {error}")
    owners: dict[str, frozenset[str]] = {}
    for cluster, addresses in told.cluster_addresses.items():
        named = cluster[:MOST_LETTERS]
        for address in addresses:
            others = owners.get(address, frozenset())
            if len(others) < MOST_OWNERS:
                owners[address] = others | {named}
    return ThirdAddresses(owners, by_way, keys=keys)


def another_key(owner: str, told: Collection[str], known: Collection[str] | None) -> str:
    """The reason why two clusters of one id are not the same, as a clause; empty if they may be.

    Args:
        owner: the id.
        told: the keys by which the consumer knows it.
        known: those by which this cluster does; None while nothing is known yet.
    """
    if not told:
        return ""
    if known is None:
        return f"it is not known yet by which key {owner} is known here"
    if not known or not set(told).isdisjoint(known):
        return ""
    theirs, own = min(told)[:_SHOWN], min(known)[:_SHOWN]
    return f"another cluster is {owner} here: its key is {own}…, and not {theirs}…"


def annotations_for(
    owner: str, ways: Mapping[str, str], keys: Collection[str] = ()
) -> dict[str, Any]:
    """The annotations of a ShadowEndpointSlice whose endpoints are all a third cluster's.

    Args:
        owner: the cluster.
        ways: its addresses, with that of this cluster's which leads to one, or an empty text.
        keys: those by which this cluster knows it.
    """
    direct = msgspec.json.encode(DirectConnections({owner: sorted(ways)})).decode()
    by_way = {address: way for address, way in sorted(ways.items()) if way}
    made = {labels.DIRECT_CONNECTIONS_DATA: direct}
    if by_way:
        made[labels.TRANSIT_ADDRESSES] = msgspec.json.encode(by_way).decode()
    if keys:
        known = msgspec.json.encode({owner: sorted(keys)}).decode()
        made[labels.DIRECT_CONNECTIONS_KEYS] = known
    return made
