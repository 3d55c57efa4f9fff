"""Cost of an attack for a daemon that is a process of its own, and its measurement.

In CPU seconds of the daemon for each second of a window, so that who else uses the machine does not
count; and in the memory that it has at the most, beyond the most that it had before. What it holds
at one moment is no measure to begin from: an allocator that has just given pages back, and takes
them again for other work, would be counted as the attack's doing.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from liqod.apimachinery.kinds import Kind
from liqod.kube.client import Client
from tests.simulated.processes import Site

MIB = 1 << 20
MEMORY = 50 * MIB
SHARE = 0.05
BUSY = 3
"""How much more of a core is taken for one, where other programs take the caches from the daemon's
work; what nothing bounds takes all of a core."""
ALLOWANCE = 60.0
"""Seconds from an attack to its measuring, at the most: a loaded machine needs them. Messages that
have come are read once, of any kind, and answered; and each peer and address has some seconds of
credit. That is some work, in small turns, and then it is over; what an attack may not do is to keep
the daemon at work by what lies there, or by what it goes on sending."""
WINDOW = 3.0

Attack = Callable[[trio.Nursery], Awaitable[None]]
Costs = dict[str, tuple[float, float]]
"""By attack: MiB, at the most of the time, and the part of a core in the end."""


async def share(site: Site, seconds: float = WINDOW) -> float:
    """The part of a core that a daemon takes."""
    before, began = site.daemon.usage().cpu, time.monotonic()
    await trio.sleep(seconds)
    return (site.daemon.usage().cpu - before) / (time.monotonic() - began)


async def lasting(site: Site, quiet: float) -> float:
    """Measures the part of a core that a daemon uses once it is done with the first messages, or
    has had its time for that.

    The worse of two windows in a row: one alone may lie between two turns.

    Args:
        site: the daemon's.
        quiet: the part that it uses at rest, more on a busy machine.
    """
    until = trio.current_time() + ALLOWANCE
    last = await share(site)
    while True:
        before, last = last, await share(site)
        if max(before, last) - quiet <= SHARE or trio.current_time() > until:
            return max(before, last)


async def measured(site: Site, quiet: float, attack: Attack) -> tuple[float, float]:
    """Measures the memory that an attack adds, in MiB, and the part of a core while it goes on.

    Attacks of which nothing stays come first: one after a dearer one would be measured by less.
    """
    before = site.daemon.usage().peak
    async with trio.open_nursery() as nursery:
        await attack(nursery)
        found = await lasting(site, quiet)
        nursery.cancel_scope.cancel()
    return (site.daemon.usage().peak - before) / MIB, found


def judge(quiet: float, found: Costs) -> None:
    """Print what was measured, with the bounds, and hold it to what a busy machine keeps."""
    lines = [f"{name:36} {added:6.1f} MiB {part:6.1%}" for name, (added, part) in found.items()]
    print("\n".join([f"{'at rest':36} {'':10} {quiet:6.1%}", *lines]))
    for name, (added, part) in found.items():
        assert added * MIB <= MEMORY, "\n".join([name, *lines])
        assert part - quiet <= BUSY * SHARE, "\n".join([name, *lines])


async def flood(admin: Client, kind: Kind, bodies: list[dict[str, Any]], namespace: str) -> None:
    """Create them, several at a time."""
    limit = trio.CapacityLimiter(8)

    async def one(body: dict[str, Any]) -> None:
        async with limit:
            await admin.create(kind, body, namespace)

    async with trio.open_nursery() as nursery:
        for body in bodies:
            nursery.start_soon(one, body)
