"""A server of the inspector in the test's own process, with a state that the test changes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from liqod.cli import inspectorclient
from liqod.cli.inspectorclient import InspectorClient
from liqod.inspect import inspectorserver, protocol
from liqod.inspect.access import Guest
from liqod.inspect.answers import Answers
from liqod.inspect.inspectorsession import InspectorSession
from liqod.inspect.protocol import GetHistory, GetLogs, RequestDone, RequestError, Text
from liqod.inspect.stream import Stream
from liqod.inspect.timings import ORDINARY, InspectorTimings
from liqod.model.view.state import LiveState
from liqod.runtime.account import Account
from liqod.telemetry.hub import Hub
from tests.unit.model.states import peer, state

PATH = protocol.PATH
GREETING = (
    f"GET {PATH} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
).encode()


class FakeAnswers(Answers):
    """Answers in the ways that requests can be answered."""

    def __init__(self, uid: str) -> None:
        self.cluster_id = "rome"
        self.cluster_uid = uid
        self.server = "https://rome"
        self.started = 1.0
        self.verbs = ("probe",)

    async def answer(self, request: Any, guest: Guest, tell: Any) -> None:
        match request:
            case GetHistory(metric="bug"):
                raise ValueError("a fault of ours")
            case GetHistory():
                raise RequestError("missing", "there is no such metric")
            case GetLogs(follow=True):
                while True:
                    await tell(Text(id=request.id, text="line\n", last=False))
                    await trio.sleep(0.01)
            case _:
                await tell(RequestDone(id=request.id, text="done"))


@dataclass
class Served:
    """A running server.

    Attributes:
        path: its socket.
        stream: what it streams.
        state: what the next update is about.
    """

    path: Path
    stream: Stream
    hub: Hub
    state: LiveState
    streams: list[trio.SocketStream] = field(default_factory=list)

    async def raw(self) -> trio.SocketStream:
        """A bare connection; closed with the server at the latest."""
        stream = await trio.open_unix_socket(str(self.path))
        self.streams.append(stream)
        return stream

    def publish(self, new: LiveState | None = None) -> None:
        """Send what has changed."""
        self.state = new or self.state
        self.stream.publish(self.state)

    @asynccontextmanager
    async def look(self) -> AsyncIterator[InspectorClient]:
        """A well-behaved client."""
        async with inspectorclient.connect(self.path) as viewer:
            yield viewer


@asynccontextmanager
async def serving(
    folder: Path,
    places: Account | None = None,
    uid: str = "of-rome",
    timings: InspectorTimings = ORDINARY,
) -> AsyncIterator[Served]:
    """A server with one peer in its state, published whenever somebody comes."""
    account = places or Account()
    hub = Hub()
    served = Served(folder / "i.sock", Stream(hub), hub, state(peer()))

    async def talk(connection: Any, guest: Guest) -> None:
        await InspectorSession(connection, guest, served.stream, FakeAnswers(uid), timings).run()

    async def refresh() -> None:
        while True:
            await served.stream.wanted.wait()
            served.publish()
            while not served.stream.idle():  # noqa: ASYNC110  # as the inspector looks
                await trio.sleep(0.005)

    async with (
        inspectorserver.unix_listener(served.path) as listener,
        trio.open_nursery() as nursery,
    ):
        reviewer: Any = None  # nobody comes over the network
        serving_by = inspectorserver.Server(talk, reviewer, account, timings).run
        nursery.start_soon(refresh)
        nursery.start_soon(serving_by, [listener], None)
        yield served
        nursery.cancel_scope.cancel()
        for stream in served.streams:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)


async def responds(served: Served, seconds: float = 2.0) -> None:
    """Another client is greeted, and gets a snapshot, in time."""
    with trio.fail_after(seconds):
        async with served.look() as viewer:
            first, found = await viewer.snapshot()
            assert found.peers.keys() == served.state.peers.keys()
            assert first.sequence == served.stream.sequence


async def eventually(holds: Callable[[], bool | Awaitable[bool]], seconds: float = 5.0) -> None:
    """Wait until something is so."""
    with trio.fail_after(seconds):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await trio.sleep(0.01)
