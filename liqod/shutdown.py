"""Ends the daemon in time, and names the tasks and threads that block its end.

Parts stop in reverse order, and a plugin that ignores its cancellation is left behind
(:mod:`liqod.plugins.callguard`); but nothing in a process can end a task, a thread or a function
that goes on. So a thread waits for the end, since the event loop itself may be blocked: then it
takes no signal either, and so the time runs from the handler of the signal, which the interpreter
calls wherever the loop is. When it is over the thread writes the remaining tasks and threads to the
log, and the process leaves.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

import trio

from liqod.inspect.tasktree import frames, tree, waits
from liqod.plugins.currentplugin import place, running

GRACE: Final = 8.0
"""Seconds for a clean stop; systemd is configured with 15, users are promised 10."""
LOOK: Final = 0.5
"""Seconds for the event loop to name the tasks that remain."""
MOST: Final = 5
"""Most tasks and threads that are named."""

logger = logging.getLogger("liqod")


class ShutdownWatchdog:
    """Makes sure that the process ends after a signal. Made in the thread of the event loop.

    Args:
        grace: seconds that are waited for it.
        leave: ends the process at once, with an exit status.
    """

    def __init__(self, *, grace: float = GRACE, leave: Callable[[int], object] = os._exit) -> None:
        self._grace, self._end_process = grace, leave
        self._loop = threading.get_ident()
        self._token = trio.lowlevel.current_trio_token()
        self._started = threading.Event()
        self._done = False
        threading.Thread(target=self._wait, name="ending", daemon=True).start()

    def follow(self, *numbers: signal.Signals) -> None:
        """Begin at any of these signals, and call their former handlers afterwards."""
        for number in numbers:
            self._follow(number)

    def _follow(self, number: signal.Signals) -> None:
        before = signal.getsignal(number)

        def handle(number: int, frame: FrameType | None) -> None:
            self.start()
            if callable(before):
                before(number, frame)

        signal.signal(number, handle)

    def start(self) -> None:
        """Start the time, when the daemon has to stop."""
        self._started.set()

    def done(self) -> None:
        """Note that all of the daemon's own has ended: the rest is of others."""
        self._done = True

    def _wait(self) -> None:
        self._started.wait()
        threading.Event().wait(self._grace)
        held = ", ".join(self._holders()[:MOST]) or "nobody who can be named"
        logger.error("leaving after %.0f s, though these have not ended: %s", self._grace, held)
        self._end_process(0 if self._done else 1)

    def _holders(self) -> list[str]:
        """The tasks and threads that have not ended."""
        others = [
            f"the thread {each.name}"
            for each in threading.enumerate()
            if not each.daemon and each is not threading.main_thread()
        ]
        found, looked = list[str](), threading.Event()

        def look() -> None:
            found.extend(tasks())
            looked.set()

        try:
            self._token.run_sync_soon(look)
        except trio.RunFinishedError:
            return others
        if looked.wait(LOOK):
            return [*found, *others]
        frame = sys._current_frames().get(self._loop)
        plugin = running(frame)
        where = f"{plugin.gauge} ({plugin.place})" if plugin is not None else place(frame)
        return [where, *others]


def tasks() -> list[str]:
    """The tasks that wait for no other task, and what they wait in; without Trio's own."""
    found: list[str] = []
    for task, _ in tree():
        calls = frames(task)
        own = next((call for call in reversed(calls) if call.ours), None)
        inside = any(nursery.child_tasks for nursery in task.child_nurseries)
        if calls and not inside and not task.name.startswith(("trio.", "<")):
            found.append(f"{task.name} ({waits(calls, own)})")
    return found
