"""``liqod top``: selects the daemon to look at, and how."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from glob import glob
from pathlib import Path

from liqod.model.text import printable
from liqod.model.view.redact import without_invitations
from liqod.model.view.whereabouts import patterns
from liqod.runtime.arguments import Parser
from tui.link import Address, Link, Source
from tui.recording import BadRecording
from tui.replay import Replay
from tui.table import Place
from tui.views import catalog


def parser() -> Parser:
    """The options."""
    made = Parser(
        prog="liqod top",
        allow_abbrev=False,
        description="Look at running daemons, live. Without options: every daemon of this host "
        "whose socket is found.",
        epilog="Keys: ? explains the view, / filters, : takes commands, q quits.",
    )
    made.add_argument(
        "--socket",
        action="append",
        default=[],
        type=Path,
        help="a daemon's Unix socket; again for more",
    )
    made.add_argument(
        "--url", action="append", default=[], help="wss://HOST:PORT of a daemon; again for more"
    )
    made.add_argument(
        "--kubeconfig",
        type=Path,
        help="of several daemons here begin with that of its cluster (default: usual places)",
    )
    made.add_argument("--context", default="", help="a context in that kubeconfig")
    made.add_argument("--token-file", type=Path, help="file with the bearer token for --url")
    made.add_argument("--ca-file", type=Path, help="authorities to trust for --url")
    made.add_argument("--read-only", action="store_true", help="offer no actions")
    made.add_argument("--screen", default="peers", help="the view to begin with")
    made.add_argument("--peer", default="", help="begin with this peer's page")
    made.add_argument("--replay", type=Path, metavar="FILE", help="play a recording (w records)")
    made.add_argument("--speed", type=float, default=1.0, help="how fast to play it; 0: at once")
    made.add_argument("--no-color", action="store_true", help="glyphs and words only")
    made.add_argument(
        "--web",
        action="store_true",
        help="serve it to a browser on loopback, at an address that is printed; read-only",
    )
    made.add_argument(
        "--web-write", action="store_true", help="serve it to a browser with actions (and --web)"
    )
    made.add_argument("--port", type=int, default=8390, help="the port for --web (default 8390)")
    return made


Own = Callable[[Path | None, str], tuple[Path | None, str]]
"""Finds the socket of the daemon of a kubeconfig's cluster, by the options ``--kubeconfig`` and
``--context``: None, and why, where there is none."""


def nobody(kubeconfig: Path | None, context: str) -> tuple[Path | None, str]:
    """Knows of no cluster; see :data:`Own`."""
    return None, ""


def main(arguments: list[str], elsewhere: Callable[[], str] = str, own: Own = nobody) -> int:
    """Run the program; the exit status.

    Args:
        arguments: as given.
        elsewhere: asked where the daemon answers, if none has a socket on this host; a sentence, or
            nothing.
        own: asked which of several daemons is the kubeconfig's.
    """
    chosen = parser().parse_args(arguments)
    if chosen.no_color:
        os.environ["NO_COLOR"] = "1"
    try:
        if chosen.web or chosen.web_write:
            return _serve(arguments, chosen)
        return _look(chosen, own)
    except OSError as error:
        why = error.strerror or error
        place = f"{error.filename}: " if error.filename else ""
        _print_reason(f"{place}{why}")
    except NoSockets as error:
        where = elsewhere() or "start `liqod run`, or name one by --socket"
        _print_reason(f"{error}: {where}")
    except (Mistake, BadRecording) as error:
        _print_reason(f"{error}")
    return 2


def _print_reason(sentence: str) -> None:
    """Say why nothing is shown; an invitation that was typed by mistake stays secret."""
    print(printable(without_invitations(f"liqod top: {sentence}")), file=sys.stderr)


class Mistake(Exception):
    """The options make no sense together; the text says what would."""


class NoSockets(Mistake):
    """No daemon has a socket on this host."""


def _serve(arguments: list[str], chosen: argparse.Namespace) -> int:
    try:
        from tui.web import serve
    except ImportError as error:
        beside = f"{sys.executable} -m pip install textual-serve"
        raise Mistake(f"--web needs textual-serve beside liqod: {beside}") from error
    return serve(arguments, chosen.port, write=chosen.web_write and not chosen.read_only)


def _look(chosen: argparse.Namespace, own: Own) -> int:
    # Textual reads NO_COLOR when it is imported.
    from tui.app import Top

    start = Place("peer", chosen.peer) if chosen.peer else _screen(chosen.screen)
    sources, note = _sources(chosen, own)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and not _driven():
        raise Mistake("it needs a terminal; `liqod status` and `liqod events` are for pipes")
    app = Top(sources, read_only=chosen.read_only or bool(chosen.replay), start=start, note=note)
    app.run()
    return app.return_code or 0


def _driven() -> bool:
    """True if another program shows it: a browser's, or a test."""
    return "TEXTUAL_DRIVER" in os.environ


def _screen(word: str) -> Place:
    view = catalog.named(word)
    if view is None or not view.key:
        names = ", ".join(each.name for each in catalog.VIEWS.values() if each.key)
        raise Mistake(f"there is no screen {word}; there are {names}")
    return Place(view.name)


def _sources(chosen: argparse.Namespace, own: Own) -> tuple[list[Source], str]:
    """The daemons to look at, in their order, and the notice of that choice."""
    note = ""
    if chosen.replay is not None:
        return [Replay(chosen.replay, chosen.speed)], note
    addresses = [Address(socket=path) for path in chosen.socket]
    if chosen.ca_file and not chosen.ca_file.is_file():
        raise Mistake(f"--ca-file: there is no {chosen.ca_file}")
    if chosen.url:
        token = chosen.token_file.read_text().strip() if chosen.token_file else ""
        if not token:
            raise Mistake("--url needs --token-file: a token of the audience liqod")
        addresses += [Address(url=url, token=token, ca=chosen.ca_file) for url in chosen.url]
    if not addresses:
        sockets, note = ordered(found(patterns(os.environ)), chosen.kubeconfig, chosen.context, own)
        addresses = [Address(socket=path) for path in sockets]
    return [Link(address) for address in addresses], note


def ordered(
    sockets: list[Path], kubeconfig: Path | None, context: str, own: Own
) -> tuple[list[Path], str]:
    """The sockets, that of the kubeconfig's cluster first, and a sentence about the choice.

    Args:
        sockets: of the daemons of this host.
        kubeconfig, context: as named; nothing for the usual places, and the one in use.
        own: finds it.

    Raises:
        Mistake: the cluster of a kubeconfig that was named has no daemon here.
    """
    named = kubeconfig is not None or bool(context)
    if len(sockets) == 1 and not named:
        return sockets, ""
    first, why = own(kubeconfig, context)
    if first is None:
        if named:
            raise Mistake(why)
        return sockets, f"{sockets[0].stem} is shown first, by its name" + (why and f": {why}")
    others = [each for each in sockets if each != first]
    return [first, *others], f"{first.stem} is shown first: the kubeconfig leads there"


def found(looked: Sequence[str]) -> list[Path]:
    """The sockets that those patterns find; raises NoSockets where there are none."""
    sockets = dict.fromkeys(path for pattern in looked for path in sorted(glob(pattern)))
    if not sockets:
        raise NoSockets(f"no daemon's socket at {', '.join(looked)}")
    return [Path(path) for path in sockets]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
