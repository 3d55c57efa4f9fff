"""Each function of a discovery, a check and a tunnel, broken in each way beside what calls it.

A plugin that breaks is named among the plugins' troubles, another one of its kind goes on, and all
of it ends when it is told to.
"""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import msgspec
import pytest
import trio

from liqod import config
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.errors import ConfigError, LiqodError, NetworkError
from liqod.inspect.components import Components
from liqod.inspect.doctor import Doctor
from liqod.inspect.probing import CheckProbes
from liqod.network.dataplane.names import PeerNames
from liqod.network.gatewayhost import GatewayHost, take_down
from liqod.network.hostcapabilities import HostCapabilities, HostSettings
from liqod.network.loadedbackends import loaded_backends
from liqod.network.orders.tunnels import Surroundings
from liqod.plugins import loader
from liqod.plugins.callguard import FAILING, CallGuardTimings
from liqod.plugins.contracts import NoSettings
from liqod.plugins.diagnosis import Check, ClusterFacts, ok
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins, PluginSource
from liqod.plugins.providers import DiscoveryProvider, Sighting, TunnelProvider, TunnelSpec
from liqod.runtime.account import NODE_SHARES, PROXY, Account
from liqod.telemetry.events import DiscoveryFailed
from liqod.telemetry.hub import Hub
from tests.simulated.plugins.test_plugin_walls import BROKEN_BETWEEN_CLUSTERS
from tests.unit.inspect.working import refused
from tests.unit.plugins.broken import BLOCKS, LONG, awaited_ways, cancelled, handed_over, plain_ways

PLAIN, AWAITED = list(plain_ways(None)), list(awaited_ways(None))  # type: ignore[arg-type]


IMPATIENT = CallGuardTimings(slow=BLOCKS, stuck=BLOCKS)
"""One that blocks is parked soon: tests are not to wait for it."""


async def way(name: str, *, waits: bool) -> Callable[..., Any]:
    """A function that breaks so."""
    ways: dict[str, Any] = (awaited_ways if waits else plain_ways)(await cancelled())
    found: Callable[..., Any] = ways[name]
    return found


def context_of(plugins: Plugins) -> Any:
    """As much of this cluster as those have who call plugins here."""
    return SimpleNamespace(
        cluster_id="rome",
        hub=Hub(),
        config=config.parse(""),
        plugins=PluginHost(plugins, IMPATIENT),
        informers=SimpleNamespace(share=None),
        client=SimpleNamespace(raw=refused),
        in_cluster=False,
    )


# Discovery


class Hosts:
    async def run(self, sighted: Any, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> NoReturn:
        sighted(Sighting(cluster_id="milan", plugin="hosts"))
        await trio.sleep_forever()
        raise AssertionError


@asynccontextmanager
async def discovering(build: Callable[..., Any]) -> AsyncIterator[Any]:
    """A cluster with one discovery that works, and one of which nobody knows."""
    bad = DiscoveryProvider(name="bad", build=build)
    good = DiscoveryProvider(name="hosts", build=lambda settings, services: Hosts())
    context = context_of(Plugins(discovery=(bad, good)))
    room = DiscoveryManager(context, context.plugins)
    async with trio.open_nursery() as nursery:
        await nursery.start(room.run)
        yield context
        assert room.seen("milan") is not None
        ending = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - ending <= IMPATIENT.ending


def named(context: Any, plugin: str = "bad") -> bool:
    """True if a discovery is reported as failed, as an event or among the troubles."""
    told = [
        each.payload for each in context.hub.history if isinstance(each.payload, DiscoveryFailed)
    ]
    return (
        any(each.plugin == plugin for each in told)
        or f"the discovery {plugin}" in context.plugins.calls.troubles()
    )


@pytest.mark.parametrize("how", PLAIN)
async def test_a_build_of_a_discovery(how: str, autojump_clock: Any):
    async with discovering(await way(how, waits=False)) as context:
        await trio.sleep(1)
        assert named(context)


@pytest.mark.parametrize("how", AWAITED)
async def test_a_run_of_a_discovery(how: str, autojump_clock: Any):
    run = await way(how, waits=True)
    async with discovering(lambda settings, services: SimpleNamespace(run=run)) as context:
        await trio.sleep(1)
        # One that only goes on, goes on: it has nothing to say.
        assert named(context) == (how not in ("never-ends", "shields", "swallows"))
    if how in ("shields", "swallows"):
        assert "does not end" in context.plugins.calls.troubles()["the discovery bad"]
        await trio.sleep(LONG)
        assert not context.plugins.calls.troubles()


# Checks


class Facts:
    """Evidence for a doctor."""

    async def refresh(self) -> None:
        """Nothing to take in."""

    def peers(self) -> list[str]:
        return []

    def cluster(self) -> ClusterFacts:
        return ClusterFacts(now=1.0)


def doctor_of(**functions: Any) -> tuple[Doctor, Any]:
    """A doctor with a check that breaks, and with one that works."""
    parts = {"look": lambda facts: ok("fine"), **functions}
    bad = Check(name="bad", title="bad", scope="cluster", order=1, **parts)
    good = Check(name="good", title="good", scope="cluster", order=2, look=lambda facts: ok("fine"))
    context = context_of(Plugins(checks=(bad, good)))
    facts: Any = Facts()
    return Doctor(
        context, context.plugins, facts, CheckProbes(context, Components(), context.plugins)
    ), context


def verdicts(doctor: Doctor) -> dict[str, tuple[str, str]]:
    return {row.layer: (row.verdict, row.evidence) for row in doctor.ladders[""].checks}


@pytest.mark.parametrize("how", PLAIN)
async def test_a_look(how: str):
    doctor, context = doctor_of(look=await way(how, waits=False))
    for _ in range(FAILING):
        await doctor.round()
    found = verdicts(doctor)
    assert found["bad"][0] == "unknown"
    assert found["good"] == ("ok", "fine")
    assert "the check bad" in context.plugins.calls.troubles()


@pytest.mark.parametrize("how", AWAITED)
async def test_a_probe(how: str, autojump_clock: Any):
    doctor, context = doctor_of(probe=await way(how, waits=True))
    with trio.CancelScope(shield=True):  # it waits for none longer than for its deadline
        for _ in range(2):
            with trio.fail_after(30):
                await doctor.probe()
    await doctor.round()
    found = verdicts(doctor)
    assert found["good"] == ("ok", "fine")
    # What a probe brings is the check's own affair; one that blocks is parked.
    if how == "returns-odd":
        return
    said = " ".join((found["bad"][1], *context.plugins.calls.troubles().values()))
    assert found["bad"][0] == "unknown" or "parked" in said


# Tunnels


class Rope:
    """A tunnel of which one function is another's."""

    def __init__(self, name: str, function: Any) -> None:
        self.downs = 0
        if name:
            setattr(self, name, function)

    async def problem(self) -> str | None:
        return None

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        return 60.0

    async def status(self) -> None:
        return None

    async def down(self) -> None:
        self.downs += 1


@asynccontextmanager
async def machine(
    tmp_path: Path, build: Callable[..., Any]
) -> AsyncIterator[tuple[GatewayHost, Any, Rope]]:
    """The machine that a daemon detects with a backend that works, and with one more."""
    works = Rope("", None)
    bad = TunnelProvider(name="bad", build=build, encrypted=True, overhead=80, order=1)
    good = TunnelProvider(name="good", build=lambda *_: works, encrypted=True, overhead=80, order=2)
    context = context_of(Plugins(network=(bad, good)))
    has = (HostSettings(), loaded_backends(context.plugins), Account(shares=NODE_SHARES)[PROXY])
    made = HostCapabilities(context.cluster_id, *has, folder=str(tmp_path / "run"))
    found = await made.equipped(Surroundings(address="192.0.2.5"))
    assert found.facts.problem == ""
    assert "good" in found.tunnels
    yield found, context, works


SPEC = TunnelSpec(
    side="client", private_key=bytes(32), public_key=bytes(32), peer_public_key=bytes(32)
)
MILAN = PeerNames("rome", "milan")


@pytest.mark.parametrize("how", PLAIN)
async def test_a_build_of_a_tunnel(how: str, tmp_path: Path, autojump_clock: Any):
    build = await way(how, waits=False)
    async with machine(tmp_path, build) as (found, context, _):
        assert list(found.tunnels) == ["good"]
        assert "the network bad" in context.plugins.calls.troubles()


@pytest.mark.parametrize("how", AWAITED)
async def test_a_problem(how: str, tmp_path: Path, autojump_clock: Any):
    function = await way(how, waits=True)
    began = trio.current_time()
    async with machine(tmp_path, lambda *_: Rope("problem", function)) as it:
        found, context, _ = it
        assert list(found.tunnels) == ["good"]
        assert "the network bad" in context.plugins.calls.troubles()
        assert trio.current_time() - began < 10


@pytest.mark.parametrize("name", ["up", "status", "down"])
@pytest.mark.parametrize("how", AWAITED)
async def test_a_function_of_a_tunnel(name: str, how: str, tmp_path: Path, autojump_clock: Any):
    function = await way(how, waits=True)
    async with machine(tmp_path, lambda *_: Rope(name, function)) as it:
        found, context, works = it
        tunnel = found.tunnels["bad"](MILAN)
        function_of = getattr(tunnel, name)
        with pytest.raises(LiqodError, match="the network bad"), trio.fail_after(120):
            await (function_of(SPEC) if name == "up" else function_of())
        assert "the network bad" in context.plugins.calls.troubles()
        await trio.sleep(LONG)
        alone = GatewayHost(tunnels=found.tunnels)
        if name != "down":
            await take_down(alone, MILAN)
            assert "the network bad" not in context.plugins.calls.troubles()
        else:
            with pytest.raises(LiqodError, match="the network bad"):
                await take_down(alone, MILAN)
        assert works.downs == 1, "nobody's tunnel is in the way of another's end"


async def test_the_folder_of_a_backend_is_there_and_its_own_before_it_is_brought_up(tmp_path: Path):
    folder = tmp_path / "run"

    async def up(spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        (folder / "socket").touch()
        return 60.0

    async with machine(tmp_path, lambda *_: Rope("up", up)) as (found, context, _):
        assert not folder.exists()
        tunnel = found.tunnels["bad"](MILAN)
        assert await tunnel.up(SPEC) == 60.0
        assert folder.stat().st_mode & 0o777 == 0o700
        for mode, said in ((0o777, "others may write in"), (0o722, "others may write in")):
            folder.chmod(mode)
            with pytest.raises(NetworkError, match=said):
                await tunnel.up(SPEC)
        (folder / "socket").unlink()
        folder.rmdir()
        folder.symlink_to(tmp_path)
        with pytest.raises(NetworkError, match="is not this user's own folder"):
            await tunnel.up(SPEC)
        assert not context.plugins.calls.troubles(), "that is a fault of the machine"


# What decodes settings


def loaded(config_type: Any) -> Plugins:
    """The plugins loaded of a check with such settings, and of one that works."""
    checks = [
        Check(
            name=name,
            title=name,
            scope="cluster",
            order=1,
            look=lambda facts: ok("fine"),
            config_type=kind,
        )
        for name, kind in (("bad", config_type), ("good", NoSettings))
    ]
    provided = SimpleNamespace(liqod_checks=hookimpl(lambda: checks))
    return loader.load(sources=[PluginSource("ours", "ours", "1", lambda: provided)])


class Painted(msgspec.Struct, frozen=True):
    """Settings of which nobody can make any."""

    def __post_init__(self) -> None:
        broken_by()


def broken_by() -> None:
    """Replaced by what breaks."""


@pytest.mark.parametrize("how", [each for each in PLAIN if each not in ("returns-odd", "blocks")])
async def test_a_type_that_decodes_settings(how: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(f"{__name__}.broken_by", await way(how, waits=False))
    if how == "raises":  # msgspec takes that for a table that does not fit
        with pytest.raises(ConfigError, match=r"plugins\.settings\.bad: boom"):
            loaded(Painted)
        return
    plugins = loaded(Painted)
    assert [each.name for each in plugins.checks] == ["good"]
    (why,) = [each.why for each in plugins.records if each.state == "left out"]
    assert why.startswith("its config_type raised")


# Hooks


@pytest.mark.parametrize("hook", sorted(loader.HOOKS))
@pytest.mark.parametrize("how", PLAIN)
async def test_a_hook(hook: str, how: str, caplog: Any):
    breaks = await way(how, waits=False)
    bad = SimpleNamespace(**{hook: hookimpl(lambda: breaks())})
    good = Check(name="good", title="good", scope="cluster", order=2, look=lambda facts: ok("fine"))
    provided = SimpleNamespace(liqod_checks=hookimpl(lambda: [good]))
    plugins = loader.load(
        sources=[
            PluginSource("bad", "theirs", "1", lambda: bad),
            PluginSource("ours", "ours", "1", lambda: provided),
        ],
        late=BLOCKS / 3 if how == "blocks" else loader.LATE,
    )
    assert [each.name for each in plugins.checks] == ["good"]
    assert [each.name for each in plugins.records if each.state == "left out"] == ["bad"]
    if how == "blocks":
        said = "the plugin bad of theirs has not come back"
        assert said in caplog.text, "who holds up the start is named meanwhile"


BROKEN_HERE = {
    **dict.fromkeys(loader.HOOKS, test_a_hook),
    "DiscoveryProvider.build": test_a_build_of_a_discovery,
    "Discovery.run": test_a_run_of_a_discovery,
    "Check.look": test_a_look,
    "Check.probe": test_a_probe,
    "TunnelProvider.build": test_a_build_of_a_tunnel,
    "Tunnel.problem": test_a_problem,
    "Tunnel.up": test_a_function_of_a_tunnel,
    "Tunnel.status": test_a_function_of_a_tunnel,
    "Tunnel.down": test_a_function_of_a_tunnel,
}


def test_every_function_that_a_plugin_hands_over_is_broken_somewhere():
    structs = {expected.__name__ for _, expected in loader.HOOKS.values()}
    decoding = {f"{each}.config_type" for each in structs}
    assert handed_over() == {*BROKEN_HERE, *BROKEN_BETWEEN_CLUSTERS, *decoding}
    assert all(inspect.iscoroutinefunction(each) for each in BROKEN_HERE.values())
