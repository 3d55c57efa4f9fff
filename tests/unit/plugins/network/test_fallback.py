"""The judgement by which way a tunnel of WireGuard's goes, and what the version before left."""

import logging
import time
from pathlib import Path

import pytest

from liqod.errors import NetworkError
from liqod.plugins.network import fallback, redirect, rtnetlink
from liqod.plugins.network.device import WireGuardPeer
from liqod.plugins.network.fallback import (
    ClientFollower,
    SecondInterface,
    WayJudge,
    WebsocketFallback,
)
from liqod.plugins.network.rtnetlink import Link
from liqod.plugins.network.websocket import WebsocketSettings, WebsocketTunnel
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices, TunnelSpec
from tests.unit.plugins.network.machines import Here

SPEC = TunnelSpec(
    side="server",
    private_key=bytes(32),
    public_key=bytes(32),
    peer_public_key=bytes(range(32)),
)


class Udp:
    """WireGuard's side: what it has heard, a packet more each time."""

    def __init__(self) -> None:
        self.received = 0
        self.handshake = 0.0

    def agree(self) -> None:
        self.handshake = time.time() + 1.0

    def heard(self) -> WireGuardPeer:
        self.received += 32
        return self.quiet()

    def quiet(self) -> WireGuardPeer:
        return WireGuardPeer(public_key=bytes(32), handshake=self.handshake, received=self.received)


def led(judge: WayJudge, udp: Udp, now: float) -> None:
    """Go over to the websocket."""
    assert judge.wants(False, 0.1, udp.quiet(), 3.0, now)


def returns(judge: WayJudge, udp: Udp, now: float, most: float = 200.0) -> float:
    """Seconds for which UDP is heard until it is gone back to."""
    began = now
    while judge.wants(True, 5.0, udp.heard(), 0.0, now):
        now += 0.5
        assert now - began < most
    return now - began


def test_a_websocket_is_taken_in_silence_and_only_where_it_stands():
    judge, udp = WayJudge(), Udp()
    assert not judge.wants(False, 0.1, udp.quiet(), 0.0, 1.0)
    assert not judge.wants(False, None, udp.quiet(), 5.0, 2.0)
    assert judge.wants(False, 0.1, udp.quiet(), 5.0, 3.0)


def test_keys_that_are_agreed_on_and_nothing_after_them_do_not_end_it():
    judge, udp = WayJudge(), Udp()
    led(judge, udp, 1.0)
    udp.agree()
    assert judge.wants(True, 5.0, udp.heard(), 0.0, 2.0)
    for now in range(3, 20):
        assert judge.wants(True, 5.0, udp.quiet(), 0.0, now)
    assert judge.silent(udp.quiet(), 20.0) == 18.0


def test_udp_that_comes_and_goes_has_to_be_heard_for_longer_each_time():
    judge, udp = WayJudge(), Udp()
    now, took = 1.0, []
    for _ in range(4):
        led(judge, udp, now)
        udp.agree()
        took.append(returns(judge, udp, now))
        now += took[-1] + 10.0
    assert took == [2.0, 4.0, 8.0, 16.0]
    led(judge, udp, now + fallback.HELD)
    udp.agree()
    assert returns(judge, udp, now + fallback.HELD) == fallback.PATIENCE


def test_a_connection_that_breaks_is_waited_for_unless_udp_passes():
    judge, udp = WayJudge(), Udp()
    led(judge, udp, 1.0)
    assert judge.wants(True, None, udp.heard(), 0.0, 2.0)
    udp.agree()
    assert not judge.wants(True, None, udp.heard(), 0.0, 3.0)
    assert judge.left(4.0) == 1.0


def test_what_an_earlier_daemon_began_is_judged_by_its_connections_age():
    udp = Udp()
    udp.handshake = time.time() - 50
    assert WayJudge().wants(True, 30.0, udp.heard(), 0.0, 1.0)
    younger = Udp()
    younger.handshake = time.time() - 2
    assert returns(judge := WayJudge(), younger, 1.0) == fallback.PATIENCE
    assert judge.left(10.0) == 7.0


def test_a_server_answers_where_packets_come_from():
    follower = ClientFollower()
    link = Link(index=3, name="w", mtu=1340, up=True, received=10)

    def beside(received: int, *, leads: bool = False) -> SecondInterface:
        counted = Link(index=3, name="w", mtu=1340, up=True, received=received)
        return SecondInterface(counted, leads, False)

    assert not follower.follows(SecondInterface(link, False, False), 1.0)
    assert not follower.follows(beside(10), 1.5)
    assert follower.follows(beside(11), 2.0)
    assert follower.follows(beside(11, leads=True), 3.0)
    assert not follower.follows(beside(11, leads=True), 2.0 + fallback.FOLLOWED)
    # Another daemon's: what leads there goes on until nothing comes.
    other = ClientFollower()
    assert other.follows(beside(11, leads=True), 1.0)
    assert not other.follows(beside(11, leads=True), 1.0 + fallback.FOLLOWED)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WebsocketFallback:
    """One on no machine."""
    monkeypatch.setattr(rtnetlink, "find", lambda name: None)
    monkeypatch.setattr(redirect, "target", lambda name, hook: None)
    services = TunnelServices(cluster_id="rome", host=Here(), folder=str(tmp_path))
    return WebsocketFallback(WebsocketSettings(), services, Place(interface="lqt0", namespace=""))


async def test_what_carried_datagrams_for_the_version_before_is_ended(
    made: WebsocketFallback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ended: list[str] = []
    left = tmp_path / "lqt0-udp.443.socket"

    async def end(program: TunnelProcess) -> None:
        ended.append(program.name)

    monkeypatch.setattr(TunnelProcess, "end", end)
    left.touch()
    for _ in range(2):
        assert await made.settle(SPEC, None, 0.0) == (0.0, float("inf"))
    assert ended == ["lqt0-udp", "lqt0w"]
    assert not left.exists()


async def test_what_does_not_end_of_the_version_before_hinders_no_tunnel(
    made: WebsocketFallback, monkeypatch: pytest.MonkeyPatch
):
    async def end(program: TunnelProcess) -> None:
        raise NetworkError("it does not end")

    monkeypatch.setattr(TunnelProcess, "end", end)
    assert await made.settle(SPEC, None, 0.5) == (0.5, fallback.AGAIN)
    assert made.why == "it does not end"


async def test_a_websocket_that_cannot_be_had_is_said_once_and_hinders_nothing(
    made: WebsocketFallback, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def up(tunnel: WebsocketTunnel, spec: TunnelSpec, **_: float) -> float:
        raise NetworkError("too many open files")

    monkeypatch.setattr(WebsocketTunnel, "up", up)
    wanted = TunnelSpec(
        side="server",
        private_key=SPEC.private_key,
        public_key=SPEC.public_key,
        peer_public_key=SPEC.peer_public_key,
        websocket=443,
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert await made.settle(wanted, None, 0.5) == (0.5, fallback.AGAIN)
    assert [each.getMessage() for each in caplog.records] == [
        "no tunnel in a websocket can be had: too many open files"
    ]
    assert made.why == "too many open files"


async def test_the_kernel_is_not_asked_for_a_websocket_that_is_not_offered(
    made: WebsocketFallback, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    monkeypatch.setattr(redirect, "target", lambda name, hook: asked.append(name))
    assert await made.status() is None
    assert asked == ["lqt0"]
    await made.settle(SPEC, None, 0.0)
    before = len(asked)
    assert await made.status() is None
    assert len(asked) == before
