"""The suites for discovery plugins and checks pass what keeps the contract, and nothing else."""

import itertools
from typing import Any, ClassVar

import pytest
import trio

from liqod.plugins.diagnosis import Check, ClusterFacts, LinkFacts, PeerFacts, failing, ok, unknown
from liqod.plugins.providers import DiscoveryProvider, Sighting
from liqod.plugins.testing import CheckContract, DiscoveryContract

COUNT = itertools.count()
MILAN = Sighting(cluster_id="milan", plugin="static")


class Static:
    def __init__(self, seen: Any, *, starts: bool = True) -> None:
        self._seen = seen
        self._starts = starts

    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        sighted(self._seen)
        if self._starts:
            task_status.started()
        await trio.sleep_forever()


STATIC = DiscoveryProvider(name="static", build=lambda settings, services: Static(MILAN))


class TestStatic(DiscoveryContract):
    provider = STATIC
    expected = (MILAN,)


def of(plugin: Static, *expected_ones: Sighting) -> DiscoveryContract:
    class Broken(DiscoveryContract):
        provider = DiscoveryProvider(name="broken", build=lambda settings, services: plugin)
        expected = expected_ones
        seconds = 0.1

    return Broken()


def test_one_that_breaks_is_found_out():
    with pytest.raises(AssertionError, match="did not start"):
        of(Static(MILAN, starts=False)).test_reports_what_is_expected_and_ends_when_it_is_told_to()
    with pytest.raises(AssertionError, match="did not report"):
        of(Static("milan"), MILAN).test_reports_what_is_expected_and_ends_when_it_is_told_to()
    with pytest.raises(AssertionError):
        of(Static("milan")).test_reports_clusters()


async def ask(asker):
    return (await asker.read("/healthz/etcd")).decode()


def look(facts):
    if facts.probed is None:
        return unknown("not asked yet")
    return ok("it answers") if facts.probed == "ok" else failing(facts.probed, "mend it")


ETCD = Check(name="etcd", title="etcd", scope="peer", order=25, look=look, probe=ask)


class TestEtcd(CheckContract):
    check = ETCD
    facts = (
        PeerFacts(now=1.0, peer="milan", cluster=ClusterFacts(now=1.0), link=LinkFacts(rtt=0.1)),
    )
    answers: ClassVar = {"/healthz/etcd": b"ok"}


@pytest.mark.parametrize(
    ("wrong", "test"),
    [
        (lambda facts: 7, "test_finds_something_or_does_not_apply"),
        (lambda facts: failing("down", ""), "test_says_in_one_line_what_it_saw_and_what_to_do"),
        (lambda facts: ok("a\nb"), "test_says_in_one_line_what_it_saw_and_what_to_do"),
        (lambda facts: ok(f"{next(COUNT)}"), "test_is_a_function_of_values"),
    ],
)
def test_a_check_that_breaks_is_found_out(wrong, test):
    class Broken(CheckContract):
        check = Check(name="etcd", title="etcd", scope="cluster", order=25, look=wrong)

    with pytest.raises(AssertionError):
        getattr(Broken(), test)()
