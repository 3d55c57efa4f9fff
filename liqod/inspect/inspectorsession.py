"""Serves one client of the inspector: the messages to it, and its open requests.

The client's messages are read one by one within its rate; each request is answered by a task of its
own, so that a followed log delays no other request of the same client.
"""

import time
from contextlib import suppress

import trio

from liqod import __version__
from liqod.errors import LiqodError
from liqod.inspect import protocol
from liqod.inspect.access import Guest
from liqod.inspect.answers import Answers
from liqod.inspect.protocol import (
    CancelRequest,
    ClientMessage,
    Code,
    InspectorHello,
    InspectorRequest,
    RequestDone,
    RequestError,
    RequestRefused,
    ServerMessage,
    Subscribe,
    Unreadable,
)
from liqod.inspect.stream import Stream
from liqod.inspect.timings import ORDINARY, InspectorTimings
from liqod.runtime.supervise import explain
from liqod.runtime.tokenbucket import TokenBucket
from liqod.websocket import Websocket, WebsocketClosed

NOWHERE = -1


class InspectorSession:
    """The session of one client, from its greeting to its end.

    Args:
        connection: the websocket.
        guest: its user and rights.
        stream: the state that it can watch.
        answers: answers its requests.
    """

    def __init__(
        self,
        connection: Websocket,
        guest: Guest,
        stream: Stream,
        answers: Answers,
        timings: InspectorTimings = ORDINARY,
    ) -> None:
        self._connection = connection
        self._guest = guest
        self._stream = stream
        self._answers = answers
        self._timings = timings
        self._requests: dict[int, trio.CancelScope] = {}
        self._watching: trio.CancelScope | None = None

    async def run(self) -> None:
        """Serve the client until it leaves or breaks a limit."""
        await self._send_message(self._hello())
        bucket = TokenBucket(protocol.RATE, protocol.BURST)
        async with trio.open_nursery() as nursery:
            with suppress(WebsocketClosed):
                while True:
                    text = await self._connection.receive()
                    if bucket.take(trio.current_time()):
                        await self._goodbye(protocol.ABUSE, "too many messages")
                        break
                    await self._take(text, nursery)
            nursery.cancel_scope.cancel()

    def _hello(self) -> InspectorHello:
        return InspectorHello(
            protocol=protocol.VERSION,
            version=__version__,
            cluster_id=self._answers.cluster_id,
            started=self._answers.started,
            at=time.time(),
            user=self._guest.user,
            acting=self._guest.acting,
            verbs=self._answers.verbs if self._guest.acting else (),
            server=self._answers.server,
            cluster_uid=self._answers.cluster_uid,
        )

    async def _take(self, text: str | bytes, nursery: trio.Nursery) -> None:
        """Start the request of a message."""
        try:
            message = protocol.read_client(text)
        except Unreadable as error:
            await self._refuse(NOWHERE, "invalid", str(error)[:200])
            return
        match message:
            case None:
                await self._refuse(NOWHERE, "unknown", "there is no such message here")
            case Subscribe():
                if self._watching is not None:
                    self._watching.cancel()
                self._watching = trio.CancelScope()
                nursery.start_soon(self._subscribe, message, self._watching)
            case CancelRequest():
                scope = self._requests.get(message.id)
                if scope is not None:
                    scope.cancel()
            case _:
                await self._start(message, nursery)

    async def _start(self, request: ClientMessage, nursery: trio.Nursery) -> None:
        assert isinstance(request, InspectorRequest)
        if request.id in self._requests:
            await self._refuse(request.id, "invalid", "a request of that id is under way")
        elif len(self._requests) >= protocol.REQUESTS:
            await self._refuse(request.id, "busy", f"{protocol.REQUESTS} requests are under way")
        else:
            scope = self._requests[request.id] = trio.CancelScope()
            nursery.start_soon(self._answer, request, scope)

    async def _answer(self, request: InspectorRequest, scope: trio.CancelScope) -> None:
        refused: RequestRefused | None = None
        try:
            with scope:
                await self._answers.answer(request, self._guest, self._send_message)
        except* RequestError as group:
            error = group.exceptions[0]
            code: Code = error.code if isinstance(error, RequestError) else "failed"
            refused = RequestRefused(id=request.id, code=code, reason=explain(group))
        except* LiqodError as group:
            refused = RequestRefused(id=request.id, code="failed", reason=explain(group))
        finally:
            self._requests.pop(request.id, None)
        if refused is not None:
            await self._send_message(refused)
        elif scope.cancelled_caught:
            await self._send_message(RequestDone(id=request.id, text="cancelled"))

    async def _subscribe(self, wish: Subscribe, scope: trio.CancelScope) -> None:
        with scope:
            viewer = await self._stream.attach()
            try:
                for part in list(self._stream.snapshot(wish.events, wish.lines)):
                    await self._send_message(part)
                async for update in viewer.updates:
                    await self._send(update)
                await self._goodbye(protocol.TOO_SLOW, "you do not keep up; connect again")
            finally:
                self._stream.part(viewer)

    async def _refuse(self, request: int, code: Code, reason: str) -> None:
        await self._send_message(RequestRefused(id=request, code=code, reason=reason))

    async def _send_message(self, message: ServerMessage) -> None:
        await self._send(protocol.encode(message).decode())

    async def _send(self, text: str) -> None:
        """Send a message; a client that does not receive it in time counts as gone.

        Raises:
            Closed: the client is gone.
        """
        with trio.move_on_after(self._timings.write) as patience:
            await self._connection.send(text)
        if patience.cancelled_caught:
            await self._goodbye(protocol.TOO_SLOW, "you do not read")

    async def _goodbye(self, code: int, reason: str) -> None:
        await self._connection.close(code, reason)
        raise WebsocketClosed(f"closed on this side: {reason}")
