"""The merging of the exports of several clusters into one Service of the set. Pure.

The oldest ServiceExport wins, as KEP-1645 asks; of two of the same second, the one of the cluster
whose id comes first. Ports are the exception: the Service has those of all exporters, and the
oldest wins only where two cannot stand side by side. Each cluster computes this for itself, and all
come to the same result, whatever the order in which they heard of the exports.

IP families are the oldest's, too. The intersection of all would take an address from a running
Service whenever a cluster without that family joins.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from liqod.model.clusterset.exports import CLIENT_IP, HEADLESS, Export, Port
from liqod.model.view.figures import listed

SHOWN: Final = 5
"""Clusters that the message of a conflict names."""


class Conflict(msgspec.Struct, frozen=True):
    """A property in which exporters differ.

    Attributes:
        reason: of the condition ``Conflict``, one word.
        field: the property, in words.
        winner: the cluster whose value counts.
        others: the clusters that have another value.
        total: the number of all exporters.
    """

    reason: str
    field: str
    winner: str
    others: tuple[str, ...]
    total: int

    def __str__(self) -> str:
        return (
            f"{self.field}: that of {self.winner} is used; {len(self.others)} of "
            f"{self.total} clusters have another ({listed(self.others, SHOWN)})"
        )


class Merged(msgspec.Struct, frozen=True):
    """A Service of the set, as the exports of all clusters make it.

    Attributes:
        oldest: the export that wins, with all that is not merged.
        ports: the ports of all exporters.
        names: by cluster, the name here of each port of that cluster that is reached here.
        clusters: the exporters, the winner first.
        conflicts: the properties in which they differ.
    """

    oldest: Export
    ports: tuple[Port, ...]
    names: Mapping[str, Mapping[str, str]]
    clusters: tuple[str, ...]
    conflicts: tuple[Conflict, ...] = ()

    @property
    def headless(self) -> bool:
        """True if clients are given the endpoints, not an address of the Service."""
        return self.oldest.type == HEADLESS


def precedence(export: Export) -> tuple[str, str]:
    """The place of an export among those of all clusters; the first one wins."""
    return export.created, export.cluster


def merge(exports: Iterable[Export]) -> Merged | None:
    """The Service that all exports of one name make together; None where there is no export.

    Args:
        exports: of one namespace and name, one of each cluster, in any order.
    """
    ordered = sorted(exports, key=precedence)
    if not ordered:
        return None
    ports, names = _merge_ports(ordered)
    return Merged(
        oldest=ordered[0],
        ports=ports,
        names=names,
        clusters=tuple(each.cluster for each in ordered),
        conflicts=tuple(_conflicts(ordered)),
    )


def _merge_ports(
    ordered: Sequence[Export],
) -> tuple[tuple[Port, ...], dict[str, dict[str, str]]]:
    """The ports of all exporters, and the names that each one's have among them."""
    by_name: dict[str, Port] = {}
    by_number: dict[tuple[str, int], Port] = {}
    for port in (port for export in ordered for port in export.ports):
        number = (port.protocol, port.port)
        if port.name not in by_name and number not in by_number:
            by_name[port.name] = by_number[number] = port
    given = _given_names(by_name)
    ports = tuple(msgspec.structs.replace(port, name=given[name]) for name, port in by_name.items())
    names = {export.cluster: _names(export, by_name, by_number, given) for export in ordered}
    return ports, names


def _given_names(by_name: Mapping[str, Port]) -> dict[str, str]:
    """The names of the ports: their own, but one without a name needs one beside others."""
    given = {name: name for name in by_name}
    if "" in given and len(given) > 1:
        port = by_name[""]
        wanted = f"{port.protocol.lower()}-{port.port}"
        while wanted in by_name:
            wanted = f"{wanted}-x"
        given[""] = wanted
    return given


def _names(
    export: Export,
    by_name: Mapping[str, Port],
    by_number: Mapping[tuple[str, int], Port],
    given: Mapping[str, str],
) -> dict[str, str]:
    """The name that each port of an export has in the set; none for one that clients cannot reach.

    A port is found by its name. One whose name no port has here is found by its number, unless the
    exporter has a port of that one's name as well.
    """
    own = {port.name for port in export.ports}
    found: dict[str, str] = {}
    for port in export.ports:
        same = by_name.get(port.name)
        if same is None:
            same = by_number[port.protocol, port.port]
            if same.name in own:
                continue
        if same.protocol == port.protocol:
            found[port.name] = given[same.name]
    return found


class _Property(NamedTuple):
    """A property that one export decides for all.

    Attributes:
        reason: of its conflict.
        field: its name, in words.
        differs: true if the second export has another value than the first, which wins.
    """

    reason: str
    field: str
    differs: Callable[[Export, Export], bool]


def _by(value: Callable[[Export], Any]) -> Callable[[Export, Export], bool]:
    return lambda oldest, other: bool(value(oldest) != value(other))


def _affinity_differs(oldest: Export, other: Export) -> bool:
    balanced = HEADLESS not in (oldest.type, other.type)
    return balanced and oldest.session_affinity != other.session_affinity


def _timeout_differs(oldest: Export, other: Export) -> bool:
    both = HEADLESS not in (oldest.type, other.type) and (
        oldest.session_affinity == other.session_affinity == CLIENT_IP
    )
    return both and oldest.affinity_timeout != other.affinity_timeout


def _lacks_family(oldest: Export, other: Export) -> bool:
    return not set(oldest.families) <= set(other.families)


_PROPERTIES: Final = (
    _Property("PortConflict", "ports", _by(lambda export: frozenset(export.ports))),
    _Property("TypeConflict", "type", _by(lambda export: export.type)),
    _Property("SessionAffinityConflict", "session affinity", _affinity_differs),
    _Property("SessionAffinityConfigConflict", "timeout of the affinity", _timeout_differs),
    _Property(
        "InternalTrafficPolicyConflict",
        "internal traffic policy",
        _by(lambda export: export.internal_traffic_policy),
    ),
    _Property(
        "TrafficDistributionConflict",
        "traffic distribution",
        _by(lambda export: export.traffic_distribution),
    ),
    _Property("IPFamilyConflict", "IP families", _lacks_family),
    _Property("LabelsConflict", "exported labels", _by(lambda export: export.labels)),
    _Property(
        "AnnotationsConflict", "exported annotations", _by(lambda export: export.annotations)
    ),
)
"""The properties in which exports can conflict, in the order in which conditions name them."""


def _conflicts(ordered: Sequence[Export]) -> Iterable[Conflict]:
    oldest, *rest = ordered
    for each in _PROPERTIES:
        others = tuple(other.cluster for other in rest if each.differs(oldest, other))
        if others:
            yield Conflict(each.reason, each.field, oldest.cluster, others, len(ordered))
