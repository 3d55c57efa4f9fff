"""Gadgets (``example.com/v1``) follow their namespace; how they fare over there comes back."""

from liqod.kube.kinds import CONFIG_MAPS, Kind
from liqod.plugins.contracts import (
    NOTHING,
    Json,
    Plan,
    Policy,
    Reads,
    Reason,
    Reflector,
    There,
    View,
    Watch,
)
from liqod.plugins.hookspecs import hookimpl

GADGETS = Kind("example.com", "v1", "Gadget", "gadgets")


def outgoing(gadget: Json, view: View) -> Plan:
    """The same gadget over there, painted as the ConfigMap that it names says."""
    paint = view.get(CONFIG_MAPS, gadget["spec"].get("paintFrom", "paint"))
    if paint is None:
        return Plan(
            reasons=(Reason("NoPaint", "the ConfigMap that it is painted from is missing"),)
        )
    twin = {
        "apiVersion": GADGETS.api_version,
        "kind": GADGETS.name,
        "metadata": {"name": gadget["metadata"]["name"]},
        "spec": {**gadget["spec"], "colour": paint["data"]["colour"]},
    }
    return Plan(there=(twin,))


def incoming(gadget: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """The status of the twin, where it differs."""
    status = remote[0].get("status") if remote else None
    if status is None or status == gadget.get("status"):
        return NOTHING
    return Plan(status=status)


REFLECTOR = Reflector(
    name="gadgets",
    kind=GADGETS,
    outgoing=outgoing,
    incoming=incoming,
    there=(There(kind=GADGETS, watch=Watch.FULL),),
    reads=(Reads(CONFIG_MAPS),),
    policy=Policy.DENY_LIST,
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """One reflector."""
    return [REFLECTOR]
