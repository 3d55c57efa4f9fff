"""Measures each second, whether or not anybody looks: the process, and each peer.

One round over a hundred peers takes about a millisecond. Each figure also goes into the history.
"""

import resource
import time
from typing import NoReturn

import msgspec
import trio

from liqod.inspect.facts import FactsInMemory
from liqod.inspect.history import Histories
from liqod.model.view.rows import Daemon
from liqod.runtime.ticks import sleep_until_tick

PAGE = resource.getpagesize()
EVERY = 1.0
"""Seconds between two rounds."""


class Turns(trio.abc.Instrument):
    """How long the event loop was busy at a stretch: so late is what became due meanwhile.

    It costs nothing at rest, where a timer that asks how late it is wakes the process.
    """

    def __init__(self) -> None:
        self._longest = 0.0
        self._began = time.perf_counter()

    def after_io_wait(self, timeout: float) -> None:
        """A turn begins."""
        self._began = time.perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        """It ends."""
        self._longest = max(self._longest, time.perf_counter() - self._began)

    def take(self) -> float:
        """Seconds of the longest turn since the last time."""
        longest, self._longest = self._longest, 0.0
        return longest


class Sampler:
    """Measures each second.

    Args:
        facts: where the newest figures go.
        histories: where each figure is kept.
    """

    def __init__(self, facts: FactsInMemory, histories: Histories) -> None:
        self._facts = facts
        self._histories = histories
        self._late = 0.0
        self._turns = Turns()
        self._cpu = time.process_time()
        self._at = trio.current_time()

    async def run(self) -> NoReturn:
        """Measure until cancelled."""
        trio.lowlevel.add_instrument(self._turns)
        try:
            while True:
                self._late = await sleep_until_tick(EVERY)
                await self.take()
        finally:
            trio.lowlevel.remove_instrument(self._turns)

    async def take(self) -> None:
        """One round."""
        await self._facts.measure(self._process())
        self._histories.record(self._facts.daemon, self._facts.measured)

    def become(self, state: str) -> None:
        """Set the daemon's state, such as ``leading``."""
        self._facts.daemon = msgspec.structs.replace(self._facts.daemon, state=state)

    def watched(self, viewers: int) -> None:
        """How many watch."""
        if viewers != self._facts.daemon.viewers:
            self._facts.daemon = msgspec.structs.replace(self._facts.daemon, viewers=viewers)

    def _process(self) -> Daemon:
        at, cpu = trio.current_time(), time.process_time()
        passed, self._at = max(at - self._at, 1e-3), at
        late = max(self._late, self._turns.take())
        used, self._cpu = (cpu - self._cpu) / passed, cpu
        return msgspec.structs.replace(
            self._facts.daemon,
            cpu=round(used, 4),
            rss=resident(),
            lag=round(late, 4),
            tasks=trio.lowlevel.current_statistics().tasks_living,
        )


def resident() -> int:
    """Resident bytes of this process; 0 where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:  # memory, not a disk
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0
