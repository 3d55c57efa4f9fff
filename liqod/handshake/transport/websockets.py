"""The websocket of two daemons, over a wire: text for the handshake, binary for the channel.

The dialler asks for a word now and then (ping), so that silence means something.
"""

from typing import Final

import trio

from liqod import websocket
from liqod.errors import Unconnected
from liqod.handshake.protocol.messages import MAX_MESSAGE
from liqod.handshake.timings import HandshakeTimings
from liqod.kube.http.wire import Wire
from liqod.websocket import UpgradeRefusal, UpgradeRequest, Websocket, WebsocketClosed

PATH: Final = "/peering/v1"


async def accept(nursery: trio.Nursery, wire: Wire) -> Websocket:
    """A websocket for a daemon that has connected; its tasks run in the nursery.

    Raises:
        ProtocolError: it wants something else, or hangs up.
    """
    return await websocket.accept(nursery, wire, _admit, largest=MAX_MESSAGE)


async def _admit(request: UpgradeRequest) -> UpgradeRefusal | None:
    if request.path == PATH:
        return None
    return UpgradeRefusal(404, f"daemons meet at {PATH}\n".encode())


async def connect(nursery: trio.Nursery, wire: Wire, host: str) -> Websocket:
    """A websocket with the listener at a wire's other end; its tasks run in the nursery.

    Raises:
        Unconnected: what is there is no daemon.
    """
    try:
        return await websocket.connect(nursery, wire, host, PATH, largest=MAX_MESSAGE)
    except Unconnected as error:
        raise Unconnected(f"no daemon of liqod answers there: {error}") from None


async def watch(socket: Websocket, timings: HandshakeTimings, *, ping: bool) -> None:
    """Return when nothing has come for too long; ask for a word now and then.

    Args:
        socket: of a meeting.
        timings: for how long, and how often.
        ping: whether this side asks: the dialler, for one is enough.
    """
    while (silent := trio.current_time() - socket.last_received) < timings.silence:
        left = timings.silence - silent
        await trio.sleep(min(timings.ping_every, left) if ping else left)
        if ping:
            with trio.move_on_after(timings.ping_every):
                try:
                    await socket.ping()
                except WebsocketClosed:
                    return
