"""Probes are Liqo's on the wire; what a hostile peer sends to their port costs little."""

import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio

from liqod.model.network.liveness import DEADLINE
from liqod.model.network.ranges import ClusterCidrs
from liqod.tunnel.probes import prober
from liqod.tunnel.probes.messages import (
    MOST_RANGES,
    Message,
    PeerHello,
    ProbeResult,
    read,
    stamp,
)
from liqod.tunnel.probes.prober import PeerProber
from tests.kube_cases import until

NOTHING = PeerHello()
RANGES = ("10.65.0.0/16", "fd00:65::/48")


def test_times_are_as_go_writes_them():
    assert stamp(1_700_000_000_000_000_000) == "2023-11-14T22:13:20Z"
    assert stamp(1_700_000_000_120_000_000) == "2023-11-14T22:13:20.12Z"
    assert stamp(1_700_000_000_000_000_001) == "2023-11-14T22:13:20.000000001Z"


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"{", b'{"msgType": 1}', b"\xff" * 20, b" " * 600, b"null"),
        b'{"msgType": "PING", "websocket": "no"}',
    ],
)
def test_nonsense_is_no_message(data: bytes):
    assert read(data) is None


def test_what_liqo_sends_is_one():
    data = b'{"clusterID":"rome","msgType":"PING","timeStamp":"2023-11-14T22:13:20.12Z"}'
    assert read(data) == Message("rome", "PING", "2023-11-14T22:13:20.12Z")


class Other:
    """The other side, on this machine's loopback."""

    def __init__(self, sock: trio.socket.SocketType, prober: tuple[str, int]) -> None:
        self.sock, self.prober = sock, prober

    async def get(self) -> dict[str, Any]:
        with trio.fail_after(5):
            data, _ = await self.sock.recvfrom(2048)
        found: dict[str, Any] = msgspec.json.decode(data)
        return found

    async def send(self, message: dict[str, Any] | bytes) -> None:
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        await self.sock.sendto(data, self.prober)

    async def answer(self) -> None:
        while True:
            message = await self.get()
            if message["msgType"] == "PING":
                await self.send({**message, "msgType": "PONG"})


class Kernel:
    """The kernel at the other side: it answers echoes while it is to."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.asked = 0
        self._send, self._receive = trio.open_memory_channel[tuple[bytes, str]](100)

    async def send(self, token: bytes, target: str, size: int) -> bool:
        self.asked += 1
        if self.answers:
            await self._send.send((token, target))
        return True

    async def receive(self) -> tuple[bytes, str]:
        return await self._receive.receive()

    def close(self) -> None:
        """It stays."""


class Loopback:
    """Opens sockets on this machine's loopback, after some seconds."""

    def __init__(self, own: str, port: int, kernel: Kernel, seconds: float) -> None:
        self._own, self._port, self._kernel = own, port, kernel
        self._seconds = seconds

    async def probes(self) -> socket.socket:
        await trio.sleep(self._seconds)
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((self._own, self._port))
        return made

    async def echoes(self) -> Kernel:
        return self._kernel


@asynccontextmanager
async def probing(
    heard: Callable[[ProbeResult], None],
    tells: PeerHello = NOTHING,
    kernel: Kernel | None = None,
    opens: float = 0.0,
) -> AsyncIterator[Other]:
    """A prober, whose parent opens sockets after some seconds, and what is at the other end."""
    own, other = "127.0.0.61", "127.0.0.62"
    with trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        await sock.bind((other, 0))
        port = sock.getsockname()[1]
        sockets = Loopback(own, port, kernel or Kernel(answers=False), opens)
        async with trio.open_nursery() as nursery:
            prober = PeerProber("milan", own, other, port, sockets, heard, lambda: tells)
            nursery.start_soon(prober.run)
            yield Other(sock, (own, port))
            nursery.cancel_scope.cancel()


async def test_the_time_in_which_a_socket_is_opened_is_no_silence():
    """Of a process that is begun on a busy machine."""
    verdicts: list[bool] = []
    async with (
        probing(lambda said: verdicts.append(said.alive), opens=DEADLINE + 0.1) as other,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(other.answer)
        await until(lambda: bool(verdicts), 20.0)
        nursery.cancel_scope.cancel()
    assert verdicts == [True]


async def test_the_other_side_is_asked_and_heard():
    verdicts: list[ProbeResult] = []
    async with probing(verdicts.append) as other:
        message = await other.get()
        assert message.keys() == {"clusterID", "msgType", "timeStamp"}
        assert message["clusterID"] == "milan"
        assert message["msgType"] == "PING"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", message["timeStamp"])
        await other.send({**message, "msgType": "PONG"})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.answer)
            await trio.sleep(0.3)
            nursery.cancel_scope.cancel()
        (verdict,) = verdicts
        assert verdict.alive
        assert verdict.latency is not None
        assert verdict.latency < 0.5
        began = trio.current_time()
        await until(lambda: len(verdicts) == 2, 5.0)
        assert trio.current_time() - began < 2.2
        assert not verdicts[1].alive
        assert verdicts[1].why == "nothing answers through the tunnel"


async def test_the_kernel_is_asked_where_the_daemon_does_not_answer():
    verdicts: list[ProbeResult] = []
    kernel = Kernel(answers=True)
    async with probing(verdicts.append, kernel=kernel) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.answer)
            await until(lambda: bool(verdicts))
            nursery.cancel_scope.cancel()
        # The daemon is dead from here on; the way is there all the same.
        await until(lambda: kernel.asked > 5, 10.0)
        assert all(each.alive for each in verdicts)
        kernel.answers = False
        await until(lambda: not verdicts[-1].alive, 5.0)
        assert verdicts[-1].why == "nothing answers through the tunnel"
        # The way may come back before the daemon does.
        kernel.answers = True
        await until(lambda: verdicts[-1].alive, 5.0)


async def test_it_answers_what_liqo_asks():
    async with probing(lambda heard: None) as other:
        ask = {"clusterID": "rome", "msgType": "PING", "timeStamp": "2023-11-14T22:13:20.12Z"}
        await other.get()
        for noise in (b"", b"{", b'{"msgType":"PONG","timeStamp":"forged"}', b"x" * 5000):
            await other.send(noise)
        await other.send({**ask, "more": "of a later version"})
        while (answer := await other.get())["msgType"] != "PONG":
            pass
        assert answer == {**ask, "msgType": "PONG"}


async def test_each_side_says_where_it_answers_how_it_sees_the_other_and_its_websockets():
    verdicts: list[ProbeResult] = []
    async with probing(verdicts.append, PeerHello("10.244.3.1", RANGES, websocket=False)) as other:
        message = await other.get()
        assert (message["podAddress"], message["seenAs"]) == ("10.244.3.1", list(RANGES))
        assert message["websocket"] is False
        await other.send({**message, "msgType": "PONG", "seenAs": ["10.1.0.0/16"]})
        await until(lambda: bool(verdicts))
        assert verdicts[-1].hello == NOTHING, "who repeats what it was sent has said nothing"
        told = {"podAddress": "10.9.0.1", "seenAs": ["10.66.0.0/16"], "websocket": True}
        await other.send({"clusterID": "rome", "msgType": "PING", **told})
        said = PeerHello("10.9.0.1", ("10.66.0.0/16",), websocket=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.answer)
            await until(lambda: verdicts[-1].hello == said)
            nursery.cancel_scope.cancel()
    assert read(b'{"msgType": "PING", "websocket": "no"}') is None


async def test_own_ranges_are_told_to_who_speaks_as_liqod_does():
    """Liqo, and who has not said anything yet, are sent nothing that they do not know."""
    own = ClusterCidrs(("10.244.0.0/16", "10.246.0.0/16"), ("10.70.0.0/20",))
    tells = PeerHello("10.244.3.1", ("10.65.0.0/16",) * 6, own)
    verdicts: list[ProbeResult] = []
    async with probing(verdicts.append, tells) as other:
        message = await other.get()
        # Older ones take a question with more than four for none.
        assert len(message["seenAs"]) == MOST_RANGES
        await other.send({**message, "msgType": "PONG"})
        assert (await other.get())["msgType"] == "PING"
        await other.send({"clusterID": "rome", "msgType": "PING", "seenAs": ["10.66.0.0/16"]})
        while (told := await other.get())["msgType"] != "TELL":
            await other.send({**told, "msgType": "PONG"})
        assert told["pod"] == list(own.pod)
        assert told["external"] == list(own.external)
        theirs = {"pod": ["10.1.0.0/16", "10.2.0.0/16"], "external": ["10.9.0.0/24"]}
        await other.send({"clusterID": "rome", "msgType": "TELL", **theirs})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.answer)
            await until(lambda: bool(verdicts) and bool(verdicts[-1].hello.own.pod), 5.0)
            nursery.cancel_scope.cancel()
        said = verdicts[-1].hello
        assert said.own == ClusterCidrs(("10.1.0.0/16", "10.2.0.0/16"), ("10.9.0.0/24",))
        assert said.seen_as == ("10.66.0.0/16",)


@pytest.mark.parametrize(
    "ranges", [["10.0.0.0/8"] * 5, ["\x1b[2J/8"], ["10.0.0.0/8\n"], [1], ["1" * 80], "10.0.0.0/8"]
)
def test_no_more_than_a_few_plain_ranges_are_taken(ranges):
    assert read(msgspec.json.encode({"msgType": "PING", "seenAs": ranges})) is None


async def test_a_flood_is_answered_seldom():
    async with probing(lambda heard: None) as other:
        await other.get()
        answers = 0

        async def count() -> None:
            nonlocal answers
            while True:
                answers += (await other.get())["msgType"] == "PONG"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            began = trio.current_time()
            # For a second; a slow machine takes longer.
            for _ in range(25):
                for _ in range(100):
                    await other.send({"clusterID": "", "msgType": "PING", "timeStamp": ""})
                await trio.sleep(0.04)
            took = trio.current_time() - began
            nursery.cancel_scope.cancel()
        assert answers <= prober.ANSWERS_KEPT + (took + 0.5) * prober.ANSWERS


async def test_only_the_other_side_is_heard():
    verdicts: list[ProbeResult] = []
    async with probing(verdicts.append) as other:
        message = await other.get()
        with trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            await stranger.bind(("127.0.0.63", 0))
            await stranger.sendto(msgspec.json.encode({**message, "msgType": "PONG"}), other.prober)
        await trio.sleep(0.2)
        assert verdicts == []
