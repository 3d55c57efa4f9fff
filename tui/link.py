"""The connection to a daemon: a websocket on a Unix socket, or on TCP with TLS and a token.

It lasts as long as the program: when the daemon goes, the viewer is notified and the connection is
tried again, first soon and then every few seconds.
"""

import asyncio
import contextlib
import itertools
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from liqod.inspect.protocol import (
    ABUSE,
    FULL,
    PATH,
    SERVER_LIMIT,
    STOPPING,
    TOO_SLOW,
    ActionProgress,
    CancelRequest,
    ClientMessage,
    InspectorRequest,
    InspectorResponse,
    RequestDone,
    RequestRefused,
    ServerMessage,
    Subscribe,
    Text,
    Unreadable,
    Update,
    encode,
    read_server,
)
from tui.session import Lost

FIRST_PAUSE, LAST_PAUSE = 0.25, 5.0
OPEN_TIMEOUT = 5.0
ANSWER_TIMEOUT = 30.0
"""Seconds without any message after which a request is given up."""
SILENT_AFTER = 20.0
"""Seconds between pings; as long again without an answer means that the connection is dead."""

Receive = Callable[[ServerMessage | Lost], None]


class NotConnected(Exception):
    """There is nobody to ask; the text says why."""


class Source(Protocol):
    """Where a session comes from: a live daemon, a recording, or a test."""

    name: str

    async def run(self, receive: Receive) -> None:
        """Hand on messages until cancelled or until there are no more."""

    def ask(
        self, request: Callable[[int], InspectorRequest]
    ) -> AsyncGenerator[InspectorResponse, None]:
        """Send a request, made of the id that it gets, and yield what answers it."""


@dataclass(frozen=True)
class Address:
    """Where a daemon is to be found.

    Attributes:
        socket: path of its Unix socket.
        url: ``wss://HOST:PORT`` instead of a socket.
        token: the bearer token for that.
        ca: PEM file of the authorities to trust instead of the system's.
    """

    socket: Path | None = None
    url: str = ""
    token: str = ""
    ca: Path | None = None

    @property
    def name(self) -> str:
        """The daemon's name until it has sent its own."""
        return self.socket.stem if self.socket is not None else urlsplit(self.url).netloc


class Link:
    """A live daemon's :class:`Source`.

    Args:
        address: where it is.
        first_pause: seconds until it is tried again; twice as long each further time.
    """

    def __init__(self, address: Address, first_pause: float = FIRST_PAUSE) -> None:
        self._first_pause = first_pause
        self.name = address.name
        self._address = address
        self._connection: ClientConnection | None = None
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Queue[InspectorResponse | None]] = {}
        self._sequence = -1
        self._cancelling: asyncio.Task[None] | None = None

    async def run(self, receive: Receive) -> None:
        """Connect, hand on what comes, and connect again, until cancelled."""
        pause = self._first_pause
        while True:
            began = time.monotonic()
            try:
                async with self._open() as connection:
                    self._connection = connection
                    await self._follow(connection, receive)
                reason = "the daemon closed the connection"
            except ConnectionClosed as closed:
                reason = _closed(closed)
            except (OSError, InvalidHandshake, InvalidURI, UnicodeError, Unreadable) as error:
                reason = self._explain(error)
            finally:
                self._forget()
            pause = self._first_pause if time.monotonic() - began > LAST_PAUSE else pause
            now = time.time()
            receive(Lost(reason, now, now + pause))
            await asyncio.sleep(pause)
            pause = min(LAST_PAUSE, 2 * pause)

    async def ask(
        self, request: Callable[[int], InspectorRequest]
    ) -> AsyncGenerator[InspectorResponse, None]:
        """Send a request and yield its answers; raises NotConnected where that ends early."""
        connection = self._connection
        if connection is None:
            raise NotConnected("there is no connection to the daemon")
        number = next(self._ids)
        answers: asyncio.Queue[InspectorResponse | None] = asyncio.Queue()
        self._pending[number] = answers
        ended = False
        try:
            await connection.send(encode(request(number)).decode())
            while True:
                answer = await answers.get()
                if answer is None:
                    raise NotConnected("the connection was lost before the answer was whole")
                ended = ends(answer)
                yield answer
                if ended:
                    return
        except ConnectionClosed as closed:
            raise NotConnected(_closed(closed)) from closed
        finally:
            self._pending.pop(number, None)
            if not ended and connection is self._connection:
                self._cancelling = asyncio.create_task(self._cancel(connection, number))

    async def _cancel(self, connection: ClientConnection, number: int) -> None:
        """Notify the daemon that nobody waits for the rest."""
        with contextlib.suppress(ConnectionClosed):
            await connection.send(encode(CancelRequest(id=number)).decode())

    def _open(self) -> connect:
        common: dict[str, Any] = {
            "max_size": SERVER_LIMIT,
            "open_timeout": OPEN_TIMEOUT,
            "ping_interval": SILENT_AFTER,
            "ping_timeout": SILENT_AFTER,
            "compression": None,
            "proxy": None,
        }
        address = self._address
        if address.socket is not None:
            return unix_connect(str(address.socket), uri=f"ws://liqod{PATH}", **common)
        context = ssl.create_default_context(cafile=str(address.ca) if address.ca else None)
        return connect(
            address.url.rstrip("/") + PATH,
            ssl=context,
            additional_headers={"Authorization": f"Bearer {address.token}"},
            **common,
        )

    async def _follow(self, connection: ClientConnection, receive: Receive) -> None:
        self._sequence = -1
        await self._send(Subscribe())
        async for data in connection:
            message = read_server(data)
            if message is None:
                continue
            if isinstance(message, InspectorResponse):
                self._hand_on(message)
            if isinstance(message, Update) and self._missed(message):
                await self._send(Subscribe())
                continue
            if hasattr(message, "sequence"):
                self._sequence = message.sequence
            receive(message)

    def _missed(self, update: Update) -> bool:
        """True if updates are missing; then a new snapshot is asked for, once."""
        if self._sequence >= 0 and update.sequence != self._sequence + 1:
            self._sequence = -1
            return True
        return self._sequence < 0

    def _hand_on(self, answer: InspectorResponse) -> None:
        asked = self._pending.get(answer.id)
        if asked is not None:
            asked.put_nowait(answer)

    async def _send(self, message: ClientMessage) -> None:
        assert self._connection is not None
        await self._connection.send(encode(message).decode())

    def _forget(self) -> None:
        self._connection = None
        for answers in self._pending.values():
            answers.put_nowait(None)

    def _explain(self, error: Exception) -> str:
        """Why there is no connection, and what to do about it where that is known."""
        socket = self._address.socket
        if isinstance(error, FileNotFoundError):
            return f"no daemon: there is no {_short(socket)}"
        if isinstance(error, PermissionError):
            return f"not allowed to open {socket}: use sudo, or join the group that owns it"
        if isinstance(error, ConnectionRefusedError):
            return "no daemon listens there"
        if isinstance(error, InvalidStatus):
            return _refused(error.response.status_code)
        return str(error) or type(error).__name__


def ends(answer: InspectorResponse) -> bool:
    """True if nothing follows this answer."""
    if isinstance(answer, Text):
        return answer.last
    return not isinstance(answer, ActionProgress)


async def first(source: Source, request: Callable[[int], InspectorRequest]) -> InspectorResponse:
    """The only answer to a request; raises NotConnected, also where none comes in time."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            async with contextlib.aclosing(source.ask(request)) as answers:
                async for answer in answers:
                    return answer
    except TimeoutError:
        raise NotConnected(f"no answer within {ANSWER_TIMEOUT:.0f} s") from None
    raise NotConnected("there was no answer")


def outcome(answer: InspectorResponse) -> str:
    """The last answer to an action in one sentence."""
    match answer:
        case RequestRefused():
            return f"{answer.code}: {answer.reason}"
        case RequestDone() | Text():
            return answer.text or "done"
        case ActionProgress():
            return answer.step
    return msgspec.json.encode(answer).decode()


def _closed(closed: ConnectionClosed) -> str:
    code = closed.rcvd.code if closed.rcvd is not None else None
    known = {
        TOO_SLOW: "this viewer was too slow",
        ABUSE: "the daemon refused what this viewer sent",
        STOPPING: "the daemon stopped",
        FULL: "the daemon has too many viewers",
    }
    if code in known:
        return known[code]
    said = closed.rcvd.reason if closed.rcvd is not None else ""
    return said or "the connection was lost"


def _short(socket: Path | None) -> str:
    """The end of a path, by which it differs from others."""
    return "/".join(socket.parts[-2:]) if socket is not None else ""


def _refused(status: int) -> str:
    if status == 401:
        return "the token is not accepted: `kubectl create token NAME --audience liqod` makes one"
    if status == 403:
        return "this user may not look: ask for `get` on liqod's resources"
    return f"the daemon answered with HTTP status {status}"
