"""The cost of each further peer: 1, 2, 4 … providers, one after another.

For each number of peers it prints how long `liqod peer` took (from the start of the command until
the virtual node was Ready, and until the command ended), the consumer's resident memory, and its
CPU while nothing happens.

Embedded: the providers, and their daemons' components, are one process. Real: each a control plane
with a daemon, some 700 MB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import trio

from benchmarks.embedded import CONSUMER, Farm
from benchmarks.report import Aim, Report, mib, number
from benchmarks.stage import Stage, parser, run, say, stage
from benchmarks.watching import watching
from liqod.apimachinery.kinds import NODES
from tests.testbed.errors import TestbedError
from tests.testbed.federation import ASKED, Member
from tests.testbed.processes import plain_environment
from tests.testbed.workloads import is_ready

DEADLINE = 300.0
"""Seconds for one peering: a machine with more to do than it can is waited for, and shows."""
REAL, EMBEDDED = 4, 128
PEER_TIME = Aim("peer until the virtual node is Ready, s", "3.6-6.6", 1.0)
PEER_MEMORY = Aim("each further peer, resident MiB", "66", 1.5)
PEER_CPU = Aim("each further peer, idle CPU s a minute", "0.08", 0.02)


@dataclass
class Peered:
    """The consumer with so many peers.

    Attributes:
        ready: seconds from the start of the last `peer` until its node was Ready.
        ended: the same until the command ended.
        cpu: CPU seconds of the consumer's daemon meanwhile.
        resident: bytes of the consumer's daemon.
        idle: its CPU seconds a minute.
    """

    peers: int
    ready: float
    ended: float
    cpu: float = 0.0
    resident: int = 0
    idle: float = 0.0


async def peer(member: Member, name: str, *whom: str) -> tuple[float, float]:
    """Peer with one provider; seconds until its node is Ready, and until the command ends.

    `whom` are the words of the command that say with whom; the node gets the name.

    A machine that is too busy makes the command give up; it is then done again, as a user would,
    which counts.

    Raises TestbedError where it fails until the deadline.
    """
    asked = [word for key, value in ASKED.items() for word in (f"--{key}", value)]
    words = ("peer", *whom, *asked, "--resource-slice", name)
    command = [sys.executable, "-m", "liqod", *words, "--kubeconfig", str(member.plane.kubeconfig)]
    environment = {**plain_environment(), "HOME": str(member.folder)}
    at = began = 0.0
    async with watching(member.plane.kubeconfig, NODES) as nodes, trio.open_nursery() as nursery:

        async def look() -> None:
            nonlocal at
            at = await nodes.until(f"{name}", lambda: nodes.has("", name, is_ready), DEADLINE)

        nursery.start_soon(look)
        began = ended = trio.current_time()
        while ended - began < DEADLINE:
            done = await trio.run_process(
                command,
                capture_stderr=True,
                stdout=subprocess.DEVNULL,
                check=False,
                env=environment,
            )
            ended = trio.current_time()
            if not done.returncode:
                break
            say(f"peering with {name} again: {done.stderr.decode().splitlines()[-1:]}")
        else:
            raise TestbedError(f"peering with {name} did not work within {DEADLINE:.0f} s")
    return at - began, ended - began


def measure(chosen: argparse.Namespace) -> Report:
    """All numbers of peers up to the chosen one."""
    count = chosen.peers or (EMBEDDED if chosen.embedded else REAL)
    with stage(embedded=chosen.embedded) as made:
        found = _embedded(made, count, chosen.idle) if chosen.embedded else _real(
            made, count, chosen.idle
        )  # fmt: skip
    return report(found)


def _embedded(made: Stage, count: int, idle: float) -> list[Peered]:
    say(f"starting {count} embedded providers")
    farm = Farm(count)
    try:
        made.start(CONSUMER)
        rome = made.join(CONSUMER)
        return grow(rome, [(one.name, farm.user(one)) for one in farm.lenders], idle)
    finally:
        farm.close()


def _real(made: Stage, count: int, idle: float) -> list[Peered]:
    names = [f"lender-{number}" for number in range(1, count + 1)]
    say(f"starting {count + 1} control planes")
    made.start(CONSUMER, *names)
    rome = made.join(CONSUMER)
    users = [(name, made.federation.peering_user(rome, made.join(name))) for name in names]
    return grow(rome, users, idle)


def grow(rome: Member, users: list[tuple[str, Path]], idle: float) -> list[Peered]:
    """Peer with one after another; look around at each power of two."""
    found: list[Peered] = []
    for number_, (name, user) in enumerate(users, 1):
        used = rome.daemon.usage().cpu
        one = Peered(number_, *trio.run(peer, rome, name, "--remote-kubeconfig", str(user)))
        one.cpu = rome.daemon.usage().cpu - used
        found.append(one)
        if number_ & (number_ - 1) == 0 or number_ == len(users):
            rest(rome, one, idle)
            say(f"{number_} peers: {one.ready:.2f} s, {mib(one.resident)} MiB, {one.idle:.3f} s")
    return found


def rest(rome: Member, one: Peered, idle: float) -> None:
    """Resident memory, and idle CPU once what the peering stirred up has settled."""
    time.sleep(min(idle, 5.0))
    before = rome.daemon.usage()
    time.sleep(idle)
    after = rome.daemon.usage()
    one.resident, one.idle = after.rss, (after.cpu - before.cpu) * 60 / idle


def report(found: list[Peered]) -> Report:
    """Rows where memory was looked at; per peer against the first."""
    made = Report("Further peers", figures={"peers": [asdict(one) for one in found]})
    head = ("peers", "node Ready, s", "command, s", "daemon, CPU ms", "resident, MiB")
    made.rows.append((*head, "idle CPU, s a minute", "per further peer:", "MiB", "s a minute"))
    looked = [one for one in found if one.resident]
    for one in looked:
        more = ("", "", "")
        if one.peers > 1:
            memory, cpu = _further(looked[0], one)
            more = ("", number(memory), f"{cpu:.4f}")
        made.rows.append(
            (
                str(one.peers),
                f"{one.ready:.2f}",
                f"{one.ended:.2f}",
                f"{one.cpu * 1e3:.0f}",
                mib(one.resident),
                f"{one.idle:.3f}",
                *more,
            )
        )
    times = sorted(one.ready for one in found)
    made.aims.append((PEER_TIME, times[len(times) // 2]))
    if len(looked) > 1:
        memory, cpu = _further(looked[0], looked[-1])
        made.aims += [(PEER_MEMORY, memory), (PEER_CPU, cpu)]
    made.rows += [
        (f"last quarter to the first: {what}", f"{_growth(found, of):.2f}")
        for what, of in (("time", lambda one: one.ready), ("daemon's CPU", lambda one: one.cpu))
    ]
    return made


def _growth(found: list[Peered], of: Callable[[Peered], float]) -> float:
    """The ratio of the last quarter of the peerings to the first: 1 where it is linear."""
    quarter = max(1, len(found) // 4)
    first, last = (sum(map(of, part)) for part in (found[:quarter], found[-quarter:]))
    return last / first


def _further(first: Peered, one: Peered) -> tuple[float, float]:
    """MiB and CPU seconds a minute of each peer after the first."""
    more = one.peers - first.peers
    return (one.resident - first.resident) / 2**20 / more, (one.idle - first.idle) / more


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("peers", __doc__ or "")
    made.add_argument("--peers", type=int, help=f"default {EMBEDDED} embedded, {REAL} real ones")
    made.add_argument("--idle", type=float, default=20.0, help="seconds of rest at each look")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
