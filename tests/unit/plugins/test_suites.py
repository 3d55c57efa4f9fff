"""The suites for discovery plugins and checks pass what keeps the contract, and nothing else."""

import contextlib
import importlib
import itertools
import time
from typing import Any, ClassVar

import msgspec
import pytest
import trio

from liqod.errors import PluginError
from liqod.network.backends import BackendTimings
from liqod.plugins.callguard import CallGuardTimings
from liqod.plugins.diagnosis import Check, ClusterFacts, LinkFacts, PeerFacts, failing, ok, unknown
from liqod.plugins.providers import DiscoveryProvider, Sighting, TunnelProvider
from simulator.suites import (
    CheckContract,
    DiscoveryContract,
    TunnelContract,
    gateways,
    providers,
    trials,
    tunnels,
)

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


class Odd:
    """A discovery whose run is any function."""

    def __init__(self, run: Any) -> None:
        self._run = run

    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        task_status.started()
        await self._run(sighted)


async def returns(sighted):
    await trio.lowlevel.checkpoint()


async def spins(sighted):
    while True:
        await trio.lowlevel.checkpoint()


async def floods(sighted):
    while True:
        for _ in range(providers.MOST_REPORTS):
            sighted(MILAN)
        await trio.sleep(0.05)


async def shields(sighted):
    with trio.CancelScope(shield=True):
        await trio.sleep(3)


async def swallows(sighted):
    until = trio.current_time() + 3
    while trio.current_time() < until:
        with contextlib.suppress(BaseException):
            await trio.sleep(1)


async def blocks(sighted):
    while True:
        time.sleep(2 * BLOCKS)  # noqa: ASYNC251  # the fault under test
        await trio.lowlevel.checkpoint()


async def blocks_beside(sighted):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(blocks, sighted)


BLOCKS = 0.05


ENDS = CallGuardTimings(ending=0.1)
IMPATIENT = CallGuardTimings(ending=0.1, slow=BLOCKS)
"""Short limits, so that slow plugins are found soon; also those that a busy machine makes slow."""


@pytest.mark.parametrize(
    ("run", "judged", "said"),
    [
        (returns, ENDS, "its run returned"),
        (spins, ENDS, "it does not rest"),
        (floods, ENDS, "it reported"),
        (shields, ENDS, "it does not end"),
        (swallows, ENDS, "it does not end"),
        (blocks, IMPATIENT, "it held the event loop|is parked for"),
        (blocks_beside, IMPATIENT, "it held the event loop|is parked for"),
    ],
)
def test_one_that_the_daemon_would_park_or_leave_behind_is_found_out(
    run: Any, judged: CallGuardTimings, said: str
):
    class Broken(DiscoveryContract):
        provider = DiscoveryProvider(name="odd", build=lambda settings, services: Odd(run))
        timings = judged

    with pytest.raises(AssertionError, match=said):
        Broken().test_rests_while_nothing_changes()


class Rope:
    """A tunnel of which one function is another."""

    def __init__(self, name: str, function: Any) -> None:
        setattr(self, name, function)

    async def problem(self):
        return None

    async def up(self, spec, /, *, silent=0.0):
        return 60.0

    async def status(self):
        return None

    async def down(self):
        return None


async def hangs(*args, **named):
    await trio.sleep_forever()


async def shuts(*args, **named):
    with trio.CancelScope(shield=True):
        await trio.sleep(3)


async def answers_oddly(*args, **named):
    return "60"


async def holds(*args, **named):
    for _ in range(trials.TRIES):
        time.sleep(2 * BLOCKS)  # noqa: ASYNC251  # the fault under test
        await trio.lowlevel.checkpoint()


async def breaks(*args, **named):
    raise KeyError("rope")


@pytest.mark.parametrize("name", ["up", "status", "down"])
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (hangs, f"the network rope has not come back from {hangs.__name__}"),
        (shuts, "the network rope has not come back from|does not end"),
        (answers_oddly, "the network rope returned nonsense|of answers_oddly"),
        (holds, "it held the event loop|is parked for|the network rope returned nonsense"),
        (breaks, "the network rope raised KeyError"),
    ],
)
def test_a_tunnel_that_the_daemon_would_leave_is_found_out(
    name: str, function: Any, said: str, monkeypatch: pytest.MonkeyPatch
):
    @contextlib.contextmanager
    def network():
        yield "none"

    async def addresses(gateway):
        """There is no interface."""

    monkeypatch.setattr(tunnels, "needs_root", lambda: None)
    monkeypatch.setattr(tunnels, "network", network)
    monkeypatch.setattr(gateways.Gateway, "addresses", addresses)

    class Broken(TunnelContract):
        provider = TunnelProvider(
            name="rope", build=lambda *_: Rope(name, function), encrypted=True, overhead=80
        )
        timings = IMPATIENT
        backend_timings = BackendTimings(changes=0.5, looks=0.5)

    async def body(both: tunnels.Gateways) -> None:
        await both.up(both.client)
        await both.tunnels["client"].status()

    with pytest.raises((AssertionError, PluginError), match=said):
        Broken().run(body)


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
        (lambda facts: ok("\x1b[31ma"), "test_says_in_one_line_what_it_saw_and_what_to_do"),
        (lambda facts: ok(f"{next(COUNT)}"), "test_is_a_function_of_values"),
        (lambda facts: time.sleep(2 * BLOCKS), "test_comes_back_at_once"),
    ],
)
def test_a_check_that_breaks_is_found_out(wrong, test):
    class Broken(CheckContract):
        check = Check(name="etcd", title="etcd", scope="cluster", order=25, look=wrong)
        timings = IMPATIENT

    with pytest.raises(AssertionError):
        getattr(Broken(), test)()


async def shut(asker):
    with trio.CancelScope(shield=True):
        await trio.sleep(3)


async def held(asker):
    time.sleep(2 * BLOCKS)  # noqa: ASYNC251  # the fault under test, once in each call
    await trio.lowlevel.checkpoint()


async def held_beside(asker):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held, asker)


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (shut, "does not end|has not come back"),
        (held, "it held the event loop"),
        (held_beside, "it held the event loop"),
    ],
)
def test_a_probe_that_the_daemon_would_park_is_found_out(probe: Any, said: str):
    class Broken(CheckContract):
        check = Check(
            name="etcd",
            title="etcd",
            scope="cluster",
            order=25,
            look=lambda facts: None,
            probe=probe,
        )
        deadline = 0.1 if probe is shut else 5.0
        timings = IMPATIENT

    with pytest.raises(AssertionError, match=said):
        Broken().test_its_probe_bears_a_server_that_has_nothing()


def test_a_check_that_needs_what_is_no_layer_is_found_out():
    class Broken(CheckContract):
        check = msgspec.structs.replace(ETCD, needs=("api", "nosuch"))

    with pytest.raises(AssertionError, match="nosuch"):
        Broken().test_needs_layers_that_there_are()

    class Good(Broken):
        layers = ("nosuch",)

    Good().test_needs_layers_that_there_are()


def test_one_that_begins_a_system_task_is_found_out(tmp_path, monkeypatch: pytest.MonkeyPatch):
    text = "import trio\ndef look(facts): trio.lowlevel.spawn_system_task(trio.sleep_forever)\n"
    (tmp_path / "systasks.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    class Broken(CheckContract):
        check = msgspec.structs.replace(ETCD, look=importlib.import_module("systasks").look)

    with pytest.raises(AssertionError, match="the daemon does not load it"):
        Broken().test_begins_no_system_task()
