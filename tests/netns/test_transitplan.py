"""External addresses that lead to endpoints elsewhere, on a real kernel and in both families.

The other machine on rome's network stands for a pod at another peer: its addresses are reached from
the node, as aliases are.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import msgspec
import pytest

from liqod.model.network.ranges import TransitEntrance
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.peerplan import plan
from tests.netns import lab as labs
from tests.netns.lab import Lab, Pod, ask, ping

pytestmark = [pytest.mark.netns, pytest.mark.network]

PORT = 8000
RATE = 125_000_000
OPEN = (
    TransitEntrance("turin", labs.LAN_HOST, "10.70.0.20"),
    TransitEntrance("turin", labs.LAN_HOST6, "fd00:10:70::20"),
    TransitEntrance("oslo", labs.LAN_OTHER, "10.70.0.21"),
)
SHOWN = {"10.70.0.20": "10.72.0.20", "fd00:10:70::20": "fd00:10:72::20"}
"""As milan sees them."""


def opened(lab: Lab, *transit: TransitEntrance) -> None:
    """Apply a plan of rome's in which these are open."""
    rome = lab.rome
    ranges = msgspec.structs.replace(rome.ranges, lent={}, transit=transit, transit_rate=RATE)
    rome.plan = plan(rome.names, ranges, "server", labs.MTU)
    rome.changes()
    assert rome.changes() == []


@pytest.fixture(scope="module")
def theirs(lab: Lab) -> Pod:
    """A pod of milan's."""
    return lab.milan.pod("pod", 7)


@pytest.fixture(autouse=True)
def kept(lab: Lab) -> Iterator[None]:
    """All three are open at first, and none in the end."""
    opened(lab, *OPEN)
    yield
    opened(lab)


def test_errors_about_a_connection_come_back(lab: Lab, theirs: Pod) -> None:
    for shown in SHOWN.values():
        with pytest.raises(ConnectionRefusedError):
            ask(theirs.namespace, shown, PORT + 1, "udp")


@pytest.mark.parametrize("shown", [*SHOWN.values(), "10.72.0.22", "fd00:10:72::21"])
def test_no_echo_passes_and_no_other_address_is_open(lab: Lab, theirs: Pod, shown: str) -> None:
    before = lab.rome.dropped("strangers")
    assert ping(theirs.namespace, shown, timeout=0.5) == "nothing"
    assert lab.rome.dropped("strangers") > before
    if shown not in SHOWN.values():
        before = lab.rome.dropped("strangers")
        with pytest.raises(TimeoutError):
            ask(theirs.namespace, shown, PORT, "udp", timeout=0.3)
        assert lab.rome.dropped("strangers") > before


@pytest.mark.parametrize("shown", list(SHOWN))
@pytest.mark.parametrize("goes_to", ["nobody", "another"])
def test_a_connection_ends_when_its_address_is_closed_or_another_endpoints(
    lab: Lab, theirs: Pod, shown: str, goes_to: str
) -> None:
    """Packets of both directions; the new endpoint is found by a new connection alone."""
    six = ":" in shown
    family = socket.AF_INET6 if six else socket.AF_INET
    hosts = (labs.LAN_HOST6, labs.LAN_OTHER6) if six else (labs.LAN_HOST, labs.LAN_OTHER)

    def server() -> socket.socket:
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.bind((hosts[0], PORT))
        made.settimeout(0.5)
        return made

    def client() -> socket.socket:
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.connect((SHOWN[shown], PORT))
        made.settimeout(0.5)
        return made

    with enter(lab.rome.host, server) as far, enter(theirs.namespace, client) as near:
        near.send(b"first")
        said, back = far.recvfrom(9)
        # The gateway's own name.
        assert (said, back[0]) == (b"first", labs.LAN_NODE6 if six else labs.LAN_NODE)
        far.sendto(b"answer", back)
        assert near.recv(9) == b"answer"
        if goes_to == "nobody":
            opened(lab)
        else:
            opened(lab, TransitEntrance("turin", hosts[1], shown))
        before = lab.rome.dropped("strangers")
        for end, word in ((near, b"late"), (far, b"later")):
            if end is near:
                near.send(word)
                other = far
            else:
                far.sendto(word, back)
                other = near
            with pytest.raises(TimeoutError):
                other.recv(9)
        assert lab.rome.dropped("strangers") >= before + 2
