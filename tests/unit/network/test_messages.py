"""Messages between daemon and machine are plain values: their bytes give the same ones."""

from typing import get_args

import pytest

from liqod.model.network.podpath import PodPath
from liqod.network.dataplane.overlayplan import Overlay, OverlayNode
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
from liqod.network.orders.messages import Order, OrderRefused, Reply, Unknown
from liqod.network.orders.overlay import (
    LeadOverlay,
    OverlayState,
    ReadUplink,
    ReleaseOverlay,
    RemoveOverlay,
    Uplink,
)
from liqod.network.orders.tunnels import (
    BackendTrouble,
    BackendTroubles,
    EndTunnel,
    FindUnknown,
    Listening,
    MachineFacts,
    MachineRead,
    MeasureTunnel,
    PodsTrip,
    ReadMachine,
    ReleaseTunnels,
    Surroundings,
    SweepUnknown,
    TunnelEnded,
    TunnelFigures,
    TunnelReport,
    TunnelState,
    UnknownFound,
    UnknownSwept,
)
from tests.unit.network.tunnels import ORDER, RANGES

ME = LocalCandidate(name="one", address="192.168.1.10", key=b"\x00\xffsecret", port=12346)
RECORD = LeaseRecord(Claim("one", 3, "77", ("two",)), "192.168.1.10", {"one": "a"}, {"milan": "b"})
ONE = OverlayNode(name="one", address="192.168.1.10", index=1, pods=("10.244.0.0/24",))
OVERLAY = Overlay(pods=("10.244.0.0/16",), aliases={"10.71.0.0/16": 1400})
FACTS = MachineFacts(
    addresses=("192.0.2.5",),
    backends={"wireguard": Listening(carried=True)},
    stands_by=frozenset(("wireguard",)),
)
AROUND = Surroundings(
    address="192.0.2.5", server="https://a:6443", reached="https://[::1]:6443", others=True
)
STATE = TunnelState("Connected", latency=0.001, pods=PodPath("failed", "nothing came back"))
FIGURES = TunnelFigures(alive=True, echo=0.0, trip=PodsTrip(1.0, "a to b"), guards=("FORWARD",))
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
    ReadMachine(7),
    ReadMachine(7, AROUND),
    ORDER,
    EndTunnel(8, "milan"),
    MeasureTunnel("milan"),
    ReleaseTunnels(),
    FindUnknown(9, ("milan",)),
    SweepUnknown(10, ("0123abcd",), ("milan",)),
]
REPLIES: list[Reply] = [
    ReadLease(7),
    WriteLease(8, RECORD, True),
    LetGoDone(),
    RoleReport(GatewayState(None, 3, {"milan": "b"}, ("a",)), "one", ("two",)),
    OverlayState("no lqx"),
    Uplink("192.168.1.10", 1500),
    BackendTroubles({"wireguard": BackendTrouble("the last 3 calls failed", 60.0)}),
    MachineRead(7, FACTS),
    TunnelEnded(8, "busy"),
    UnknownFound(9, ("0123abcd",)),
    UnknownSwept(10, ("liqod rome/oslo",)),
    TunnelReport(peer="milan", state=STATE, told=RANGES.peer, figures=FIGURES),
    OrderRefused("Levitate"),
]


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_an_order_is_read_as_it_was_sent(order: Order):
    assert messages.ORDERS.decode(messages.encode(order)) == order


@pytest.mark.parametrize("reply", REPLIES, ids=repr)
def test_a_reply_is_read_as_it_was_sent(reply: Reply):
    assert messages.REPLIES.decode(messages.encode(reply)) == reply


def test_these_are_all():
    assert {type(each) for each in ORDERS} == set(get_args(Order))
    assert {type(each) for each in REPLIES} == set(get_args(Reply))


def test_a_field_of_a_later_version_is_ignored_and_an_operation_of_one_is_named():
    assert messages.ORDERS.decode(b'{"type":"LetGo","hurry":true}') == LetGo()
    assert messages.ORDERS.decode(b'{"type":"Levitate","of":[1]}') == Unknown("Levitate")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"type":7}',
        b'{"type":"LeaseAnswer","number":"one"}',
        b'{"type":"LetGo","deep":' + b"[" * 100_000,
        b'{"type":"Levitate","deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda body: str(body[:24]),
)
def test_nonsense_is_no_message(body: bytes):
    with pytest.raises(ValueError, match="no sound message"):
        messages.ORDERS.decode(body)


def test_the_reason_shows_no_key():
    order = messages.encode(ORDERS[0])
    for broken in (order[:-1], order.replace(b'"port":12346', b'"port":"x"'), order + b"x"):
        with pytest.raises(ValueError, match="no sound message") as raised:
            messages.ORDERS.decode(broken)
        assert "AP9z" not in str(raised.value)
        assert raised.value.__cause__ is None


def test_no_key_is_shown():
    assert "secret" not in repr(ORDERS[0])
    assert repr(ORDER.private_key)[2:-1] not in repr(ORDER)
