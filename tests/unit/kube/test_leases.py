"""Leader election: one leads, a standby follows soon, and nobody leads twice."""

from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from liqod.kube import leaderelection
from liqod.kube.client import Client
from liqod.kube.leaderelection import LeaderElection, LeadershipLost, LeaseObservation, observe
from liqod.kube.leases import Lease, LeaseSpec, LeaseTerm
from tests.unit.kube.peers import CREDENTIALS, Asked, Peer


class LeaseServer:
    """An API server that knows one Lease.

    Attributes:
        lease: what is stored, None before somebody makes it.
        cut: identities (user agents) whose requests are never answered.
    """

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.cut: set[str] = set()
        self.broken: set[str] = set()
        self.unreadable = False
        self.made = "2026-01-02T03:04:05Z"
        self.asked: list[tuple[float, str, str]] = []
        self._changed = trio.Event()

    def store(self, spec: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        meta = {
            "name": "daemon",
            "namespace": "liqo",
            "resourceVersion": str(self.version),
            "creationTimestamp": self.made,
        }
        self.lease = {"metadata": meta, "spec": spec}
        self._changed.set()
        self._changed = trio.Event()
        return self.lease

    async def __call__(self, asked: Asked) -> None:
        who = asked.headers["user-agent"]
        self.asked.append((trio.current_time(), who, asked.method))
        if who in self.cut:
            await trio.sleep_forever()
        if who in self.broken:
            await asked.refuse(500, message="etcd is away")
        elif asked.method == "POST":
            await self._create(asked)
        elif asked.method == "PATCH":
            await self._patch(asked)
        elif "watch" in asked.query:
            assert asked.query["fieldSelector"] == "metadata.name=daemon"
            await self._watch(asked, who)
        elif self.unreadable:
            await asked.refuse(500, message="etcd is away")
        elif self.lease is None:
            await asked.refuse(404, "NotFound")
        else:
            await asked.reply(200, self.lease)

    async def _create(self, asked: Asked) -> None:
        if self.lease is not None:
            await asked.refuse(409, "AlreadyExists")
            return
        await asked.reply(201, self.store(asked.json()["spec"]))

    async def _patch(self, asked: Asked) -> None:
        patch = asked.json()
        if self.lease is None:
            await asked.refuse(404, "NotFound")
        elif patch["metadata"]["resourceVersion"] != str(self.version):
            await asked.refuse(409, "Conflict")
        else:
            await asked.reply(200, self.store(self.lease["spec"] | patch["spec"]))

    async def _watch(self, asked: Asked, who: str) -> None:
        await asked.begin()
        seen = int(asked.query["resourceVersion"])
        while True:
            changed = self._changed
            if self.version > seen and who not in self.cut:
                seen = self.version
                await asked.event("MODIFIED", self.lease)
            await changed.wait()


class Candidates:
    """Several elections at one server, and who leads when."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.server = LeaseServer()
        self.peer = Peer(nursery, self.server)
        self.nursery = nursery
        self.events: list[tuple[float, str, str]] = []
        self.leading: set[str] = set()
        self.scopes: dict[str, trio.CancelScope] = {}
        self.elections: dict[str, LeaderElection] = {}
        self.told: list[tuple[str, str]] = []
        self.terms: dict[str, list[LeaseTerm]] = {}

    def start(self, name: str) -> None:
        self.scopes[name] = trio.CancelScope()
        self.nursery.start_soon(self._run, name)

    def stop(self, name: str) -> None:
        self.scopes[name].cancel()

    async def _run(self, name: str) -> None:
        client = Client(CREDENTIALS, dial=self.peer.dial, user_agent=name)
        election = self.elections[name] = LeaderElection(
            client,
            "daemon",
            "liqo",
            name,
            standing_by=lambda leader: self.told.append((name, leader)),
            cut_off=lambda reason: self.told.append((name, "")),
            on_term=self.terms.setdefault(name, []).append,
        )
        with self.scopes[name]:
            try:
                async with client, election.leadership():
                    assert not self.leading
                    self.leading.add(name)
                    self.events.append((trio.current_time(), name, "leads"))
                    try:
                        await trio.sleep_forever()
                    finally:
                        self.leading.discard(name)
                        self.events.append((trio.current_time(), name, "ends"))
            except LeadershipLost:
                self.events.append((trio.current_time(), name, "lost"))


@asynccontextmanager
async def candidates():
    async with trio.open_nursery() as nursery:
        yield Candidates(nursery)
        nursery.cancel_scope.cancel()


async def test_a_clean_stop_hands_over_at_once(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(1)
        it.start("two")
        it.start("three")
        await trio.sleep(60)
        assert it.leading == {"one"}
        assert it.elections["two"].leader == "one"
        assert it.elections["one"].leading
        it.stop("one")
        await trio.sleep(0.5)
        assert len(it.leading) == 1
        assert it.leading != {"one"}
        assert it.server.lease is not None
        assert it.server.lease["spec"]["leaseTransitions"] == 1
        await trio.sleep(60)
        assert len(it.events) == 3


async def test_each_candidate_is_told_of_each_term_and_who_holds_it(autojump_clock):
    made = 1767323045
    async with candidates() as it:
        it.start("one")
        await trio.sleep(1)
        it.start("two")
        await trio.sleep(9)
        assert it.terms == {
            "one": [LeaseTerm(made, 0, held=True)],
            "two": [LeaseTerm(made, 0, held=False)],
        }
        it.stop("one")
        await trio.sleep(1)
        assert it.terms["one"][1:] == [LeaseTerm(made, 0, held=False)]
        assert it.terms["two"][1:] == [LeaseTerm(made, 1, held=True)]


async def test_the_term_of_who_lost_the_lease_is_over_and_of_a_lease_made_anew_is_a_later_one(
    autojump_clock,
):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(1)
        before = it.terms["one"][-1]
        it.server.lease, it.server.made = None, "2026-01-02T03:05:00Z"
        await trio.sleep(15)
        assert ("one", "lost") in [event[1:] for event in it.events]
        assert it.terms["one"] == [before, LeaseTerm(before.made, 0, held=False)]
        it.start("two")
        await trio.sleep(1)
        assert it.terms["two"] == [LeaseTerm(before.made + 55, 0, held=True)]


async def test_a_crash_hands_over_within_fifteen_seconds(autojump_clock):
    async with candidates() as it:
        it.start("one")
        it.start("two")
        await trio.sleep(7.5)
        (leader,) = it.leading
        other = ({"one", "two"} - it.leading).pop()
        it.server.cut.add(leader)  # the process is gone: no renewal, no release
        it.leading.clear()
        crashed = trio.current_time()
        while not it.leading:  # noqa: ASYNC110  # the clock jumps
            await trio.sleep(0.1)
        assert it.leading == {other}
        assert 5 < trio.current_time() - crashed < 15


async def test_who_cannot_renew_ends_before_another_begins(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(1)
        it.start("two")
        await trio.sleep(10.3)
        it.server.cut.add("one")
        cut = trio.current_time()
        await trio.sleep(60)
        times = {(name, what): at for at, name, what in it.events}
        assert it.leading == {"two"}
        assert times["one", "ends"] <= cut + leaderelection.RENEW_DEADLINE
        assert times["two", "leads"] >= times["one", "ends"] + 3
        assert ("one", "lost") in times


async def test_who_lost_it_to_an_outage_leads_again_at_once(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(5)
        it.server.broken.add("one")
        await trio.sleep(10)
        assert not it.leading
        it.server.broken.clear()
        it.start("one")
        await trio.sleep(0.5)
        assert it.leading == {"one"}


async def test_an_outage_that_passes_costs_nothing_and_is_told_once_by_each(autojump_clock, caplog):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(1)
        it.start("two")
        await trio.sleep(5)
        it.server.broken.update({"one", "two"})
        await trio.sleep(4)
        it.server.broken.clear()
        await trio.sleep(60)
        assert it.leading == {"one"}
        assert len(it.events) == 1
        told = [record.message for record in caplog.records]
        assert told.count("lease not renewed") == 1
        assert told.count("leader election fails") <= 1


async def test_a_lease_that_was_touched_and_cannot_be_read_for_a_while_is_kept(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(5)
        assert it.server.lease is not None
        it.server.store(it.server.lease["spec"])
        it.server.unreadable = True
        await trio.sleep(4)
        it.server.unreadable = False
        await trio.sleep(60)
        assert [what for _, _, what in it.events] == ["leads"]


async def test_a_standby_is_told_who_leads(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(1)
        it.start("two")
        await trio.sleep(60)
        assert it.told == [("two", "one")]
        it.scopes.pop("one").cancel()
        await trio.sleep(1)
        assert it.leading == {"two"}
        it.start("one")
        await trio.sleep(1)
        assert it.told == [("two", "one"), ("one", "two")]


async def test_a_standby_that_is_cut_off_says_so_once_and_then_who_leads(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(1)
        it.start("two")
        await trio.sleep(20)
        it.server.cut.add("two")
        await trio.sleep(leaderelection.DURATION - 3)
        assert it.told == [("two", "one")]
        await trio.sleep(120)
        assert it.told == [("two", "one"), ("two", "")]
        it.server.cut.clear()
        await trio.sleep(60)
        assert it.told == [("two", "one"), ("two", ""), ("two", "one")]
        assert it.leading == {"one"}


async def test_a_lease_taken_by_force_is_lost(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(5)
        assert it.server.lease is not None
        it.server.store(it.server.lease["spec"] | {"holderIdentity": "somebody"})
        await trio.sleep(3)
        assert [what for _, _, what in it.events] == ["leads", "ends", "lost"]


async def test_a_lease_touched_by_others_is_kept(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(5)
        assert it.server.lease is not None
        it.server.store(it.server.lease["spec"])
        await trio.sleep(5)
        it.server.store(it.server.lease["spec"])
        it.stop("one")
        await trio.sleep(1)
        assert it.server.lease["spec"]["holderIdentity"] == ""
        assert [what for _, _, what in it.events] == ["leads", "ends"]


async def test_letting_go_has_a_deadline(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(5)
        it.server.cut.add("one")
        it.stop("one")
        with trio.fail_after(leaderelection.RELEASE_DEADLINE + 0.1):
            while it.scopes["one"].cancelled_caught is False:  # noqa: ASYNC110  # the clock jumps
                await trio.sleep(0.1)


async def test_errors_of_the_body_let_go_too(autojump_clock):
    async with trio.open_nursery() as nursery:
        server = LeaseServer()
        peer = Peer(nursery, server)
        client = Client(CREDENTIALS, dial=peer.dial)
        with pytest.raises(ExceptionGroup) as caught:
            async with LeaderElection(client, "daemon", "liqo", "one").leadership():
                raise ValueError("broken")
        assert caught.group_contains(ValueError, match="broken")
        assert server.lease is not None
        assert server.lease["spec"]["holderIdentity"] == ""
        nursery.cancel_scope.cancel()


async def test_at_rest_a_standby_sends_nothing(autojump_clock):
    async with candidates() as it:
        it.start("one")
        await trio.sleep(1)
        it.start("two")
        await trio.sleep(10)
        it.server.asked.clear()
        await trio.sleep(200)
        asked = [(who, method) for _, who, method in it.server.asked]
        assert set(asked) == {("one", "PATCH")}
        assert 90 <= len(asked) <= 110


@pytest.mark.parametrize(
    ("spec", "free"),
    [
        (LeaseSpec(holder_identity="x", lease_duration_seconds=20), 120),
        (LeaseSpec(holder_identity="x"), 100 + leaderelection.DURATION),
        (LeaseSpec(holder_identity="", lease_duration_seconds=20), 100),
        (LeaseSpec(), 100),
    ],
)
def test_when_a_lease_is_free(spec, free):
    assert LeaseObservation(Lease(spec=spec), 100).free_at() == free


def test_the_clock_runs_from_when_it_was_seen_to_change():
    one = Lease(spec=LeaseSpec(holder_identity="x", renew_time="1"))
    two = Lease(spec=LeaseSpec(holder_identity="x", renew_time="2"))
    first = observe(None, one, 10)
    assert first.since == 10
    assert observe(first, one, 20).since == 10
    assert observe(first, two, 20).since == 20
