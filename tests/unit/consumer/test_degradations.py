"""Degradations of a peer that answers: how they add up, and where they are shown."""

from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from liqod.apimachinery.kinds import PODS
from liqod.consumer.degradations import Degradation
from liqod.consumer.link import PeerLink
from liqod.model.peering.foreigncluster import ANSWERS, DEGRADED, status
from liqod.model.view.facts import LinkFacts, PeerFacts
from liqod.reflection.healthcheck import HealthCheck
from liqod.reflection.timings import ORDINARY

SLOW = Degradation("pods there cannot be followed: its watches end early", grave=False)
BROKEN = Degradation("pods cannot be written: injected", grave=True)


def answering() -> PeerLink:
    link = PeerLink()
    link.reason = ANSWERS
    return link


def test_what_is_grave_makes_a_link_unsound_and_says_why(caplog):
    caplog.set_level("INFO")
    link = answering()
    assert (link.healthy, link.why, link.degraded) == (True, ANSWERS, False)
    link.degradations.report("reflection", SLOW)
    assert (link.healthy, link.degraded) == (True, True)
    link.degradations.report("replication", BROKEN)
    assert not link.healthy
    assert link.why == f"{ANSWERS}, but {SLOW.text}; {BROKEN.text}"
    for room in ("reflection", "replication"):
        link.degradations.report(room, None)
    assert (link.healthy, link.why) == (True, ANSWERS)
    assert len(caplog.records) == 2


def test_while_the_server_does_not_answer_that_is_the_reason():
    link = answering()
    link.degradations.report("reflection", BROKEN)
    link.up, link.reason = False, "milan answers 500"
    assert (link.healthy, link.why, link.degraded) == (False, "milan answers 500", False)


async def test_who_waits_for_a_change_is_told_once():
    link, changes = answering(), 0

    async def count() -> None:
        nonlocal changes
        while True:
            await link.wait_changed()
            changes += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            link.degradations.report("reflection", SLOW)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert changes == 1


def test_a_small_hindrance_is_shown_and_changes_no_verdict():
    link = LinkFacts(state="up", degraded="slow")
    facts = PeerFacts(peer="milan", lends=True, remote_namespace="there", link=link)
    (condition,) = status(facts)["conditions"]
    assert (condition["status"], condition["reason"]) == ("Established", DEGRADED)
    assert condition["message"] == "slow"


class Watched:
    """A kind at the peer whose state a test changes."""

    def __init__(self) -> None:
        self.trouble: Degradation | None = None
        self.lacks = ""
        self.mended = 0

    def mend(self) -> None:
        self.mended += 1


async def test_what_lasts_for_two_looks_is_told_and_no_longer_than_it_lasts(autojump_clock):
    link, watched = answering(), Watched()
    writer = SimpleNamespace(
        remote=SimpleNamespace(problem=None), reflector=SimpleNamespace(name="pods"), own=True
    )
    mapped = SimpleNamespace(caches={PODS: watched})
    better: list[str] = []
    context: Any = SimpleNamespace(peer=SimpleNamespace(link=link), namespaces={"shop": mapped})
    workers: Any = {"pods": writer}
    check = HealthCheck(context, workers, lambda: better.append("looked again"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(check.run)
        await trio.sleep(0.1)
        text = "pods there cannot be followed: not a list"
        watched.trouble = Degradation(text, grave=True, blind=True)
        await trio.sleep(ORDINARY.check_every)
        assert link.healthy  # once is no trouble
        await trio.sleep(ORDINARY.check_every)
        assert (link.degradations.grave, link.degradations.blind) == (True, True)
        assert link.why == f"{ANSWERS}, but pods there cannot be followed: not a list"
        assert not better
        watched.trouble = None
        writer.remote.problem = "overloaded"
        await trio.sleep(2 * ORDINARY.check_every)
        assert link.why == f"{ANSWERS}, but pods cannot be written: overloaded"
        # What runs there is seen as before.
        assert (link.degradations.grave, link.degradations.blind) == (True, False)
        assert len(better) == 1
        link.up = False
        await trio.sleep(ORDINARY.check_every)
        assert not link.degradations
        nursery.cancel_scope.cancel()
    assert watched.mended >= 4
