"""The way that is taken to a peer's API server: direct, or through the tunnel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from liqod.consumer.serverdialer import ServerDialer
from liqod.errors import Unconnected
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http.wire import StreamWire, Wire
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.peers.peernetwork import PeerNetwork

DIRECT, IN_BAND = ("192.0.2.1", 443), ("10.72.0.1", 6443)
RANGES = PeerRanges(seen=ClusterCidrs(("10.71.0.0/16",), ("10.72.0.0/20",)))


class Servers:
    """Two ways to one API server, each of which can be told what to do."""

    def __init__(self) -> None:
        self.does = {DIRECT: "answers", IN_BAND: "answers"}
        self.tried: list[tuple[str, int]] = []
        self.open: set[tuple[str, int]] = set()

    async def dial(self, host: str, port: int, /) -> Wire:
        there = host, port
        self.tried.append(there)
        match self.does[there]:
            case "answers":
                await trio.sleep(0.05)
            case "refuses":
                raise Unconnected(f"cannot connect: {host} refuses")
            case _:
                await trio.sleep_forever()
        self.open.add(there)
        return Noted(there, self.open.discard)


class Noted(StreamWire):
    """A wire that notes when it is closed."""

    def __init__(self, there: tuple[str, int], tell: Callable[[tuple[str, int]], None]) -> None:
        self._there, self._tell = there, tell

    def close(self) -> None:
        self._tell(self._there)


@pytest.fixture
def network() -> PeerNetwork:
    """A network that is joined, with a tunnel that stands."""
    made = PeerNetwork()
    made.set_ranges(RANGES)
    made.set_connected(True)
    return made


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def dial(network: PeerNetwork, servers: Servers) -> ServerDialer:
    return ServerDialer(servers.dial, network)


async def test_direct_is_taken_where_it_answers(
    dial: ServerDialer, servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    for _ in range(3):
        await dial(*DIRECT)
    assert (dial.path, servers.tried) == ("direct", [DIRECT] * 3)


@pytest.mark.parametrize("what", ["refuses", "silence"])
async def test_in_band_is_taken_where_it_does_not(
    dial: ServerDialer, servers: Servers, what: str, autojump_clock: trio.testing.MockClock
) -> None:
    servers.does[DIRECT] = what
    began = trio.current_time()
    await dial(*DIRECT)
    assert dial.path == "in-band"
    assert servers.open == {IN_BAND}
    # Within what the link has for a connection.
    assert trio.current_time() - began < 1.2
    servers.tried.clear()
    began = trio.current_time()
    for _ in range(5):
        await dial(*DIRECT)
    assert servers.tried == [IN_BAND] * 5
    assert trio.current_time() - began < 0.3


async def test_direct_is_taken_back_when_it_answers_and_seldom_asked_meanwhile(
    network: PeerNetwork, servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    changes: list[str] = []
    made: list[ServerDialer] = []
    dial = ServerDialer(servers.dial, network, lambda: changes.append(made[0].path))
    made.append(dial)
    servers.does[DIRECT] = "silence"
    for _ in range(3600):
        await dial(*DIRECT)
        await trio.sleep(1)
    assert changes == ["in-band"]
    asked = servers.tried.count(DIRECT)
    assert 6 <= asked <= 16
    servers.does[DIRECT] = "answers"
    credentials = Credentials(server="https://192.0.2.1:443")
    assert not dial.due(credentials)
    with trio.fail_after(601):
        while not dial.due(credentials):  # noqa: ASYNC110 - the time itself is waited for
            await trio.sleep(1)
    await dial(*DIRECT)
    assert changes == ["in-band", "direct"]
    assert not dial.due(credentials)


async def test_in_band_that_ends_leads_back_to_direct(
    dial: ServerDialer, servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    servers.does[DIRECT] = "refuses"
    await dial(*DIRECT)
    servers.does |= {DIRECT: "answers", IN_BAND: "silence"}
    await dial(*DIRECT)
    assert dial.path == "direct"


async def test_where_neither_answers_it_is_said_what_is_wrong_with_direct(
    dial: ServerDialer, servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    servers.does |= {DIRECT: "refuses", IN_BAND: "silence"}
    with pytest.raises(Unconnected, match=r"192\.0\.2\.1 refuses; nor in-band: no answer"):
        await dial(*DIRECT)
    assert servers.open == set()


async def test_without_a_tunnel_that_stands_nothing_else_is_tried(
    network: PeerNetwork, dial: ServerDialer, servers: Servers
) -> None:
    servers.does[DIRECT] = "refuses"
    for stands in (False, None):
        network.set_connected(stands)
        with pytest.raises(Unconnected, match=r"refuses$"):
            await dial(*DIRECT)
    network.set_connected(True)
    network.set_ranges(None, "they are not known")
    with pytest.raises(Unconnected, match=r"refuses$"):
        await dial(*DIRECT)
    assert IN_BAND not in servers.tried


async def test_two_that_answer_at_once_leave_one_connection(
    network: PeerNetwork, servers: Servers
) -> None:
    dial = ServerDialer(servers.dial, network, head_start=0.0)
    for _ in range(20):
        servers.open.clear()
        await dial(*DIRECT)
        assert len(servers.open) == 1


async def test_a_proxy_of_the_administrators_is_gone_by(
    dial: ServerDialer, servers: Servers
) -> None:
    plain = Credentials(server="https://192.0.2.1:443")
    proxied = Credentials(server="https://192.0.2.1:443", proxy="http://192.0.2.9:3128")
    inner = Credentials(server="https://192.0.2.1:443", proxy="http://10.72.0.1:8118")
    assert dial.to(plain) == (plain, dial)
    assert dial.to(proxied) == (proxied, servers.dial)
    assert dial.to(inner) == (inner, servers.dial)
    assert dial.path_of(proxied) == dial.path_of(plain) == "direct"
    assert dial.path_of(inner) == "in-band"
