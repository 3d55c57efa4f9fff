"""A gateway on a cordoned node gives way to a standby on one that is not, once, and in time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.network.failover.election import (
    DEFERENCE,
    RETRY,
    TOGETHER,
    YIELDS_AGAIN,
    Election,
)
from liqod.network.orders.candidacy import Claim
from tests.unit.network.electing import World, settled

WITHIN = 1.0
"""Seconds from the cordon until another is at work: what docs/background/failures.md says."""


def at_work(world: World) -> str:
    """The names of those at work."""
    return "".join(name for name, each in world.all.items() if each.works)


@pytest.mark.parametrize("names", ["ab", "abcd"])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_cordoned_gateway_gives_way_in_time(names: str, loss: float):
    for seed in range(10):
        world = settled(names, seed=seed, loss=loss)
        world.cordon("a")
        world.live(WITHIN)
        assert at_work(world) in set(names) - {"a"}
        assert world.lease.epoch == 2
        assert world.overlaps == 0.0
        assert world.idle < 0.1
        world.live(30.0, step=0.01)
        assert len(world.working) == 2


@pytest.mark.parametrize(("names", "cordoned"), [("a", "a"), ("abc", "abc"), ("abc", "bc")])
def test_nobody_yields_where_nobody_else_may_stay(names: str, cordoned: str):
    world = settled(names)
    world.cordon(cordoned)
    world.live(60.0, step=0.01)
    assert at_work(world) == "a"
    assert world.lease.epoch == 1
    assert world.idle == 0.0


def test_a_standby_that_is_not_heard_is_none_to_yield_to():
    world = settled("ab")
    world.all["b"].dead = True
    world.live(1.0)
    world.cordon("a")
    world.live(30.0, step=0.01)
    assert at_work(world) == "a"
    assert world.lease.holder == "a"
    # As soon as it is there again, it is.
    world.all["b"].restart()
    world.live(2.0)
    assert at_work(world) == "b"


@given(seed=st.integers(0, 1 << 30), cordoned=st.sets(st.sampled_from("bcd"), max_size=2))
@settings(max_examples=30, deadline=None)
def test_one_that_is_not_cordoned_takes_it(seed: int, cordoned: set[str]):
    world = settled("abcd", seed=seed)
    world.cordon("a" + "".join(cordoned))
    world.live(WITHIN)
    assert at_work(world) in set("bcd") - cordoned
    assert world.lease.epoch == 2


def test_nodes_that_are_cordoned_one_after_another_move_it_once():
    world = settled("abc")
    for names in ("a", "ab"):
        world.cordon(names)
        world.live(0.3)
    world.live(WITHIN)
    assert at_work(world) == "c"
    assert world.lease.epoch == 2


def test_each_node_is_drained_in_turn():
    world = settled("ab")
    for turn, (drained, left) in enumerate((("a", "b"), ("b", "a"), ("a", "b")), 2):
        world.cordon(drained)
        world.live(WITHIN)
        assert at_work(world) == left
        assert world.lease.epoch == turn
        world.cordon("")
        world.live(5.0)
    assert world.overlaps == 0.0


def test_a_cordoned_standby_leaves_a_dead_gateway_to_one_that_is_not():
    for seed in range(10):
        world = settled("abc", seed=seed)
        world.live(2.0)
        world.cordon("b")
        world.live(0.1)
        gone = world.now
        world.cut = {frozenset(("a", each)) for each in ("b", "c", "api")}
        world.live(2.0)
        assert at_work(world) == "c"
        assert {who for _, who in world.working} == {"a", "c"}
        assert world.working[1][0] - gone < 0.5


def test_a_cordoned_standby_takes_what_nobody_else_does():
    world = settled("abc")
    world.live(2.0)
    world.cordon("b")
    world.all["c"].dead = True
    world.live(0.1)
    gone = world.now
    world.cut = {frozenset(("a", each)) for each in ("b", "api")}
    world.live(DEFERENCE + 1.0)
    assert DEFERENCE - 0.2 < world.working[1][0] - gone < DEFERENCE + 0.5
    assert at_work(world) == "b"


def test_the_only_standby_waits_for_nobody():
    world = settled("ab")
    world.cordon("b")
    world.live(2.0)
    gone = world.now
    world.cut = {frozenset(("a", each)) for each in ("b", "api")}
    world.live(1.0)
    assert world.working[1][0] - gone < 0.5


def test_without_an_api_server_it_does_not_yield():
    world = settled("ab")
    world.cordon("a")
    world.live(0.1)
    world.cut = {frozenset((each, "api")) for each in "ab"}
    # What a write could find out meanwhile is that it is too late.
    world.all["a"].election.keep(world.now)
    world.live(60.0, step=0.01)
    assert at_work(world) == "a"
    assert world.idle == 0.0


def test_a_standby_that_cannot_write_gives_it_back_for_a_while():
    world = settled("ab")
    world.cordon("a")
    world.cut = {frozenset(("b", "api"))}
    world.live(YIELDS_AGAIN - 10.0, step=0.01)
    assert at_work(world) == "a"
    assert world.lease.epoch == 2
    assert world.idle < DEFERENCE + 0.5
    world.cut = set()
    world.live(20.0)
    assert at_work(world) == "b"


@pytest.mark.parametrize("arrives", [False, True])
def test_one_that_may_have_let_go_is_fenced_until_it_knows(arrives: bool):
    world = settled("ab")
    world.cordon("a")
    while not world.all["a"].election.is_letting_go:
        world.live(0.001, step=0.001)
    if arrives:
        world.live(0.006, step=0.001)  # it is there, and its answer is under way
    world.cut = {frozenset(("a", "api")), frozenset(("b", "api"))}
    world.live(20.0, step=0.01)
    assert at_work(world) == ""
    world.cut = set()
    world.live(3.0)
    assert at_work(world) == ("b" if arrives else at_work(world))
    assert len(at_work(world)) == 1
    assert world.overlaps == 0.0


def yielding() -> Election:
    """A gateway on a cordoned node, with a standby, that is to let the Lease go."""
    mine = Election("a", 0.0)
    mine.saw(Claim("a", 3, "v9", ("b",)), 0.0)
    mine.trying(0.1)
    mine.wrote(Claim("a", 3, "v10", ("b",)), 0.1, 0.11)
    mine.on_cordons(frozenset("a"), 0.1)
    mine.on_question("b", 0.55, 0.6, 0.7)
    assert mine.should_let_go(0.1 + TOGETHER + 0.1)
    mine.letting_go(0.7)
    return mine


def test_it_is_fenced_before_the_write_and_counts_what_the_write_says():
    mine = yielding()
    assert not mine.at_work(0.7)
    assert mine.lease_left(0.7) == 0.0
    assert not mine.should_let_go(0.7 + RETRY)
    mine.wrote(Claim("", 3, "v11", ("a", "b")), 0.7, 0.71)
    assert not mine.is_letting_go
    assert not mine.holds
    assert mine.due(0.71) == pytest.approx(0.71 + DEFERENCE)
    assert not mine.should_take(3.7)
    assert mine.should_take(0.71 + DEFERENCE)


def test_a_write_that_another_came_before_is_tried_again_later():
    mine = yielding()
    # It is not known: a write shows it.
    assert mine.should_renew(0.7 + RETRY)
    assert mine.due(0.7) == pytest.approx(0.7 + RETRY)
    mine.trying(0.9)
    mine.wrote(Claim("a", 3, "v11", ("b",)), 0.9, 0.91)
    assert mine.at_work(0.92)
    mine.on_question("b", 0.95, 1.0, 1.1)
    assert not mine.should_let_go(1.1)
    mine.on_cordons(frozenset(), 1.2)
    mine.on_cordons(frozenset("a"), 1.3)
    mine.on_question("b", 0.95, 1.8, 1.9)
    assert mine.should_let_go(1.9)
