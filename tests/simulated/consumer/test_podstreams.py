"""Logs and streams of pods that run at a peer, asked for as an API server asks a kubelet."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import CLUSTER_ROLES, PODS
from liqod.consumer.nodes.kubelet import KubeletServer
from liqod.errors import Unreachable
from liqod.plugins import loader
from liqod.runtime.account import KUBELET, Account
from simulator.access.identities import User
from tests.simulated.borrower import eventually
from tests.simulated.kubeletcaller import EXEC, SPDY, WEBSOCKET, Caller
from tests.simulated.members import SETTINGS, Member, borrow_a_pod, members

LONGEST_LOOK, AT_ONCE = 45.0, 5.0
"""Seconds until a request that the freeze surprises has its answer, well within the minute of
an API server; and once the daemon knows."""
PORTS = '[kubelet]\nport = 0\nlisten = "127.0.0.1"\n'


@dataclass
class Peered(Caller):
    """The caller, and the two clusters."""

    rome: Member
    milan: Member
    places: Account


@pytest.fixture
async def caller() -> AsyncIterator[Peered]:
    plugins = loader.load(sources=loader.built_in())
    async with (
        members("rome", "milan", plugins=plugins, settings=SETTINGS + PORTS) as (rome, milan),
        trio.open_nursery() as nursery,
    ):
        places = Account()
        server = KubeletServer(rome.context, rome.components.pod_proxies, places)
        port = await nursery.start(server.run)
        await borrow_a_pod(rome, milan)
        await eventually(lambda: _runs(milan))
        yield Peered(port, rome.cluster.ca, rome, milan, places)
        await eventually(lambda: _none_open(server))
        nursery.cancel_scope.cancel()


async def _runs(milan: Member) -> bool:
    """Be the kubelet there."""
    status = {"status": {"phase": "Running"}}
    await milan.admin.patch(PODS, "web", status, "shop-rome", subresource="status")
    return True


async def _none_open(server: KubeletServer) -> bool:
    return server.streams == 0


@pytest.mark.long
async def test_streams_are_carried_and_what_may_not_be_is_refused(caller: Peered) -> None:
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


@pytest.mark.long
async def test_nobody_is_led_to_a_pod_that_was_made_for_another(caller: Peered) -> None:
    await caller.milan.stop()  # else the pod is put right
    for uid, status in (("of-another", 404), (None, 101)):  # Liqo says none
        other = {"metadata": {"annotations": {"liqod.io/local-uid": uid}}}
        await caller.milan.admin.patch(PODS, "web", other, "shop-rome")
        async with caller.ask(EXEC, SPDY) as it:
            assert it.status == status
            if status == 404:
                assert "the pod web there is not this one's" in it.body.decode()


@pytest.mark.long
async def test_only_who_may_reach_nodes_is_answered(caller: Peered) -> None:
    nobody = caller.anonymous()
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
    stranger = Caller(caller.port, caller.milan.cluster.ca)  # another cluster's authority
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


@pytest.mark.long
async def test_what_the_peer_is_told_is_no_more_than_the_lists(caller: Peered) -> None:
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


@pytest.mark.long
@pytest.mark.pods
async def test_streams_end_with_the_way_and_are_bounded(
    caller: Peered, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caller.ask(EXEC, SPDY) as it:
        await it.line()
        monkeypatch.setattr(caller.places[KUBELET], "most", 1)
        async with caller.ask(EXEC, SPDY) as refused:
            assert refused.status == 429
        await caller.milan.cluster.stop()
        with trio.fail_after(20):
            assert await it.rest() == b""

    async def unreachable() -> bool:
        async with caller.ask(EXEC, SPDY) as it:
            return it.status == 503 and "the peer milan: it does not answer" in it.body.decode()

    await eventually(unreachable)
    # An API server passes on no words that come with a 503 to anyone who asks for logs.
    async with caller.ask("/containerLogs/shop/web/web", method="GET") as it:
        assert (it.status, b"the peer milan: it does not answer" in it.body) == (500, True)
    await caller.milan.cluster.start()


@pytest.mark.long
@pytest.mark.pods
async def test_two_hundred_are_in_a_pod_at_once_and_each_has_its_own_answer(caller: Peered) -> None:
    answered: list[int] = []

    async def one(number: int) -> None:
        said = f"{number:04}".encode() * 512
        async with caller.ask(EXEC, SPDY if number % 2 else WEBSOCKET) as answer:
            assert answer.status == 101
            await answer.line()
            inside.append(number)
            await everybody.wait()
            await answer.wire.send(said)
            await answer.wire.finish()
            assert await answer.rest() == said
            answered.append(number)

    inside: list[int] = []
    everybody = trio.Event()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(one, number)
            while len(inside) < 200:  # noqa: ASYNC110
                await trio.sleep(0.01)
            everybody.set()
    assert len(answered) == 200


@pytest.mark.long
@pytest.mark.pods
async def test_logs_have_a_reason_while_the_peer_s_server_is_frozen(caller: Peered) -> None:
    """It accepts connections and answers nothing: before that is known, and afterwards."""
    logs = "/containerLogs/shop/web/web"
    async with caller.ask(f"{logs}?follow=true", method="GET") as open_before:
        assert open_before.status == 200
        caller.milan.cluster.api.faults.freeze()
        try:
            for patience in (LONGEST_LOOK, AT_ONCE):
                with trio.fail_after(patience):
                    async with caller.ask(logs, method="GET") as it:
                        said = it.body.decode()
                        assert it.status == 500, "the words that come with a 503 are dropped"
                        assert "the peer milan: " in said
                        assert "answer" in said
            with trio.fail_after(AT_ONCE):
                await open_before.rest()
        finally:
            caller.milan.cluster.api.faults.thaw()

    async def again() -> bool:
        async with caller.ask(logs, method="GET") as it:
            return it.status == 200

    await eventually(again, seconds=30)
