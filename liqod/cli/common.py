"""What every command shares: options, opening a cluster, progress, output and how errors end.

A user's mistake is one sentence on stderr and a non-zero exit, never a traceback. Progress goes to
stderr, so that ``-o json`` on stdout stays parseable.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
import trio
import typer
import yaml

from liqod.errors import (
    ConfigError,
    Forbidden,
    Invalid,
    LiqodError,
    NotFound,
    Unauthorized,
    Unreachable,
)
from liqod.kube import credentials
from liqod.kube.client import Client
from liqod.supervise import leaves

T = TypeVar("T")

Kubeconfig = Annotated[
    Path | None, typer.Option(help="Kubeconfig of this cluster.", show_default="usual places")
]
Context = Annotated[str, typer.Option(help="Context in that kubeconfig.", show_default="current")]
LiqoNamespace = Annotated[str, typer.Option(help="Namespace that liqod was installed into.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at the most.", min=0.1)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")]
Output = Annotated[str, typer.Option("--output", "-o", help="text, json or yaml.")]


class Progress:
    """Lines on stderr that say what is being waited for, and how long the step before took."""

    def __init__(self) -> None:
        self._step = ""
        self._since = 0.0
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, step: str) -> None:
        """Begin a step; the one before it is thereby done."""
        if step == self._step:
            return
        self.done()
        self._step, self._since = step, time.monotonic()
        if self._live:
            sys.stderr.write(f"  … {step}")
            sys.stderr.flush()

    def done(self) -> None:
        """The current step has succeeded."""
        self._end("✓")

    def failed(self) -> None:
        """The current step has not succeeded."""
        self._end("✗")

    def _end(self, mark: str) -> None:
        if not self._step:
            return
        took = time.monotonic() - self._since
        start = "\r\033[K" if self._live else ""
        sys.stderr.write(f"{start}  {mark} {self._step} ({took:.1f} s)\n")
        sys.stderr.flush()
        self._step = ""


def grouped(progress: Progress, word: str) -> Callable[[str], None]:
    """The same progress, with all steps that begin with ``word`` shown as one."""
    return lambda step: progress(f"{word} the manifests" if step.startswith(word) else step)


def die(sentence: str, code: int = 1) -> NoReturn:
    """End the program with one sentence on stderr."""
    sys.stderr.write(f"liqod: {sentence}\n")
    raise SystemExit(code)


def run(main: Callable[[Progress], Awaitable[T]], *, timeout: float | None = None) -> T:
    """Run a command's asynchronous part and turn what it raises into one sentence.

    Args:
        main: is given the progress to report to.
        timeout: seconds after which the command gives up; None means never.
    """
    progress = Progress()

    async def bounded() -> T:
        with trio.fail_after(timeout if timeout is not None else float("inf")):
            return await main(progress)

    try:
        result = trio.run(bounded)
    except KeyboardInterrupt:
        progress.failed()
        die("interrupted", 130)
    except trio.TooSlowError:
        waiting = progress._step
        progress.failed()
        waited = f" while waiting: {waiting}" if waiting else ""
        die(f"nothing came of it within {timeout:g} s{waited}; see `liqod status`")
    except BaseExceptionGroup as group:
        progress.failed()
        known = [error for error in leaves(group) if isinstance(error, LiqodError)]
        if not known:
            raise
        die(sentence(known[0]))
    except LiqodError as error:
        progress.failed()
        die(sentence(error))
    progress.done()
    return result


def sentence(error: LiqodError) -> str:
    """What went wrong and what to do next, for a person."""
    text = str(error) or type(error).__name__
    match error:
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


def confirm(what: str, *, yes: bool) -> None:
    """Name what is about to be deleted and ask; without a terminal ``--yes`` is needed."""
    if yes:
        sys.stderr.write(f"{what}\n")
        return
    if not sys.stdin.isatty():
        die(f"{what}: say --yes to do it without being asked", 2)
    if not typer.confirm(f"{what}. Go on?", err=True):
        die("nothing was changed", 1)


def emit(value: Any, output: str) -> None:
    """Print a value as JSON or YAML; structs are turned into JSON values first."""
    plain = msgspec.to_builtins(value)
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n")
    elif output == "yaml":
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False))
    else:
        die(f"unknown output {output!r}: use text, json or yaml", 2)


def check_output(output: str, *allowed: str) -> None:
    """Refuse an unknown ``-o`` before any work is done."""
    if output not in allowed:
        die(f"unknown output {output!r}: use {', '.join(allowed)}", 2)


def table(rows: list[list[str]], header: list[str]) -> str:
    """Columns as wide as their widest cell, two spaces between, like ``kubectl get``."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
