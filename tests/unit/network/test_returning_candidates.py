"""A candidate whose network is just back, or comes and goes, takes nothing from the gateway."""

from __future__ import annotations

import pytest

from liqod.network.failover.election import DURATION, SILENCE, STEADY
from tests.unit.network.electing import World, settled


def hears(world: World, who: str) -> bool:
    """True if a candidate has heard the holder name the Lease's present version."""
    mine = world.all[who].election
    probe = mine.probe
    return (
        mine.claim == world.lease
        and not mine.is_behind
        and probe is not None
        and probe.answered_at > world.now - 0.01
    )


def returned(who: str, seconds: float) -> World:
    """Three candidates; one was cut off from all for so long, and has just heard the gateway."""
    world = settled("abc")
    world.cut = {frozenset((who, each)) for each in [*"abc", "api"]}
    world.live(seconds)
    world.cut = set()
    for _ in range(2000):
        world.live(0.002, step=0.001)
        if hears(world, who):
            return world
    raise AssertionError(f"{who} hears nobody")


@pytest.mark.parametrize("who", ["a", "b"])
@pytest.mark.parametrize("seconds", [3.0, 40.0])
def test_one_that_is_back_and_hears_nothing_for_a_time_takes_nothing(who: str, seconds: float):
    """The former gateway, and one that stood by: what it begins slowly is its own network."""
    world = returned(who, seconds)
    holder, epoch = world.lease.holder, world.lease.epoch
    world.cut = {frozenset((who, holder))}
    world.live(STEADY - 2 * SILENCE)
    world.cut = set()
    world.live(20.0)
    assert (world.lease.holder, world.lease.epoch) == (holder, epoch)
    assert world.all[holder].works


@pytest.mark.parametrize("who", ["a", "b"])
def test_one_whose_network_comes_and_goes_takes_nothing(who: str):
    world = returned(who, 3.0)
    holder, epoch = world.lease.holder, world.lease.epoch
    for turn in range(40):
        world.cut = {frozenset((who, holder))} if turn % 2 else set()
        world.live(0.6)
    assert (world.lease.holder, world.lease.epoch) == (holder, epoch)


def test_a_gateway_that_dies_as_it_is_first_heard_is_followed_all_the_same():
    world = returned("b", 3.0)
    gone = world.now
    world.cut = {frozenset(("a", each)) for each in [*"bc", "api"]}
    world.live(STEADY + 1.0)
    taken, who = world.working[-1]
    assert who in "bc"
    assert taken - gone < STEADY + SILENCE
    world.live(DURATION)
    assert sum(each.works for each in world.all.values()) == 1
