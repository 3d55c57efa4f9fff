"""Candidates, the API server and the ways between them, simulated: time passes by events."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from math import inf

from liqod.network.failover.election import Election
from liqod.network.orders.candidacy import Claim

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
        self.cordoned: frozenset[str] = frozenset()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.all = {name: Candidate(self, name) for name in names}
        self.overlaps = self.idle = 0.0
        """Seconds in which several were at work, and in which none was."""
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
        """Time passes. Candidates are asked after each event, and when they say that they are due:
        as by the program, which sleeps until then."""
        end, due = self.now + seconds, -inf
        at_work: list[str] = []
        while self.now < end:
            until = min(end, self.now + step)
            while self._events and self._events[0][0] <= until:
                at, _, what = heapq.heappop(self._events)
                self.now = max(self.now, at)
                what()
                due = -inf
            self.now = until
            if self.now >= due:
                for each in self.all.values():
                    each.step()
                at_work = [name for name, each in self.all.items() if each.works]
                due = min(each.due for each in self.all.values())
            if len(at_work) > 1:
                self.overlaps += step
            elif not at_work:
                self.idle += step
            for name in at_work:
                if not self.working or self.working[-1][1] != name:
                    self.working.append((self.now, name))

    def cordon(self, names: str) -> None:
        """These Nodes are cordoned, and no others."""
        self.cordoned = frozenset(names)
        for each in self.all.values():
            self.later(API, partial(each.sees_cordons, self.cordoned))

    def write(self, who: str, claim: Claim) -> Claim | None:
        """The API server's answer to a conditional write."""
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

    @property
    def due(self) -> float:
        """When it may do something, or no longer work, though nothing happens."""
        return inf if self.dead else min(self.election.due(self.world.now), self.synced + 1)

    def watched(self, lease: Claim) -> Callable[[], None]:
        def told() -> None:
            if self.world.reach(self.name, "api") and not self.dead and self.is_news(lease):
                self.election.saw(lease, self.world.now)

        return told

    def sees_cordons(self, names: frozenset[str]) -> None:
        if self.world.reach(self.name, "api") and not self.dead:
            self.election.on_cordons(names, self.world.now)

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
            world.later(API, partial(self.sees_cordons, world.cordoned))
        for name, (first, had, at) in self.asking.items():
            mine.on_question(name, first, had, at)
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
            if mine.should_take(world.now):
                assert mine.claim is not None
                before = mine.claim
                others = tuple({before.holder, *before.others} - {self.name, ""})
                self.write(Claim(self.name, mine.epoch + 1, before.version, others))
            elif mine.should_let_go(world.now):
                assert mine.claim is not None
                before, others = mine.claim, tuple(sorted({*mine.company, self.name}))
                mine.letting_go(world.now)
                self.write(Claim("", before.epoch, before.version, others))
            elif mine.should_renew(world.now):
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
                who.election.on_answer(key, claim, world.now)

        world.send(self.name, who.name, arrive)


def settled(names: str = "ab", *, seed: int = 0, loss: float = 0.0) -> World:
    """Candidates of which the first is at work, and the others stand by."""
    world = World(names, seed=seed, loss=loss)
    world.live(3.0)
    assert world.all[names[0]].works
    assert [who for _, who in world.working] == [names[0]]
    world.idle = 0.0
    return world
