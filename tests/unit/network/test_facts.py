"""What of a peer's network the doctor is shown."""

import pytest

from liqod.model.network.ranges import PeerRanges, Ranges
from liqod.network.connections import Way
from liqod.network.ends import Ends
from liqod.network.facts import facts
from liqod.network.gatewayplan import Gateway
from liqod.network.machine import Heard

GATEWAY = Gateway(
    side="client", backend="wireguard", name="g", uid="u", mtu=1340, endpoints=("192.0.2.1:51840",)
)
ENDS = Ends(gateway=GATEWAY, waits="", looked=True)
RANGES = PeerRanges(peer=Ranges(pod=("10.244.0.0/16",)), seen=Ranges(pod=("10.64.0.0/16",)))
CONNECTED = Way("Connected", latency=0.001)


def test_a_network_that_stands():
    # Of a server's probes most are lost before the client comes: that is no fault afterwards.
    found = facts("", ENDS, RANGES, "", CONNECTED, Heard(True, 0.001, lost=0.8), 30.0)
    assert (found.echo, found.heard, found.rtt, found.loss) == (0.0, 0.0, 0.001, None)
    assert found.aliases == ("10.244.0.0/16 as 10.64.0.0/16",)
    assert found.candidates == ("192.0.2.1:51840",)


def test_one_that_went_silent():
    found = facts("", ENDS, RANGES, "", Way("Connecting"), Heard(False), 4.0)
    assert (found.echo, found.heard, found.rtt) == (4.0, 4.0, None)


def test_a_machine_that_refuses():
    found = facts("", ENDS, RANGES, "", Way("Error", "there is no wireguard"), None, None)
    assert found.device == "there is no wireguard"


@pytest.mark.parametrize(
    ("problem", "ends", "ranges", "waits"),
    [
        ("no CAP_NET_ADMIN", ENDS, RANGES, ""),
        ("", Ends(), RANGES, "there is no GatewayServer"),
        ("", ENDS, None, "no aliases"),
    ],
)
def test_what_is_not_there_yet_is_waited_for(problem, ends, ranges, waits):
    found = facts(problem, ends, ranges, "no aliases yet", CONNECTED, None, None)
    assert found.problem == problem
    assert waits in found.waits
    assert found.backend == ""
