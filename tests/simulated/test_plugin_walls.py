"""A reflector that blocks or exits hurts nobody: it is named and parked, and the others go on."""

import time
from typing import Any

import pytest
import trio

from liqod.kube.kinds import CONFIG_MAPS, SECRETS
from liqod.plugins import calls
from liqod.plugins.contracts import Json, Plan, Reflector, RemoteKind, View
from liqod.stalls import Stalls
from tests.simulated.borrower import eventually
from tests.simulated.reflecting import SHOP, pair
from tests.simulated.test_reflection_plans import only, remote_object

BLOCKS = 1.2


def copied(source: Json, view: View) -> Plan:
    return Plan(remote=(remote_object(CONFIG_MAPS, source["metadata"]["name"]),))


def blocks(secret: Json, view: View) -> Plan:
    time.sleep(BLOCKS)
    return Plan(remote=(remote_object(SECRETS, secret["metadata"]["name"]),))


def exits(secret: Json, view: View) -> Plan:
    raise SystemExit(3)


MAPS = Reflector(
    name="maps", kind=CONFIG_MAPS, outgoing=copied, remote=(RemoteKind(kind=CONFIG_MAPS),)
)


def faulty(outgoing: Any) -> Reflector:
    return Reflector(
        name="faulty", kind=SECRETS, outgoing=outgoing, remote=(RemoteKind(kind=SECRETS),)
    )


async def test_one_that_blocks_is_named_while_it_does_and_parked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(calls, "STUCK", BLOCKS)
    ours = only(MAPS, faulty(blocks))
    # The package of the test's own is not liqod.
    assert not ours.own
    async with pair(plugins=ours) as both, trio.open_nursery() as nursery:
        stalls = Stalls(both.home.hub, late=0.4)
        await nursery.start(stalls.run)
        await both.start(nursery)
        await both.here.create(SECRETS, {"metadata": {"name": "one"}}, SHOP)

        async def parked() -> bool:
            said = both.home.calls.troubles().get("the reflector faulty", "")
            return said.startswith("parked for") and "every peer waited" in said

        async def explained() -> bool:
            return "the reflector faulty (test_plugin_walls.py:" in stalls.lately()

        await eventually(parked)
        await eventually(explained)
        assert "in blocks) has not come back" in caplog.text
        # What it would do waits; what others do does not.
        await both.here.create(SECRETS, {"metadata": {"name": "two"}}, SHOP)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "map"}}, SHOP)
        await both.comes(CONFIG_MAPS, "map")
        assert await both.there.find(SECRETS, "two", "shop-rome") is None
        nursery.cancel_scope.cancel()


async def test_one_that_exits_ends_nothing_and_is_shown() -> None:
    async with pair(plugins=only(MAPS, faulty(exits))) as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        await both.here.create(SECRETS, {"metadata": {"name": "one"}}, SHOP)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "map"}}, SHOP)
        await both.comes(CONFIG_MAPS, "map")

        async def shown() -> bool:
            said = both.home.calls.troubles().get("the reflector faulty", "")
            return "SystemExit: 3" in said

        await eventually(shown)
        nursery.cancel_scope.cancel()
