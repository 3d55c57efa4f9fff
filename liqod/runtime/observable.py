"""Notifies waiting tasks of a change, or of the newest value."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Notifier:
    """Notifies all waiting tasks of a change.

    Attributes:
        coming: set at the next notification. A task that takes it before it reads the state misses
            no change.
    """

    def __init__(self) -> None:
        self.coming = trio.Event()

    def notify(self) -> None:
        """Notify all that wait."""
        # The new event first: a waiter that the old one wakes and waits again must find it unset.
        told, self.coming = self.coming, trio.Event()
        told.set()

    async def wait(self) -> None:
        """Wait for the next notification."""
        await self.coming.wait()

    def waits(self) -> Callable[[], Awaitable[None]]:
        """Waits for the next notification since it was last awaited: none between is missed."""
        coming = self.coming

        async def wait() -> None:
            nonlocal coming
            await coming.wait()
            coming = self.coming

        return wait


class Observable(Generic[T]):
    """The newest value, handed from its producer to its consumers.

    Args:
        now: the first value.

    Attributes:
        now: the present value.
    """

    def __init__(self, now: T) -> None:
        self.now = now
        self._news = Notifier()

    def set(self, now: T) -> None:
        """Set the value; consumers are not notified of an equal one."""
        if now != self.now:
            self.now = now
            self._news.notify()

    async def wait_changed(self) -> None:
        """Wait until the value changes."""
        await self._news.wait()
