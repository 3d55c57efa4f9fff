"""The same Gadgets over there, painted as a ConfigMap says, and here what becomes of them."""

from collections.abc import Mapping

import msgspec

from liqod.plugins.contracts import (
    CONFIG_MAPS,
    READ,
    Grant,
    Json,
    Kind,
    Plan,
    Reads,
    Reason,
    Reflector,
    RemoteKind,
    Right,
    Several,
    View,
    Watch,
)
from liqod.plugins.crossing import manifest

GADGETS = Kind("example.com", "v1", "Gadget", "gadgets")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.gadgets]``."""

    paint: str = "paint"


def outgoing(gadget: Json, view: View) -> Plan:
    """The same gadget over there, painted as the ConfigMap that it names says."""
    name = gadget["spec"].get("paintFrom", view.settings.paint)
    paint = view.get(CONFIG_MAPS, name)
    if paint is None:
        return Plan(reasons=(Reason("NoPaint", f"there is no ConfigMap {name} to paint it by"),))
    spec = {**gadget["spec"], "colour": paint["data"]["colour"]}
    return Plan(remote=(manifest(GADGETS, gadget["metadata"]["name"], gadget, view, spec=spec),))


def incoming(gadget: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """How the gadget at this peer fares."""
    status = remote[0].get("status") if remote else None
    return Plan(status=status)


def combine(gadget: Json, statuses: Mapping[str, Json]) -> Json:
    """It is lit where it is lit anywhere."""
    lit = sorted(peer for peer, status in statuses.items() if status.get("lit"))
    return {"lit": bool(lit), "at": lit}


REFLECTOR = Reflector(
    name="gadgets",
    kind=GADGETS,
    outgoing=outgoing,
    incoming=incoming,
    remote=(RemoteKind(kind=GADGETS, watch=Watch.FULL),),
    reads=(Reads(CONFIG_MAPS),),
    several=Several.MERGED,
    combine=combine,
    config_type=Settings,
    rights=(
        Right(group="example.com", resources=("gadgets",), verbs=READ, why="they are reflected"),
        Right(
            group="example.com",
            resources=("gadgets/status",),
            verbs=("patch",),
            why="where they are lit",
        ),
    ),
    grant=Grant(quota={"count/gadgets.example.com": "100"}),
)
