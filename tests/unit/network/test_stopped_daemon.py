"""A daemon that is stopped counts as connected for a time, and one that is silent always."""

import pytest
import trio

from liqod.network.machine import machineserver
from liqod.network.orders import greeting
from liqod.network.orders.greeting import Generation
from liqod.network.orders.overlay import RemoveOverlay
from liqod.runtime.observable import Observable
from tests.unit.network.ordering import hello
from tests.unit.network.test_machinelink import ended, linked, machine


async def test_a_daemon_that_is_frozen_is_connected_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machineserver, "HEARD_WITHIN", 0.3)
    async with machine() as made:
        frozen = await made.admitted(hello())
        assert made.server.connected
        await ended(frozen)
        assert not made.server.connected
        await made.takes(await made.admitted(hello()), RemoveOverlay())


async def test_a_daemon_without_an_order_stays_connected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machineserver, "HEARD_WITHIN", 0.6)
    monkeypatch.setattr(greeting, "TELL_EVERY", 0.1)
    async with machine() as made:
        made.nursery.start_soon(linked(made, Observable(Generation())).run)
        with trio.fail_after(5):
            await made.came.wait()
        await trio.sleep(1.2)
        assert made.server.connected
        assert len(made.streams) == 1
