"""Connections of a lender: which one is kept, for which request, and when it ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from liqod.errors import ConfigError, Unconnected
from liqod.handshake.protocol.messages import Refused
from liqod.handshake.protocol.outputs import ExpectedPeer, SessionEnd, VerifiedPeer
from liqod.handshake.requests.reverseconnections import ReverseConnections
from liqod.kube.http.wire import Wire
from tests.unit.handshake.listeners import greeter

KEY = "a" * 64
MILAN = ExpectedPeer(cluster_id="milan", key=KEY)


class Meeting:
    """A connection of a lender's."""

    def __init__(self, cluster_id: str = "milan") -> None:
        self.address = "192.0.2.1"
        self.peer = VerifiedPeer(
            cluster_id=cluster_id,
            public_key="",
            key=KEY,
            words="acorn-actor-adder-agate",
            version=1,
            capabilities=frozenset(),
        )
        self.over = trio.Event()
        self.refused: list[Refused] = []
        self.on_attach = False

    async def attach(self) -> None:
        self.on_attach = True

    async def dial(self, host: str, port: int) -> Wire:
        return await greeter()

    async def wait_over(self) -> SessionEnd:
        await self.over.wait()
        return SessionEnd(code="gone", reason="it broke", by="us")

    async def refuse(self, refused: Refused) -> None:
        self.refused.append(refused)
        self.over.set()


class Kept(ReverseConnections):
    """Lenders of a cluster that has asked them, or has borrowed of them."""

    def __init__(self, asked: bool) -> None:
        super().__init__(SimpleNamespace(client=None))  # type: ignore[arg-type]
        self._asked = asked

    async def _is_asked(self, peer: VerifiedPeer) -> bool:
        return self._asked

    async def _present(self, key: str) -> str:
        return key


@asynccontextmanager
async def kept(*meetings: Meeting, asked: bool = True) -> AsyncIterator[tuple[Kept, list[Refused]]]:
    """They dial one after the other; and what they are told in the end."""
    lenders, told = Kept(asked), list[Refused]()

    async def keep(meeting: Meeting) -> None:
        told.append(await lenders.hold(meeting))  # type: ignore[arg-type]

    async with trio.open_nursery() as nursery:
        for meeting in meetings:
            nursery.start_soon(keep, meeting)
            await trio.testing.wait_all_tasks_blocked()
        yield lenders, told
        nursery.cancel_scope.cancel()


async def test_of_two_connections_of_one_lender_the_newest_counts() -> None:
    first, second = Meeting(), Meeting()
    async with kept(first, second) as (lenders, told):
        assert [each.code for each in first.refused] == ["gone"]
        assert "taken its place" in first.refused[0].reason
        assert (second.refused, len(lenders), len(told)) == ([], 1, 1)
        async with lenders.meet((), MILAN) as meeting:
            assert meeting is second  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("asked", [True, False])
async def test_who_is_asked_is_left_to_who_asks_and_of_who_has_lent_it_is_attached(
    asked: bool,
) -> None:
    meeting = Meeting()
    async with kept(meeting, asked=asked):
        assert meeting.on_attach != asked


async def test_a_lender_that_says_it_is_another_is_not_asked_as_that_one() -> None:
    async with kept(Meeting("turin")) as (lenders, _):
        with trio.move_on_after(0.05) as waited:
            async with lenders.meet((), MILAN):
                pytest.fail("turin was taken for milan")
        assert waited.cancelled_caught


async def test_who_waits_for_a_lender_has_it_as_soon_as_it_dials() -> None:
    lenders = Kept(asked=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lenders.dial, KEY)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(lenders.hold, Meeting())  # type: ignore[arg-type]
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        nursery.cancel_scope.cancel()


async def test_who_wants_a_connection_that_is_not_there_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(Unconnected, match="dials this one, and has no connection here"):
        await Kept(asked=True).dial(KEY)


async def test_a_peering_that_fails_ends_the_connection_and_one_that_stands_keeps_it() -> None:
    meeting = Meeting()
    async with kept(meeting) as (lenders, _):
        async with lenders.meet((), MILAN):
            pass
        assert meeting.refused == []
        with pytest.raises(ConfigError):
            async with lenders.meet((), MILAN):
                raise ConfigError("it was revoked here")
        assert [each.reason for each in meeting.refused] == ["it was revoked here"]
        await trio.testing.wait_all_tasks_blocked()
        assert len(lenders) == 0


async def test_where_nothing_is_borrowed_any_more_the_connection_ends() -> None:
    async with kept(Meeting()) as (lenders, told):
        lenders.drop("turin")
        await trio.testing.wait_all_tasks_blocked()
        assert (len(lenders), told) == (1, [])
        lenders.drop("milan")
        await trio.testing.wait_all_tasks_blocked()
        assert len(lenders) == 0
        assert [(each.code, each.again) for each in told] == [("unknown", 10)]
