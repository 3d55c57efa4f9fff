"""Keeps a client from being read faster than anybody needs to speak.

Whatever comes over the websocket costs a little work, pings and empty frames too, and those never
reach a limit on messages. What is not read stays with the client.
"""

import trio

from liqod.tokenbucket import TokenBucket


class Throttled(trio.abc.Stream):
    """A stream that is read no faster than so many bytes a second.

    Args:
        stream: owns it.
        rate: bytes a second in the long run.
        burst: bytes at once.

    Attributes:
        ended: set when the other side has closed.
    """

    def __init__(self, stream: trio.abc.Stream, rate: float, burst: float) -> None:
        self.ended = trio.Event()
        self._stream = stream
        self._bucket = TokenBucket(rate, burst)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            data = await self._stream.receive_some(max_bytes)
        except trio.BrokenResourceError:
            self.ended.set()
            raise
        if not data:
            self.ended.set()
        pause = self._bucket.take(trio.current_time(), len(data))
        if pause:
            await trio.sleep(pause)
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()
