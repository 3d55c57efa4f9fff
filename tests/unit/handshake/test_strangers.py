"""Attacks of hostile parties on a listener, each on its own connection."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from uuid import uuid4

import pytest
import trio
import trio.testing

from liqod.errors import Unreachable
from liqod.handshake.protocol.messages import Ask, Denied
from liqod.handshake.protocol.mux import FrameKind
from liqod.handshake.protocol.outputs import ExpectedPeer, LocalIdentity
from liqod.handshake.timings import HandshakeTimings
from liqod.handshake.transport import peerlistener, websockets
from liqod.handshake.transport.interfaces import SessionOver
from liqod.handshake.transport.peerdialler import DialledSession
from liqod.handshake.transport.peertls import dialler_context, listener_context
from liqod.identity import keys
from liqod.identity.clustercertificates import certificate_of
from liqod.kube.http.wire import StreamWire, TlsWire, Wire, connect
from liqod.runtime import account
from liqod.runtime.account import Account
from liqod.websocket import Websocket
from tests.unit.handshake.listeners import EXPECTED, MILAN, TURIN, FakeHost, dialler, greeter, milan


async def tls(port: int) -> TlsWire:
    """TLS with a listener, and nothing more."""
    wire = TlsWire(await connect("127.0.0.1", port), dialler_context(), "liqod-peering.x")
    await wire.handshake()
    return wire


async def ended(wire: Wire) -> None:
    """Wait until the other side hangs up."""
    with trio.fail_after(20), suppress(Unreachable):
        while await wire.receive():
            pass


async def test_five_hundred_that_say_nothing_keep_nobody_out_and_go_in_time() -> None:
    async with milan({"api": greeter}) as there, dialler().meet([there.address], EXPECTED) as kept:
        await kept.attach()
        silent = [await connect("127.0.0.1", there.port) for _ in range(500)]
        async with dialler().meet([there.address], EXPECTED) as met:
            await met.attach()
            assert await (await met.dial("", 0)).receive() == b"hello"
        assert await (await kept.dial("", 0)).receive() == b"hello"
        unproved = there.listener.account[account.UNPROVED]
        assert len(unproved) <= unproved.of_one
        for wire in silent:
            wire.close()


async def test_who_dribbles_has_five_seconds_in_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    near, far = trio.testing.memory_stream_pair()
    listener = peerlistener.PeerListener(MILAN, FakeHost(), {})
    began = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def dribble() -> None:
            with suppress(trio.BrokenResourceError):
                for byte in b"\x16\x03\x01\x02\x00" + bytes(500):
                    await near.send_all(bytes([byte]))
                    await trio.sleep(1.0)

        nursery.start_soon(dribble)
        await listener.serve(StreamWire(far), "192.0.2.1")
        assert trio.current_time() - began == pytest.approx(peerlistener.PROVE_WITHIN, abs=0.5)
        nursery.cancel_scope.cancel()


Attack = Callable[[Websocket], Awaitable[None]]


async def too_large(socket: Websocket) -> None:
    await socket.send("x" * 70_000)


async def nonsense(socket: Websocket) -> None:
    await socket.send("{}")


async def streams_at_once(socket: Websocket) -> None:
    await socket.send(bytes([FrameKind.OPEN, 0, 0, 0, 1]) + b"api")


async def out_of_turn(socket: Websocket) -> None:
    await socket.send('{"type":"attach"}')


@pytest.mark.parametrize("attack", [too_large, nonsense, streams_at_once, out_of_turn])
async def test_who_breaks_the_rules_is_hung_up_on(attack: Attack) -> None:
    async with milan({"api": greeter}) as there, trio.open_nursery() as nursery:
        wire = await tls(there.port)
        socket = await websockets.connect(nursery, wire, "127.0.0.1")
        with suppress(Unreachable):
            await attack(socket)
        with trio.fail_after(20), suppress(Unreachable):
            while True:
                assert "attached" not in str(await socket.receive())
        await socket.close()
        nursery.cancel_scope.cancel()


async def test_what_one_said_before_cannot_be_said_again_by_another() -> None:
    """Every word of an honest dialler, repeated to the same listener, proves nothing."""
    async with milan({"api": greeter}) as there:
        said = await _recorded(there.port)
        async with trio.open_nursery() as nursery:
            socket = await websockets.connect(nursery, await tls(there.port), "127.0.0.1")
            heard: list[str] = []
            with suppress(Unreachable):
                for text in said:
                    await socket.send(text)
                while True:
                    heard.append(str(await socket.receive()))
            await socket.close()
            nursery.cancel_scope.cancel()
        assert any('"refused"' in each and '"proof"' in each for each in heard)
        assert not any("attached" in each for each in heard)


async def _recorded(port: int) -> list[str]:
    """The messages that a tenant sends until it is attached."""
    said: list[str] = []
    send = Websocket.send

    async def recording(self: Websocket, message: str | bytes) -> None:
        if isinstance(message, str) and any(
            f'"{kind}"' in message for kind in ("hello", "prove", "attach")
        ):
            said.append(message)
        await send(self, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Websocket, "send", recording)
        async with dialler().meet([f"127.0.0.1:{port}"], EXPECTED) as met:
            await met.attach()
    return said


async def test_a_man_in_the_middle_who_passes_all_on_is_found_out() -> None:
    """Its certificate is of its own key: it is passed over, and without a key expected, refused."""
    async with milan() as there, trio.open_nursery() as nursery:
        context = listener_context(certificate_of(TURIN.private))

        async def between(stream: trio.SocketStream, onwards: TlsWire) -> None:
            secured = trio.SSLStream(stream, context, server_side=True)
            async with trio.open_nursery() as both:

                async def out() -> None:
                    while data := await secured.receive_some():
                        await onwards.send(bytes(data))

                async def back() -> None:
                    while data := await onwards.receive():
                        await secured.send_all(data)

                with suppress(trio.BrokenResourceError, trio.ClosedResourceError, Unreachable):
                    both.start_soon(out)
                    await back()
                both.cancel_scope.cancel()

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")

        async def serve(stream: trio.SocketStream) -> None:
            onwards = await tls(there.port)
            with suppress(BaseExceptionGroup):
                async with stream:
                    await between(stream, onwards)
            onwards.close()

        nursery.start_soon(trio.serve_listeners, serve, listeners)
        address = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        with pytest.raises(SessionOver, match="was expected"):
            async with dialler().meet([address], EXPECTED):
                pass
        with pytest.raises(SessionOver, match="not of the listener's key"):
            async with dialler().meet([address], ExpectedPeer()):
                pass
        nursery.cancel_scope.cancel()


async def test_one_key_has_few_channels_and_the_newest_stay() -> None:
    async with milan({"api": greeter}) as there, AsyncExitStack() as stack:
        meetings: list[DialledSession] = []
        for _ in range(there.listener.account[account.TENANTS].of_one + 1):
            met = await stack.enter_async_context(dialler().meet([there.address], EXPECTED))
            await met.attach()
            meetings.append(met)
        assert (await meetings[0].wait_over()).code == "gone"
        assert await (await meetings[-1].dial("", 0)).receive() == b"hello"


async def test_where_nothing_comes_any_more_the_meeting_is_over() -> None:
    lively, silent = HandshakeTimings(silence=0.3, ping_every=0.1), HandshakeTimings()
    async with milan({"api": greeter}, timings=HandshakeTimings(silence=0.3)) as there:
        async with dialler(timings=lively).meet([there.address], EXPECTED) as met:
            await met.attach()
            await trio.sleep(0.6)
            assert await (await met.dial("", 0)).receive() == b"hello"  # the pings keep it
        async with dialler(timings=silent).meet([there.address], EXPECTED) as met:
            await met.attach()
            with trio.fail_after(10):  # by the listener's word: this side would wait for a minute
                assert (await met.wait_over()).code == "gone"


def test_own_is_not_shown() -> None:
    assert "PRIVATE" not in repr(LocalIdentity(cluster_id="x", private=MILAN.private))


async def test_who_waits_with_an_entry_is_put_out_by_no_crowd_of_keys() -> None:
    """Else its next meeting would have other words, and two humans never compare the same ones."""
    few = Account(files=2 * account.PARTS * 4)  # four places for each part
    async with milan(account=few) as there, trio.open_nursery() as nursery:
        own = LocalIdentity(cluster_id="oslo", private=keys.generate())
        async with dialler(own).meet([there.address], EXPECTED) as waits:
            waiting, answered = trio.Event(), trio.Event()

            async def wait() -> None:
                ask = Ask(request=str(uuid4()), lifetime=600)
                assert await waits.ask(ask, lambda lifetime: waiting.set()) == Denied(reason="no")
                answered.set()

            nursery.start_soon(wait)
            await waiting.wait()
            async with AsyncExitStack() as stack:
                for number in range(3 * few[account.STRANGERS].most):
                    other = LocalIdentity(cluster_id=f"s-{number}", private=keys.generate())
                    await stack.enter_async_context(dialler(other).meet([there.address], EXPECTED))
            assert len(few[account.WAITING]) == 1
            there.host.answer = Denied(reason="no")
            there.host.decided.set()
            with trio.fail_after(20):
                await answered.wait()
        nursery.cancel_scope.cancel()
