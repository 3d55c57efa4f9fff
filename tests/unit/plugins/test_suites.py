"""The suites for discovery plugins and checks pass what keeps the contract, and nothing else."""

import itertools
from typing import Any, ClassVar

import msgspec
import pytest
import trio

from liqod.plugins.diagnosis import Check, ClusterFacts, LinkFacts, PeerFacts, failing, ok, unknown
from liqod.plugins.providers import DiscoveryProvider, Sighting
from liqod.plugins.testing import CheckContract, DiscoveryContract

COUNT = itertools.count()
MILAN = Sighting(cluster_id="milan", plugin="static")


class Static:
    def __init__(self, seen: Any, *, starts: bool = True, tells: bool = True) -> None:
        self._seen = seen
        self._starts = starts
        self._tells = tells
        self.away = trio.Event()

    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        sighted(self._seen)
        if self._starts:
            task_status.started()
        await self.away.wait()
        if self._tells:
            sighted(msgspec.structs.replace(self._seen, gone=True))
        await trio.sleep_forever()


class TestStatic(DiscoveryContract):
    made: Static
    provider = DiscoveryProvider(
        name="static", build=lambda settings, services: TestStatic.new(Static(MILAN))
    )
    expected = (MILAN,)

    @classmethod
    def new(cls, plugin: Static) -> Static:
        cls.made = plugin
        return plugin

    def lose(self) -> None:
        self.made.away.set()


def of(plugin: Static, *expected_ones: Sighting) -> DiscoveryContract:
    class Broken(DiscoveryContract):
        provider = DiscoveryProvider(name="broken", build=lambda settings, services: plugin)
        expected = expected_ones
        seconds = 0.1

        def lose(self) -> None:
            plugin.away.set()

    return Broken()


def test_one_that_breaks_is_found_out():
    with pytest.raises(AssertionError, match="did not start"):
        of(Static(MILAN, starts=False)).test_reports_what_is_expected_and_ends_when_it_is_told_to()
    with pytest.raises(AssertionError, match="did not report"):
        of(Static("milan"), MILAN).test_reports_what_is_expected_and_ends_when_it_is_told_to()
    with pytest.raises(AssertionError):
        of(Static("milan")).test_reports_clusters_in_its_own_name()
    with pytest.raises(AssertionError):
        of(Static(MILAN), MILAN).test_reports_clusters_in_its_own_name()
    with pytest.raises(AssertionError, match="did not see it go"):
        of(Static(MILAN, tells=False), MILAN).test_what_goes_is_said_to_go_or_ends_by_itself()


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
