"""Of a virtual node's changes those are told that somebody who describes it asks about."""

from liqod.apimachinery import labels
from liqod.consumer.nodes.nodeevents import of_conditions, of_cordon


def condition(type: str, status: str, message: str = "") -> dict[str, str]:
    return {"type": type, "status": status, "reason": "R", "message": message}


GOOD, AWAY = condition("Ready", "True", "well"), condition("Ready", "False", "no answer")


def reasons(before, after):
    return [(each.type, each.reason, each.message) for each in of_conditions(before, after)]


def test_what_stays_as_it_is_is_told_once():
    assert reasons([GOOD], [GOOD]) == []
    assert reasons([AWAY], [AWAY]) == []
    assert reasons([], [GOOD]) == []


def test_why_it_is_not_ready_is_told_and_that_it_is_again():
    assert reasons([GOOD], [AWAY]) == [("Warning", "NodeNotReady", "no answer")]
    assert reasons([], [AWAY]) == [("Warning", "NodeNotReady", "no answer")]
    other = condition("Ready", "False", "its certificate has ended")
    assert reasons([AWAY], [other]) == [("Warning", "NodeNotReady", "its certificate has ended")]
    assert reasons([AWAY], [GOOD]) == [("Normal", "NodeReady", "well")]
    assert reasons([condition("Ready", "Unknown")], [GOOD]) == [("Normal", "NodeReady", "well")]


def test_the_network_and_the_peers_daemon_are_told_of():
    joined = condition("NetworkUnavailable", "False")
    broken = condition("NetworkUnavailable", "True", "the tunnel is down")
    assert reasons([joined], [broken]) == [("Warning", "NetworkUnavailable", "the tunnel is down")]
    assert reasons([broken], [joined]) == [("Normal", "NetworkAvailable", "R")]
    runs = condition(labels.PEER_DAEMON_READY, "True")
    silent = condition(labels.PEER_DAEMON_READY, "False", "no Lease")
    assert reasons([runs], [silent]) == [("Warning", "PeerDaemonSilent", "no Lease")]


def test_a_status_that_has_no_conditions_tells_nothing():
    assert reasons([GOOD], []) == []


def test_a_cordon_is_told_when_it_comes_and_goes():
    assert list(of_cordon(None, True)) == []
    assert list(of_cordon(True, True)) == []
    assert [each.reason for each in of_cordon(False, True)] == ["NodeNotSchedulable"]
    assert [each.reason for each in of_cordon(True, False)] == ["NodeSchedulable"]
