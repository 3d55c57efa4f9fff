"""Two daemons meet over TLS and a websocket."""

import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

import pytest
import trio
import trio.testing
import trio_websocket

from liqod.errors import Unconnected, Unreachable
from liqod.handshake.protocol.messages import Accepted, Ask, Cancel, Denied, Done, Refused
from liqod.handshake.protocol.outputs import ExpectedPeer
from liqod.handshake.transport import peerlistener
from liqod.handshake.transport.interfaces import SessionOver
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.handshake.transport.peertls import listener_context
from liqod.identity.clustercertificates import certificate_of
from liqod.kube.http.splice import splice
from liqod.kube.http.wire import StreamWire, connect
from liqod.runtime.account import TENANTS
from tests.unit.handshake.listeners import (
    EXPECTED,
    MILAN,
    ROME,
    TURIN,
    dialler,
    greeter,
    milan,
    print_of,
)

REQUEST = str(uuid.uuid4())


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is."""
    with trio.fail_after(20):
        while not true():  # noqa: ASYNC110
            await trio.sleep(0.005)


def ignore(lifetime: int) -> None:
    """Nobody waits."""


async def test_both_prove_their_keys_and_a_tenant_has_a_channel() -> None:
    async with milan({"api": greeter}) as there, dialler().meet([there.address], EXPECTED) as met:
        assert (met.peer.cluster_id, met.peer.key) == ("milan", print_of(MILAN))
        with pytest.raises(Unconnected, match="nothing was agreed"):
            await met.dial("10.0.0.1", 6443)
        channel = await met.attach()
        wire = await met.dial("10.0.0.1", 6443)
        assert await wire.receive() == b"hello"
        with pytest.raises(Unconnected, match="nothing of that name"):
            await channel.open("10.0.0.1:22")


async def test_a_request_waits_is_accepted_and_what_became_of_it_is_noted() -> None:
    async with milan({"api": greeter}) as there:
        waited: list[int] = []
        got: list[Accepted | Denied] = []
        async with (
            dialler(TURIN).meet([there.address], EXPECTED) as met,
            trio.open_nursery() as nursery,
        ):

            async def ask() -> None:
                got.append(await met.ask(Ask(request=REQUEST, lifetime=60), waited.append))

            nursery.start_soon(ask)
            await until(lambda: waited == [600])
            there.host.answer = Accepted(kubeconfig="x", granted={"cpu": "4"})
            there.host.decided.set()
            await until(lambda: bool(got))
            assert await (await met.dial("", 0)).receive() == b"hello"
            await met.report(Done(request=REQUEST))
        assert got == [there.host.answer]
        assert there.host.heard == [("turin", "127.0.0.1", REQUEST), Done(request=REQUEST)]


@pytest.mark.parametrize("answer", [Denied(reason="no"), Refused(code="busy", again=7)])
async def test_a_request_that_is_not_granted_ends_the_meeting(answer: Denied | Refused) -> None:
    async with milan() as there, dialler(TURIN).meet([there.address], EXPECTED) as met:
        there.host.answer = answer
        ask = Ask(request=REQUEST, lifetime=60)
        if isinstance(answer, Denied):
            assert await met.ask(ask, ignore) == answer
        else:
            with pytest.raises(SessionOver) as told:
                await met.ask(ask, ignore)
            assert (told.value.closed.code, told.value.closed.again) == ("busy", 7)


async def test_who_takes_a_request_back_waits_no_more() -> None:
    async with milan() as there, dialler(TURIN).meet([there.address], EXPECTED) as met:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(met.ask, Ask(request=REQUEST, lifetime=60), ignore)
            await until(lambda: bool(there.host.heard))
            await met.report(Cancel(request=REQUEST))
            nursery.cancel_scope.cancel()
        there.host.answer = Accepted(kubeconfig="x")
        there.host.decided.set()
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert met.channel is None


async def test_a_request_that_is_taken_back_in_the_same_breath_is_not_decided() -> None:
    async with milan() as there, dialler(TURIN).meet([there.address], EXPECTED) as met:
        ask, cancel = Ask(request=REQUEST, lifetime=60), Cancel(request=REQUEST)
        async with trio.open_nursery() as nursery:

            async def both() -> None:
                with suppress(SessionOver):
                    await met.ask(ask, ignore)

            nursery.start_soon(both)
            await met.report(cancel)
            nursery.cancel_scope.cancel()
        there.host.answer = Accepted(kubeconfig="x")
        there.host.decided.set()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert there.host.heard[-1] == cancel
        assert not len(there.listener.account[TENANTS])
        assert met.channel is None


async def test_a_stranger_has_no_channel() -> None:
    async with (
        milan({"api": greeter}) as there,
        dialler(TURIN).meet([there.address], EXPECTED) as m,
    ):
        with pytest.raises(SessionOver, match="no tenant") as told:
            await m.attach()
        assert told.value.closed.code == "unknown"


async def test_who_has_another_key_is_not_met_and_named() -> None:
    expected = ExpectedPeer(key=print_of(TURIN))
    async with milan() as there:
        with pytest.raises(SessionOver, match=f"shows the key {print_of(MILAN)}") as told:
            async with dialler().meet([there.address], expected):
                pass
        assert told.value.closed.code == "wrong-key"


async def test_the_first_address_that_shows_the_key_is_met() -> None:
    async with milan() as there, AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        silent = await trio.open_tcp_listeners(0, host="127.0.0.1")
        other = peerlistener.PeerListener(TURIN, there.host, {})
        impostor = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(other.run, impostor)
        ports = [each[0].socket.getsockname()[1] for each in (silent, impostor)]
        addresses = [f"127.0.0.1:{port}" for port in (1, *ports, there.port)]
        async with dialler().meet(addresses, EXPECTED) as met:
            assert met.address == there.address
        nursery.cancel_scope.cancel()
        await silent[0].aclose()


async def test_where_nobody_answers_each_address_says_why() -> None:
    with pytest.raises(Unconnected, match=r"127\.0\.0\.1:1: cannot connect.*no address|localhost"):
        async with dialler().meet(["127.0.0.1:1", "localhost:1"], EXPECTED):
            pass
    with pytest.raises(Unconnected, match="no address"):
        async with dialler().meet([], EXPECTED):
            pass


async def test_the_way_goes_by_a_proxy_that_allows_one_port() -> None:
    async with milan({"api": greeter}) as there, trio.open_nursery() as nursery:

        async def proxy(stream: trio.SocketStream) -> None:
            asked = bytes(await stream.receive_some()).split(b" ")[1].decode()
            if asked != there.address:
                await stream.send_all(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
            onwards = await connect("127.0.0.1", there.port)
            with suppress(Unreachable):
                await splice(StreamWire(stream), onwards)
            onwards.close()

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, proxy, listeners)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        for how in (
            PeerDialler(ROME, proxy=url, environ={}),
            PeerDialler(ROME, environ={"https_proxy": url}),
        ):
            async with how.meet([there.address], EXPECTED) as met:
                await met.attach()
                assert await (await met.dial("", 0)).receive() == b"hello"
        with pytest.raises(Unconnected, match=r"makes no connection to .*:22: it answers 403"):
            async with how.meet(["127.0.0.1:22"], EXPECTED):
                pass
        nursery.cancel_scope.cancel()


async def test_what_is_no_daemon_is_said_to_be_none() -> None:
    context = listener_context(certificate_of(MILAN.private))

    async def no_websocket(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, context, server_side=True)
        await secured.receive_some()
        await secured.send_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, no_websocket, listeners)
        port = listeners[0].socket.getsockname()[1]
        with pytest.raises(Unconnected, match="no daemon of liqod answers there: it answers 404"):
            async with dialler().meet([f"127.0.0.1:{port}"], EXPECTED):
                pass
        nursery.cancel_scope.cancel()


async def test_an_error_of_the_body_comes_out_as_it_is() -> None:
    async with milan() as there:
        with pytest.raises(ZeroDivisionError):
            async with dialler().meet([there.address], EXPECTED):
                raise ZeroDivisionError


async def test_a_tenant_that_is_none_any_more_loses_its_channel() -> None:
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(milan({"api": greeter}))
        met = await stack.enter_async_context(dialler().meet([there.address], EXPECTED))
        await met.attach()
        wire = await met.dial("", 0)
        assert await wire.receive() == b"hello"
        there.host.ended.set()
        with pytest.raises(Unreachable, match="the cluster milan: it was revoked"):
            await wire.receive()
        assert (await met.wait_over()).code == "unknown"


async def test_who_was_accepted_and_has_not_attached_loses_its_way_when_it_is_revoked() -> None:
    async with (
        milan({"api": greeter}) as there,
        dialler(TURIN).meet([there.address], EXPECTED) as met,
    ):
        there.host.answer = Accepted(kubeconfig="x")
        await met.ask(Ask(request=REQUEST, lifetime=60), ignore)
        wire = await met.dial("", 0)
        assert await wire.receive() == b"hello"
        there.host.ended.set()
        with trio.fail_after(20):
            assert (await met.wait_over()).reason == "it was revoked"


async def test_who_reads_nothing_keeps_nothing_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async with milan({"api": greeter}) as there, dialler().meet([there.address], EXPECTED) as met:
        await met.attach()

        async def unread(connection: object, message: object) -> None:
            await trio.sleep_forever()

        monkeypatch.setattr(trio_websocket.WebSocketConnection, "send_message", unread)
        there.host.ended.set()
        await until(lambda: not len(there.listener.account[TENANTS]))
        with trio.fail_after(20):
            await met.wait_over()
