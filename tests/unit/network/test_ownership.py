"""Ownership in a table of routes that several share."""

import pytest

from liqod.errors import NetworkError
from liqod.network.dataplane import names, overlayplan, ownership
from liqod.network.dataplane.kernel.kernelmonitor import Touched
from liqod.network.dataplane.names import ALIASES_TABLE, PeerNames
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import Namespace, Owned, Route, Rule

NOTHING = Namespace()


def owned(peer: str) -> Owned:
    """A peer's part of the node's namespace."""
    return PeerPlan(PeerNames("rome", peer), NOTHING, NOTHING).node_owned


MILAN, TURIN, OVERLAY = owned("milan"), owned("turin"), overlayplan.owned("rome")


@pytest.mark.parametrize(
    "others", [TURIN, OVERLAY, owned("oslo")], ids=["peer", "overlay", "third"]
)
def test_a_route_is_its_owners_by_the_metric_alone(others: Owned) -> None:
    for metric in MILAN.metrics:
        route = Route(ALIASES_TABLE, "10.71.0.0/16", "", metric=metric)
        want = Namespace(routes=(route,))
        ownership.check(want, MILAN)
        with pytest.raises(NetworkError, match=r"route 10\.71\.0\.0/16"):
            ownership.check(want, others)
        event = Touched("table", number=ALIASES_TABLE, metric=metric)
        assert event.is_of(MILAN)
        assert not event.is_of(others)


def test_the_rule_of_a_shared_table_is_everybodys() -> None:
    rule = Rule(names.ALIASES_PRIORITY, 4, ALIASES_TABLE)
    event = Touched("table", number=ALIASES_TABLE)
    inside = PeerPlan(PeerNames("rome", "milan"), NOTHING, NOTHING).inside_owned
    for each, shares in ((MILAN, True), (TURIN, True), (OVERLAY, True), (inside, False)):
        assert ownership.is_rule_of(rule, each) is shares
        assert event.is_of(each) is shares
    # A rule without a table is nobody's.
    assert not Touched("table").is_of(inside)


def test_what_the_version_before_had_is_its_peers() -> None:
    names_of = PeerNames("rome", "milan")
    rule = Rule(18710, 4, names_of.former_table, to="10.71.0.0/16")
    assert ownership.is_rule_of(rule, MILAN)
    assert not ownership.is_rule_of(rule, TURIN)
    assert ownership.is_route_of(Route(names_of.former_table, "0.0.0.0/0", ""), MILAN)
