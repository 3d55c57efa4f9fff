"""Two gateways are never both at work for longer than is said; one takes over in time; none flaps.

Candidates, the API server and the ways between them are simulated: time passes by events.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
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
    Claim,
    Election,
)
from liqod.network.failover.holding import LEFT, WORTH, Holding

TRIP = 0.0005
API = 0.008
"""Seconds of a way between candidates, and of one to the API server or from it."""
API_PATIENCE = 1.0


class World:
    """The Lease, candidates, and what is cut off from what."""

    def __init__(self, names: str, *, seed: int = 0, loss: float = 0.0) -> None:
        self.now = 1000.0
        self.random = random.Random(seed)
        self.loss = loss
        self.lease = Claim(names[0], 1, "v0", tuple(names[1:]))
        self.versions = count(1)
        self.cut: set[frozenset[str]] = set()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.all = {name: Candidate(self, name) for name in names}
        self.overlaps = 0.0
        self.working: list[tuple[float, str]] = []

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), what))

    def reach(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self.cut

    def send(self, one: str, other: str, what: Callable[[], None]) -> None:
        """A datagram; what is cut or lost does not come."""
        if self.random.random() >= self.loss:
            late = TRIP * (1 + self.random.random())

            def arrive() -> None:
                if self.reach(one, other):
                    what()

            self.later(late, arrive)

    def live(self, seconds: float, step: float = 0.005) -> None:
        end = self.now + seconds
        while self.now < end:
            until = min(end, self.now + step)
            while self._events and self._events[0][0] <= until:
                at, _, what = heapq.heappop(self._events)
                self.now = max(self.now, at)
                what()
            self.now = until
            for each in self.all.values():
                each.step()
            at_work = [name for name, each in self.all.items() if each.works]
            if len(at_work) > 1:
                self.overlaps += step
            for name in at_work:
                if not self.working or self.working[-1][1] != name:
                    self.working.append((self.now, name))

    def write(self, who: str, claim: Claim) -> Claim | None:
        """What the API server makes of a conditional write."""
        if claim.version != self.lease.version:
            return None
        version = f"v{next(self.versions)}"
        self.lease = Claim(claim.holder, claim.epoch, version, claim.others)
        for each in self.all.values():
            self.later(API, each.watched(self.lease))
        return self.lease


class Candidate:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.restart()
        self.dead = self.deaf = False

    def restart(self) -> None:
        world = self.world
        self.election = Election(self.name, world.now)
        self.election.saw(world.lease, world.now)
        self.keys = count(1)
        self.sent: dict[int, float] = {}
        """When answers went out, by their number."""
        self.had: dict[str, int] = {}
        """Of each gateway the number of the last answer that came."""
        self.asking: dict[str, list[float]] = {}
        self.busy_until = -inf
        self.dead = False
        self.synced = world.now

    @property
    def works(self) -> bool:
        return not self.dead and self.election.at_work(self.world.now)

    def watched(self, lease: Claim) -> Callable[[], None]:
        def told() -> None:
            if self.world.reach(self.name, "api") and not self.dead and self.is_news(lease):
                self.election.saw(lease, self.world.now)

        return told

    def is_news(self, lease: Claim) -> bool:
        known = self.election.claim
        return known is None or int(lease.version[1:]) > int(known.version[1:])

    def step(self) -> None:
        world, mine = self.world, self.election
        if self.dead:
            return
        if world.now - self.synced > 1:
            # A watch that broke is begun anew.
            self.synced = world.now
            world.later(API, self.watched(world.lease))
        for name, (first, had, at) in self.asking.items():
            mine.asked(name, first, had, at)
        probe = mine.probe
        if probe is not None and mine.claim is not None:
            probe.judge(world.now)
            if probe.sends(world.now):
                key = next(self.keys)
                probe.sent(key, world.now)
                there = world.all[mine.claim.holder]
                had = self.had.get(there.name, 0)
                world.send(self.name, there.name, lambda: there.ask(self, key, had))
        if world.now >= self.busy_until:
            if mine.wants_to_take(world.now):
                assert mine.claim is not None
                before = mine.claim
                others = tuple({before.holder, *before.others} - {self.name, ""})
                self.write(Claim(self.name, mine.epoch + 1, before.version, others))
            elif mine.wants_to_renew(world.now):
                assert mine.claim is not None
                before = mine.claim
                self.write(Claim(self.name, before.epoch, before.version, mine.company))

    def write(self, claim: Claim) -> None:
        world, sent = self.world, self.world.now
        self.election.trying(sent)
        self.busy_until = sent + API_PATIENCE
        if not world.reach(self.name, "api"):
            return
        life = self.election

        def arrive() -> None:
            made = world.write(self.name, claim)

            def answer() -> None:
                if self.dead or self.election is not life or not world.reach(self.name, "api"):
                    return
                self.busy_until = -inf
                if made is None:
                    if self.is_news(world.lease):
                        life.saw(world.lease, world.now)
                elif self.is_news(made) or life.claim == made:
                    life.wrote(made, sent, world.now)
                    self.asking.clear()  # from here on answers name this version

            world.later(API / 2, answer)

        world.later(API / 2, arrive)

    def ask(self, who: Candidate, key: int, had: int) -> None:
        """As the responder does, in its thread."""
        world, mine = self.world, self.election
        if self.dead:
            world.send(self.name, who.name, who.election.refused)
            return
        if self.deaf or mine.claim is None:
            return
        if mine.holds:
            known = self.asking.get(who.name)
            acknowledged = self.sent.get(had, -inf)
            if known is None:
                known = [world.now, acknowledged, world.now]
            self.asking[who.name] = [known[0], max(known[1], acknowledged), world.now]
        number = next(self.keys) + 1_000_000 * (1 + ord(self.name[0]))
        self.sent[number] = world.now
        claim = mine.claim

        def arrive() -> None:
            if not who.dead:
                who.had[self.name] = number
                who.election.answered(key, claim, world.now)

        world.send(self.name, who.name, arrive)


def settled(names: str = "ab", **how: float) -> World:
    world = World(names, **how)  # type: ignore[arg-type]
    world.live(3.0)
    assert world.all["a"].works
    assert [who for _, who in world.working] == ["a"]
    return world


def test_a_gateway_alone_writes_once_and_is_never_fenced():
    world = World("a")
    world.live(1.0)
    version = world.lease.version
    world.cut = {frozenset(("a", "api"))}
    world.live(3600.0, step=1.0)
    assert world.all["a"].works
    assert world.lease.version == version
    assert world.all["a"].election.held_for(world.now) is None


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


def test_one_cut_off_from_its_standby_alone_keeps_the_lease():
    world = settled(seed=5)
    world.cut = {frozenset("ab")}
    world.live(60.0)
    assert [who for _, who in world.working] == ["a"]


def test_without_an_api_server_all_goes_on_while_candidates_hear_each_other():
    world = settled("abc")
    world.cut = {frozenset((each, "api")) for each in "abc"}
    world.live(120.0, step=0.01)
    assert world.all["a"].works
    assert world.all["a"].election.held_for(world.now) == KERNEL


def test_one_that_neither_hears_a_standby_nor_can_write_is_fenced():
    world = settled()
    cut_at = world.now
    world.cut = {frozenset("ab"), frozenset(("a", "api")), frozenset(("b", "api"))}
    world.live(SILENCE + GRACE + 0.2)
    assert not world.all["a"].works
    assert not world.all["b"].works  # it cannot write either
    assert world.now - cut_at < HOLD


def test_a_daemon_that_is_killed_and_begun_again_stays_the_gateway():
    world = settled("abc")
    world.all["a"].dead = True
    world.live(5.0)
    assert world.lease.epoch == 1
    world.all["a"].restart()
    assert not world.all["a"].works  # nothing is known yet, and nothing is changed
    world.live(1.0)
    assert world.all["a"].works
    assert world.lease.epoch == 1


@pytest.mark.parametrize("standby", ["alive", "dead", "comes and goes"])
def test_a_daemon_that_is_killed_at_any_time_has_nine_seconds_left(standby: str):
    """As long as it may take until another is started; while no standby hears what was written."""
    world, holding = settled(), Holding()
    told, least = 0, inf
    world.live(0.01)
    for turn in range(3000):
        mine = world.all["a"].election
        held = mine.held_for(world.now)
        if holding.is_due(held, world.now):
            holding.told(held, world.now)
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
    holding = Holding()
    assert holding.is_due(0.0, 5.0)
    holding.told(0.0, 5.0)
    assert not holding.is_due(0.0, 6.0)
    assert holding.due(6.0) == inf
    assert holding.is_due(None, 6.0)
    holding.told(None, 6.0)
    assert not holding.is_due(None, 7.0)
    assert holding.is_due(KERNEL, 7.0)
    holding.told(KERNEL, 7.0)
    assert holding.due(7.0) == 7.0 + KERNEL - LEFT
    assert not holding.is_due(KERNEL, 8.0)
    assert holding.is_due(KERNEL, 7.0 + KERNEL - LEFT)
    assert holding.is_due(KERNEL - 2.0, 8.0)
    assert holding.is_due(0.0, 8.0)
    holding.refused(9.0)
    assert not holding.is_due(0.0, 9.5)
    assert holding.is_due(0.0, holding.due(9.5))


def test_a_daemon_that_stays_away_is_followed_after_the_kernel_fenced_it():
    world = settled()
    died = world.now
    held = world.all["a"].election.held_for(died)
    assert held == KERNEL
    world.all["a"].dead = True
    world.live(DURATION + 1)
    taken, who = world.working[-1]
    assert who == "b"
    assert died + held < taken < died + DURATION + 0.5


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
        mine.answered(number, claim, 0.1)
        assert mine.probe.alive is None
        mine.probe.judge(0.15)
        assert mine.probe.alive is None


def test_word_of_a_newer_epoch_fences_until_a_write_says_otherwise():
    mine = Election("a", 0.0)
    mine.saw(Claim("a", 3, "v9", ("b",)), 0.0)
    mine.trying(0.1)
    mine.wrote(Claim("a", 3, "v10", ("b",)), 0.1, 0.11)
    assert mine.at_work(0.2)
    mine.told(4)
    assert not mine.at_work(0.2)
    assert mine.wants_to_renew(0.3)
    mine.wrote(Claim("a", 3, "v11", ("b",)), 0.3, 0.31)
    assert mine.at_work(0.4)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    loss=st.sampled_from([0.0, 0.1, 0.4]),
    names=st.sampled_from(["ab", "abc"]),
    acts=st.lists(
        st.tuples(
            st.sampled_from(["cut", "mend", "kill", "begin", "mend all"]),
            st.integers(0, 5),
            st.integers(0, 5),
            st.floats(0.01, 6.0),
        ),
        max_size=8,
    ),
)
def test_two_are_never_at_work_for_longer_than_said(seed, loss, names, acts):
    """Whoever is cut off from whom, loses what, dies and comes back."""
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
        elif who.dead:
            who.restart()
        before = world.overlaps
        epoch = world.lease.epoch
        world.live(seconds)
        changes = world.lease.epoch - epoch
        assert world.overlaps - before <= (GRACE + 0.05) * max(1, changes)
    world.cut.clear()
    world.loss = 0.0
    for each in world.all.values():
        if each.dead:
            each.restart()
    world.live(DURATION + 3)
    assert sum(each.works for each in world.all.values()) == 1
    assert world.all[world.lease.holder].works
