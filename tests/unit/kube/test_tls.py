"""TLS on real sockets: who is trusted, who we are, sessions, and floods."""

import os
import ssl
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import pytest
import trio
import trio.testing

from liqod.errors import ConfigError, Unreachable
from liqod.identity import certificates
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http import tls, wire
from liqod.kube.http.httpserver import HttpRequest, HttpResponse, serve
from liqod.kube.http.tls import client_context
from liqod.kube.http.wire import KeepAlive, SocketWire, TlsWire, connect
from tests.testbed.held import held

CA = certificates.make_ca("test authority")
OTHER_CA = certificates.make_ca("another authority")
SERVER = certificates.make_server(CA, ["127.0.0.1", "api.internal"])
CLIENT = certificates.make_client(CA, "someone", ("group",))


async def whoami(request: HttpRequest) -> HttpResponse:
    if request.path == "/slow":
        await trio.sleep(0.2)
    if request.path == "/big":
        return HttpResponse(body=b"x" * (1 << 20))
    subject: Any = (request.peer_certificate or {}).get("subject", ())
    names = [value for part in subject for name, value in part if name == "commonName"]
    return HttpResponse(body=",".join(names).encode())


def server_context(*, ask: bool = True) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_chain(context, SERVER.certificate, SERVER.key)
    if ask:
        context.load_verify_locations(cadata=CA.certificate.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


@asynccontextmanager
async def serving(context: ssl.SSLContext | None = None, **more: Any):
    """A server, and credentials for it."""
    async with trio.open_nursery() as nursery:
        port = await nursery.start(partial(serve, whoami, ssl_context=context or server_context()))
        yield Credentials(**({"server": f"https://127.0.0.1:{port}", "ca": CA.certificate} | more))
        nursery.cancel_scope.cancel()


async def ask(credentials: Credentials, path: str = "/") -> bytes:
    async with Client(credentials) as client:
        return (await client.raw("GET", path)).body


async def test_a_client_certificate_from_memory():
    async with serving(client_cert=CLIENT.certificate, client_key=CLIENT.key) as credentials:
        assert await ask(credentials) == b"someone"
    assert not [name for name in os.listdir("/tmp") if "liqod-identity" in name]


async def test_anonymous():
    async with serving() as credentials:
        assert await ask(credentials) == b""


async def test_another_authority_is_not_trusted():
    async with serving(ca=OTHER_CA.certificate) as credentials:
        with pytest.raises(Unreachable, match="not trusted"):
            await ask(credentials)


async def test_the_name_must_be_right_and_can_be_told():
    async with serving(server_name="wrong.internal") as credentials:
        with pytest.raises(Unreachable, match=r"not trusted.*wrong\.internal"):
            await ask(credentials)
    async with serving(server_name="api.internal") as credentials:
        assert await ask(credentials) == b""


async def test_insecure():
    async with serving(ca=None, insecure=True) as credentials:
        assert await ask(credentials) == b""


async def test_a_server_that_is_none():
    async def silent(stream: trio.SocketStream) -> None:
        await stream.send_all(b"SSH-2.0-OpenSSH\r\n")
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, silent, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        with pytest.raises(Unreachable, match="TLS failed"):
            await ask(Credentials(f"https://127.0.0.1:{port}"))
        nursery.cancel_scope.cancel()
    with pytest.raises(
        Unreachable, match=r"https://127\.0\.0\.1:\d+: cannot connect: Connection refused"
    ):
        await ask(Credentials(f"https://127.0.0.1:{port}"))


async def test_sessions_are_resumed_and_identities_renewed():
    other = certificates.make_client(CA, "other")
    async with serving(client_cert=CLIENT.certificate, client_key=CLIENT.key) as credentials:
        client = Client(credentials, connections=4)
        async with client:
            assert (await client.raw("GET", "/")).body == b"someone"
            async with client.stream("GET", "/") as stream:  # a second connection
                assert await stream.receive() == b"someone"
                secured: Any = stream.connection.wire
                assert secured.resumed
            client.renew(
                Credentials(
                    credentials.server,
                    ca=CA.certificate,
                    client_cert=other.certificate,
                    client_key=other.key,
                )
            )
            assert (await client.raw("GET", "/")).body == b"other"


async def test_a_stream_resumes_the_session_of_another_where_nothing_else_was_asked():
    async with serving() as credentials, Client(credentials) as client:
        for known in (False, True):
            async with client.stream("GET", "/") as stream:
                secured: Any = stream.connection.wire
                assert secured.resumed is known


async def test_a_session_of_the_old_identity_is_not_resumed_by_the_new():
    async with serving(client_cert=CLIENT.certificate, client_key=CLIENT.key) as credentials:
        client = Client(credentials)
        async with client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.raw, "GET", "/slow")
                await trio.testing.wait_all_tasks_blocked(0.05)
                client.renew(Credentials(credentials.server, ca=CA.certificate))
                assert (await client.raw("GET", "/")).body == b""
            async with client.stream("GET", "/") as stream:
                assert stream.headers["content-length"] == "0"


async def test_one_that_connects_while_the_identity_is_renewed_does_not_keep_the_old_one():
    dialling, go_on = [trio.Event(), trio.Event()], [trio.Event(), trio.Event()]
    turns = count()

    async def dial(host: str, port: int, /) -> wire.Wire:
        turn = next(turns)
        if turn < 2:
            dialling[turn].set()
            await go_on[turn].wait()
        return await connect(host, port)

    async with serving() as found:
        before, after = (
            Credentials(
                found.server, ca=CA.certificate, client_cert=who.certificate, client_key=who.key
            )
            for who in (CLIENT, certificates.make_client(CA, "other"))
        )
        async with Client(before, dial=dial) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.raw, "GET", "/")
                await dialling[0].wait()
                client.renew(after)
                nursery.start_soon(client.raw, "GET", "/")
                await dialling[1].wait()
                # The new identity is known; who asked before it was has its connection first.
                go_on[0].set()
                await trio.testing.wait_all_tasks_blocked(0.05)
                go_on[1].set()
            assert (await client.raw("GET", "/")).body == b"other"
            async with client.stream("GET", "/") as stream:
                assert await stream.receive() == b"other"


@pytest.mark.parametrize("secure", [True, False])
async def test_large_answers(secure):
    async with trio.open_nursery() as nursery:
        context = server_context() if secure else None
        port = await nursery.start(partial(serve, whoami, ssl_context=context))
        scheme = "https" if secure else "http"
        found = await ask(Credentials(f"{scheme}://127.0.0.1:{port}", ca=CA.certificate), "/big")
        assert found == b"x" * (1 << 20)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("secure", [True, False])
async def test_a_flood_leaves_others_their_turn_and_is_handed_over_in_bounds(secure):
    size = 8 << 20
    biggest = turns = 0
    done = trio.Event()

    async def flood(stream: trio.SocketStream) -> None:
        sender: trio.abc.Stream = stream
        if secure:
            sender = trio.SSLStream(stream, server_context(ask=False), server_side=True)
        await sender.send_all(b"x" * size)
        await done.wait()

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, flood, 0, host="127.0.0.1"))
        it: Any = await connect("127.0.0.1", listeners[0].socket.getsockname()[1])
        if secure:
            it = TlsWire(it, client_context(Credentials("", ca=CA.certificate)), "127.0.0.1")
            await it.handshake()
        nursery.start_soon(count)
        got = 0
        while got < size:
            data = await it.receive()
            biggest = max(biggest, len(data))
            got += len(data)
        assert biggest <= wire.TURN_BYTES + wire.READ_SIZE
        assert turns >= size // wire.TURN_BYTES - 1
        done.set()
        it.close()
        it.close()
        nursery.cancel_scope.cancel()


async def test_keep_alive_and_stale():
    import socket

    closed = trio.Event()

    async def close(stream: trio.SocketStream) -> None:
        await closed.wait()
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, close, 0, host="127.0.0.1"))
        it = await connect("127.0.0.1", listeners[0].socket.getsockname()[1])
        it.keep_alive(KeepAlive(idle=2, interval=1, count=3))
        (connected,) = held(it, socket.socket)
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 2
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert not it.stale()
        closed.set()
        assert await it.receive() == b""
        assert it.stale()
        it.close()
        nursery.cancel_scope.cancel()


async def test_sending_much_to_one_who_reads_slowly_can_be_cancelled():
    import socket

    ours, theirs = socket.socketpair()
    it = SocketWire(ours)
    it.keep_alive(KeepAlive())  # no TCP: nothing to set
    with trio.move_on_after(0.05) as scope:
        await it.send(b"x" * (16 << 20))
    assert scope.cancelled_caught
    theirs.close()
    with pytest.raises(Unreachable, match="connection broken"):
        await it.send(b"x")
    it.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ca": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}, "CA certificate"),
        ({"client_key": certificates.make_client(CA, "x").key}, "cannot be used"),
        ({"client_cert": b"-----BEGIN x"}, "cannot be used"),
        (
            {
                "client_key": b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n"
                b"-----END ENCRYPTED PRIVATE KEY-----\n"
            },
            "cannot be used|passphrase",
        ),
    ],
)
def test_identities_that_openssl_refuses(change, message):
    given = {"ca": CA.certificate, "client_cert": CLIENT.certificate, "client_key": CLIENT.key}
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigError, match=message):
        client_context(Credentials("https://x", **(given | change)))
    assert len(os.listdir("/proc/self/fd")) == before


class Clogged:
    """A wire that takes nothing any more once it is told so."""

    def __init__(self, below: wire.Wire) -> None:
        self.below, self.open = below, True

    async def send(self, data: bytes) -> None:
        if not self.open:
            await trio.sleep_forever()
        await self.below.send(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


async def test_a_write_that_is_cut_off_ends_the_connection_for_all_who_use_it():
    async with serving() as credentials, trio.open_nursery() as nursery:
        port = int(credentials.server.rpartition(":")[2])
        clogged: Any = Clogged(await connect("127.0.0.1", port))
        secured = TlsWire(clogged, client_context(credentials), "127.0.0.1")
        await secured.handshake()
        clogged.open = False
        ended = trio.Event()

        async def listen() -> None:
            with pytest.raises(Unreachable):
                await secured.receive()
            ended.set()

        cut_off = trio.CancelScope()

        async def send() -> None:
            with cut_off:
                await secured.send(b"first")

        nursery.start_soon(listen)
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        await secured.send(b"second")  # goes out with the first
        cut_off.cancel()
        with trio.fail_after(5):
            await ended.wait()
        clogged.open = True
        with pytest.raises(Unreachable):
            await secured.send(b"third")
