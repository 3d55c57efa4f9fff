"""The followers of one API server that are cut off now, and the report of that outage."""

from collections.abc import Callable

import trio

LOG_AGAIN_AFTER = 60.0
"""Seconds for which a recurring failure (bad data, refusal, overload) is not reported again."""


class Outage:
    """The outage of one API server for one identity: the first follower reports it, the last ends
    it."""

    def __init__(self) -> None:
        self._cut_off: dict[object, Callable[[], None]] = {}
        self._logged_at = float("-inf")
        self._logged = False

    def __contains__(self, who: object) -> bool:
        return who in self._cut_off

    def start(self, who: object, wake: Callable[[], None], *, seldom: bool) -> bool:
        """Note that a follower is cut off; True if that is to be reported.

        Args:
            who: the follower.
            wake: makes it try again now.
            seldom: do not report again shortly after a report.
        """
        first = not self._cut_off
        self._cut_off[who] = wake
        recent = seldom and trio.current_time() - self._logged_at < LOG_AGAIN_AFTER
        if not first or recent:
            return False
        self._logged_at = trio.current_time() if seldom else self._logged_at
        self._logged = True
        return True

    def wake(self) -> None:
        """Wake all followers that are cut off, so that they try again now."""
        for wake in list(self._cut_off.values()):
            wake()

    def end(self, who: object) -> bool:
        """Note that a follower has recovered; True if that is to be reported."""
        self._cut_off.pop(who, None)
        if self._cut_off or not self._logged:
            return False
        self._logged = False
        return True
