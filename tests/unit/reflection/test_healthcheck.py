"""Problems that block reflection: reported when they last, and waiters are called at their end."""

from types import SimpleNamespace
from typing import Any

import trio

from liqod.consumer.degradations import Degradation
from liqod.reflection.healthcheck import HealthCheck
from liqod.reflection.timings import ORDINARY
from liqod.reflection.view import Dependencies
from liqod.reflection.workers import Workers
from liqod.resources import SHADOW_PODS


async def test_what_waits_is_called_as_soon_as_nothing_hinders(autojump_clock):
    told: list[Any] = []
    calls: list[float] = []
    cache = SimpleNamespace(trouble=None, lacks="", mend=lambda: None)
    mapped = SimpleNamespace(caches={SHADOW_PODS: cache})
    degradations = SimpleNamespace(report=lambda room, what: told.append(what))
    link: Any = SimpleNamespace(up=True, degradations=degradations)
    context: Any = SimpleNamespace(peer=SimpleNamespace(link=link), namespaces={"shop": mapped})
    workers = Workers(Dependencies())
    check = HealthCheck(context, workers, lambda: calls.append(trio.current_time()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(check.run)
        await trio.sleep(3 * ORDINARY.check_every + 1)
        assert not calls
        cache.trouble = Degradation("there is no such kind", grave=True)
        await trio.sleep(3 * ORDINARY.check_every)
        assert told[-1] is not None
        assert not calls
        cache.trouble = None
        await trio.sleep(ORDINARY.check_every)
        assert told[-1] is None
        assert len(calls) == 1
        await trio.sleep(5 * ORDINARY.check_every)
        assert len(calls) == 1
        nursery.cancel_scope.cancel()
