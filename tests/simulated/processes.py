"""The program as users run it: ``liqod run`` in a process beside each embedded cluster.

Commands run in a thread of the test's own process, which spares each the start of an interpreter;
what they print and how they end is the same. Where the process itself is what matters, there is
:func:`run`.
"""

import io
import os
import pty
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import (
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from liqod.cli.app import main
from liqod.cli.timings import ORDINARY, CommandTimings
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from simulator import EmbeddedCluster
from tests.testbed import virtualtime
from tests.testbed.daemon import Daemon


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


@dataclass
class Site:
    """One embedded cluster, its administrator's files, and its daemon."""

    name: str
    folder: Path
    cluster: EmbeddedCluster
    admin: Client
    daemon: Daemon
    timings: CommandTimings = ORDINARY
    """Those of the commands that run in this process."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.folder / "admin.kubeconfig"

    async def liqod(self, *words: str, check: bool = True) -> Ended:
        """Run a command against this cluster; with ``check`` it must succeed.

        ``status`` may end with 1, by which it says that it names a problem.
        """
        ended = await command(*words, "--kubeconfig", str(self.kubeconfig), timings=self.timings)
        if check and not (words[0] == "status" and ended.status == 1 and ended.out):
            assert ended.status == 0, f"{words}: {ended.err}\n{self.daemon.tail()}"
        return ended

    def program(self, *words: str) -> tuple[str, ...]:
        """The command line of a command against this cluster, for a process of its own."""
        return (sys.executable, "-m", "liqod", *words, "--kubeconfig", str(self.kubeconfig))

    async def install(self) -> None:
        """Install, with a kubeconfig of the daemon's own rights."""
        await self.liqod(
            *("install", "--cluster-id", self.name),
            *("--write-kubeconfig", str(self.daemon.kubeconfig)),
        )

    async def start(self) -> None:
        """Start the daemon and wait until it leads."""
        await trio.to_thread.run_sync(self.daemon.start)

    async def stop(self) -> float:
        """Stop the daemon cleanly; the seconds that it took."""
        return await trio.to_thread.run_sync(self.daemon.stop)

    async def user_for(self, consumer: str) -> Path:
        """A peering user's kubeconfig for a consumer."""
        path = self.folder / f"{consumer}.kubeconfig"
        named = ("--consumer-cluster-id", consumer, "--output", str(path))
        made = await self.liqod("generate", "peering-user", *named)
        assert (made.out, path.stat().st_mode & 0o777) == ("", 0o600)
        return path


async def command(*words: str, timings: CommandTimings = ORDINARY) -> Ended:
    """Run a command in a thread; an error that it does not turn into a sentence is raised."""
    with virtualtime.real():
        return await trio.to_thread.run_sync(_call, words, timings)


_OUTPUT = threading.Lock()
"""Standard output is the whole process's: one command at a time."""


def _call(words: tuple[str, ...], timings: CommandTimings) -> Ended:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with _OUTPUT, redirect_stdout(out), redirect_stderr(err):
        status = main(words, timings)
    return Ended(status, *(each.buffer.getvalue().decode() for each in (out, err)))


async def run(*command: str, answer: str = "") -> Ended:
    """Run a command to its end.

    Args:
        command: its words.
        answer: what a person types at its terminal when it asks; empty where nobody is there.
    """
    with ExitStack() as stack:
        stack.enter_context(virtualtime.real())
        standard_input: int = subprocess.DEVNULL
        if answer:
            person, standard_input = pty.openpty()
            stack.callback(os.close, person)
            stack.callback(os.close, standard_input)
            os.write(person, answer.encode())
        done = await trio.run_process(
            command, check=False, capture_stdout=True, capture_stderr=True, stdin=standard_input
        )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@asynccontextmanager
async def sites(
    folder: Path,
    *names: str,
    settings: dict[str, Any] | None = None,
    nodes: int = 1,
    timings: CommandTimings = ORDINARY,
) -> AsyncIterator[tuple[Site, ...]]:
    """Embedded clusters with liqod installed; daemons are not started yet."""
    async with AsyncExitStack() as stack:
        stack.enter_context(virtualtime.real())
        made = []
        for index, name in enumerate(names):
            own = folder / name
            own.mkdir()
            cluster = await stack.enter_async_context(
                EmbeddedCluster(
                    name, nodes=nodes, start_delay=0.1, pod_cidr=f"10.{50 + index}.0.0/16"
                )
            )
            admin = await stack.enter_async_context(Client(from_kubeconfig(cluster.kubeconfig)))
            daemon = Daemon(name, own / "daemon.kubeconfig", own, settings)
            stack.callback(daemon.close)
            site = Site(name, own, cluster, admin, daemon, timings)
            site.kubeconfig.write_text(cluster.kubeconfig)
            await site.install()
            made.append(site)
        yield tuple(made)
