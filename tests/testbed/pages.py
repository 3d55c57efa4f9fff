"""Pages that are run: the files and the commands that stand in one, in their order.

A block that is marked ``console`` has commands behind ``$``, each followed by what it prints. A
block whose first line is a comment with a name alone, such as ``# milan.toml``, is a file of that
name.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.testbed import commands, shownblocks
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.daemon import STOP_DEADLINE
from tests.testbed.processes import Child, plain_environment, tail

ROOT = Path(__file__).parents[2]
PREPARED = ("python3 -m venv", "export PATH=")
"""How commands begin that make the environment, which is there when tests run."""
DEADLINE = 1200
CTRL_C = "\x03"
ENDED = (0, 2, 130)
"""How commands end that a key has ended: by themselves, by make, by the signal."""
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# ([\w./-]+\.\w+)\n")


@dataclass(frozen=True)
class Written:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True)
class Typed:
    """A command, and what the page shows of its output; ``…`` stands for anything in a line."""

    line: str
    shown: tuple[str, ...] = ()


def steps(text: str) -> list[Written | Typed]:
    """The files and commands of a page, in their order."""
    found: list[Written | Typed] = []
    for indent, language, block in _BLOCK.findall(text):
        body = re.sub(f"^{indent}", "", block, flags=re.MULTILINE)
        if language == "console":
            found += _commands(body)
        elif named := _NAMED.match(body):
            found.append(Written(named[1], body))
    return found


def shown(text: str) -> tuple[str, ...]:
    """The lines of output that a page shows apart from commands, in blocks marked ``text``."""
    blocks = (block for _, language, block in _BLOCK.findall(text) if language == "text")
    return tuple(line for block in blocks for line in block.splitlines())


def _commands(block: str) -> list[Typed]:
    joined = block.replace("\\\n", "")
    parts = re.split(r"^\$ ", joined, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output of no command: {parts[0]}"
    lines = [part.rstrip("\n").split("\n") for part in parts[1:]]
    return [Typed(re.sub(r" {2,}", " ", line), tuple(shown)) for line, *shown in lines]


def missing(shown: tuple[str, ...], said: str) -> list[str]:
    """The lines of those that are shown which an output has not, after the one before."""
    left = said.splitlines()
    lacking = []
    for line in filter(str.strip, shown):
        wanted = re.compile(r"\s+".join(map(_pattern, line.split())))
        place = next((i for i, each in enumerate(left) if wanted.fullmatch(each.strip())), None)
        if place is None:
            lacking.append(line)
        else:
            left = left[place + 1 :]
    return lacking


def _pattern(word: str) -> str:
    """A word of a shown line as an expression."""
    return ".*".join(map(re.escape, word.split("…")))


def terminal(folder: Path, *planes: ControlPlane) -> Terminal:
    """One in whose folder the kubeconfigs of clusters are, each under its cluster's name."""
    for plane in planes:
        (folder / f"{plane.name}.kubeconfig").write_text(plane.kubeconfig.read_text())
    return Terminal(folder, Path(planes[0].programs.path("kubectl")).parent)


class Terminal:
    """A newcomer's folder and what is exported in it; ``liqod run`` stays up until it ends.

    Args:
        folder: the one that commands are run in.
        programs: the folder of kubectl; none where no command needs it.

    Attributes:
        has_prepared: its `liqod` is the one of :func:`commands.programs`.
    """

    has_prepared = True

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        self.folder = folder
        self.place = str(folder)
        """The folder of the shell, which `cd` changes."""
        own = [str(each) for each in (Path(sys.executable).parent, programs) if each]
        self.environment = {
            **plain_environment(),
            "HOME": str(folder),
            # Daemons that root starts would have their sockets where those of this machine do.
            "RUNTIME_DIRECTORY": str(folder / "run"),
            "PATH": os.pathsep.join([*own, os.environ["PATH"]]),
        }
        self.answers = ""
        """What is typed into each command."""
        self.daemons: list[Child] = []

    def follow(self, text: str, before: Mapping[str, Callable[[], None]]) -> list[tuple[str, str]]:
        """Does all that a page says; the commands, each with what it printed.

        Args:
            text: the page, or a part of it.
            before: what is to be done before a command, by the command.
        """
        done: list[tuple[str, str]] = []
        for step in steps(text):
            if isinstance(step, Written):
                (self.folder / step.name).write_text(step.text)
            elif "liqod run" in step.line:
                self.run_daemon(step.line, step.shown)
            elif not step.line.startswith(PREPARED):
                before.get(step.line, lambda: None)()
                said = self.type(step.line)
                lacking = missing(step.shown, said)
                assert not lacking, f"$ {step.line}\n{said}\nhas not: {lacking}"
                done.append((step.line, said))
        return done

    def section(
        self,
        shown: Iterable[shownblocks.Shown],
        put_in: Mapping[str, str] = MappingProxyType({}),
        *,
        statuses: Container[int] = (0,),
    ) -> list[str]:
        """Types the commands of sections, each at the cluster of its prompt; what each printed.

        Args:
            shown: the commands.
            put_in: by words, such as those in capitals, what a reader writes in their place.
            statuses: with which they may end.
        """
        said = []
        for at, line in map(shownblocks.answered, shown):
            for word, text in put_in.items():
                line = line.replace(word, text)
            said.append(self.type(line, at, statuses))
        return said

    def type(self, line: str, at: str = "", statuses: Container[int] = (0,)) -> str:
        """Run a line as a shell does; its output. Fails the test if the line fails.

        Args:
            line: the command.
            at: the cluster that it is about, whose kubeconfig is in the folder; empty for the one
                that was exported.
            statuses: with which it may end.
        """
        if export := re.fullmatch(r"export (\w+)=.*", line):
            self.environment[export[1]] = self._said(f'{line}; printf %s "${export[1]}"')
            return ""
        if re.fullmatch(r"cd [^ ;]+", line):
            self.place = self._said(f"{line} && pwd").strip()
            return ""
        here = {"KUBECONFIG": f"{self.folder}/{at}.kubeconfig"} if at else {}
        if self.has_prepared:
            here["PATH"] = f"{commands.programs()}:{self.environment['PATH']}"
        return self._said(line, statuses, here)

    def _said(
        self,
        line: str,
        statuses: Container[int] = (0,),
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        done = subprocess.run(
            self.command("bash", "-c", line),
            env={**self.environment, **more},
            input=self.answers,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        logs = "\n".join(tail(self.folder / f"{child.name}.log", 20) for child in self.daemons)
        assert done.returncode in statuses, f"$ {line}\n{done.stdout}\n{logs}"
        return done.stdout

    def command(self, *words: str) -> Sequence[str]:
        """The command line of a program in the folder of the shell."""
        return ("env", f"--chdir={self.place}", *words)

    def glance(self, line: str, wanted: str, key: str = CTRL_C) -> str:
        """Type a command that goes on until a key ends it, in a terminal of its own; its output.

        Args:
            line: the command.
            wanted: what it prints before the key is pressed.
            key: the one that ends it.
        """
        words = self.command("script", "--quiet", "--return", "--command", line, "/dev/null")
        with subprocess.Popen(
            words,
            env={**self.environment, "TERM": "xterm-256color"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as running:
            try:
                said = _read(running, wanted)
                assert running.stdin is not None
                running.stdin.write(key.encode())
                running.stdin.flush()
                said += _read(running)
                assert running.wait(10) in ENDED, said
            finally:
                running.kill()
        return said

    def run_daemon(self, line: str, shown: tuple[str, ...] = ()) -> None:
        """Start a daemon as in a terminal of its own, and wait until it has printed these lines."""
        name = f"daemon-{len(self.daemons)}"
        log = self.folder / f"{name}.log"
        self.daemons.append(
            Child(
                name,
                ["bash", "-c", f"exec env {line}"],
                log,
                cwd=self.folder,
                environment=self.environment,
            )
        )
        wait_until(f"{line}: {shown}", lambda: not missing(shown, log.read_text()), 30)

    def stop_daemons(self) -> None:
        """Ctrl-C in each of their terminals."""
        for child in self.daemons:
            child.signal(2)
        for child in self.daemons:
            assert child.wait(STOP_DEADLINE) == 0

    def close(self) -> None:
        """End whatever still runs."""
        for child in self.daemons:
            child.stop()


def _read(running: subprocess.Popen[bytes], wanted: str = "") -> str:
    """The output of a program until it has some words; until its end where none are named."""
    assert running.stdout is not None
    said = ""
    deadline = time.monotonic() + DEADLINE
    with selectors.DefaultSelector() as ready:
        ready.register(running.stdout, selectors.EVENT_READ)
        while not wanted or wanted not in said:
            assert ready.select(max(0, deadline - time.monotonic())), f"not {wanted!r}: {said}"
            part = os.read(running.stdout.fileno(), 1 << 16)
            if not part:
                assert not wanted, f"it ended without {wanted!r}: {said}"
                break
            said += part.decode(errors="replace")
    return said
