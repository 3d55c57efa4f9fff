"""The contract suites of discovery plugins and checks.

class TestHosts(DiscoveryContract):
    provider = PROVIDER
    settings = {"file": "hosts.toml"}           # its table of the configuration
    expected = (Sighting(cluster_id="milan", plugin="hosts"),)

class TestEtcd(CheckContract):
    check = CHECK
    facts = (PeerFacts(now=1.0, peer="milan", cluster=ClusterFacts(now=1.0)),)
    answers = {"/healthz/etcd": b"ok"}          # the answers to its probe
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import Kind
from liqod.errors import LiqodError, NotFound, PluginError
from liqod.kube.cache.store import IndexedStore
from liqod.kube.selection import EVERY, Selection
from liqod.model.text import is_fit
from liqod.plugins import loader
from liqod.plugins.callguard import ORDINARY, CallGuard, CallGuardTimings
from liqod.plugins.diagnosis import Check, ClusterFacts, Finding, PeerFacts
from liqod.plugins.exceptions import described
from liqod.plugins.providers import DiscoveryProvider, Services, Sighting
from liqod.plugins.typecheck import type_problem
from liqod.plugins.validation import provided_problem, sighting_problem
from simulator.suites.trials import TRIES, at_rest, ended, no_system_tasks, quick

PATIENCE = 10.0
"""Seconds for which one that was cancelled is waited for, beyond what it may take."""
RESTS = 0.3
"""Seconds for which one is looked at while nothing changes."""
LOOKS = 10
"""Times that long at the most, for one that was not seen to rest: the machine may be busy."""
MOST_STEPS = 1000
"""Steps of tasks within that time: fewer than of one that spins, by far."""
MOST_REPORTS = 100
"""Reports within that time: the daemon looks into 50 changes a second."""


class _NoObjects:
    """An informer of a cluster that is empty."""

    def __init__(self) -> None:
        self.store = IndexedStore()

    def subscribe(self, handler: Any) -> Any:
        return lambda: None


@asynccontextmanager
async def share(kind: Kind, selection: Selection = EVERY, **how: Any) -> AsyncIterator[Any]:
    """A shared informer that holds nothing."""
    yield _NoObjects()


class DiscoveryContract:
    """The contract of discovery plugins, as tests. Set the attributes in a sub-class.

    Attributes:
        provider: the plugin under test.
        settings: its table of the configuration.
        services: what it is given of the daemon; an empty cluster, if not set.
        expected: sightings that it reports, in any order.
        seconds: how long it may take for that.
        timings: by which its calls are judged; the daemon's, if not set.

    Give it a method ``lose`` that takes away what is expected, and the suite sees that it goes.
    """

    provider: ClassVar[DiscoveryProvider]
    settings: ClassVar[Mapping[str, Any]] = {}
    services: ClassVar[Services] = Services(cluster_id="rome", share=share)
    expected: ClassVar[tuple[Sighting, ...]] = ()
    seconds: ClassVar[float] = 5.0
    timings: ClassVar[CallGuardTimings] = ORDINARY

    def _built(self) -> Any:
        provider = type(self).provider
        decoded = msgspec.convert(dict(self.settings), provider.config_type)
        return provider.build(decoded, self.services)

    def lose(self) -> None:
        """Take away what is expected; the suite then waits for its end."""

    def _run(self, *, lose: bool = False, rests: bool = False) -> list[Any]:
        """The plugin's reports until the expected ones have come, or gone, or the time is over."""
        seen: list[Any] = []
        gauge = CallGuard("discovery", type(self).provider.name, timings=self.timings)

        def over(sighting: Sighting) -> bool:
            same = [each for each in seen if _place(each) == _place(sighting)]
            return bool(same) and (same[-1].gone or same[-1].ttl > 0)

        async def look() -> None:
            complete, empty = trio.Event(), trio.Event()

            def sighted(sighting: Any) -> None:
                seen.append(sighting)
                if all(each in seen for each in self.expected):
                    complete.set()
                if complete.is_set() and all(map(over, self.expected)):
                    empty.set()

            async def run(*, task_status: trio.TaskStatus[None]) -> None:
                await gauge.run(partial(self._built().run, sighted, task_status=task_status))
                raise AssertionError("its run returned: it runs until it is cancelled")

            with trio.move_on_after(self.seconds):
                async with trio.open_nursery() as nursery:
                    await nursery.start(run)
                    if self.expected:
                        await complete.wait()
                    if lose:
                        self.lose()
                        if not all(map(over, self.expected)):
                            await empty.wait()
                    if rests:
                        await self._look_at_rest(seen)
                    nursery.cancel_scope.cancel()
                return
            at_rest(gauge)
            if lose and complete.is_set():
                raise AssertionError(f"within {self.seconds} s it did not see it go: {seen}")
            missing = [each for each in self.expected if each not in seen]
            what = f"did not report {missing}, only {seen}" if missing else "did not start, or end"
            raise AssertionError(f"within {self.seconds} s it {what}")

        async def alone() -> None:
            try:
                await look()
                at_rest(gauge)
            except* (AssertionError, PluginError) as group:
                raise AssertionError(described(group)) from group

        ended(alone, self.seconds + PATIENCE)
        return seen

    async def _look_at_rest(self, seen: list[Any]) -> None:
        """Raise AssertionError where it goes on without a pause though nothing changes."""
        steps, before, began = _Steps(), len(seen), trio.current_time()
        trio.lowlevel.add_instrument(steps)
        try:
            for _ in range(LOOKS):
                await trio.sleep(RESTS)
                if steps.rested or steps.count >= MOST_STEPS:
                    break
        finally:
            trio.lowlevel.remove_instrument(steps)
        spins = steps.count >= MOST_STEPS or not steps.rested
        took = trio.current_time() - began
        assert not spins, (
            f"it does not rest: {steps.count} steps in {took:.1f} s; wait for something, or sleep"
        )
        reports = len(seen) - before
        assert reports < MOST_REPORTS, (
            f"it reported {reports} times in {took:.1f} s: say what has changed"
        )

    def test_its_description_fits(self) -> None:
        assert provided_problem(type(self).provider) is None

    def test_its_settings_are_strict(self) -> None:
        table = {**self.settings, "no-such-key": 1}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(table, type(self).provider.config_type)

    def test_reports_what_is_expected_and_ends_when_it_is_told_to(self) -> None:
        self._run()

    def test_reports_clusters_in_its_own_name(self) -> None:
        for seen in self._run():
            assert sighting_problem(seen) is None
            assert seen.plugin == type(self).provider.name

    def test_what_goes_is_said_to_go_or_ends_by_itself(self) -> None:
        if type(self).lose is DiscoveryContract.lose:
            pytest.skip("it has no `lose`, which would take away what it sees")
        self._run(lose=True)

    def test_begins_anew_after_it_was_ended(self) -> None:
        for _ in range(2):
            self._run()

    def test_rests_while_nothing_changes(self) -> None:
        self._run(rests=True)

    def test_begins_no_system_task(self) -> None:
        no_system_tasks((type(self).provider.build,))


class _Steps(trio.abc.Instrument):
    """Counts the steps of all tasks, and sees that there is a time without any."""

    def __init__(self) -> None:
        self.count = 0
        self.rested = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1

    def before_io_wait(self, timeout: float) -> None:
        if not self.rested:
            self.rested = not trio.lowlevel.current_statistics().tasks_runnable


def _place(seen: Sighting) -> tuple[str, str]:
    """The cluster that is seen, and the place."""
    return seen.cluster_id, seen.where


class _Answers:
    """An API server of values."""

    def __init__(self, answers: Mapping[str, bytes], settings: Any) -> None:
        self._answers = answers
        self.settings = settings

    async def read(self, path: str) -> bytes:
        if path not in self._answers:
            raise NotFound(f"there is nothing at {path}")
        return self._answers[path]


class CheckContract:
    """The contract of checks, as tests. Set the attributes in a sub-class.

    Attributes:
        check: the check under test.
        facts: facts to try, of its scope; those of a daemon that knows nothing yet come by
            themselves.
        settings: its table of the configuration.
        answers: what its probe is answered, by path; any other is not found.
        layers: those that its ``needs`` name and liqod has not: of other plugins.
        deadline: seconds for its probe; the daemon's, if not set.
        timings: by which its calls are judged; the daemon's, if not set.
    """

    check: ClassVar[Check]
    facts: ClassVar[tuple[ClusterFacts | PeerFacts, ...]] = ()
    settings: ClassVar[Mapping[str, Any]] = {}
    answers: ClassVar[Mapping[str, bytes]] = {}
    layers: ClassVar[tuple[str, ...]] = ()
    deadline: ClassVar[float] = 5.0
    timings: ClassVar[CallGuardTimings] = ORDINARY

    def _decoded(self) -> Any:
        return msgspec.convert(dict(self.settings), type(self).check.config_type)

    def _facts(self) -> list[ClusterFacts | PeerFacts]:
        """The facts to try, each before and after the probe."""
        cluster = ClusterFacts(now=0.0)
        peer = PeerFacts(now=0.0, peer="milan", cluster=cluster)
        bare: ClusterFacts | PeerFacts = peer if type(self).check.scope == "peer" else cluster
        probed = self._probed()
        values = [None] if probed is None else [None, probed]
        return [
            msgspec.structs.replace(each, probed=value, settings=self._decoded())
            for each in (bare, *self.facts)
            for value in values
        ]

    def _probed(self) -> Any:
        """The result of the probe; None where there is none."""
        probe = type(self).check.probe
        if probe is None:
            return None
        return self._asked(_Answers(self.answers, self._decoded()))

    def _asked(self, asker: "_Answers") -> Any:
        """The result of the probe of a server; None where that is an error on purpose."""
        check = type(self).check
        probe, gauge = check.probe, CallGuard("check", check.name, timings=self.timings)
        assert probe is not None

        async def ask() -> Any:
            try:
                return await gauge.run(probe, asker, within=self.deadline)
            except PluginError as error:
                at_rest(gauge)
                raise AssertionError(str(error)) from error
            except LiqodError:
                return None  # told as "its probe fails", and why

        for _ in range(TRIES):  # it is asked again and again, and once slow may be the machine
            found = ended(ask, self.deadline + PATIENCE)
            if not gauge.slow and not gauge.left:
                break
        at_rest(gauge)
        return found

    def test_its_description_fits(self) -> None:
        assert provided_problem(type(self).check) is None

    def test_finds_something_or_does_not_apply(self) -> None:
        for facts in self._facts():
            found = type(self).check.look(facts)
            assert found is None or (type(found) is Finding and type_problem(found) is None)

    def test_is_a_function_of_values(self) -> None:
        look = type(self).check.look
        assert [look(facts) for facts in self._facts()] == [look(each) for each in self._facts()]

    def test_says_in_one_line_what_it_saw_and_what_to_do(self) -> None:
        for facts in self._facts():
            found = type(self).check.look(facts)
            if found is None:
                continue
            assert found.evidence, "a finding says what was seen"
            assert is_fit(found.evidence + found.remedy), "evidence and remedy are one line each"
            assert found.remedy or found.verdict != "failing", "what fails has a remedy"

    def test_its_probe_bears_a_server_that_has_nothing(self) -> None:
        probe = type(self).check.probe
        if probe is None:
            return

        self._asked(_Answers({}, self._decoded()))

    def test_comes_back_at_once(self) -> None:
        """It is called every two seconds, and everybody waits for it."""
        for facts in self._facts():
            quick(self.timings.slow, type(self).check.look, facts)

    def test_needs_layers_that_there_are(self) -> None:
        check = type(self).check
        built_in = loader.load(sources=loader.built_in()).checks
        known = {each.name for each in built_in if each.scope == check.scope} | set(self.layers)
        strange = [each for each in check.needs if each not in known]
        assert not strange, f"needs names {strange}, which are no layers of a {check.scope}"

    def test_begins_no_system_task(self) -> None:
        no_system_tasks((type(self).check.look, type(self).check.probe))
