"""The version of a peer's API server: read when it answers, and kept where it cannot be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from liqod.consumer.nodes import versions
from liqod.errors import Unreachable


class Way:
    """A link and the identities, as much as is asked of them."""

    def __init__(self) -> None:
        self.up = True
        self.probed = True
        self.version = ""
        self.answers: list[bytes | Exception] = []
        self.reads = 0
        self.event = trio.Event()
        self.client = self

    def control(self) -> Any:
        return self

    def any_slice(self) -> Any:
        return None

    async def wait_changed(self) -> None:
        await self.event.wait()

    async def changed(self) -> None:
        await trio.sleep_forever()

    def become(self, *, up: bool) -> None:
        self.up = up
        event, self.event = self.event, trio.Event()
        event.set()

    async def raw(self, method: str, path: str) -> Any:
        assert (method, path) == ("GET", "/version")
        self.reads += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(body=answer)


@pytest.fixture
def way() -> Way:
    return Way()


async def test_it_is_read_again_when_the_server_was_away(way: Way, autojump_clock: MockClock):
    way.answers = [b'{"gitVersion": "v1.34.1"}', b'{"gitVersion": "v1.35.0"}']
    async with trio.open_nursery() as nursery:
        await nursery.start(versions.follow, way, way)
        await trio.sleep(1)
        assert way.version == "v1.34.1"
        way.become(up=False)
        await trio.sleep(1)
        assert (way.version, way.reads) == ("v1.34.1", 1)
        way.become(up=True)
        await trio.sleep(1)
        assert way.version == "v1.35.0"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "answer", [Unreachable("gone"), b"\xff", b"[]", b'{"gitVersion": 5}', b"[" * 100_000]
)
async def test_what_is_no_version_takes_nothing_away(
    way: Way, answer: bytes | Exception, autojump_clock: MockClock
):
    way.version = "v1.34.1"
    way.answers = [answer, b'{"gitVersion": "' + b"v" * 500 + b'"}']
    async with trio.open_nursery() as nursery:
        await nursery.start(versions.follow, way, way)
        await trio.sleep(versions.UNTOLD - 1)
        assert (way.version, way.reads) == ("v1.34.1", 1)
        await trio.sleep(2)
        assert way.version == "v" * versions.LONGEST
        nursery.cancel_scope.cancel()
