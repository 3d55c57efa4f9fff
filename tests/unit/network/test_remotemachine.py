"""The daemon's view of its machine: requests and their answers, and reports of peers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from liqod.errors import NetworkError
from liqod.network.orders.tunnels import (
    DISABLED,
    EndTunnel,
    Listening,
    MachineFacts,
    MachineRead,
    ReadMachine,
    TunnelEnded,
    TunnelMessage,
    TunnelOrder,
    TunnelReport,
    TunnelState,
)
from liqod.network.remotemachine import (
    AGAIN,
    LOOKED,
    PATIENCE,
    SILENT,
    RemoteMachine,
    nowhere,
    settled,
)
from tests.unit.network.tunnels import LENDS, ORDER

REPORT = TunnelReport(peer="milan", state=TunnelState("Connected"))


def machine() -> tuple[RemoteMachine, list[TunnelMessage]]:
    orders = list[TunnelMessage]()
    return RemoteMachine(orders.append), orders


@asynccontextmanager
async def ending(one: RemoteMachine) -> AsyncIterator[list[str]]:
    """A request under way, and how it came out."""
    out = list[str]()

    async def run() -> None:
        try:
            await one.end("milan")
        except NetworkError as error:
            out.append(str(error))
        else:
            out.append("gone")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        yield out
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


def number_of(order: TunnelMessage) -> int:
    assert isinstance(order, EndTunnel)
    return order.number


@pytest.mark.parametrize(("problem", "said"), [("", "gone"), ("busy", "busy")])
async def test_an_end_is_over_when_it_is_answered(problem: str, said: str):
    one, orders = machine()
    async with ending(one) as out:
        number = number_of(orders[-1])
        one.receive(TunnelEnded(number + 1))
        await wait_all_tasks_blocked()
        assert out == [], "that answers another request"
        one.receive(TunnelEnded(number, problem))
    assert out == [said]
    one.receive(TunnelEnded(number))  # a late one counts for nothing


async def test_a_machine_that_does_not_answer_is_not_waited_for_for_ever(autojump_clock):
    one, _ = machine()
    async with ending(one) as out:
        await trio.sleep(PATIENCE + 1.0)
    assert SILENT in out[0]
    assert SILENT in (await one.look()).problem
    assert SILENT in one.facts.now.problem


async def test_the_reason_why_it_cannot_answer_is_told(autojump_clock):
    one = RemoteMachine(lambda _: None, why_silent=lambda: "start it")
    began = trio.current_time()
    assert (await one.look()).problem == f"{SILENT} for 3 s: start it"
    assert one.facts.now.problem.endswith("start it")
    assert trio.current_time() - began < 4.0, "nobody waits for one that is not there"


async def test_an_answer_that_comes_late_counts_and_begins_what_waits_for_it(autojump_clock):
    one, orders = machine()
    assert (await one.look()).unknown
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.wait_usable)
        (late,) = orders
        assert isinstance(late, ReadMachine)
        one.receive(MachineRead(late.number, MachineFacts()))


async def test_on_a_machine_that_joins_no_networks_everything_is_ended_already():
    one = nowhere(DISABLED)
    assert await one.look() == DISABLED
    await one.end("milan")
    assert await one.unknown(()) == ()
    assert (await one.sweep(("0123abcd",), ())).marks == ()


async def test_a_side_that_begins_anew_gets_all_orders_and_what_is_not_answered():
    one, orders = machine()
    with one.tunnel("milan") as tunnel:
        tunnel.have(ORDER)
        tunnel.have(ORDER)
        tunnel.have(LENDS)
        assert orders == [ORDER, LENDS]
        async with ending(one):
            asked = orders[-1]
            orders.clear()
            one.tell()
            assert orders == [asked], "it is to end: there is no order for it"
            tunnel.have(ORDER)
            orders.clear()
            one.tell()
            assert orders == [asked, ORDER], "the end comes first"
    orders.clear()
    one.tell()
    assert orders == [], "nobody follows the peer, and the machine goes on by itself"


async def test_its_capabilities_are_asked_for_again_and_once():
    one, orders = machine()
    one.tell()
    assert orders == [], "where they were never asked for"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.look)
        await wait_all_tasks_blocked()
        one.tell()
        first, again = orders
        assert isinstance(first, ReadMachine)
        assert first == again
        facts = MachineFacts(problem="missing: CAP_NET_ADMIN")
        one.receive(MachineRead(first.number, facts))
    assert one.facts.now == facts
    one.tell()
    last = orders[-1]
    assert isinstance(last, ReadMachine)
    one.receive(MachineRead(last.number, MachineFacts()))
    assert one.facts.now == MachineFacts()


async def test_one_that_answers_no_more_can_still_do_what_it_could(autojump_clock):
    one, _ = machine()
    found = MachineFacts(addresses=("192.0.2.5",))
    one.receive(MachineRead(1, found))
    assert (await one.look()).unknown
    assert one.facts.now == found
    one.receive(MachineRead(2, MachineFacts(problem="a bug", unknown=True)))
    assert one.facts.now == found
    one.receive(MachineRead(3, MachineFacts(problem="missing: CAP_NET_ADMIN")))
    assert one.facts.now.problem == "missing: CAP_NET_ADMIN"


LISTENS = Listening()
WORKS = MachineFacts(backends={"rope": LISTENS, "string": LISTENS}, stands_by=frozenset({"rope"}))
OPEN = MachineFacts(backends={"string": LISTENS}, undecided={"rope": "silent"})


@pytest.mark.parametrize(
    ("former", "settles"),
    [
        (WORKS, WORKS),
        (MachineFacts(backends={"string": LISTENS}), replace(OPEN, undecided={})),
        (OPEN, OPEN),
        (MachineFacts(unknown=True), OPEN),
        (MachineFacts(problem="missing: nft"), OPEN),
    ],
)
def test_of_a_backend_that_could_not_be_asked_the_former_facts_count(
    former: MachineFacts, settles: MachineFacts
):
    assert settled(OPEN, former) == settles
    assert settled(WORKS, former) == WORKS
    later = replace(OPEN, undecided={"rope": "silent for longer"})
    assert settled(later, OPEN) == OPEN, "nothing begins anew for another reason"
    twice = replace(WORKS, undecided={"rope": "silent"})
    assert settled(twice, former) == WORKS, "by the answer of before"


async def test_one_that_is_not_known_is_asked_again_until_it_can_be_used(autojump_clock):
    asked, usable = list[TunnelMessage](), False

    def answers(order):
        asked.append(order)
        if usable:
            one.receive(MachineRead(order.number, MachineFacts()))

    one = RemoteMachine(answers)
    assert (await one.look()).unknown
    assert one.facts.now.unknown
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.keep_known)
        nursery.start_soon(one.wait_usable)
        await trio.sleep(2 * (LOOKED + AGAIN.last))
        assert len(asked) > 1
        assert len(nursery.child_tasks) == 2
        usable = True
        one.receive(MachineRead(2, MachineFacts()))
        await wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        # A look that was under way has no answer, and is made once more.
        await trio.sleep(LOOKED + 2 * AGAIN.last)
        before = len(asked)
        await trio.sleep(10 * AGAIN.last)
        assert len(asked) == before, "it is known, and lacks nothing"
        nursery.cancel_scope.cancel()


async def test_one_that_lacks_something_is_asked_again_less_and_less_often(autojump_clock):
    lacks, asked = MachineFacts(problem="missing: CAP_NET_ADMIN"), list[float]()

    def answers(order):
        asked.append(trio.current_time())
        one.receive(MachineRead(order.number, lacks))

    one = RemoteMachine(answers)
    assert (await one.look()).problem == "missing: CAP_NET_ADMIN"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.keep_known)
        for _ in range(3):
            nursery.start_soon(one.wait_usable)
        await trio.sleep(20 * AGAIN.last)
        pauses = [later - before for before, later in pairwise(asked)]
        assert pauses[0] <= AGAIN.first
        assert all(AGAIN.last / 2 <= each <= AGAIN.last for each in pauses[-5:])
        assert len(nursery.child_tasks) == 4
        lacks = MachineFacts()
        await trio.sleep(AGAIN.last)
        assert len(nursery.child_tasks) == 1, "it lacks nothing any more"
        # A program that begins anew may have other rights.
        lacks = MachineFacts(problem="missing: nft")
        one.receive(MachineRead(1, lacks))
        before = len(asked)
        await trio.sleep(2 * AGAIN.first)
        assert len(asked) > before
        nursery.cancel_scope.cancel()


async def test_only_reports_of_peers_that_are_followed_are_kept_until_an_end():
    one, orders = machine()
    one.receive(REPORT)
    with one.tunnel("milan") as tunnel:
        assert tunnel.report.now is None
        one.receive(replace(REPORT, peer="oslo"))
        one.receive(REPORT)
        assert tunnel.report.now == REPORT
        async with ending(one):
            assert tunnel.report.now is None
        tunnel.have(ORDER)
    assert [type(each) for each in orders] == [EndTunnel, TunnelOrder]
