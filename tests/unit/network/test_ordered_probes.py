"""The probes as the tunnels' process is ordered to make them, also by an attacker in its place."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from liqod.errors import NetworkError
from liqod.model.network.ranges import ClusterCidrs
from liqod.network.dataplane.names import PeerNames, Side
from liqod.network.probing import conncheck, icmp
from liqod.network.probing.conncheck import BURST, RATE, UNJUDGED, Prober
from liqod.sharedport import received
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.probes import orders
from liqod.tunnel.probes.attendance import ProbeAttendance
from liqod.tunnel.probes.messages import LARGEST, PeerHello, ProbeResult, read
from liqod.tunnel.probes.orders import Judged, SocketKind, Told, Wants
from tests.kube_cases import until
from tests.unit.network.attending import Process, Work

OWN, OTHER = "127.0.0.71", "127.0.0.72"
SAYS = PeerHello("10.244.3.1", ("10.65.0.0/16",), ClusterCidrs(("10.244.0.0/16",)), websocket=True)


def sends(*lines: bytes) -> Work:
    """Says so, and stays."""

    async def work(far: trio.SocketStream) -> None:
        await far.send_all(b"".join(lines))
        await trio.sleep_forever()

    return work


async def dies(far: trio.SocketStream) -> None:
    """Ends at once."""


@asynccontextmanager
async def probing(
    process: Process, heard: list[ProbeResult], tells: Callable[[], PeerHello] = PeerHello
) -> AsyncIterator[None]:
    """The probes of one tunnel."""
    names = PeerNames("rome", "milan")
    addresses: dict[Side, str] = {"server": OWN, "client": OTHER}
    made = Prober(process, names, "server", heard.append, tells, addresses=addresses)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        yield
        nursery.cancel_scope.cancel()


ALIVE = orders.encoded(Judged(alive=True))


async def test_the_probes_get_sockets_and_facts_and_give_their_verdicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[SocketKind] = []

    async def made(_: object, kind: SocketKind) -> socket.socket:
        opened.append(kind)
        if len(opened) == 1:
            raise OSError("there is no such namespace yet")
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        here.bind((OWN, 0))
        ports.append(here.getsockname()[1])
        return here

    ports: list[int] = []
    monkeypatch.setattr(conncheck.SocketsInside, "open", made)

    async def probe(far: trio.SocketStream) -> None:
        request = process.requests[-1]
        assert request.probe is not None
        await ProbeAttendance(request.probe, far).run()

    process, heard, tells = Process(probe), list[ProbeResult](), [PeerHello()]
    async with probing(process, heard, lambda: tells[-1]):
        await until(lambda: bool(ports), 5.0)
        with trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            await other.bind((OTHER, 0))
            await other.sendto(b'{"msgType":"PING","podAddress":"10.9.0.1"}', (OWN, ports[0]))
            while True:
                data, _ = await other.recvfrom(LARGEST)
                message = read(data)
                if message is not None and message.msgType == "PONG":
                    break
        await until(lambda: bool(heard), 5.0)
        assert not heard[-1].alive
        assert heard[-1].hello.pod_address == "10.9.0.1"
        assert 0 <= trio.current_time() - heard[-1].last_request < 5.0


async def test_new_facts_are_given_to_the_probes() -> None:
    told: list[orders.ToProbes] = []

    async def listen(far: trio.SocketStream) -> None:
        while data := await far.receive_some():
            told.extend(orders.to_probes(line) for line in data.splitlines())

    process, tells = Process(listen), [PeerHello()]
    async with probing(process, [], lambda: tells[-1]):
        await until(lambda: bool(process.requests))
        tells.append(SAYS)
        await until(lambda: told == [Told(SAYS)], 5.0)


async def test_a_verdict_stands_while_the_process_is_begun_anew(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def lives_a_while(far: trio.SocketStream) -> None:
        await far.send_all(ALIVE)
        await trio.sleep(3.0)

    process, heard = Process(lives_a_while, dies, dies, sends(ALIVE)), list[ProbeResult]()
    async with probing(process, heard):
        await trio.sleep(8.0)
        assert [each.alive for each in heard] == [True, True]
        assert len(process.requests) == 4


async def test_a_standby_has_the_process_and_no_probes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    process, heard = Process(dies, sends()), list[ProbeResult]()
    made = Prober(process, PeerNames("rome", "milan"), "server", heard.append)
    with trio.move_on_after(60.0):
        await made.stand_by()
    assert [each.do for each in process.requests] == ["stay", "stay"]
    assert heard == []


async def test_what_is_not_probed_for_long_is_not_said_to_be_alive(
    autojump_clock: trio.testing.MockClock,
) -> None:
    process, heard = Process(sends(ALIVE), dies), list[ProbeResult]()
    async with probing(process, heard):
        await trio.sleep(UNJUDGED)
        # The first process hangs from its first verdict on.
        assert [each.alive for each in heard] == [True]
        await trio.sleep(UNJUDGED)
        assert [each.alive for each in heard][:2] == [True, False]
        assert heard[-1].why == "the tunnel is not probed: the tunnels' process has ended"


@pytest.mark.parametrize(
    "line",
    [
        b"x\n",
        b"\xff\n",
        b"{}\n",
        b'{"type":"judged","alive":1}\n',
        b'{"type":"judged","alive":true,"latency":-1}\n',
        b'{"type":"judged","alive":true,"lost":7}\n',
        b'{"type":"judged","alive":true,"requested":1e300}\n',
        b'{"type":"judged","alive":true,"said":{"seenAs":["\\u001b[2J/8"]}}\n',
        b'{"type":"judged","alive":true,"said":{"pod":["0.0.0.0/0\\n"]}}\n',
        b'{"type":"judged","alive":false,"why":"' + b"a" * 600 + b'"}\n',
        b'{"type":"wants","kind":"raw"}\n',
        b'{"type":"given","kind":"probes"}\n',
        b"[" * 5000,
    ],
    ids=range(13),
)
async def test_whoever_takes_the_process_over_says_nothing_but_verdicts(line: bytes) -> None:
    process, heard = Process(sends(line), sends(ALIVE)), list[ProbeResult]()
    async with probing(process, heard):
        await until(lambda: bool(heard))
        assert [each.alive for each in heard] == [True]
        assert len(process.requests) == 2


async def test_no_terminal_obeys_the_reason_that_a_verdict_gives() -> None:
    line = orders.encoded(Judged(alive=False, why="gone\x1b[2J\n"))
    process, heard = Process(sends(line)), list[ProbeResult]()
    async with probing(process, heard):
        await until(lambda: bool(heard))
        assert heard[0].why.isprintable()


async def test_verdicts_without_end_are_taken_at_a_bounded_rate(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def floods(far: trio.SocketStream) -> None:
        while True:
            await far.send_all(ALIVE * 100)

    process, heard = Process(floods), list[ProbeResult]()
    async with probing(process, heard):
        await trio.sleep(10.0)
        assert len(heard) <= BURST + 2 * RATE * 10.0


async def test_sockets_without_end_are_not_opened(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    opened: list[SocketKind] = []

    async def made(_: object, kind: SocketKind) -> socket.socket:
        opened.append(kind)
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    async def wants(far: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(drop, far))
            while True:
                await far.send_all(orders.encoded(Wants("probes")))

    monkeypatch.setattr(conncheck.SocketsInside, "open", made)
    async with probing(Process(wants), []):
        await trio.sleep(10.0)
        assert len(opened) <= BURST + 2 * RATE * 10.0


@pytest.mark.parametrize(
    ("line", "took"),
    [
        (b'{"took":0.25}\n', 0.25),
        (b"{}\n", None),
        (b'{"took":-1}\n', NetworkError),
        (b'{"took":true}\n', NetworkError),
        (b'{"why":"' + b"a" * 600 + b'"}\n', NetworkError),
        (b"[" * 5000, NetworkError),
        (b"", NetworkError),
        (b'{"why":"no such device"}\n', OSError),
    ],
    ids=range(8),
)
async def test_whoever_takes_the_process_over_says_of_an_echo_how_long_it_took_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
    line: bytes,
    took: float | type[Exception] | None,
) -> None:
    async def opened(namespace: str | None, source: str) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    monkeypatch.setattr(icmp, "opened", opened)
    asking = icmp.Echoes(Process(sends(line)), None, OWN)
    if isinstance(took, type):
        with pytest.raises(took):
            await asking.ping(OTHER, 64, 0.5)
    else:
        assert await asking.ping(OTHER, 64, 0.5) == took
        assert await asking.passes(OTHER, 64, 0.5) == (took is not None)


@pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets are root's")
async def test_a_raw_socket_is_not_handed_to_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def opened(namespace: str | None, source: str) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)

    monkeypatch.setattr(icmp, "opened", opened)
    process = Process(dies)
    assert await icmp.Echoes(process, None, OWN).ping(OTHER, 64, 2.0) is not None
    assert process.requests == []


async def drop(far: trio.SocketStream) -> None:
    """Take everything, and close the sockets."""
    while True:
        _, files = await received(far.socket, 4096, 8)
        close_all(files)
