"""Events of a virtual node for ``kubectl describe node``: why it is not Ready, or cordoned.

Each is a change from the Node's own conditions, so that a daemon that starts anew reports nothing
twice. Reasons are a kubelet's where it has one. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from liqod.apimachinery import labels
from liqod.kube.recorder import NORMAL, WARNING
from liqod.model.objects import conditions

Json = Mapping[str, Any]

SCHEDULABLE: Final = {True: "NodeNotSchedulable", False: "NodeSchedulable"}
DRAINING: Final = "Draining"


class NodeEvent(NamedTuple):
    """An Event to be written: its type, reason and message."""

    type: str
    reason: str
    message: str


_REASONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "Ready": ("True", "NodeReady", "NodeNotReady"),
    "NetworkUnavailable": ("False", "NetworkAvailable", "NetworkUnavailable"),
    labels.PEER_NODES_READY: ("True", "PeerNodesReady", "PeerNodesNotReady"),
    labels.PEER_DAEMON_READY: ("True", "PeerDaemonReady", "PeerDaemonSilent"),
}
"""The good status of each condition, and the reasons for becoming good, and not."""


def of_conditions(before: Sequence[Json], after: Sequence[Json]) -> Iterator[NodeEvent]:
    """The events for a change of a Node's conditions.

    That all is well is reported only after a fault; a fault is reported again when it becomes
    another one.
    """
    for kind, (good, well, ill) in _REASONS.items():
        now = conditions.find(after, kind)
        if now is None:
            continue
        was = conditions.find(before, kind)
        message = str(now.get("message") or now.get("reason") or "")
        if now["status"] == good:
            if was is not None and was["status"] != good:
                yield NodeEvent(NORMAL, well, message)
        elif was is None or was["status"] != now["status"] or was.get("message") != message:
            yield NodeEvent(WARNING, ill, message)


def of_cordon(before: bool | None, unschedulable: bool) -> Iterator[NodeEvent]:
    """The event for a cordon or its end; none where the state was unknown before."""
    if before is not None and before != unschedulable:
        meant = "no new pods are placed there" if unschedulable else "pods are placed there again"
        yield NodeEvent(
            NORMAL, SCHEDULABLE[unschedulable], f"the node is {_cordon(unschedulable)}: {meant}"
        )


def _cordon(unschedulable: bool) -> str:
    return "cordoned" if unschedulable else "uncordoned"
