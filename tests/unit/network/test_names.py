"""Names on a machine: short enough for the kernel, and no two peers' alike."""

from hypothesis import given
from hypothesis import strategies as st

from liqod.network.dataplane import names
from liqod.network.dataplane.names import PRIORITIES, PeerNames

IDS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(own=IDS, peer=IDS)
def test_names_are_within_the_kernels_limits(own: str, peer: str) -> None:
    found = PeerNames(own, peer)
    for interface in (found.veth, found.tunnel, names.INSIDE, names.OVERLAY):
        assert 0 < len(interface) <= 15
        assert interface.isalnum()
    assert len(found.mark) <= 100
    usual, refusing = found.metrics
    assert 2**30 <= usual < names.OVERLAY_METRICS[0] < names.OVERLAY_METRICS[1] < refusing < 2**32
    assert found.former_table == usual
    for mac in (found.outer_mac, found.inner_mac):
        first = int(mac[:2], 16)
        assert len(mac) == 17
        assert first & 2, "locally administered"
        assert not first & 1, "no group"
    assert found.outer_mac != found.inner_mac


@given(one=IDS, other=IDS, third=IDS)
def test_both_sides_and_other_peers_have_names_of_their_own(
    one: str, other: str, third: str
) -> None:
    if one != other:
        assert PeerNames(one, other).namespace != PeerNames(other, one).namespace
    if other != third:
        assert PeerNames(one, other).hash != PeerNames(one, third).hash


def test_rules_are_asked_in_their_order() -> None:
    order = [
        # Of the version before: they win again where that comes back.
        18720,
        names.ALIASES_PRIORITY,
        names.PODS_PRIORITY,
        names.INSIDE_PRIORITY,
        names.CUT_PRIORITY,
    ]
    assert order == sorted(set(order))
    assert all(PRIORITIES[0] <= each <= PRIORITIES[1] for each in order)
