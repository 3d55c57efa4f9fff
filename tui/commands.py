"""Parses the commands after ``:``: where to go and what to do. Pure: words in, values out."""

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from liqod.inspect.protocol import Verb
from tui.session import Session
from tui.table import Place
from tui.views import catalog, peer


class Go(NamedTuple):
    """Show that place."""

    place: Place


class Do(NamedTuple):
    """Ask the daemon for an action."""

    verb: Verb
    subject: str
    options: dict[str, str]


class Local(NamedTuple):
    """Something of this program's own, with an argument if it takes one."""

    what: Literal["quit", "help", "freeze", "record", "tab"]
    argument: str = ""


class Mistake(NamedTuple):
    """A command without a meaning; the text names commands that have one."""

    text: str


Command = Go | Do | Local | Mistake

LOCAL: dict[str, Literal["quit", "help", "freeze", "record", "tab"]] = {
    "q": "quit",
    "quit": "quit",
    "help": "help",
    "?": "help",
    "freeze": "freeze",
    "record": "record",
    "tab": "tab",
}
VERBS: dict[str, Verb] = {verb: verb for verb in get_args(Verb)}
NAMESPACE_VERBS = ("offload", "unoffload")
ASKER_VERBS = ("accept", "deny")
PEER_VERBS = tuple(verb for verb in VERBS if verb not in NAMESPACE_VERBS + ASKER_VERBS)


def read(line: str) -> Command:
    """Parse a typed line. ``:peer NAME`` shows a peer; ``:peer NAME!`` peers with it."""
    words = line.split()
    if not words:
        return Mistake("type a view or an action; ? lists them")
    first, rest = words[0], words[1:]
    if first in LOCAL:
        return Local(LOCAL[first], " ".join(rest))
    if first == "peer" and rest:
        return _peer(rest)
    if first in VERBS and first != "peer":
        return _verb(VERBS[first], rest)
    view = catalog.named(first)
    if view is None or (view.name == "peer"):
        return Mistake(f"there is no `{first}`; ? lists the views and the actions")
    return Go(Place(view.name, rest[0] if rest else ""))


def _peer(rest: list[str]) -> Command:
    name, *parts = rest
    if name.endswith("!"):
        return Do("peer", name.removesuffix("!"), _options(parts))
    part = parts[0] if parts else ""
    if part and part not in peer.PARTS:
        return Mistake(f"a peer's page has {', '.join(peer.PARTS)}; not {part}")
    return Go(Place("peer", name, part))


def _verb(verb: Verb, rest: list[str]) -> Command:
    if not rest:
        asks = "who asks" if verb in ASKER_VERBS else "a peer"
        whom = "a namespace" if verb in NAMESPACE_VERBS else asks
        return Mistake(f":{verb} needs {whom}")
    return Do(verb, rest[0], _options(rest[1:]))


def _options(words: Iterable[str]) -> dict[str, str]:
    """``name=value``, or ``name`` alone for ``true``."""
    pairs = (word.removeprefix("--").partition("=") for word in words)
    return {name: value or "true" for name, _, value in pairs if name}


def completions(line: str, session: Session) -> list[str]:
    """Whole lines that begin like the one that is typed, the likeliest first."""
    first, space, _ = line.partition(" ")
    if not space:
        words = [view.name for view in catalog.offered(session)]
        words += ["peer", *(verb for verb in VERBS if verb != "peer"), *sorted(set(LOCAL.values()))]
        return [word for word in dict.fromkeys(words) if word.startswith(first)]
    names: Iterable[str] = ()
    if first in (*PEER_VERBS, "room"):
        names = sorted(session.state.peers)
    elif first in ASKER_VERBS:
        rows = session.state.incoming.values()
        names = sorted(row.name for row in rows if row.state == "Waiting")
    elif first in NAMESPACE_VERBS:
        names = sorted(session.state.namespaces)
    elif first == "offloaded":
        names = sorted(session.state.nodes)
    return [whole for name in names if (whole := f"{first} {name}").startswith(line)]
