"""What every command shares: options, opening a cluster, progress, output and how errors end.

A user's mistake is one sentence on stderr and a non-zero exit, never a traceback. Progress goes to
stderr, so that ``-o json`` on stdout stays parseable.
"""

import os
import secrets
import shutil
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
import trio
import typer
import yaml

from liqod.cli import terminal
from liqod.errors import (
    UNTRUSTED,
    ConfigError,
    Forbidden,
    Invalid,
    LiqodError,
    NotFound,
    Unauthorized,
    Unreachable,
)
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.credentials.kubeconfig import OWN_ONLY
from liqod.model.text import printable
from liqod.supervise import leaves

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds after which a step that still goes on is shown."""
MINIMAL = 24
"""Columns that the last column of a table has in any case."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as that of a shell's own commands."""

Kubeconfig = Annotated[
    Path | None, typer.Option(help="Kubeconfig of this cluster.", show_default="usual places")
]
Context = Annotated[str, typer.Option(help="Context in that kubeconfig.", show_default="current")]
LiqoNamespace = Annotated[str, typer.Option(help="Namespace that liqod was installed into.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at the most.", min=0.1)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")]
Socket = Annotated[
    Path | None, typer.Option(help="The daemon's socket.", show_default="usual folders")
]
ClusterId = Annotated[str, typer.Option(help="Of several daemons here that of this cluster.")]
Output = Annotated[str, typer.Option("--output", "-o", help="text, json or yaml.")]
CredentialFile = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="File to write, for its owner only.", show_default="print it"
    ),
]


class Progress:
    """Lines on stderr that say what is being waited for, and how long each step took.

    A step may say more of itself later: ``wait for milan`` and then ``wait for milan: it does not
    answer`` are the same step.
    """

    def __init__(self) -> None:
        self.step = ""
        self._since = 0.0
        self._shown = ""
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, step: str) -> None:
        """Begin a step; the one before it is thereby done."""
        if step == self.step:
            return
        step = printable(step)
        if self.step and step.partition(": ")[0] == self.step.partition(": ")[0]:
            self.step = step
            self._show(step)
            return
        self.done()
        self.step, self._since = step, time.monotonic()
        if self._live:
            self._show(step)

    async def keep_showing(self) -> NoReturn:
        """Show that a step that takes its time is still waited for."""
        while True:
            await trio.sleep(1.0)
            waited = time.monotonic() - self._since
            if not self.step or waited < PATIENCE:
                continue
            if self._live:
                self._show(f"{self.step} ({waited:.0f} s)")
            elif self._shown != self.step:
                self._show(self.step)

    def done(self) -> None:
        """The current step has succeeded."""
        self._end("✓")

    def failed(self) -> None:
        """The current step has not succeeded."""
        self._end("✗")

    def _show(self, text: str) -> None:
        self._shown = self.step
        terminal.redraw(f"  … {text}", live=self._live)

    def _end(self, mark: str) -> None:
        if not self.step:
            return
        took = time.monotonic() - self._since
        name = self.step.partition(": ")[0] if mark == "✓" else self.step
        terminal.redraw(f"  {mark} {name} ({took:.1f} s)", live=self._live, last=True)
        self.step = ""


def warn(sentence: str) -> None:
    """Say one sentence on stderr."""
    terminal.note(f"liqod: {sentence}", lines=True)


def die(sentence: str, code: int = 1) -> NoReturn:
    """End the program with one sentence on stderr."""
    warn(sentence)
    raise SystemExit(code)


def run(
    main: Callable[[Progress], Awaitable[T]], *, timeout: float | None = None, quiet: bool = False
) -> T:
    """Run a command's asynchronous part and turn what it raises into one sentence.

    Args:
        main: is given the progress to report to.
        timeout: seconds after which the command gives up; None means never.
        quiet: nothing need be said when it is interrupted: that is how it is meant to end.
    """
    progress = Progress()

    async def bounded() -> T:
        with trio.fail_after(timeout if timeout is not None else float("inf")):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(progress.keep_showing)
                result = await main(progress)
                nursery.cancel_scope.cancel()
            return result

    try:
        result = trio.run(bounded)
    except trio.TooSlowError:
        waiting = f" while waiting: {progress.step}" if progress.step else ""
        progress.failed()
        die(f"nothing came of it within {timeout:g} s{waiting}; see `liqod status`")
    except BaseException as error:
        progress.failed()
        found = leaves(error)
        if any(isinstance(one, KeyboardInterrupt) for one in found):
            if quiet:
                raise SystemExit(INTERRUPTED) from None
            die("interrupted", INTERRUPTED)
        if any(isinstance(one, BrokenPipeError) for one in found):
            raise BrokenPipeError from error
        known = [one for one in found if isinstance(one, LiqodError)]
        if not known:
            raise
        die(sentence(known[0]))
    progress.done()
    return result


def sentence(error: LiqodError) -> str:
    """What went wrong and what to do next, for a person."""
    text = str(error) or type(error).__name__
    match error:
        case Unreachable() if UNTRUSTED in text:
            return f"{text}; is that still the cluster that the kubeconfig was made for?"
        case Unreachable():
            return f"{text}; check the address in the kubeconfig and that the API server runs"
        case Unauthorized():
            return f"{text}; the credentials of the kubeconfig are not accepted"
        case Forbidden():
            return f"{text}; use a kubeconfig whose user has that right"
        case NotFound() if "liqo.io" in text:
            return f"{text}; is liqod installed there? (`liqod install`)"
        case ConfigError() | Invalid():
            return text
    return text


async def connect(kubeconfig: Path | None, context: str = "") -> Client:
    """A client for the cluster that the options name; the caller closes it.

    Raises:
        ConfigError: no kubeconfig, or nonsense in it.
    """
    found = await credentials.load(kubeconfig, context or None)
    return Client(found, user_agent="liqod-cli")


def connect_there(path: Path, context: str = "", *, own: bool = False) -> Client:
    """A client for the other side's cluster; the caller closes it.

    Args:
        path: a kubeconfig, as a rule one that the other side has made.
        context: a context in it.
        own: it is the operator's own, which may name programs and files.

    Raises:
        ConfigError: it cannot be used, and why.
    """
    if own:
        found = credentials.from_files((path,), context or None)
        return Client(found, user_agent="liqod-cli")
    try:
        found = credentials.from_other_side(path, context or None)
    except ConfigError as error:
        remedy = "; --own-remote-kubeconfig allows it in a file of your own"
        hint = remedy if OWN_ONLY in str(error) else ""
        raise ConfigError(f"{error}{hint}") from error
    return Client(found, user_agent="liqod-cli")


def confirm(what: str, *, yes: bool) -> None:
    """Name what is about to be deleted and ask; without a terminal ``--yes`` is needed."""
    what = printable(what)
    if yes:
        terminal.note(what)
        return
    if not sys.stdin.isatty():
        die(f"{what}: say --yes to do it without being asked", 2)
    if not typer.confirm(f"{what}. Go on?", err=True):
        die("nothing was changed", 1)


def emit(value: Any, output: str) -> None:
    """Print a value as JSON or YAML; structs are turned into JSON values first."""
    plain = msgspec.to_builtins(value)
    if output == "json":
        terminal.say_json(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
    elif output == "yaml":
        terminal.say(yaml.safe_dump(plain, sort_keys=False), lines=True)
    else:
        die(f"unknown output {output!r}: use text, json or yaml", 2)


def check_output(output: str, *allowed: str) -> None:
    """Refuse an unknown ``-o`` before any work is done."""
    if output not in allowed:
        die(f"unknown output {output!r}: use {', '.join(allowed)}", 2)


def check_place(path: Path | None) -> None:
    """Refuse a file that cannot be written before anything is changed."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        die(f"cannot write {path}: name a file in a folder that exists", 2)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner reads, whole or not at all.

    What is there under that name, be it readable by all or a link elsewhere, is replaced, not
    written into; nor is a draft that somebody else has laid ready.

    Raises:
        ConfigError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(draft, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def hand_out(credential: bytes, path: Path | None) -> None:
    """Write a credential to a private file, or print it where none is named.

    Ends the program where the file cannot be written.
    """
    if path is None:
        terminal.say(credential.decode(), lines=True)
        return
    try:
        write_private(path, credential)
    except ConfigError as error:
        die(str(error))
    terminal.note(f"written to {path}")


def table(rows: list[list[str]], header: list[str], *, width: int = 0) -> str:
    """Columns as wide as their widest cell, two spaces between, like ``kubectl get``.

    Args:
        rows: of as many cells as the header has.
        header: names of the columns.
        width: columns of the terminal, within which the last column is wrapped; 0 is unlimited.
    """
    lines = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    before = sum(widths[:-1]) + 2 * len(widths[:-1])
    room = max(width - before, MINIMAL) if width else max(widths[-1], 1)
    out = []
    for line in lines:
        start = "".join(cell.ljust(size + 2) for cell, size in zip(line[:-1], widths, strict=False))
        first, *more = textwrap.wrap(line[-1], room, break_on_hyphens=False) or [""]
        out += [start + first, *(" " * before + text for text in more)]
    return "\n".join(line.rstrip() for line in out)


def width() -> int:
    """Columns of the terminal (or as ``COLUMNS`` says); 0 where the output goes elsewhere."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
