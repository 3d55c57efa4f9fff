"""A node's part of the overlay as values, and the numbers that nodes have there."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.network.dataplane import names, ownership
from liqod.network.dataplane.overlayplan import (
    MOST_NODES,
    Overlay,
    OverlayNode,
    numbered,
    owned,
    plan,
)
from liqod.network.dataplane.values import Namespace

PODS = ("10.244.0.0/16", "fd00:244::/56")
OVERLAY = Overlay(pods=PODS, aliases={"10.71.0.0/16": 1340, "fd00:71::/56": 1320})


def node(index: int) -> OverlayNode:
    """A node with pods of both families."""
    return OverlayNode(
        name=f"node-{index}",
        address=f"192.168.1.{index}",
        index=index,
        pods=(f"10.244.{index}.0/24", f"fd00:244:0:{index:x}::/64"),
    )


def test_nodes_of_two_families_are_refused() -> None:
    other = OverlayNode(name="six", address="fd00::6", index=6)
    with pytest.raises(ValueError, match="family"):
        plan(node(1), node(1), (other,), OVERLAY)


@pytest.mark.parametrize("index", [0, MOST_NODES + 1])
def test_a_number_that_none_can_have_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match="number"):
        OverlayNode(name="a", address="192.168.1.1", index=index).inner(4)


@given(st.sets(st.integers(1, MOST_NODES), min_size=2, max_size=40))
def test_no_two_nodes_have_the_same_address(indexes: set[int]) -> None:
    nodes = [OverlayNode(name=str(each), address="192.0.2.1", index=each) for each in indexes]
    for found in ({each.inner(4) for each in nodes}, {each.inner(6) for each in nodes}):
        assert len(found) == len(nodes)
    assert len({each.mac for each in nodes}) == len(nodes)
    last = ipaddress.ip_network(names.OVERLAY_NETWORK).broadcast_address
    assert str(last) not in {each.inner(4) for each in nodes}


@given(
    have=st.dictionaries(st.text("abcd", min_size=1, max_size=2), st.integers(-1, 12)),
    nodes=st.sets(st.text("abcd", min_size=1, max_size=2)),
)
def test_numbers_are_kept_and_no_two_nodes_share_one(have: dict[str, int], nodes: set[str]) -> None:
    found = numbered(have, nodes)
    assert found.keys() == nodes
    assert len(set(found.values())) == len(nodes)
    assert all(1 <= number <= MOST_NODES for number in found.values())
    assert numbered(found, nodes) == found
    kept = {name: number for name, number in found.items() if have.get(name) == number}
    assert {have[name] for name in nodes & have.keys() if have[name] > 0} <= set(kept.values())


def test_more_nodes_than_numbers() -> None:
    with pytest.raises(ValueError, match=str(MOST_NODES)):
        numbered({}, [str(each) for each in range(MOST_NODES + 1)])


def whole(found: Namespace) -> None:
    """Everything of a plan is its owner's."""
    mine = owned("rome")
    assert {link.name for link in found.links} <= set(mine.links)
    assert set(found.tables) == set(mine.nftables)
    ownership.check(found, mine)


@given(indexes=st.sets(st.integers(1, 250), min_size=1, max_size=6), me=st.integers(0, 5))
def test_every_plan_is_its_owners(indexes: set[int], me: int) -> None:
    nodes = [node(each) for each in sorted(indexes)]
    whole(plan(nodes[me % len(nodes)], nodes[0], nodes, OVERLAY))
