"""The keys: one table for what is bound, what the last line names and what ``?`` explains."""

from typing import NamedTuple

from tui.views.catalog import VIEWS, View


class Key(NamedTuple):
    """One key.

    Attributes:
        key: Textual's name of it.
        shown: how it is written.
        action: what it does.
        label: the same in a few words.
        acts: whether the daemon is asked to change something.
        views: the views that have it; empty means all.
        plays: whether it is for recordings.
    """

    key: str
    shown: str
    action: str
    label: str
    acts: bool = False
    views: tuple[str, ...] = ()
    plays: bool = False


PEERS = ("peers", "peer")
PODS = ("offloaded", "room")
"""The views with pods that wait."""
TABBED = ("peer", "room")
"""The views with several tabs."""
GENERAL = (
    Key("slash", "/", "filter", "filter: a regular expression, !… for all others"),
    Key("colon", ":", "command", "command: with completion"),
    Key("question_mark", "?", "help", "help"),
    Key("escape", "esc", "leave", "back"),
    Key("s", "s", "sort", "sort: by the next column"),
    Key("S", "S", "reverse", "reverse: sort the other way round"),
    Key("space", "space", "select", "select"),
    Key("f", "f", "freeze", "freeze, and go on"),
    Key("right_square_bracket,right", "→", "turn(1)", "next tab", False, TABBED),
    Key("left_square_bracket,left", "←", "turn(-1)", "tab before", False, TABBED),
    Key("d", "d", "describe", "describe"),
    Key("y", "y", "manifest", "YAML", False, ("offloaded", "guests", "room", *PEERS)),
    Key("l", "l", "pod('log')", "log: of the pod, as it grows", False, ("offloaded", "peer")),
    Key("e", "e", "pod('verdicts')", "explain: what each node says to the pod", False, PODS),
    Key("w", "w", "record", "record to a file"),
    Key("p", "p", "pause", "pause, and go on", plays=True),
    Key("comma", ",", "seek(-10)", "10 s back", plays=True),
    Key("full_stop", ".", "seek(10)", "10 s on", plays=True),
    Key("ctrl+n", "^n", "daemon(1)", "next daemon"),
    Key("q", "q", "quit", "quit"),
)
ACTIONS = (
    Key("P", "P", "act('probe')", "probe now", True, PEERS),
    Key("c", "c", "act('cordon')", "cordon", True, PEERS),
    Key("u", "u", "act('uncordon')", "uncordon", True, PEERS),
    Key("D", "D", "act('drain')", "drain", True, PEERS),
    Key("ctrl+d", "^d", "act('unpeer')", "unpeer", True, PEERS),
    Key("a", "a", "act('peer')", "peer: with a cluster that was seen", True, ("inbox",)),
    Key("A", "A", "act('accept')", "accept: who asks", True, ("inbox",)),
    Key("X", "X", "act('deny')", "deny: who asks", True, ("inbox",)),
    Key("o", "o", "prompt(':offload ')", "offload: a namespace", True, ("offloaded",)),
    Key("U", "U", "act('unoffload')", "unoffload: the namespace", True, ("offloaded",)),
)
ALL = GENERAL + ACTIONS
FIRST = ("help", "quit")
BRIEF = ("filter", "command", "sort", "freeze")
"""The general keys in the last line: before a view's own, since a narrow terminal cuts the end,
and after them."""


NAMES = {key.action.partition("(")[0] for key in ALL} | {"view"}
"""The names of all actions, without what they are called with."""


def find(action: str, parameters: tuple[object, ...]) -> Key | None:
    """The key of an action that Textual is about to do."""
    call = f"{action}({', '.join(map(repr, parameters))})" if parameters else action
    return next((key for key in ALL if key.action == call), None)


def of_view(view: str, acting: bool, playing: bool = False) -> list[Key]:
    """The keys that do something in a view, of a daemon or of a recording."""
    return [
        key
        for key in ALL
        if (not key.views or view in key.views)
        and (acting or not key.acts)
        and (playing or not key.plays)
    ]


def line(view: str, acting: bool, playing: bool = False) -> str:
    """The last line: how to get help and out, the view's own keys, then the general ones."""
    first = [key for key in GENERAL if key.action in FIRST]
    own = [key for key in of_view(view, acting, playing) if key.views or key.plays]
    general = [key for key in GENERAL if key.action in BRIEF]
    return "  ".join(
        f"{key.shown} {key.label.split(':')[0].split(',')[0]}" for key in first + own + general
    )


def explained(view: View, acting: bool, playing: bool = False) -> list[tuple[str, str]]:
    """The entries of a view's help."""
    entries = [(view.help, ""), ("Keys", "")]
    entries += [(key.shown, key.label) for key in of_view(view.name, acting, playing)]
    entries += [("enter", "open"), ("↑ ↓ j k g G", "move"), ("^p", "every command there is")]
    entries.append(("Views", ""))
    entries += [(f"{each.key} :{each.name}", each.help) for each in VIEWS.values() if each.key]
    entries += [(":peer NAME [TAB]", "one peer"), ("Actions", "")]
    if acting:
        entries += [
            (":peer NAME!", "peer with a cluster of the inbox"),
            (":accept WHO [cpu=…] [memory=…] [pods=…] [always]", "let it borrow, or less"),
            (":deny WHO [always]", "do not let it in"),
            (":unpeer :cordon :uncordon :drain :activate :probe NAME", "of a peer"),
            (":offload NAMESPACE [strategy=…] [selector=…]", "offload a namespace"),
            (":unoffload NAMESPACE", "take it back"),
        ]
    else:
        entries.append(("none", "this viewer may only look"))
    return entries
