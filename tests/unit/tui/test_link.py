"""The connection: what a real websocket on a Unix socket does to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.exceptions import ConnectionClosed

from liqod.inspect.protocol import (
    STOPPING,
    Act,
    ActionProgress,
    CancelRequest,
    GetLogs,
    InspectorHello,
    Preview,
    RequestDone,
    RequestRefused,
    ServerMessage,
    StateSnapshot,
    Subscribe,
    Text,
    Update,
    encode,
    read_client,
)
from tests.unit.model.states import peer, state
from tests.unit.tui.sessions import hello, pulse, snapshot
from tui.link import Address, Link, NotConnected, first, outcome
from tui.session import Lost

Handler = Callable[[ServerConnection], Awaitable[None]]


async def say(connection: ServerConnection, *messages: ServerMessage) -> None:
    """Send messages as text."""
    for message in messages:
        await connection.send(encode(message).decode())


@asynccontextmanager
async def daemon(path: Path, handler: Handler) -> AsyncIterator[None]:
    """A daemon with that behaviour on a socket."""
    async with unix_serve(handler, str(path), compression=None):
        yield


class Viewer:
    """A link and what came over it."""

    def __init__(self, path: Path) -> None:
        self.link = Link(Address(socket=path), first_pause=0.02)
        self.came: list[ServerMessage | Lost] = []
        self._more = asyncio.Event()

    def receive(self, message: ServerMessage | Lost) -> None:
        """Remember it."""
        self.came.append(message)
        self._more.set()

    async def until(self, *kinds: type) -> None:
        """Wait until messages of these kinds came, in this order, with others between them."""
        async with asyncio.timeout(10):
            while True:
                left = list(kinds)
                for message in self.came:
                    if left and isinstance(message, left[0]):
                        left.pop(0)
                if not left:
                    return
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def viewer(path: Path) -> AsyncIterator[Viewer]:
    """A link that runs."""
    made = Viewer(path)
    running = asyncio.create_task(made.link.run(made.receive))
    try:
        yield made
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def watched(connection: ServerConnection) -> None:
    """Greet and answer the first ``watch``."""
    await say(connection, hello())
    assert isinstance(read_client(await connection.recv()), Subscribe)
    await say(connection, snapshot(state(peer())))


def test_it_watches_and_hands_on(tmp_path: Path) -> None:
    async def handler(connection: ServerConnection) -> None:
        await watched(connection)
        await connection.send('{"type":"of the future","id":1}')
        await say(connection, pulse(8, 0.1))
        await connection.wait_closed()

    async def scenario() -> None:
        path = tmp_path / "rome.sock"
        async with daemon(path, handler), viewer(path) as made:
            await made.until(InspectorHello, StateSnapshot, Update)
            assert not any(isinstance(message, Lost) for message in made.came)

    asyncio.run(scenario())


def test_after_a_gap_it_watches_again_and_shows_nothing_in_between(tmp_path: Path) -> None:
    async def handler(connection: ServerConnection) -> None:
        await watched(connection)
        await say(connection, pulse(9, 0.1), pulse(10, 0.1))
        assert isinstance(read_client(await connection.recv()), Subscribe)
        await say(connection, snapshot(state(peer("turin")), 30), pulse(31, 0.1))
        await connection.wait_closed()

    async def scenario() -> None:
        path = tmp_path / "rome.sock"
        async with daemon(path, handler), viewer(path) as made:
            await made.until(StateSnapshot, StateSnapshot, Update)
            numbers = [each.sequence for each in made.came if isinstance(each, Update)]
            assert numbers == [31]

    asyncio.run(scenario())


def test_it_says_why_the_connection_is_gone_and_comes_back(tmp_path: Path) -> None:
    async def handler(connection: ServerConnection) -> None:
        await watched(connection)
        await connection.close(STOPPING, "stopping")

    async def scenario() -> None:
        path = tmp_path / "rome.sock"
        async with viewer(path) as made:
            await made.until(Lost)
            assert isinstance(made.came[0], Lost)
            assert "no daemon: there is no" in made.came[0].reason
            async with daemon(path, handler):
                await made.until(InspectorHello, StateSnapshot, Lost, InspectorHello, StateSnapshot)
            reasons = [each.reason for each in made.came if isinstance(each, Lost)]
            assert "the daemon stopped" in reasons

    asyncio.run(scenario())


def test_nonsense_from_a_daemon_is_named(tmp_path: Path) -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.send('{"type":"hello","protocol":"one"}')
        await connection.wait_closed()

    async def scenario() -> None:
        path = tmp_path / "rome.sock"
        async with daemon(path, handler), viewer(path) as made:
            await made.until(Lost)
            assert "protocol" in made.came[0].reason  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_answers_find_who_asked(tmp_path: Path) -> None:
    async def handler(connection: ServerConnection) -> None:
        await watched(connection)
        asked = [read_client(await connection.recv()) for _ in range(2)]
        assert all(isinstance(each, (Act, Preview)) for each in asked)
        second, one = asked[1], asked[0]
        assert isinstance(one, Act)
        assert isinstance(second, Preview)
        await say(connection, ActionProgress(id=one.id, step="half"))
        await say(connection, RequestRefused(id=second.id, code="missing", reason="no such peer"))
        await say(connection, RequestDone(id=one.id, text="done"))
        await connection.wait_closed()

    async def scenario() -> None:
        path = tmp_path / "rome.sock"
        async with daemon(path, handler), viewer(path) as made:
            await made.until(StateSnapshot)

            async def act() -> list[str]:
                asking = made.link.ask(lambda number: Act(id=number, verb="drain", subject="x"))
                return [outcome(answer) async for answer in asking]

            acting = asyncio.create_task(act())
            await asyncio.sleep(0.05)
            refused = await first(
                made.link, lambda number: Preview(id=number, verb="drain", subject="y")
            )
            assert outcome(refused) == "missing: no such peer"
            assert await acting == ["half", "done"]

    asyncio.run(scenario())


def test_who_stops_to_listen_says_so(tmp_path: Path) -> None:
    cancelled = asyncio.Event()

    async def handler(connection: ServerConnection) -> None:
        await watched(connection)
        wanted = read_client(await connection.recv())
        assert isinstance(wanted, GetLogs)
        await say(connection, Text(id=wanted.id, text="one\n", last=False))
        stop = read_client(await connection.recv())
        assert stop == CancelRequest(id=wanted.id)
        cancelled.set()
        with suppress(ConnectionClosed):
            await connection.wait_closed()

    async def scenario() -> None:
        path = tmp_path / "rome.sock"
        async with daemon(path, handler), viewer(path) as made:
            await made.until(StateSnapshot)
            asking = made.link.ask(lambda number: GetLogs(id=number, namespace="n", pod="p"))
            async for answer in asking:
                assert outcome(answer) == "one\n"
                break
            await asking.aclose()
            await asyncio.wait_for(cancelled.wait(), 5)

    asyncio.run(scenario())


def test_without_a_connection_asking_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        link = Link(Address(socket=tmp_path / "none.sock"), first_pause=0.02)
        with pytest.raises(NotConnected, match="no connection"):
            await first(link, lambda number: Preview(id=number, verb="drain", subject="x"))

    asyncio.run(scenario())
