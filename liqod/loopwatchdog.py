"""Detects a blocked event loop, and logs the place and the plugin that block it.

One thread looks twice a second whether the loop has come round. Where it has not for seconds, the
thread writes to the log where the loop is, and in which plugin; the loop itself, when it comes
round again, keeps for how long and by whom, so that a Lease that was lost meanwhile is explained.
"""

import logging
import sys
import threading
import time
from typing import NoReturn

import trio

from liqod.plugins.currentplugin import place, running
from liqod.runtime.ticks import sleep_until_tick
from liqod.telemetry.events import HeldUp
from liqod.telemetry.hub import Hub

TURN = 1.0
"""Seconds between two signs of life of the loop."""
LATE = 3.0
"""Seconds of blocking after which it is logged, and then at each doubling."""
STARVED = "something that stopped all its threads: the machine, a debugger, or a C function"
"""The cause that is named where this thread had no turn either."""
WAITING = "get_events"
"""The function in which Trio waits for something to do."""
KEPT = 60.0
"""Seconds for which the last stall is reported as an explanation."""

logger = logging.getLogger(__name__)


class LoopWatchdog:
    """Watches the event loop of the thread that makes it.

    Args:
        hub: stalls are published there.
        late: seconds without a sign of life after which somebody is named.
    """

    def __init__(self, hub: Hub, *, late: float = LATE) -> None:
        self._hub = hub
        self._late = late
        self._turned = time.monotonic()
        self._thread = threading.get_ident()
        self._over = threading.Event()
        self._named = ""
        self._last: tuple[float, str] = (float("-inf"), "")

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Watch until cancelled."""
        self._turned = time.monotonic()
        watcher = threading.Thread(target=self._watch, name="stalls", daemon=True)
        watcher.start()
        task_status.started()
        try:
            while True:
                self._turn()
                await sleep_until_tick(TURN)
        finally:
            self._over.set()

    def lately(self) -> str:
        """The stall of the event loop in the last minute, as a sentence; empty without one."""
        at, text = self._last
        return text if time.monotonic() - at < KEPT else ""

    def _turn(self) -> None:
        """The loop has come round."""
        now = time.monotonic()
        held, self._turned = now - self._turned, now
        named, self._named = self._named, ""
        if named:
            text = f"the daemon was held up for {held:.1f} s by {named}"
            self._last = (now, text)
            logger.error("%s", text)
            self._hub.publish(HeldUp(seconds=round(held, 1), by=named))

    def _watch(self) -> None:
        said, pause = 0.0, self._late / 2
        began = time.monotonic()
        while not self._over.wait(pause):
            now = time.monotonic()
            late, began = now - began - pause, now
            held = now - self._turned
            if held < self._late:
                said = 0.0
            elif late > self._late:
                said, self._named = held, STARVED
            elif held >= 2 * said:
                said = held
                self._log_block(held)

    def _log_block(self, held: float) -> None:
        """Log the place that blocks the loop; in this thread, as the loop's own is blocked."""
        frame = sys._current_frames().get(self._thread)
        if frame is not None and frame.f_code.co_name == WAITING:
            return  # it is over, and the loop waits for its next second
        plugin = running(frame)
        self._named = f"{plugin.gauge} ({plugin.place})" if plugin is not None else place(frame)
        logger.error("the daemon is held up: %s has not come back for %.0f s", self._named, held)
