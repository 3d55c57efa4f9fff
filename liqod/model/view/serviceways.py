"""The answer of ``liqod explain service``: the endpoints that each peer's clients have. Pure.

The ways to endpoints at third clusters are decided by the function that the reflection uses
(:mod:`liqod.model.crossing.thirdclusters`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from liqod.model.crossing.preference import is_ready
from liqod.model.crossing.thirdclusters import ThirdCluster, Transit, Way, offered
from liqod.model.view.figures import counted

Json = dict[str, Any]

CHOICE: Final = "docs/how-to/endpoints.md#pods-at-two-peers"
HOME: Final = "home"


class ServiceEndpoints(msgspec.Struct, frozen=True):
    """A Service's endpoints in this cluster, and what this cluster has with peers.

    Attributes:
        namespace, name: of the Service.
        asked: it asks for direct connections.
        endpoints: of all of its EndpointSlices.
        nodes: the cluster of each virtual node.
        mapped: the peers that have the namespace, with its name there.
        transits: the addresses of this cluster's by which a reader reaches an endpoint, by reader,
            owner and address.
        said: the last word of each peer about endpoints that it leaves out.
    """

    namespace: str
    name: str
    asked: bool
    endpoints: tuple[Json, ...]
    nodes: Mapping[str, ThirdCluster] = {}
    mapped: Mapping[str, str] = {}
    transits: Mapping[tuple[str, str, str], str] = {}
    said: Mapping[str, str] = {}


class OwnerAnswer(msgspec.Struct, frozen=True):
    """The endpoints at one cluster, as one peer's clients have them.

    Attributes:
        cluster: the cluster's id; empty for this one.
        total: its endpoints.
        ready: those that are ready here.
        direct: those whose own address the peer is told, to reach it by its own network.
        by_way: those that the peer may reach through this cluster.
        why: the reason why some are not told; empty where all are.
    """

    cluster: str
    total: int
    ready: int
    direct: int = 0
    by_way: int = 0
    why: str = ""


class ReaderAnswer(msgspec.Struct, frozen=True):
    """The endpoints that one peer's clients have.

    Attributes:
        peer: its id.
        namespace: the name of the Service's namespace there.
        owners: by cluster: the peer itself, this cluster, then all others.
        said: the peer's last word about endpoints that it leaves out; empty for none.
    """

    peer: str
    namespace: str
    owners: tuple[OwnerAnswer, ...]
    said: str = ""


class ServiceWays(msgspec.Struct, frozen=True):
    """The answer about a Service of an offloaded namespace.

    Attributes:
        namespace, name: of the Service.
        total: its endpoints.
        ready: those that are ready.
        readers: by peer.
    """

    namespace: str
    name: str
    total: int
    ready: int
    readers: tuple[ReaderAnswer, ...]


def service_ways(found: ServiceEndpoints) -> ServiceWays:
    """The answer about a Service."""
    by_owner: dict[str, list[Json]] = {}
    for each in found.endpoints:
        owner = found.nodes.get(each.get("nodeName") or "")
        by_owner.setdefault("" if owner is None else owner.id, []).append(each)
    readers = tuple(
        ReaderAnswer(
            peer,
            there,
            tuple(_owners(found, peer, by_owner)),
            found.said.get(peer, ""),
        )
        for peer, there in sorted(found.mapped.items())
    )
    ready = sum(map(is_ready, found.endpoints))
    return ServiceWays(found.namespace, found.name, len(found.endpoints), ready, readers)


def _owners(
    found: ServiceEndpoints, reader: str, by_owner: Mapping[str, list[Json]]
) -> Iterable[OwnerAnswer]:
    for owner in (reader, "", *sorted(by_owner.keys() - {reader, ""})):
        endpoints = by_owner.get(owner, [])
        total, ready = len(endpoints), sum(map(is_ready, endpoints))
        if owner in (reader, ""):
            yield OwnerAnswer(owner, total, ready)
            continue
        ways = [_way(found, reader, each) for each in endpoints]
        yield OwnerAnswer(
            owner,
            total,
            ready,
            sum(bool(way.direct) for way in ways),
            sum(bool(way.by_way) for way in ways),
            next((way.problem for way in ways if way.problem), ""),
        )


def _way(found: ServiceEndpoints, reader: str, endpoint: Json) -> Way:
    owner = found.nodes[endpoint["nodeName"]]
    address = next(iter(endpoint.get("addresses") or ()), "")
    through = found.transits.get((reader, owner.id, address), "")
    closed = f"no way through this cluster is open to {reader}"
    transit = Transit(through, "" if through else closed)
    return offered(owner, reader, address, asked=found.asked, transit=transit)


def ways_text(told: ServiceWays) -> Iterable[str]:
    """The answer as text, line by line."""
    ready = f"{told.ready} of {counted(told.total, 'endpoint')} ready"
    yield f"{told.namespace}/{told.name}: {ready}"
    if not told.readers:
        yield "  no peer has its namespace"
    for reader in told.readers:
        yield f"  clients at {reader.peer}, in {reader.namespace}:"
        for each in reader.owners:
            yield f"    {each.cluster or HOME}: {_owner(each, reader.peer)}"
        if reader.said:
            yield f"    it said: {reader.said}"


def _owner(found: OwnerAnswer, reader: str) -> str:
    text = f"{found.ready} of {counted(found.total, 'endpoint')} ready"
    if found.cluster in (reader, ""):
        return text
    ways = (
        f"{found.direct} directly, where {reader} is joined with it and permits that"
        if found.direct
        else "",
        f"{found.by_way} through this cluster" if found.by_way else "",
    )
    told = ", ".join(filter(None, ways))
    why = f"not told: {found.why} → {CHOICE}" if found.why else ""
    return "; ".join(filter(None, (text, told, why)))
