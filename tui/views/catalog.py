"""The catalog of all views: their names, keys and what they are for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tui.session import Session
from tui.table import Place, Table
from tui.views import guests, inbox, offloaded, others, peer, peers, records, room, troubles


def _always(session: Session) -> bool:
    return True


@dataclass(frozen=True)
class View:
    """One view.

    Attributes:
        name: what ``:`` calls it.
        aliases: what else it is called.
        key: the key that opens it; empty for a view that is entered from another.
        title: its name for people.
        help: what it shows, in a sentence.
        build: makes its table of a session, a place and the time.
        shown: whether there is anything to show; without that it is not offered.
    """

    name: str
    key: str
    title: str
    help: str
    build: Callable[[Session, Place, float], Table]
    aliases: tuple[str, ...] = ()
    shown: Callable[[Session], bool] = _always


HOME = Place("peers")

VIEWS: Mapping[str, View] = {
    view.name: view
    for view in (
        View(
            "peers",
            "1",
            "Peers",
            "Every peer on one line, the worst first.",
            peers.build,
            ("p", "home"),
        ),
        View(
            "offloaded",
            "2",
            "Offloaded",
            "Virtual nodes, the namespaces on them and their pods, and why a pod waits.",
            offloaded.build,
            ("o", "pods", "nodes"),
        ),
        View(
            "inbox",
            "3",
            "Inbox",
            "Who asks to borrow from here, whom this cluster asks, and who was seen.",
            inbox.build,
            ("i",),
        ),
        View(
            "timeline",
            "4",
            "Timeline",
            "Every change of state, the newest first.",
            records.timeline,
            ("t", "events"),
        ),
        View(
            "doctor",
            "5",
            "Doctor",
            "What this cluster itself needs, layer by layer; each peer has a ladder of its own.",
            others.own,
            ("d",),
        ),
        View(
            "tasks",
            "6",
            "Tasks",
            "The daemon's own tasks and what each waits for.",
            others.tasks,
        ),
        View(
            "plugins",
            "7",
            "Plugins",
            "What was loaded, what was left out and why.",
            others.plugins,
            shown=lambda session: bool(session.state.plugins),
        ),
        View(
            "log",
            "8",
            "Log",
            "The daemon's log, the newest line first.",
            records.log,
            ("l", "logs"),
        ),
        View(
            "guests",
            "9",
            "Guests",
            "Pods that run here for others: by consumer and namespace, and why one waits.",
            guests.build,
            ("g",),
            shown=lambda session: bool(session.state.guests),
        ),
        View(
            "problems",
            "0",
            "Problems",
            "Everything that is wrong, the worst first, and what to do.",
            troubles.build,
            ("problem", "worst"),
        ),
        View(
            "room",
            "r",
            "Room",
            "Where room is by the words of peers, which pods wait and why, and which return.",
            room.build,
            ("free",),
        ),
        View(
            "peer",
            "",
            "Peer",
            "One peer: its ladder, workloads, guests, resources, reflection, network and log.",
            peer.build,
        ),
    )
}


def offered(session: Session) -> list[View]:
    """The views that are reached by a key, without those that have nothing to show."""
    return [view for view in VIEWS.values() if view.key and view.shown(session)]


def named(word: str) -> View | None:
    """The view of that name or alias."""
    for view in VIEWS.values():
        if word == view.name or word in view.aliases:
            return view
    return None


def parts(place: Place) -> tuple[str, ...]:
    """The tabs of a place, if it has any."""
    tabs = {"peer": peer.PARTS, "room": room.PARTS}
    return tuple(tabs.get(place.view, ()))
