"""The doctor's rounds: since when, what is skipped, and a check that breaks."""

from types import SimpleNamespace
from typing import Any

import pytest

from liqod.inspect.doctor import KEPT, Doctor
from liqod.inspect.hub import Hub
from liqod.model.worst import first_failing
from liqod.plugins.diagnosis import Check, ClusterFacts, failing, ok


class Patient:
    """A doctor with checks of the test's own, on a clock that the test moves."""

    def __init__(self, *checks: Check) -> None:
        self.hub = Hub()
        self.now = 100.0
        plugins = SimpleNamespace(checks=checks, records=())
        home = SimpleNamespace(plugins=plugins, hub=self.hub)
        self.doctor = Doctor(home, None, None)  # type: ignore[arg-type]
        self.doctor._evidence = self  # type: ignore[assignment]

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
    assert (row.verdict, row.since, row.cure) == ("failing", 152, "mend it")
    found["now"] = failing("timed out", "mend it")
    row = (await patient.after(2))["api"]
    assert (row.evidence, row.since) == ("timed out", 152)
    found["now"] = ok("fine")
    assert (await patient.after(2))["api"].since == 156
    told = [(each.topic, each.facts["verdict"]) for each in patient.hub.history]
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
