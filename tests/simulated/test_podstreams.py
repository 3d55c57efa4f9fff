"""Logs and streams of pods that run at a peer, asked for as an API server asks a kubelet."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from liqod.consumer.nodes import kubelet
from liqod.consumer.nodes.kubelet import KubeletServer
from liqod.errors import Unreachable
from liqod.identity import certificates
from liqod.kube.http import tls
from liqod.kube.http.wire import TlsWire, connect
from liqod.kube.kinds import CLUSTER_ROLES, PODS
from liqod.plugins import loader
from simulator.access.identities import User
from tests.simulated.borrower import eventually
from tests.simulated.peering import SETTINGS, Member, borrow_a_pod, members

PORTS = '[kubelet]\nport = 0\nlisten = "127.0.0.1"\n'
SPDY = (
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    "X-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Stream-Protocol-Version: channel.k8s.io\r\n"
)
WEBSOCKET = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io\r\n"
)
EXEC = "/exec/shop/web/web?command=sh&command=-c&command=echo+%26+%2Fx&input=1&output=1"


@dataclass
class Answer:
    """What came back: the head, what came behind it, and the connection."""

    status: int
    headers: dict[str, str]
    body: bytes
    wire: TlsWire

    async def line(self) -> dict[str, Any]:
        """The first line behind the head, as JSON: what the peer was asked for."""
        while b"\n" not in self.body:
            data = await self.wire.receive()
            assert data
            self.body += data
        line, _, self.body = self.body.partition(b"\n")
        return dict(json.loads(line))

    async def rest(self) -> bytes:
        """Everything to the end."""
        while data := await self.wire.receive():
            self.body += data
        return self.body


@dataclass
class Caller:
    """This cluster's API server, as far as a virtual node sees it."""

    port: int
    rome: Member
    milan: Member

    def context(self, *groups: str, name: str = "kube-apiserver") -> ssl.SSLContext:
        pair = certificates.make_client(self.rome.cluster.ca, name, groups)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        tls.load_chain(context, pair.certificate, pair.key)
        return context

    @asynccontextmanager
    async def ask(
        self, target: str, more: str = "", *, method: str = "POST", of: ssl.SSLContext | None = None
    ) -> AsyncIterator[Answer]:
        """Send a request, and read the head of its answer."""
        wire = TlsWire(await connect("127.0.0.1", self.port), of or self.masters, "x")
        try:
            await wire.handshake()
            await wire.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
            data = b""
            with trio.fail_after(20):
                while b"\r\n\r\n" not in data:
                    came = await wire.receive()
                    assert came, data
                    data += came
            head, _, body = data.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            pairs = (line.split(": ", 1) for line in lines)
            found = {name.lower(): value for name, value in pairs}
            while len(body) < int(found.get("content-length", "0")):
                body += await wire.receive()
            yield Answer(int(first.split(" ")[1]), found, body, wire)
        finally:
            wire.close()

    def __post_init__(self) -> None:
        self.masters = self.context("system:masters")


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    plugins = loader.load(sources=loader.built_in())
    async with (
        members("rome", "milan", plugins=plugins, settings=SETTINGS + PORTS) as (rome, milan),
        trio.open_nursery() as nursery,
    ):
        server = KubeletServer(rome.home)
        port = await nursery.start(server.run)
        await borrow_a_pod(rome, milan)
        await eventually(lambda: _runs(milan))
        yield Caller(port, rome, milan)
        await eventually(lambda: _none_open(server))
        nursery.cancel_scope.cancel()


async def _runs(milan: Member) -> bool:
    """Be the kubelet there."""
    status = {"status": {"phase": "Running"}}
    await milan.admin.patch(PODS, "web", status, "shop-rome", subresource="status")
    return True


async def _none_open(server: KubeletServer) -> bool:
    return server.streams == 0


async def test_streams_are_carried_and_what_may_not_be_is_refused(caller: Caller) -> None:
    for more, agreed in (
        (SPDY, ("x-stream-protocol-version", "v4.channel.k8s.io")),
        (WEBSOCKET, ("sec-websocket-protocol", "v5.channel.k8s.io")),
    ):
        async with caller.ask(EXEC, more) as answer:
            assert answer.status == 101, answer.body
            assert answer.headers[agreed[0]] == agreed[1]
            asked = await answer.line()
            assert asked["pod"] == "shop-rome/web"
            assert asked["query"]["command"] == ["sh", "-c", "echo & /x"]
            assert asked["query"]["stdin"] == ["true"] == asked["query"]["stdout"]
            assert asked["query"]["stderr"] == ["false"]
            await answer.wire.send(b"\x80\x03what is said" * 1000)
            await answer.wire.finish()
            assert await answer.rest() == b"\x80\x03what is said" * 1000

    async with caller.ask("/portForward/shop/web", SPDY.replace("v4.channel", "portforward")) as it:
        assert (it.status, (await it.line())["action"]) == (101, "portforward")
    async with caller.ask("/attach/shop/web/web?output=1", SPDY) as it:
        assert (await it.line())["query"]["stdout"] == ["true"]
    async with caller.ask("/containerLogs/shop/web/web?tailLines=5", method="GET") as it:
        assert it.status == 200
        assert b"web of shop-rome/web has started" in it.body + await it.wire.receive()

    # The peer's own refusal, and its words.
    async with caller.ask(EXEC.replace("/web?", "/other?"), SPDY) as it:
        assert it.status == 400
        assert json.loads(it.body)["message"] == (
            "the peer milan: container other is not valid for pod web"
        )
    await caller.milan.admin.delete(CLUSTER_ROLES, "liqo-virtual-kubelet-remote-streams")

    async def forbidden() -> bool:
        async with caller.ask(EXEC, SPDY) as it:
            said = it.body.decode()
            return it.status == 403 and "the peer milan: pods" in said and "pods/exec" in said

    await eventually(forbidden)


async def test_only_who_may_reach_nodes_is_answered(caller: Caller) -> None:
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
    async with caller.ask(EXEC, SPDY, of=nobody) as it:
        assert it.status == 401
        assert "a virtual node answers its API server" in it.body.decode()
    someone, said = caller.context("system:nodes", name="someone"), set()
    for target in (EXEC, EXEC.replace("/web/", "/none/"), EXEC.replace("shop", "none")):
        async with caller.ask(target, SPDY, of=someone) as it:
            assert it.status == 403
            assert "someone may not create nodes/proxy" in it.body.decode()
            said.add(it.body)
    assert len(said) == 1, "nobody else is told which pods there are"
    stranger = Caller(caller.port, caller.milan, caller.milan)  # another cluster's authority
    with pytest.raises(Unreachable):
        async with stranger.ask(EXEC, SPDY):
            pass

    token = caller.rome.cluster.api.authenticator
    headers = SPDY + "Authorization: Bearer {}\r\n"
    async with caller.ask(EXEC, headers.format("x.y.z"), of=nobody) as it:
        assert it.status == 401

    token.tokens["masters"] = User("root", ("system:masters",))
    async with caller.ask(EXEC, headers.format("masters"), of=nobody) as it:
        assert it.status == 101
        assert (await it.line())["pod"] == "shop-rome/web"


async def test_what_the_peer_is_told_is_no_more_than_the_lists(caller: Caller) -> None:
    """Another pod, another namespace, a second request, credentials of somebody else."""
    for path in (
        "/exec/shop/..%2F..%2Fkube-system%2Fpods%2Fx/web",
        "/exec/shop/web%3Fcommand=x/web",
        "/exec/shop%2Fweb/web/..",
        "/exec/shop/web/web%0d%0aX: y",
    ):
        async with caller.ask(f"{path}?command=id", SPDY) as it:
            assert it.status in (400, 404), path
    async with caller.ask("/exec/kube-system/web/web?command=id", SPDY) as it:
        assert it.status == 404
    body = "GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\n\r\n"
    async with caller.ask(EXEC, f"{SPDY}Content-Length: {len(body)}\r\n") as it:
        assert it.status == 400
    seen: list[dict[str, str]] = []
    handle = caller.milan.cluster.api.authenticator.identify

    def identify(request: Any) -> Any:
        if request.path.endswith("/exec"):
            seen.append(dict(request.headers))
        return handle(request)

    caller.milan.cluster.api.authenticator.identify = identify  # type: ignore[method-assign]
    token = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
    smuggled = WEBSOCKET.replace("v5.channel.k8s.io,", f"v5.channel.k8s.io, {token},")
    more = (
        "Impersonate-User: root\r\nCookie: a=b\r\nX-Forwarded-For: 10.0.0.1\r\nOrigin: http://x\r\n"
    )
    async with caller.ask(f"{EXEC}&container=other&stdin=x", smuggled + more) as it:
        assert it.status == 101
        asked = await it.line()
        assert asked["query"]["container"] == ["web"]
        assert asked["query"]["stdin"] == ["true"]
    [headers] = seen
    assert headers.keys() == {
        *("authorization", "connection", "content-length", "host", "sec-websocket-key"),
        *("sec-websocket-protocol", "sec-websocket-version", "upgrade", "user-agent"),
    } - ({"authorization"} - headers.keys())
    assert headers["sec-websocket-protocol"] == "v5.channel.k8s.io, v4.channel.k8s.io"


async def test_streams_end_with_the_way_and_are_bounded(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caller.ask(EXEC, SPDY) as it:
        await it.line()
        monkeypatch.setattr(kubelet, "MOST", 1)
        async with caller.ask(EXEC, SPDY) as refused:
            assert refused.status == 429
        await caller.milan.cluster.stop()
        with trio.fail_after(20):
            assert await it.rest() == b""

    async def unreachable() -> bool:
        async with caller.ask(EXEC, SPDY) as it:
            return it.status == 503 and "the peer milan: it does not answer" in it.body.decode()

    await eventually(unreachable)
    await caller.milan.cluster.start()
