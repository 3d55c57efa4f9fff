"""A dialler lends to a listener, over real sockets: what either of them can reach, and cannot."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import msgspec
import pytest
import trio
import trio.testing

from liqod.errors import Unconnected, Unreachable
from liqod.handshake.protocol.messages import Accepted, Ask, Done, Offer, Refused
from liqod.handshake.protocol.outputs import CAPABILITIES, ExpectedPeer, LocalIdentity, VerifiedPeer
from liqod.handshake.transport.channel import StreamBackend
from liqod.handshake.transport.interfaces import SessionOver
from liqod.handshake.transport.peerdialler import DialledSession
from liqod.handshake.transport.peerlistener import REFUSE_OFFERS, LendOfferHandler, PeerListener
from liqod.handshake.transport.peersession import PeerSession
from liqod.kube.http.wire import Wire
from tests.unit.handshake.listeners import MILAN, ROME, FakeHost, dialler, greeter, print_of

REQUEST = "0a0b0c0d-0000-4000-8000-000000000001"
LENDER = msgspec.structs.replace(ROME, capabilities=CAPABILITIES)
BORROWER = msgspec.structs.replace(MILAN, capabilities=CAPABILITIES)


class FakeBorrower:
    """Takes up every offer, and hands the meeting over."""

    def __init__(self) -> None:
        self.heard: list[Offer] = []
        self.send, self.came = trio.open_memory_channel[PeerSession](1)

    async def on_offer(self, peer: VerifiedPeer, offer: Offer) -> Refused | None:
        self.heard.append(offer)
        return None

    async def hold(self, meeting: PeerSession) -> Refused:
        self.send.send_nowait(meeting)
        await meeting.wait_over()
        return Refused(code="gone")


class Both:
    """Both ends of the meeting."""

    def __init__(self, host: FakeHost, near: DialledSession, far: PeerSession) -> None:
        self.host, self.near, self.far = host, near, far


async def closed_door() -> NoReturn:
    """A door that nobody may go through."""
    raise AssertionError("somebody came to the borrower's API server")


@asynccontextmanager
async def listens(
    own: LocalIdentity, borrower: LendOfferHandler, doors: Mapping[str, StreamBackend]
) -> AsyncIterator[str]:
    """A listener of who borrows: its address."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(PeerListener(own, FakeHost(), doors, borrower).run, listeners)
        yield f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def lending() -> AsyncIterator[Both]:
    """Rome has dialled milan, and lends to it."""
    host, borrower = FakeHost(), FakeBorrower()
    host.tenants = {print_of(MILAN)}
    expected = ExpectedPeer(key=print_of(MILAN))
    async with (
        listens(BORROWER, borrower, {"api": closed_door}) as address,
        dialler(LENDER).meet([address], expected) as near,
        trio.open_nursery() as nursery,
    ):
        offer = Offer(request=REQUEST)

        async def lend() -> None:
            with pytest.raises(SessionOver):
                await near.lend(offer, host, {"api": greeter})

        nursery.start_soon(lend)
        with trio.fail_after(20):
            far = await borrower.came.receive()
        assert (borrower.heard, far.peer.key) == ([offer], print_of(ROME))
        yield Both(host, near, far)
        nursery.cancel_scope.cancel()


async def hello(wire: Wire) -> bytes:
    """The message that arrives behind the door."""
    with trio.fail_after(20):
        return await wire.receive()


async def test_a_tenant_that_was_dialled_reaches_the_dialler_s_api_server() -> None:
    async with lending() as both:
        with pytest.raises(Unconnected, match="nothing was agreed"):
            await both.far.dial("", 0)
        await both.far.attach()
        assert await hello(await both.far.dial("10.0.0.1", 6443)) == b"hello"


async def test_a_request_of_who_was_dialled_is_answered_by_who_dials() -> None:
    async with lending() as both:
        both.host.answer = Accepted(kubeconfig="x", granted={"cpu": "4"})
        ask = Ask(request=REQUEST, lifetime=60)
        assert await both.far.ask(ask, lambda lifetime: None) == both.host.answer
        assert await hello(await both.far.dial("", 0)) == b"hello"
        await both.far.report(Done(request=REQUEST))
        assert both.host.heard[1] == Done(request=REQUEST)


async def test_a_listener_reaches_nothing_through_its_lender_but_the_api_server() -> None:
    async with lending() as both:
        await both.far.attach()
        assert both.far.channel is not None
        for target in ("10.0.0.1:22", "kubelet", "peering"):
            with pytest.raises(Unconnected, match="nothing of that name"):
                await both.far.channel.open(target)


async def test_a_dialler_that_lends_reaches_nothing_at_the_listener() -> None:
    """Its streams lead nowhere: who lends has a door, and who borrows has none."""
    async with lending() as both:
        with pytest.raises(Unconnected, match="nothing was agreed"):
            await both.near.dial("", 0)
        await both.far.attach()
        with pytest.raises(Unconnected, match="nothing of that name"):
            await both.near.dial("", 0)


async def test_a_borrower_that_says_too_much_is_hung_up_on() -> None:
    async with lending() as both:
        both.host.answer = Accepted(kubeconfig="x")
        await both.far.ask(Ask(request=REQUEST, lifetime=60), lambda lifetime: None)
        with suppress(SessionOver), trio.fail_after(20):
            for _ in range(100):
                await both.far.report(Done(request=REQUEST))
        with trio.fail_after(20):
            assert (await both.far.wait_over()).code == "busy"
        assert len(both.host.heard) < 40


@pytest.mark.parametrize("anew", [True, False])
async def test_who_is_no_tenant_of_its_lender_any_more_loses_the_way(anew: bool) -> None:
    async with lending() as both:
        if anew:
            both.host.answer = Accepted(kubeconfig="x")
            await both.far.ask(Ask(request=REQUEST, lifetime=60), lambda lifetime: None)
        else:
            await both.far.attach()
        wire = await both.far.dial("", 0)
        assert await hello(wire) == b"hello"
        both.host.ended.set()
        with pytest.raises(Unreachable, match="it was revoked"), trio.fail_after(20):
            await wire.receive()


async def test_a_listener_that_is_no_tenant_has_no_way() -> None:
    async with lending() as both:
        both.host.tenants = set()
        with pytest.raises(SessionOver, match="this is no tenant here"):
            await both.far.attach()


@pytest.mark.parametrize(
    ("own", "code", "why"),
    [
        (MILAN, "version", "a newer liqod is needed there"),
        (BORROWER, "unknown", "borrows from nobody that dials it"),
    ],
)
async def test_who_cannot_borrow_or_does_not_says_so_and_nothing_is_open(
    own: LocalIdentity, code: str, why: str
) -> None:
    async with (
        listens(own, REFUSE_OFFERS, {"api": closed_door}) as address,
        dialler(LENDER).meet([address], ExpectedPeer(key=print_of(MILAN))) as near,
    ):
        with pytest.raises(SessionOver, match=why) as told, trio.fail_after(20):
            await near.lend(Offer(request=REQUEST), FakeHost(), {"api": greeter})
        assert told.value.closed.code == code
        assert near.channel is None
