"""The common frame of all commands: options, time limit, progress, and how a command ends.

A command is an asynchronous function that reads from top to bottom. :func:`command` gives it the
options that others have too, runs it, and turns what it raises into one sentence on stderr and an
exit status: a user's mistake is never a traceback.
"""

import inspect
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec

import trio
import typer

from liqod.apimachinery import labels
from liqod.cli import clusters, files, options, output, presence, terminal
from liqod.cli.channels import Channels
from liqod.cli.progressdisplay import ProgressDisplay
from liqod.cli.timings import TIMINGS, CommandTimings
from liqod.errors import (
    Forbidden,
    LiqodError,
    Misuse,
    NotFound,
    Unauthorized,
    Unreachable,
    Untrusted,
)
from liqod.kube.client import Client
from liqod.kube.http import proxies
from liqod.model import ids
from liqod.model.text import printable
from liqod.runtime.supervise import leaves

if TYPE_CHECKING:
    from liqod.cli.inspectorclient import InspectorClient

P = ParamSpec("P")

INTERRUPTED = 130
"""Exit status after Ctrl-C, as that of a shell's own commands."""
OUTPUTS = ("text", "json", "yaml")
"""Values of ``-o``, as a rule."""


@dataclass
class Frame:
    """The context of a command, beside its own options.

    Attributes:
        kubeconfig, context: the cluster that is meant.
        socket, cluster_id: the daemon that is meant.
        timeout: seconds after which the command gives up.
        output, get: how its result is printed.
        verb: the command's name.
        progress: notified in a few words of what is waited for.
        goes_on: what goes on after the command was interrupted, or took too long, and how that is
            ended; empty for nothing.
        timings: how long daemons are waited for.
    """

    kubeconfig: Path | None = None
    context: str = ""
    socket: Path | None = None
    cluster_id: str = ""
    timeout: float = float("inf")
    output: str = "text"
    get: str = ""
    verb: str = ""
    progress: ProgressDisplay = field(default_factory=ProgressDisplay)
    goes_on: str = ""
    timings: CommandTimings = field(default_factory=TIMINGS.get)
    _limit: trio.CancelScope = field(default_factory=trio.CancelScope)
    _quiet: bool = False

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client for the cluster that the options name.

        Raises:
            ConfigError: no kubeconfig, or nonsense in it.
        """
        async with await clusters.connect(self.kubeconfig, self.context) as client:
            yield client

    @asynccontextmanager
    async def daemon(self) -> "AsyncIterator[InspectorClient]":
        """A connection to the daemon that the options name, on this machine.

        Raises:
            NoDaemon: none answers; where it does, as far as its cluster shows.
            ConfigError: nothing says which of several is meant.
        """
        # It brings the websocket, which other commands do without.
        from liqod.cli import inspectorclient

        try:
            where = await inspectorclient.place(
                self.socket, self.cluster_id, self.kubeconfig, self.context
            )
        except inspectorclient.NoDaemon as error:
            elsewhere = await presence.elsewhere(self.kubeconfig, self.context, self.verb)
            if not elsewhere:
                raise
            remedy = f"{elsewhere}; {inspectorclient.KUBECONFIG_ONLY}"
            raise inspectorclient.NoDaemon(error.what, remedy) from error
        async with inspectorclient.connect(where) as viewer:
            yield viewer

    def allow(self, seconds: float) -> None:
        """Take that long from now on, at the most."""
        self.timeout = seconds
        self._limit.deadline = trio.current_time() + seconds

    def follow(self) -> None:
        """Go on until Ctrl-C, which then is how the command is meant to end."""
        self.allow(float("inf"))
        self._quiet = True

    def confirm(self, what: str, *, yes: bool) -> None:
        """Name what is about to be deleted and ask; the time that it may take begins anew.

        Raises:
            Misuse: nobody can be asked, and nobody said ``--yes``.
        """
        self.progress.done()
        what = printable(what)
        if yes:
            terminal.note(what)
        elif not sys.stdin.isatty():
            raise Misuse(f"{what}: say --yes to do it without being asked")
        # Holds the event loop up, in which nothing but this command's own tasks wait.
        elif not typer.confirm(f"{what}. Go on?", err=True):
            self.die("nothing was changed")
        self.allow(self.timeout)

    def print_text(self, text: str, *, lines: bool = False) -> None:
        """Print a result; what was waited for has come."""
        self.progress.done()
        terminal.print_text(text, lines=lines)

    def show(self, value: Any) -> bool:
        """Print a result as ``-o`` and ``--get`` say; False where it is to be text."""
        self.progress.done()
        return output.show(value, self.output, self.get)

    def hand_out(self, credential: bytes, path: Path | None) -> None:
        """Write a credential to a private file, or print it where none is named.

        Raises:
            ConfigError: it cannot be written.
        """
        if path is None:
            self.print_text(credential.decode(), lines=True)
            return
        files.write_private(path, credential)
        self.progress.done()
        terminal.note(f"written to {path}")

    def die(self, sentence: str, code: int = 1) -> NoReturn:
        """End the program with one sentence on stderr, though what was waited for has come."""
        self.progress.done()
        warn(sentence)
        raise SystemExit(code)

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        """Run the command; what it raises ends the program."""
        try:
            trio.run(self._bounded, main)
        except BaseException as error:
            self._fail(error)
        if self._limit.cancelled_caught:
            waiting = f" while waiting: {self.progress.step}" if self.progress.step else ""
            self.progress.failed()
            warn(
                f"nothing came of it within {self.timeout:g} s{waiting}; see `liqod status`"
                + self._going_on()
            )
            raise SystemExit(1)
        self.progress.done()

    def _going_on(self) -> str:
        return f"; {self.goes_on}" if self.goes_on else ""

    async def _bounded(self, main: Callable[[], Awaitable[None]]) -> None:
        self.allow(self.timeout)
        with self._limit:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.progress.keep_showing)
                proxies.CHANNELS.set(Channels(self.client, nursery))
                await main()
                nursery.cancel_scope.cancel()

    def _fail(self, error: BaseException) -> NoReturn:
        self.progress.failed()
        found = leaves(error)
        # An end that was meant so, typer's way out of a prompt, and a reader that went away.
        for one in found:
            if isinstance(one, SystemExit | typer.Abort | BrokenPipeError):
                raise one from None
        if any(isinstance(one, KeyboardInterrupt) for one in found):
            if not self._quiet:
                warn(f"interrupted{self._going_on()}")
            raise SystemExit(INTERRUPTED) from None
        known = [one for one in found if isinstance(one, LiqodError)]
        if not known:
            raise error
        warn(sentence(known[0]))
        raise SystemExit(2 if isinstance(known[0], Misuse) else 1) from None


def command(
    *,
    cluster: bool = True,
    timeout: float | None = None,
    within: float | None = None,
    daemon: bool = False,
    outputs: tuple[str, ...] = (),
    get: bool = False,
) -> Callable[[Callable[Concatenate[Frame, P], Awaitable[None]]], Callable[..., None]]:
    """Make a command of an asynchronous function.

    Its parameters after the first are its own options and arguments; those that are asked for here
    come after them.

    Args:
        cluster: ``--kubeconfig`` and ``--context``.
        timeout: ``--timeout``, with these seconds where nobody says another number.
        within: seconds that it may take where there is no such option.
        daemon: ``--socket`` and ``--cluster-id``.
        outputs: ``--output``, and which it may be.
        get: ``--get``.
    """
    shared = _shared(cluster=cluster, timeout=timeout, daemon=daemon, output=bool(outputs), get=get)
    limits: dict[str, Any] = {} if within is None else {"timeout": within}

    def decorate(main: Callable[Concatenate[Frame, P], Awaitable[None]]) -> Callable[..., None]:
        own = list(inspect.signature(main, eval_str=True).parameters.values())[1:]

        def entry(**given: Any) -> None:
            frame = Frame(
                verb=main.__name__, **limits, **{each.name: given.pop(each.name) for each in shared}
            )
            problem = _problem(frame, given)
            if problem:
                warn(problem)
                raise SystemExit(2)
            if outputs and frame.output not in outputs:
                warn(f"unknown output {frame.output!r}: use {', '.join(outputs)}")
                raise SystemExit(2)
            frame.run(lambda: main(frame, **given))  # type: ignore[call-arg]  # as its signature

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        # Typer reads the options of a command from these.
        entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        entry.__annotations__ = {each.name: each.annotation for each in parameters}
        entry.__name__, entry.__doc__ = main.__name__, main.__doc__
        return entry

    return decorate


def _problem(frame: Frame, given: Mapping[str, Any]) -> str:
    """The problem of options that many commands have; empty for none."""
    if math.isnan(frame.timeout):
        return "--timeout: write seconds, such as 30"
    for name in ("liqo_namespace", "remote_liqo_namespace"):
        said = given.get(name, labels.LIQO_NAMESPACE)
        if not ids.is_dns_label(said):
            option = f"--{name.replace('_', '-')}"
            return f"{option} {said[:80]!r} is no namespace's name: write one such as liqo"
    return ""


def _shared(
    *, cluster: bool, timeout: float | None, daemon: bool, output: bool, get: bool
) -> list[inspect.Parameter]:
    """The options that a command has in common with others, in the order of its help."""
    wanted = (
        (cluster, "kubeconfig", options.Kubeconfig, None),
        (cluster, "context", options.Context, ""),
        (daemon, "socket", options.Socket, None),
        (daemon, "cluster_id", options.ClusterId, ""),
        (timeout is not None, "timeout", options.Timeout, timeout),
        (output, "output", options.Output, "text"),
        (get, "get", options.Get, ""),
    )
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for has, name, annotation, default in wanted
        if has
    ]


def warn(text: str) -> None:
    """Say one sentence on stderr."""
    terminal.note(f"liqod: {text}", lines=True)


def sentence(error: LiqodError) -> str:
    """Says what went wrong and what to do next, for a person."""
    text = str(error) or type(error).__name__
    match error:
        case Untrusted():
            return f"{text}; is that still the cluster that the kubeconfig was made for?"
        case Unreachable():
            return f"{text}; check the address in the kubeconfig and that the API server runs"
        case Unauthorized():
            return f"{text}; the credentials of the kubeconfig are not accepted"
        case Forbidden():
            return f"{text}; use a kubeconfig whose user has that right"
        case NotFound() if not error.served:
            return f"{text}; is liqod installed there? (`liqod install`)"
    return text
