"""The same Lamp at each peer, and here how it fares there."""

from liqod.plugins.contracts import (
    READ,
    Grant,
    Json,
    Kind,
    Plan,
    Reflector,
    RemoteKind,
    Right,
    View,
    Watch,
)
from liqod.plugins.crossing import manifest

KIND = Kind("example.com", "v1", "Lamp", "lamps")
"""Group, version, kind and plural of the objects that follow."""


def outgoing(source: Json, view: View) -> Plan:
    """The objects that are wanted at the peer: one that is the same."""
    name = source["metadata"]["name"]
    return Plan(remote=(manifest(KIND, name, source, view, spec=source["spec"]),))


def incoming(source: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """The status that is wanted here: that of the object at the peer."""
    return Plan(status=remote[0].get("status") if remote else None)


REFLECTOR = Reflector(
    name="lamps",
    kind=KIND,
    outgoing=outgoing,
    incoming=incoming,
    remote=(RemoteKind(kind=KIND, watch=Watch.FULL),),
    rights=(
        Right(group=KIND.group, resources=(KIND.plural,), verbs=READ, why="they follow"),
        Right(
            group=KIND.group,
            resources=(f"{KIND.plural}/status",),
            verbs=("patch",),
            why="how they fare at peers",
        ),
    ),
    grant=Grant(quota={f"count/{KIND.plural}.{KIND.group}": "100"}),
)
