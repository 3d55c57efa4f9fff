"""The doctor's rounds: since when, what is skipped, and a check that breaks."""

import time
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio

from liqod.cli.report import daemon_problems
from liqod.errors import Forbidden
from liqod.inspect import components
from liqod.inspect.components import Components
from liqod.inspect.doctor import KEPT, Doctor
from liqod.inspect.probing import CheckProbes
from liqod.inspect.summary import EventSummary
from liqod.model.network.ranges import PeerRanges
from liqod.model.view.headline import first_failing
from liqod.model.view.state import LiveState
from liqod.network.orders.tunnels import BackendTrouble, MachineFacts, MachineRead
from liqod.network.remotemachine import RemoteMachine
from liqod.peers.peernetwork import PeerNetwork
from liqod.plugins.callguard import FAILING
from liqod.plugins.diagnosis import Check, ClusterFacts, Finding, failing, ok
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Loaded, Plugins
from liqod.telemetry.hub import Hub
from tests.unit.inspect.working import refused

FINE = ok("fine")


class Patient:
    """A doctor with checks of the test's own, on a clock that the test moves."""

    def __init__(self, *checks: Check) -> None:
        self.hub = Hub()
        self.now = 100.0
        self.client: Any = SimpleNamespace(raw=refused)
        context: Any = SimpleNamespace(hub=self.hub, client=self.client)
        self.settings: dict[tuple[str, str], Any] = {}
        self.plugins = PluginHost(Plugins(checks=checks, settings=self.settings))
        stand_in: Any = self
        self.probes = CheckProbes(context, Components(), self.plugins)
        self.doctor = Doctor(context, self.plugins, stand_in, self.probes)

    async def refresh(self) -> None:
        """Nothing to take in."""

    def peers(self) -> list[str]:
        return []

    def cluster(self) -> ClusterFacts:
        return ClusterFacts(now=self.now)

    async def after(self, seconds: float) -> dict[str, Any]:
        """The layers after another round."""
        self.now += seconds
        await self.doctor.round()
        return {check.layer: check for check in self.doctor.ladders[""].checks}


def check(name: str, look: Any, **more: Any) -> Check:
    return Check(name=name, title=f"the {name}", scope="cluster", order=1, look=look, **more)


async def test_a_verdict_is_as_old_as_its_last_turn():
    found = {"now": ok("fine")}
    patient = Patient(check("api", lambda facts: found["now"]))
    assert (await patient.after(0))["api"].since == 100
    assert (await patient.after(50))["api"].since == 100
    found["now"] = failing("refused", "mend it")
    row = (await patient.after(2))["api"]
    assert (row.verdict, row.since, row.remedy) == ("failing", 152, "mend it")
    found["now"] = failing("timed out", "mend it")
    row = (await patient.after(2))["api"]
    assert (row.evidence, row.since) == ("timed out", 152)
    found["now"] = ok("fine")
    assert (await patient.after(2))["api"].since == 156
    told = [(each.payload.topic, each.payload.facts()["verdict"]) for each in patient.hub.history]
    assert told == [("doctor", "failing"), ("doctor", "ok")]


async def test_evidence_that_says_nothing_new_is_not_told_each_round():
    rounds = iter(range(100))
    patient = Patient(check("api", lambda facts: ok(f"{next(rounds)} ms")))
    first = (await patient.after(0))["api"]
    assert (await patient.after(KEPT - 1))["api"] is first
    assert (await patient.after(2))["api"].evidence != first.evidence


async def test_what_stands_on_a_failing_layer_is_skipped():
    patient = Patient(
        check("api", lambda facts: failing("down", "mend")),
        check("watches", lambda facts: ok("all"), needs=("api",)),
        check("other", lambda facts: ok("fine")),
        check("not here", lambda facts: None),
    )
    rows = await patient.after(0)
    assert {name: row.verdict for name, row in rows.items()} == {
        "api": "failing",
        "watches": "skipped",
        "other": "ok",
    }
    assert first_failing(patient.doctor.ladders[""]) == rows["api"]


async def test_a_check_that_breaks_is_named_once_and_hinders_no_other(
    caplog: pytest.LogCaptureFixture,
):
    patient = Patient(check("broken", lambda facts: 1 / 0), check("fine", lambda facts: ok("fine")))
    for _ in range(3):
        rows = await patient.after(20)
    assert rows["broken"].verdict == "unknown"
    assert "ZeroDivisionError" in rows["broken"].evidence
    assert rows["fine"].verdict == "ok"
    assert caplog.text.count("the check failed") == 1


@pytest.mark.parametrize("nonsense", [7, ("ok", "fine"), Finding("well", "fine"), Finding("ok", 7)])  # type: ignore[arg-type]
async def test_a_check_that_finds_nonsense_is_unknown_and_hinders_no_other(nonsense):
    patient = Patient(check("broken", lambda facts: nonsense), check("fine", lambda facts: FINE))
    rows = await patient.after(0)
    assert rows["broken"].verdict == "unknown"
    assert "the check broken returned nonsense" in rows["broken"].evidence
    assert rows["fine"].verdict == "ok"


async def test_a_check_that_exits_ends_nothing():
    def leaves(facts):
        raise SystemExit(1)

    rows = await Patient(check("broken", leaves), check("fine", lambda facts: FINE)).after(0)
    assert "the check broken raised SystemExit: 1" in rows["broken"].evidence
    assert rows["fine"].verdict == "ok"


async def hangs(asker):
    await trio.sleep_forever()


async def exits(asker):
    raise SystemExit(1)


async def is_refused(asker):
    raise Forbidden("no right to /healthz/etcd")


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (hangs, "no answer within 5 s"),
        (exits, "the probe etcd raised SystemExit: 1"),
        (is_refused, "no right to /healthz/etcd"),
    ],
)
async def test_a_probe_that_fails_again_and_again_is_shown(probe, said, autojump_clock):
    patient = Patient(check("etcd", lambda facts: FINE, probe=probe))
    await patient.probes.now()
    assert (await patient.after(0))["etcd"].verdict == "ok"
    await patient.probes.now()
    row = (await patient.after(20))["etcd"]
    assert (row.verdict, row.evidence) == ("unknown", f"its probe fails: {said}")


@pytest.mark.parametrize("part", ["look", "probe"])
async def test_a_check_that_raises_is_a_problem_of_its_plugins(part: str):
    broken = True

    async def probe(asker: Any) -> int:
        if broken and part == "probe":
            raise KeyError("spec")
        return 1

    def look(facts: Any) -> Finding:
        if broken and part == "look":
            raise KeyError("spec")
        return FINE

    patient = Patient(check("etcd", look, probe=probe))
    record = Loaded(name="etcd", kind="check", version="1", package="etcd", state="active")
    patient.plugins.loaded = msgspec.structs.replace(patient.plugins.loaded, records=(record,))

    async def said() -> str:
        await patient.probes.now()
        for _ in range(FAILING):
            await patient.after(2)
        (row,) = components.plugins(patient.plugins, EventSummary(), {}).values()
        (*found,) = daemon_problems(LiveState(plugins={"row": row}))
        assert len(found) == len(patient.plugins.calls.troubles())
        return row.failure

    assert "raised KeyError: 'spec'" in await said()
    broken = False
    assert await said() == ""


def test_a_backends_fault_in_another_program_is_a_problem_of_its_plugin():
    patient = Patient()
    record = Loaded(name="wireguard", kind="network", version="1", package="liqod", state="active")
    patient.plugins.loaded = msgspec.structs.replace(patient.plugins.loaded, records=(record,))
    told = {"wireguard": BackendTrouble("does not end", 60.0), "gone": BackendTrouble("no record")}
    (row,) = components.plugins(patient.plugins, EventSummary(), told).values()
    (problem,) = daemon_problems(LiveState(plugins={"row": row}))
    assert "does not end" in str(problem)
    assert row.retry_at - time.time() == pytest.approx(60.0, abs=1.0)
    (row,) = components.plugins(patient.plugins, EventSummary(), {}).values()
    assert row.failure == ""


def test_what_the_machine_lacks_is_known_to_the_doctor():
    running = components.Components()
    assert running.unjoined == ""
    running.machine = RemoteMachine(lambda order: None)
    running.machine.receive(MachineRead(1, MachineFacts(problem="missing: nft")))
    assert running.unjoined == "missing: nft"
    running.machine.receive(MachineRead(2, MachineFacts()))
    assert running.unjoined == ""


def test_peers_without_a_joined_network_are_known_to_the_doctor():
    running = components.Components()
    networks = {"milan": PeerNetwork(), "turin": PeerNetwork()}
    for name, network in networks.items():
        peer: Any = SimpleNamespace(network=network)
        running.peers[name] = peer
    # Nobody has looked yet.
    assert running.apart({"milan", "turin", "oslo"}) == ("oslo",)
    networks["milan"].set_ranges(PeerRanges())
    networks["turin"].set_ranges(None, "it is not joined")
    assert running.apart({"milan", "turin", "oslo"}) == ("oslo", "turin")


async def test_a_probe_and_its_look_are_given_the_settings():
    async def asks(asker):
        return asker.settings

    patient = Patient(
        check("etcd", lambda facts: ok(f"{facts.settings} {facts.probed}"), probe=asks)
    )
    patient.settings["check", "etcd"] = "ours"
    await patient.probes.now()
    assert (await patient.after(0))["etcd"].evidence == "ours ours"
