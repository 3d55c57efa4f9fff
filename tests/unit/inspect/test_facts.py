"""The conversion of measurements to facts before the checks look at them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from liqod.inspect.components import Components
from liqod.inspect.facts import FactsInMemory
from liqod.inspect.summary import EventSummary
from liqod.model.peering.roundtrips import lossiness
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from tests.unit.inspect.working import components

GOOD = [0.01] * 10


@pytest.mark.parametrize(
    ("rounds", "lost"),
    [
        ([], None),
        ([0.01, None, 0.01], None),
        (GOOD, 0.0),
        ([0.01, None] * 10, 0.5),
        ([*GOOD, None, None, None], None),
        ([None, None, *GOOD], 0.0),
        ([0.01, None] * 5 + [None, None, *GOOD, None], 1 / 11),
    ],
)
def test_an_outage_that_is_over_is_not_a_lossy_path(rounds, lost):
    assert lossiness(rounds) == pytest.approx(lost)


async def test_a_peer_that_comes_back_has_not_waited_all_the_time(autojump_clock):
    context: Any = SimpleNamespace(
        informers=SimpleNamespace(find=lambda *_, **__: None), client=None
    )
    facts = FactsInMemory(
        context, Components(), PluginHost(Plugins()), EventSummary(), cast("Any", None)
    )
    mapping = SimpleNamespace(desired={"shop"}, accepted={}, known=True)
    engine = SimpleNamespace(mapping=mapping, nodes=(), queues={})
    for _ in range(2):
        facts._components = components("milan", engine=engine)
        borrowing = facts._components.borrowing()["milan"]
        await facts.refresh()
        assert facts._reflection("milan", borrowing).unmapped == {"shop": 0}
        await trio.sleep(100)
        await facts.refresh()
        assert facts._reflection("milan", borrowing).unmapped == {"shop": 100}
        facts._components = Components()
        await facts.refresh()
