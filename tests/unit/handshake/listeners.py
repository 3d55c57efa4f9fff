"""A listener and diallers in one process, over real sockets."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio
import trio.testing

from liqod.handshake.protocol.messages import Accepted, Ask, Denied, Refused, Report
from liqod.handshake.protocol.outputs import ExpectedPeer, LocalIdentity, VerifiedPeer
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.handshake.transport.channel import StreamBackend
from liqod.handshake.transport.interfaces import OnPending
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.handshake.transport.peerlistener import PeerListener
from liqod.identity import keys
from liqod.kube.http.wire import StreamWire, Wire
from liqod.runtime.account import Account

MILAN = LocalIdentity(cluster_id="milan", private=keys.generate())
ROME = LocalIdentity(cluster_id="rome", private=keys.generate())
TURIN = LocalIdentity(cluster_id="turin", private=keys.generate())


def print_of(own: LocalIdentity) -> str:
    """SHA-256 of a cluster's public key."""
    return keys.print_of(keys.public_pem(own.private))


EXPECTED = ExpectedPeer(cluster_id="milan", key=print_of(MILAN))


class FakeHost:
    """Decides as it was set to, and keeps what it heard."""

    def __init__(self) -> None:
        self.tenants = {print_of(ROME)}
        self.answer: Accepted | Denied | Refused | None = None
        self.decided = trio.Event()
        self.ended = trio.Event()
        self.heard: list[object] = []
        self.again: int | None = None

    async def on_ask(
        self, peer: VerifiedPeer, source: str, ask: Ask, pending: OnPending
    ) -> Accepted | Denied | Refused:
        self.heard.append((peer.cluster_id, source, ask.request))
        if self.answer is None:
            pending(600)
            await self.decided.wait()
        assert self.answer is not None
        return self.answer

    async def on_attach(self, peer: VerifiedPeer) -> Refused | None:
        if peer.key in self.tenants:
            return None
        return Refused(code="unknown", reason="this is no tenant here", again=self.again)

    async def until_untrusted(self, peer: VerifiedPeer) -> str:
        await self.ended.wait()
        return "it was revoked"

    async def on_report(self, peer: VerifiedPeer, report: Report) -> None:
        self.heard.append(report)


class Milan:
    """A listener that meets others."""

    def __init__(self, host: FakeHost, listener: PeerListener, port: int) -> None:
        self.host, self.listener, self.port = host, listener, port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def milan(
    doors: Mapping[str, StreamBackend] | None = None,
    account: Account | None = None,
    timings: HandshakeTimings = ORDINARY,
) -> AsyncIterator[Milan]:
    """A listener with milan's key."""
    host = FakeHost()
    listener = PeerListener(MILAN, host, doors or {}, account=account, timings=timings)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=512)
        nursery.start_soon(listener.run, listeners)
        yield Milan(host, listener, listeners[0].socket.getsockname()[1])
        nursery.cancel_scope.cancel()


def dialler(own: LocalIdentity = ROME, timings: HandshakeTimings = ORDINARY) -> PeerDialler:
    """One that has no proxy on its way."""
    return PeerDialler(own, environ={}, timings=timings)


async def greeter() -> Wire:
    """A door behind which "hello" is said."""
    near, far = trio.testing.memory_stream_pair()
    await far.send_all(b"hello")
    return StreamWire(near)
