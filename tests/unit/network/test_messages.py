"""Messages between daemon and machine are plain values: their bytes give the same ones."""

from typing import get_args

import msgspec
import pytest
import trio
import trio.testing

from liqod.network.dataplane.overlayplan import Overlay, OverlayNode
from liqod.network.machine.messagequeue import MessageQueue
from liqod.network.orders import messages
from liqod.network.orders.candidacy import (
    Candidacy,
    Claim,
    GatewayState,
    LeaseAnswer,
    LeaseFound,
    LeaseRecord,
    LetGo,
    LetGoDone,
    LocalCandidate,
    ReadLease,
    RoleReport,
    WriteLease,
)
from liqod.network.orders.messages import MachineStarted, Order, Report
from liqod.network.orders.overlay import (
    LeadOverlay,
    OverlayState,
    ReadUplink,
    ReleaseOverlay,
    RemoveOverlay,
    Uplink,
)

ME = LocalCandidate(name="one", address="192.168.1.10", key=b"\x00\xffsecret", port=12346)
RECORD = LeaseRecord(Claim("one", 3, "77", ("two",)), "192.168.1.10", {"one": "a"}, {"milan": "b"})
ONE = OverlayNode(name="one", address="192.168.1.10", index=1, pods=("10.244.0.0/24",))
OVERLAY = Overlay(pods=("10.244.0.0/16",), aliases={"10.71.0.0/16": 1400})
ORDERS: list[Order] = [
    Candidacy(ME, True, frozenset({"two"})),
    LeaseFound(None),
    LeaseFound(RECORD),
    LeaseAnswer(7, "78"),
    LetGo(),
    LeadOverlay(ONE, (ONE,), OVERLAY),
    RemoveOverlay(),
    ReleaseOverlay(),
    ReadUplink("192.168.1.10"),
]
REPORTS: list[Report] = [
    ReadLease(7),
    WriteLease(8, RECORD, True),
    LetGoDone(),
    RoleReport(GatewayState(None, 3, {"milan": "b"}, ("a",)), "one", ("two",)),
    OverlayState("no lqx"),
    Uplink("192.168.1.10", 1500),
    MachineStarted(),
]


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_an_order_is_read_as_it_was_sent(order: Order):
    assert messages.ORDERS.decode(messages.encode(order)) == order


@pytest.mark.parametrize("report", REPORTS, ids=repr)
def test_a_report_is_read_as_it_was_sent(report: Report):
    assert messages.REPORTS.decode(messages.encode(report)) == report


def test_these_are_all():
    assert {type(each) for each in ORDERS} == set(get_args(Order))
    assert {type(each) for each in REPORTS} == set(get_args(Report))


def test_a_field_of_a_later_version_is_ignored_and_an_operation_of_one_is_refused():
    assert messages.ORDERS.decode(b'{"type":"LetGo","hurry":true}') == LetGo()
    with pytest.raises(msgspec.ValidationError, match="Levitate"):
        messages.ORDERS.decode(b'{"type":"Levitate"}')


def test_no_key_is_shown():
    assert "secret" not in repr(ORDERS[0])


async def test_a_queue_keeps_the_order_and_shares_no_object():
    came: list[Order] = []
    queue = MessageQueue[Order](messages.ORDERS, came.append)
    for each in ORDERS:
        queue.send(each)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert came == ORDERS
    assert not any(one is other for one, other in zip(came, ORDERS, strict=True))
