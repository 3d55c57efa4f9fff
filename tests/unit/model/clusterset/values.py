"""Exports for the tests of Services of the set, and strategies that make them."""

from itertools import product
from typing import Any

import msgspec
from hypothesis import strategies as st

from liqod.apimachinery.meta import ObjectMeta
from liqod.model.clusterset.admission import Scope
from liqod.model.clusterset.exports import (
    AFFINITIES,
    CLIENT_IP,
    TYPES,
    Endpoint,
    Export,
    Port,
    Slice,
)
from liqod.model.clusterset.importing import owned_by
from liqod.model.clusterset.merging import Merged, merge
from liqod.model.network.remapping import Remapped
from liqod.resources.multicluster import SERVICE_IMPORTS

HTTP = Port(80, "http")
TARGETS = (Port(8080, "http"),)
WEB = ("shop", "web")
BOTH = ("IPv4", "IPv6")
OWNER = owned_by(SERVICE_IMPORTS["v1beta1"], ObjectMeta(name="web", uid="u1"))


def export(cluster: str = "rome", second: int = 0, **more: Any) -> Export:
    """An export of ``shop/web``; that of a smaller second is older."""
    known: dict[str, Any] = {"ports": (HTTP,)}
    known |= {"cluster": cluster, "namespace": "shop", "name": "web"}
    known |= {"created": f"2026-11-28T10:00:{second:02}Z"}
    return Export(**(known | more))


def endpoints(*addresses: str, name: str = "web-x", ports=TARGETS, **more) -> Slice:
    """A slice with an endpoint for each address."""
    found = tuple(Endpoint(addresses=(address,), **more) for address in addresses)
    return Slice(name=name, family="IPv4", ports=ports, endpoints=found)


def merged(*exports: Export) -> Merged:
    """The Service of the set; there is one."""
    made = merge(exports)
    assert made is not None
    return made


def cross(address: str) -> Remapped:
    """The peer has 10.71.0.0/16, which is 10.81.0.0/16 here."""
    if not address.startswith("10.71."):
        return Remapped("", "it lies in none of the peer's networks")
    return Remapped(address.replace("10.71.", "10.81.", 1))


SCOPE = Scope("rome", frozenset({"shop"}), cross)

CLUSTERS = ("athens", "berlin", "milan", "rome")
# Strategies that are made anew for each value take most of the time of a test.
PORTS = st.lists(
    st.sampled_from(
        [
            Port(port, name, protocol, application)
            for port, name, protocol, application in product(
                (80, 81, 82), ("a", "b", "c"), ("TCP", "UDP"), ("", "http")
            )
        ]
    ),
    min_size=1,
    max_size=4,
)
SECONDS = st.integers(0, 2)
KINDS = st.sampled_from(TYPES)
FAMILIES = st.sampled_from((("IPv4",), ("IPv6",), BOTH, BOTH[::-1]))
CHOSEN_AFFINITIES = st.sampled_from(AFFINITIES)
TIMEOUTS = st.sampled_from((60, 10800))
INTERNAL_POLICIES = st.sampled_from(("Cluster", "Local"))
DISTRIBUTIONS = st.sampled_from(("", "PreferClose"))
NOTES = st.sampled_from([{}, {"a": "1"}, {"b": "1"}, {"a": "1", "b": "1"}, {"b": "1", "a": "1"}])
"""Labels, or annotations."""


def _sound(found: list[Port]) -> tuple[Port, ...]:
    """The ports that a Service can have together; the only one of some has no name."""
    kept: list[Port] = []
    for port in found:
        taken = {each.name for each in kept} | {(each.protocol, each.port) for each in kept}
        if port.name not in taken and (port.protocol, port.port) not in taken:
            kept.append(port)
    if len(kept) == 1 and kept[0].port == 80:
        return (msgspec.structs.replace(kept[0], name=""),)
    return tuple(kept)


@st.composite
def exports(draw: st.DrawFn, cluster: str) -> Export:
    """Any export of ``shop/web`` of a cluster."""
    affinity = draw(CHOSEN_AFFINITIES)
    ports = _sound(draw(PORTS))
    targets = tuple(msgspec.structs.replace(port, port=port.port + 8000) for port in ports)
    return export(
        cluster,
        draw(SECONDS),
        type=draw(KINDS),
        ports=ports,
        families=draw(FAMILIES),
        session_affinity=affinity,
        affinity_timeout=draw(TIMEOUTS) if affinity == CLIENT_IP else 0,
        internal_traffic_policy=draw(INTERNAL_POLICIES),
        traffic_distribution=draw(DISTRIBUTIONS),
        labels=draw(NOTES),
        annotations=draw(NOTES),
        slices=(endpoints("10.71.0.1", ports=targets),),
    )


EXPORTS = {cluster: exports(cluster) for cluster in CLUSTERS}


def sets(least: int = 1) -> st.SearchStrategy[list[Export]]:
    """The exports of some clusters, in any order."""
    clusters = st.lists(st.sampled_from(CLUSTERS), min_size=least, unique=True)

    @st.composite
    def drawn(draw: st.DrawFn) -> list[Export]:
        return [draw(EXPORTS[cluster]) for cluster in draw(clusters)]

    return drawn()
