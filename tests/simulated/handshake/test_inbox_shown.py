"""Requests to and from others as a viewer sees them, and the answers that it may have sent."""

from types import SimpleNamespace
from typing import Any

import pytest

from liqod.errors import Misuse
from liqod.inspect.actions import Actions
from liqod.inspect.protocol import RequestError
from liqod.inspect.stream import Collector
from liqod.model.view.requests import RequestRow
from liqod.model.view.state import LiveState
from tests.simulated.borrower import eventually
from tests.simulated.meeting import ask, entries, meeting
from tests.simulated.members import Member


def viewed(member: Member) -> Collector:
    """The collector of the tables that a viewer of its daemon is shown."""
    facts: Any = SimpleNamespace(webhook="", missing_policies=(), words={})
    return Collector(member.context, facts, dict)


def actions(member: Member) -> Actions:
    """The actions that a viewer of its daemon may ask for."""
    return Actions(member.context, member.components, SimpleNamespace())  # type: ignore[arg-type]


async def shown(collector: Collector, table: str, state: str) -> RequestRow:
    """The one row of a table, when its request is in that state."""

    async def look() -> RequestRow | None:
        rows = getattr(await collector.collect(whole=False), table).values()
        return next((row for row in rows if row.state == state and row.words), None)

    found: RequestRow = await eventually(look)
    return found


async def test_a_viewer_sees_who_asks_and_what_would_be_granted_and_accepts():
    settings = '[provider]\ndefault_resources = {cpu = "1", memory = "1Gi", pods = "9"}'
    async with meeting("rome", "milan", settings=settings) as [rome, milan]:
        await ask(rome, milan, resources={"cpu": "4"})
        collector = viewed(milan)
        row = await shown(collector, "incoming", "Waiting")
        asked = await shown(viewed(rome), "outgoing", "Waiting")
        assert row.words == asked.words
        assert (row.cluster_id, row.asked, row.source) == ("rome", {"cpu": "4"}, "127.0.0.1")
        assert (asked.cluster_id, asked.asked) == ("milan", {"cpu": "4"})
        plan = await actions(milan).plan("accept", row.name, {"cpu": "2"})
        assert plan.changes[0] == "rome may borrow cpu 2, memory 1Gi, pods 9 from this cluster"
        assert f"the words on both sides: {row.words}" in plan.changes
        assert plan.command == f"liqod inbox accept {row.name} --cpu 2"
        with pytest.raises(Misuse, match="no more than that can be granted"):
            await actions(milan).plan("accept", row.name, {"cpu": "5"})
        assert (await entries(milan))[0].spec.decision == ""
        said = await actions(milan).do("accept", row.name, {"cpu": "2"}, milan.progress)
        assert said == "rome is accepted: cpu 2, memory 1Gi, pods 9"
        row = await shown(collector, "incoming", "Accepted")
        assert row.granted == {"cpu": "2", "memory": "1Gi", "pods": "9"}
        with pytest.raises(RequestError, match="was let in already: `liqod revoke rome`"):
            await actions(milan).plan("deny", row.name, {})
        collector.release()
        assert await collector.collect(whole=False) != LiveState()


async def test_a_viewer_denies_who_asks():
    async with meeting("rome", "milan") as [rome, milan]:
        await ask(rome, milan)
        row = await shown(viewed(milan), "incoming", "Waiting")
        plan = await actions(milan).plan("deny", "rome", {"always": "true"})
        assert plan.changes == ("rome is not let in, now and for what it asks later",)
        assert plan.command == "liqod inbox deny rome --always"
        with pytest.raises(RequestError, match="bern does not ask; rome does"):
            await actions(milan).do("deny", "bern", {}, milan.progress)
        assert await actions(milan).do("deny", row.name, {}, milan.progress) == "rome is denied"
        await shown(viewed(rome), "outgoing", "Denied")
