"""What one part of the daemon says and others wait for: that there is news, or the newest value."""

from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class News:
    """That something has changed: whoever waits when it is told goes on, however many they are.

    Attributes:
        coming: set when it is told next. Who takes it before he looks misses nothing meanwhile.
    """

    def __init__(self) -> None:
        self.coming = trio.Event()

    def tell(self) -> None:
        """Say that there is news."""
        # The new event first: who is woken by the old one and waits again must not find it set.
        told, self.coming = self.coming, trio.Event()
        told.set()

    async def wait(self) -> None:
        """Wait until it is told the next time."""
        await self.coming.wait()


class Latest(Generic[T]):
    """The newest value, handed from whoever knows it to those that go by it.

    Args:
        now: what is known at first.

    Attributes:
        now: what is known now.
    """

    def __init__(self, now: T) -> None:
        self.now = now
        self._news = News()

    def know(self, now: T) -> None:
        """Say what is so from now on; of what was known already, nobody is told."""
        if now != self.now:
            self.now = now
            self._news.tell()

    async def wait_changed(self) -> None:
        """Wait until something else is known."""
        await self._news.wait()
