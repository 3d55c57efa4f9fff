"""Two gateways are never both at work for longer than is said; one takes over in time; none flaps.

Candidates, the API server and the ways between them are simulated: time passes by events.
"""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.network.failover import election
from liqod.network.failover.election import (
    DURATION,
    GRACE,
    HOLD,
    KERNEL,
    RENEW,
    SILENCE,
    Election,
)
from liqod.network.failover.fence import LEFT, WORTH, FenceDeadline
from liqod.network.orders.candidacy import Claim
from tests.unit.network.electing import settled


def test_a_gateway_alone_writes_once_and_is_never_fenced():
    world = settled("a")
    version = world.lease.version
    world.cut = {frozenset(("a", "api"))}
    world.live(3600.0, step=1.0)
    assert world.all["a"].works
    assert world.lease.version == version
    assert world.all["a"].election.lease_left(world.now) is None


@pytest.mark.parametrize("names", ["ab", "abcd"])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_standby_takes_over_within_half_a_second(names: str, loss: float):
    for seed in range(10):
        world = settled(names, seed=seed, loss=loss)
        gone = world.now
        world.cut = {frozenset(("a", each)) for each in [*names[1:], "api"]}
        world.live(2.0)
        taken, who = world.working[1]
        assert who != "a"
        assert taken - gone < 0.5
        assert not world.all["a"].works
        # It comes back, and takes nothing away.
        world.cut = set()
        world.live(20.0)
        assert world.working[-1][1] == who
        assert [each for each in names if world.all[each].works] == [who]
        assert world.lease.epoch == 2
        assert world.overlaps <= GRACE + 0.01


def test_a_tenth_of_the_packets_lost_is_no_reason():
    world = settled("abc", seed=3, loss=0.1)
    world.live(1200.0, step=0.01)
    assert world.lease.holder == "a"
    assert world.lease.epoch == 1


def test_a_standby_that_goes_costs_a_write_and_no_more():
    world = settled()
    world.all["b"].dead = True
    for _ in range(200):
        world.live(0.1)
        assert world.all["a"].works
    # For ten minutes it may come back; then the gateway is alone, and writes no more.
    world.live(election.FORGET, step=0.05)
    version = world.lease.version
    world.live(60.0, step=0.05)
    assert world.lease.version == version


def test_without_an_api_server_all_goes_on_while_candidates_hear_each_other():
    world = settled("abc")
    world.cut = {frozenset((each, "api")) for each in "abc"}
    world.live(120.0, step=0.01)
    assert world.all["a"].works
    assert world.all["a"].election.lease_left(world.now) == KERNEL


def test_one_that_neither_hears_a_standby_nor_can_write_is_fenced():
    world = settled()
    cut_at = world.now
    world.cut = {frozenset("ab"), frozenset(("a", "api")), frozenset(("b", "api"))}
    world.live(SILENCE + GRACE + 0.2)
    assert not world.all["a"].works
    assert not world.all["b"].works  # it cannot write either
    assert world.now - cut_at < HOLD


@pytest.mark.parametrize("standby", ["alive", "dead", "comes and goes"])
def test_a_daemon_that_is_killed_at_any_time_has_nine_seconds_left(standby: str):
    """As long as it may take until another is started; while no standby hears what was written."""
    world, holding = settled(), FenceDeadline()
    told, least = 0, inf
    world.live(0.01)
    for turn in range(3000):
        mine = world.all["a"].election
        held = mine.lease_left(world.now)
        if holding.is_due(held, world.now):
            holding.confirm(held, world.now)
            told += 1
            until = world.now + (held or 0.0)
        least = min(least, until - world.now)
        if standby == "dead":
            world.all["b"].dead = True
        elif standby == "comes and goes":
            world.cut = {frozenset("ab")} if turn % 700 < 350 else set()
        world.live(0.01)
    assert world.all["a"].works
    assert world.lease.epoch == 1
    assert least > LEFT - 2 * WORTH
    assert told <= 30 / RENEW + 2


def test_the_kernel_is_told_less_at_once_and_more_in_time():
    holding = FenceDeadline()
    assert holding.is_due(0.0, 5.0)
    holding.confirm(0.0, 5.0)
    assert not holding.is_due(0.0, 6.0)
    assert holding.due(6.0) == inf
    assert holding.is_due(None, 6.0)
    holding.confirm(None, 6.0)
    assert not holding.is_due(None, 7.0)
    assert holding.is_due(KERNEL, 7.0)
    holding.confirm(KERNEL, 7.0)
    assert holding.due(7.0) == 7.0 + KERNEL - LEFT
    assert not holding.is_due(KERNEL, 8.0)
    assert holding.is_due(KERNEL, 7.0 + KERNEL - LEFT)
    assert holding.is_due(KERNEL - 2.0, 8.0)
    assert holding.is_due(0.0, 8.0)
    holding.refused(9.0)
    assert not holding.is_due(0.0, 9.5)
    assert holding.is_due(0.0, holding.due(9.5))


def test_one_that_hangs_is_followed_by_its_silence():
    world = settled()
    hung = world.now
    world.all["a"].deaf = True
    world.live(1.0)
    assert world.lease.holder in "ab"
    world.all["a"].deaf = False
    world.live(2.0)
    assert world.now - hung < 4
    assert sum(each.works for each in world.all.values()) == 1


def test_a_lease_that_was_let_go_is_taken_at_once():
    world = settled()
    world.lease = Claim("", 1, f"v{next(world.versions)}")
    for each in world.all.values():
        world.later(0, each.watched(world.lease))
    world.live(0.5)
    assert world.lease.holder in "ab"
    assert world.lease.epoch == 2


def test_an_answer_of_another_epoch_or_holder_keeps_nobody_alive():
    mine = Election("b", 0.0)
    mine.saw(Claim("a", 3, "v9"), 0.0)
    for number, claim in enumerate(
        (Claim("c", 3, "v9"), Claim("a", 2, "v9"), Claim("", 3, "v9")), 1
    ):
        assert mine.probe is not None
        mine.probe.sent(number, 0.1)
        mine.on_answer(number, claim, 0.1)
        assert mine.probe.alive is None
        mine.probe.judge(0.15)
        assert mine.probe.alive is None


def test_word_of_a_newer_epoch_fences_until_a_write_says_otherwise():
    mine = Election("a", 0.0)
    mine.saw(Claim("a", 3, "v9", ("b",)), 0.0)
    mine.trying(0.1)
    mine.wrote(Claim("a", 3, "v10", ("b",)), 0.1, 0.11)
    assert mine.at_work(0.2)
    mine.on_epoch(4)
    assert not mine.at_work(0.2)
    assert mine.should_renew(0.3)
    mine.wrote(Claim("a", 3, "v11", ("b",)), 0.3, 0.31)
    assert mine.at_work(0.4)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    loss=st.sampled_from([0.0, 0.1, 0.4]),
    names=st.sampled_from(["ab", "abc"]),
    acts=st.lists(
        st.tuples(
            st.sampled_from(["cut", "mend", "kill", "begin", "mend all", "cordon", "uncordon"]),
            st.integers(0, 5),
            st.integers(0, 5),
            st.floats(0.01, 6.0),
        ),
        max_size=8,
    ),
)
def test_two_are_never_at_work_for_longer_than_said(seed, loss, names, acts):
    """Candidates are cut off, cordoned, lose messages, die and come back."""
    world = settled(names, seed=seed, loss=0.0)
    world.loss = loss
    places = [*names, "api"]
    changes = 0
    for what, one, other, seconds in acts:
        pair = frozenset((places[one % len(places)], places[other % len(places)]))
        who = world.all[names[one % len(names)]]
        if what == "cut":
            world.cut.add(pair)
        elif what == "mend":
            world.cut.discard(pair)
        elif what == "mend all":
            world.cut.clear()
        elif what == "kill":
            who.dead = True
        elif what == "cordon":
            world.cordon("".join({*world.cordoned, who.name}))
        elif what == "uncordon":
            world.cordon("".join(world.cordoned - {who.name}))
        elif who.dead:
            who.restart()
        before = world.overlaps
        epoch = world.lease.epoch
        world.live(seconds)
        changes = world.lease.epoch - epoch
        assert world.overlaps - before <= (GRACE + 0.05) * max(1, changes)
    world.cut.clear()
    world.cordon("")
    world.loss = 0.0
    for each in world.all.values():
        if each.dead:
            each.restart()
    world.live(DURATION + 3)
    assert sum(each.works for each in world.all.values()) == 1
    assert world.all[world.lease.holder].works
