"""Virtual time, the wall clock with it, and an end that may come between any two turns."""

from collections.abc import Callable

import time_machine
import trio

STILL = 20_000
"""Rounds of Trio's without a moment's passing after which there is no end to be expected."""


class Wall(trio.abc.Instrument):
    """Keeps the process's wall clock with Trio's.

    Args:
        traveller: sets the time of the process.
        start: epoch second at which the run begins; a jump of the clock is a change of it.
        stuck: called where somebody is so busy that no time passes any more.
    """

    def __init__(
        self, traveller: time_machine.Traveller, start: float, stuck: Callable[[], None]
    ) -> None:
        self._traveller = traveller
        self.start = start
        self._told = start
        self._stuck = stuck
        self._still = 0

    def after_io_wait(self, timeout: float) -> None:
        now = self.start + trio.current_time()
        self._still += 1
        if self._still == STILL:
            self._stuck()
        if now != self._told:
            self._told = now
            self._still = 0
            self._traveller.move_to(now, tick=False)


class Countdown(trio.abc.Instrument):
    """Calls somebody after so many turns of tasks, whosever they are."""

    def __init__(self, turns: int, call: Callable[[], None]) -> None:
        self._turns = turns
        self._call = call

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._turns -= 1
        if self._turns == 0:
            self._call()
