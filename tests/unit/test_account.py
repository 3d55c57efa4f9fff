"""Accounting of callers: bounds derived by the limits, held by source, and the faces apart."""

import ast
import errno
import logging
import resource
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from liqod.handshake.transport.peertls import called
from liqod.runtime import account
from liqod.runtime.account import (
    MIB,
    PARTS,
    SHARES,
    TUNNEL_SHARES,
    Account,
    memory_limit,
    places_of,
    raise_files,
)
from liqod.runtime.connectionlimit import (
    ConnectionLimiter,
    ConnectionSlot,
    accepted,
    address_of,
    networks_of,
    source_of,
)
from liqod.runtime.log import Seldom
from tests.testbed import accounttable


class Crowd:
    """Those who have come to some places, by their sources."""

    def __init__(self, places: ConnectionLimiter) -> None:
        self.places = places
        self.came: list[tuple[str, ConnectionSlot]] = []

    def comes(self, *sources: str, idle: bool = True) -> list[bool]:
        """Let each come; whether there was a place for it."""
        return [self._one(source, idle) for source in sources]

    def _one(self, source: str, idle: bool) -> bool:
        place = self.places.enter(source, trio.CancelScope(), idle=idle)
        if place is not None:
            self.came.append((source, place))
        return place is not None

    @property
    def ended(self) -> list[str]:
        """Sources of the connections that were closed, in the order in which they came."""
        return [source for source, place in self.came if place.scope.cancel_called]


async def test_for_one_more_the_first_of_whoever_has_most_goes() -> None:
    crowd = Crowd(ConnectionLimiter(4, 3))
    crowd.comes("many", "many", "many", "many")
    assert [place.scope.cancel_called for _, place in crowd.came] == [True, False, False, False]
    crowd.comes("first", "second")
    assert crowd.ended == ["many", "many"]
    assert len(crowd.places) == 4
    for _, place in crowd.came:
        place.release()
    assert len(crowd.places) == 0


async def test_a_network_of_many_addresses_is_one_crowd() -> None:
    """Each with a /64 of its own: who has one connection and comes from elsewhere keeps it."""
    for honest, others in (
        ("2001:db8:1::/64", [f"2001:db8:2:{each:x}::/64" for each in range(64)]),
        ("2001:db8:1:100::/64", [f"2001:db8:1:2{each:02x}::/64" for each in range(64)]),
        ("192.0.2.9", [f"198.51.100.{each}" for each in range(64)]),
    ):
        crowd = Crowd(ConnectionLimiter(8))
        crowd.comes(honest, *others)
        assert honest not in crowd.ended


async def test_of_those_who_have_as_many_the_first_stay_where_somebody_is_waited_for() -> None:
    waiting, passing = Crowd(ConnectionLimiter(3, stays=True)), Crowd(ConnectionLimiter(3))
    for crowd in (waiting, passing):
        crowd.comes("192.0.2.1", "198.51.100.1", "203.0.113.1", "100.64.0.1")
    assert waiting.ended == []
    assert passing.ended == ["192.0.2.1"]
    # Who has more than others makes room all the same.
    crowd = Crowd(ConnectionLimiter(3, stays=True))
    assert crowd.comes("a", "a", "b", "c") == [True] * 4
    assert crowd.ended == ["a"]


async def test_who_is_busy_is_not_ended_and_where_all_are_nobody_comes_in() -> None:
    crowd = Crowd(ConnectionLimiter(2))
    assert crowd.comes("a", "b", idle=False) == [True, True]
    assert crowd.comes("c", idle=False) == [False]
    assert crowd.comes("c") == [False]
    assert crowd.ended == []
    assert len(crowd.places) == 2


async def test_who_holds_most_is_ended_first() -> None:
    crowd = Crowd(ConnectionLimiter(8, max_buffered=100))
    crowd.comes("10.0.0.9", "10.0.0.9", "10.0.0.1")
    (_, first), (_, second), (_, own) = crowd.came
    assert first.weigh(30)
    assert second.weigh(30)
    assert own.weigh(55)  # more than any other, but not than that address
    assert crowd.ended == ["10.0.0.9"]
    assert first.scope.cancel_called
    assert not own.weigh(90)
    second.idle = False
    assert not own.weigh(80)
    assert not second.scope.cancel_called


async def test_whoever_is_refused_or_makes_room_is_counted_by_the_sort_of_its_source() -> None:
    crowd = Crowd(ConnectionLimiter(3, 2, max_buffered=10))
    crowd.comes("10.0.0.1", "10.0.0.1", "10.0.0.1")
    assert crowd.places.refused == {("private", "source"): 1}
    assert crowd.comes("2001:4860::/64", "a key", idle=False) == [True, True]
    assert crowd.places.refused["private", "full"] == 1
    assert crowd.comes("another", idle=False) == [True]  # the other of 10.0.0.1 went
    assert crowd.comes("2001:4860::/64", "a key", idle=False) == [False, False]
    assert crowd.places.refused["public", "full"] == crowd.places.refused["", "full"] == 1
    assert not crowd.came[-1][1].weigh(11)
    assert crowd.places.refused["", "memory"] == 1
    assert sum(crowd.places.refused.values()) == 6


async def test_there_is_a_place_for_a_time_or_none() -> None:
    places = ConnectionLimiter(1, stays=True)
    with places.within("a", 60.0), places.within("b", 60.0) as none:
        assert none.cancel_called
        assert len(places) == 1
    assert len(places) == 0


@given(files=st.integers(128, 1 << 22), memory=st.integers(64 * MIB, 1 << 40))
def test_all_faces_together_leave_the_daemon_half_of_files_and_memory(
    files: int, memory: int
) -> None:
    for shares in (SHARES, TUNNEL_SHARES):
        derived = {each: places_of(each, files, memory)[0] for each in shares.values()}
        assert sum(each.files * places for each, places in derived.items()) <= files // 2
        assert sum(each.memory * places for each, places in derived.items()) <= memory // 2
        for each in shares.values():
            places, of_one = places_of(each, files, memory)
            assert 1 <= of_one <= places <= each.most


def test_there_are_so_many_parts() -> None:
    assert sum(each.parts for each in SHARES.values()) == PARTS
    assert sum(each.parts for each in TUNNEL_SHARES.values()) <= PARTS


def test_a_face_is_the_same_one_for_all_who_ask() -> None:
    small = Account(files=1024)
    assert small[account.KUBELET] is small[account.KUBELET]
    assert small[account.KUBELET].most < SHARES[account.KUBELET].most


def test_the_soft_limit_of_files_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, new: limits.append(new))
    assert raise_files() == 4096
    assert limits == [(1024, 4096), (4096, 4096)]
    assert raise_files() == 4096
    limits.append((1024, resource.RLIM_INFINITY))
    assert raise_files() == account.MOST_FILES
    assert limits[-1] == (account.MOST_FILES, resource.RLIM_INFINITY)


def test_a_limit_that_cannot_be_raised_is_gone_by(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no(which: int, new: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", no)
    assert account.derived().files == 256
    assert "few files may be open" in caplog.text


def test_the_limit_of_memory_is_the_least_of_those_above(tmp_path: Path) -> None:
    cgroups = tmp_path / "sys/fs/cgroup"
    own = cgroups / "system.slice/liqod.service"
    own.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/liqod.service\n")
    (own / "memory.max").write_text("max\n")
    (own.parent / "memory.max").write_text(f"{32 * MIB}\n")
    (cgroups / "memory.max").write_text(f"{64 * MIB}\n")
    assert memory_limit(tmp_path) == 32 * MIB
    (own / "memory.max").write_text(f"{16 * MIB}\n")
    assert memory_limit(tmp_path) == 16 * MIB
    assert memory_limit(tmp_path / "nowhere") > 64 * MIB


async def test_that_no_file_is_free_is_said_once_a_minute(
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
) -> None:
    outcomes: list[object] = [OSError(errno.EMFILE, "Too many open files")] * 50
    outcomes += [OSError(errno.ECONNABORTED, "gone"), "a connection"]

    async def accept() -> object:
        await trio.lowlevel.checkpoint()
        found = outcomes.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    assert await accepted(accept, Seldom(60.0)) == "a connection"
    told = [each for each in caplog.records if each.levelno >= logging.INFO]
    assert [each.exc_info for each in told] == [None]
    assert "no connection can be taken: Too many open files" in told[0].getMessage()

    async def closed() -> object:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EBADF, "closed")

    with pytest.raises(OSError, match="closed"):
        await accepted(closed)


def test_whose_an_address_is() -> None:
    assert source_of("192.0.2.1") == source_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert source_of("2001:db8::1") == source_of("2001:db8::2%eth0") == "2001:db8::/64"
    assert source_of("") == ""
    assert networks_of("192.0.2.1") == ("192.0.2.0/24", "192.0.2.1")
    assert networks_of("2001:db8:1:203::/64") == (
        *("2001:db8:1::/48", "2001:db8:1:200::/56", "2001:db8:1:203::/64"),
    )
    assert networks_of("a key") == ("a key",)


async def test_a_connection_has_the_address_of_the_other_host() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, await trio.testing.open_stream_to_socket_listener(listener):
        async with await listener.accept() as taken:
            assert address_of(taken) == address_of(taken.socket) == "127.0.0.1"
        assert address_of(taken) == ""
    one, _ = trio.testing.memory_stream_pair()
    assert address_of(one) == ""


def test_what_is_called_can_be_told_from_other_uses_of_a_port() -> None:
    assert called("milan.example") == "liqod-peering.key-.milan.example"
    assert called("10.0.0.1") == called("fd00::1") == "liqod-peering.key-.liqod.internal"
    assert called("x" * 250) == "liqod-peering.key-.liqod.internal"


@pytest.mark.parametrize("face", list(dict.fromkeys((*SHARES, *TUNNEL_SHARES))))
def test_each_bound_is_tried_on_a_whole_process_by_a_test(face: str) -> None:
    """One that names the face, beside those that need a whole daemon."""
    path, _, name = accounttable.TRIED[face].partition("::")
    assert path.split("/")[0] in ("simulated", "netns", "node")
    nodes = list(ast.walk(ast.parse((Path(__file__).parents[1] / path).read_text())))
    assert name in {getattr(each, "name", "") for each in nodes}
    (constant,) = (each for each, value in vars(account).items() if value == face)
    assert constant in {each.id for each in nodes if isinstance(each, ast.Name)}


def test_nothing_takes_connections_by_a_loop_that_cries_ten_times_a_second() -> None:
    """Trio's own writes a traceback each time that the kernel has no more files."""
    folder = Path(account.__file__).parent
    own = {"serve_listeners", "serve_tcp", "serve_ssl_over_tcp"}
    found = [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in own
        if isinstance(node.value, ast.Name) and node.value.id == "trio"
    ]
    assert found == []


def test_the_table_of_the_page_is_generated() -> None:
    assert accounttable.render() in accounttable.PAGE.read_text(), (
        "run `python -m tests.testbed.accounttable`"
    )
