"""Checks of the exports that a peer tells, before any of them is used. Pure.

A peer speaks for its own cluster, in the namespaces that it is let have here, of addresses that are
its own. The namespace is looked at before anything else of an export is read. An export that the
API server would refuse is refused here, so that it keeps none of another cluster from being
imported.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from liqod.model import ids
from liqod.model.clusterset.exports import (
    AFFINITIES,
    CLIENT_IP,
    CLUSTER_SET_IP,
    FAMILIES,
    TYPES,
    Endpoint,
    Export,
    Key,
    Port,
    Slice,
)
from liqod.model.crossing.addresses import family
from liqod.model.network.remapping import Remapped

MOST_SLICES: Final = 100
"""Slices of one export that are read."""
MOST_ENDPOINTS: Final = 1_000
"""Endpoints of a slice: Kubernetes' own bound."""
MOST_PORTS: Final = 100
"""Ports of a Service, or of a slice: Kubernetes' own bound for the latter."""
MOST_ADDRESSES: Final = 10
"""Addresses of an endpoint that are read; kube-proxy uses the first."""
MOST_TEXT: Final = 16 << 10
"""Characters of all exported labels and annotations of one export."""
MOST_REFUSALS: Final = 64
"""Refusals of one peer that are kept, with their words."""

_CREATED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""A label's value, and the last part of a qualified name."""
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_POLICIES: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("", "PreferClose", "PreferSameZone", "PreferSameNode")
_DAY: Final = 86_400
"""Longest session affinity, in seconds: Kubernetes' own bound."""


class Relay(msgspec.Struct, frozen=True):
    """The bounds within which a peer may tell exports of other clusters.

    Attributes:
        others: ids of these clusters, which have no peering with this one, with SHA-256 of the key
            of each.
        own: SHA-256 of this cluster's key.
        lent: translates an address that the peer lends into the one that reaches it from here.
        signer: checks a public key, a message and a signature: SHA-256 of the key; empty where it
            has not signed.
        now: the Unix time.
    """

    others: Mapping[str, str]
    own: str
    lent: Callable[[str], Remapped]
    signer: Callable[[bytes, bytes, bytes], str]
    now: float


class Scope(msgspec.Struct, frozen=True):
    """The bounds within which a peer may export.

    Attributes:
        cluster: its cluster id, as its key proves it.
        namespaces: those of this cluster that exist and that it may export to.
        cross: translates an address of the peer into the one that reaches it from here, or refuses.
        relay: what it may tell of other clusters; None for nothing.
    """

    cluster: str
    namespaces: Collection[str]
    cross: Callable[[str], Remapped]
    relay: Relay | None = None


class Admitted(msgspec.Struct, frozen=True):
    """An export of a peer, as far as it is used.

    Attributes:
        export: the export; None where it is refused as a whole.
        broken: whether it is within the peer's bounds, but cannot be read: that does not say that
            it has ended.
        refused: the first reasons for which it, or a part of it, is refused, each a sentence.
        refusals: the number of all these parts.
    """

    export: Export | None = None
    broken: bool = False
    refused: tuple[str, ...] = ()
    refusals: int = 0


class _Refusals:
    """Counts what is refused, and keeps the first reasons."""

    def __init__(self) -> None:
        self.first: list[str] = []
        self.count = 0

    def add(self, reason: str) -> None:
        """Take note of a refusal."""
        self.count += 1
        if len(self.first) < MOST_REFUSALS:
            self.first.append(reason)


class _Header(msgspec.Struct, frozen=True):
    """The part of an export that is read first."""

    cluster: str
    namespace: str
    name: str


def admit(told: str, wanted: Key, scope: Scope) -> Admitted:
    """An export as it is used, of what a peer tells.

    Args:
        told: the export, as JSON.
        wanted: the namespace and name under which it is told.
        scope: what the peer may say.
    """
    refused = _Refusals()
    export = _whole(told, wanted, scope, refused)
    if export is not None:
        slices = _slices(export, scope, refused)
        export = msgspec.structs.replace(export, slices=slices)
    broken = export is None and wanted[0] in scope.namespaces
    return Admitted(export, broken, tuple(refused.first), refused.count)


def is_admitted(told: str, wanted: Key, scope: Scope) -> bool:
    """True if :func:`admit` has an export of what a peer tells, with or without endpoints."""
    return _whole(told, wanted, scope, _Refusals()) is not None


def _whole(told: str, wanted: Key, scope: Scope, refused: _Refusals) -> Export | None:
    """An export with all its endpoints; None where it is refused as a whole."""
    key = _key(told, wanted, scope, refused)
    return _export(key, told, refused) if key is not None else None


def _said(key: Key) -> str:
    return "the export {}/{}".format(*key)


def _key(told: str, wanted: Key, scope: Scope, refused: _Refusals) -> Key | None:
    """The namespace and name of an export, if the peer may have one there."""
    if wanted[0] not in scope.namespaces:
        refused.add(f"{scope.cluster} may not export to the namespace {wanted[0][:63]!r}")
        return None
    try:
        header = msgspec.json.decode(told, type=_Header)
    except (msgspec.DecodeError, RecursionError):
        refused.add("an export without cluster, namespace and name is left out")
        return None
    if header.cluster != scope.cluster:
        refused.add(f"{scope.cluster} may not speak for the cluster {header.cluster[:63]!r}")
    elif not ids.is_dns_label(header.name):
        refused.add(f"{header.name[:63]!r} is no name of a Service")
    elif (header.namespace, header.name) != wanted:
        refused.add(f"{_said(wanted)} is told as {header.namespace[:63]!r}/{header.name!r}")
    else:
        return wanted
    return None


def _export(key: Key, told: str, refused: _Refusals) -> Export | None:
    try:
        export = msgspec.json.decode(told, type=Export)
    except (msgspec.DecodeError, RecursionError) as error:
        refused.add(f"{_said(key)} cannot be read: {str(error)[:200]}")
        return None
    problem = _problem(export)
    if problem:
        refused.add(f"{_said(key)} is refused: {problem}")
    return None if problem else export


def _problem(export: Export) -> str:
    """The reason why an export cannot be imported, as a clause; empty if it can."""
    timeout = export.affinity_timeout
    texts = [*export.labels.items(), *export.annotations.items()]
    wrong = {
        "its time of creation is none": not _CREATED.fullmatch(export.created),
        "its type is unknown": export.type not in TYPES,
        "its session affinity is unknown": export.session_affinity not in AFFINITIES,
        "its session affinity has no such timeout": not 0 <= timeout <= _DAY
        or (timeout > 0) != (export.session_affinity == CLIENT_IP),
        "its traffic policy is unknown": export.internal_traffic_policy not in _POLICIES,
        "its traffic distribution is unknown": export.traffic_distribution not in _DISTRIBUTIONS,
        "its IP families are none": not _are_families(export.families),
        "its ports cannot be a Service's": not _are_ports(export.ports)
        or (not export.ports and export.type == CLUSTER_SET_IP),
        "its labels and annotations are too long": sum(len(k) + len(v) for k, v in texts)
        > MOST_TEXT,
        "two of its slices have one name": len({each.name for each in export.slices})
        < len(export.slices),
    }
    return next((what for what, holds in wrong.items() if holds), "")


def _are_families(families: Sequence[str]) -> bool:
    known = all(each in FAMILIES for each in families)
    return known and 0 < len(families) == len(set(families))


def _are_ports(ports: Sequence[Port]) -> bool:
    """True if a Service can have these ports together."""
    if len(ports) > MOST_PORTS or not all(_is_port(each) for each in ports):
        return False
    names = {each.name for each in ports}
    numbers = {(each.protocol, each.port) for each in ports}
    alone = len(ports) == 1 or "" not in names
    return alone and len(names) == len(numbers) == len(ports)


def _is_port(port: Port) -> bool:
    named = not port.name or ids.is_dns_label(port.name)
    known = not port.app_protocol or _is_qualified(port.app_protocol)
    return named and known and port.protocol in _PROTOCOLS and 0 < port.port < 65536


def _is_qualified(text: str) -> bool:
    """True if a text is a qualified name: a name, with the domain before it that it may have."""
    domain, slash, name = text.rpartition("/")
    return _NAME.fullmatch(name) is not None and (not slash or ids.is_dns_subdomain(domain))


def _slices(export: Export, scope: Scope, refused: _Refusals) -> tuple[Slice, ...]:
    """The slices of an export, each with the endpoints that are the peer's own."""
    found: list[Slice] = []
    for each in sorted(export.slices, key=lambda each: each.name):
        problem = _slice_problem(each, full=len(found) >= MOST_SLICES)
        if problem:
            refused.add(f"a slice of {_said(export.key)} is left out: {problem}")
            continue
        endpoints = tuple(_endpoints(export, each, scope, refused))
        found.append(msgspec.structs.replace(each, endpoints=endpoints))
    return tuple(found)


def _slice_problem(found: Slice, *, full: bool) -> str:
    if full:
        return f"an export has {MOST_SLICES} slices at the most"
    if found.family not in FAMILIES or not ids.is_dns_subdomain(found.name):
        return "it has no name, or no family"
    if len(found.endpoints) > MOST_ENDPOINTS:
        return f"it has more than {MOST_ENDPOINTS} endpoints"
    ports = len(found.ports) <= MOST_PORTS and all(_is_port(each) for each in found.ports)
    unique = len({each.name for each in found.ports}) == len(found.ports)
    return "" if ports and unique else "its ports cannot be those of a slice"


def _endpoints(
    export: Export, found: Slice, scope: Scope, refused: _Refusals
) -> Iterable[Endpoint]:
    for endpoint in found.endpoints:
        addresses: list[str] = []
        for address in endpoint.addresses[:MOST_ADDRESSES]:
            crossed = scope.cross(address)
            problem = crossed.problem
            if not problem and family(crossed.address) != found.family:
                problem = f"it is no {found.family} address"
            if problem:
                refused.add(
                    f"the address {address[:64]!r} of {_said(export.key)} is left out: {problem}"
                )
            else:
                addresses.append(crossed.address)
        if addresses:
            yield Endpoint(
                addresses=tuple(addresses),
                hostname=endpoint.hostname if ids.is_dns_label(endpoint.hostname) else "",
                zone=endpoint.zone if _NAME.fullmatch(endpoint.zone) else "",
                ready=endpoint.ready,
                serving=endpoint.serving,
                terminating=endpoint.terminating,
            )
