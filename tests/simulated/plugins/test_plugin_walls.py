"""A reflector that breaks hurts nobody: it is named, parked where it blocks, and others go on.

Each of its functions is broken in each way (tests/unit/plugins/broken.py has them all).
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, EVENTS, SECRETS, SERVICES
from liqod.kube.selection import Selection
from liqod.loopwatchdog import LoopWatchdog
from liqod.model.objects.remoteevents import MESSAGE_BYTES
from liqod.model.text import is_fit
from liqod.model.view.daemonfacts import PLUGIN_FAILS
from liqod.plugins.callguard import CallGuardTimings
from liqod.plugins.contracts import (
    Json,
    Plan,
    Reason,
    Reflector,
    RemoteKind,
    RemoteObject,
    Several,
    View,
    Watch,
)
from liqod.reflection import statuswriter
from tests.simulated.borrower import eventually
from tests.simulated.reflecting import SHOP, pair
from tests.simulated.reflection.test_reflection_plans import only, remote_object
from tests.unit.plugins import broken

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
    caplog: pytest.LogCaptureFixture,
) -> None:
    impatient = CallGuardTimings(stuck=BLOCKS)
    ours = only(MAPS, faulty(blocks))
    # The package of the test's own is not liqod.
    assert not ours.own
    async with pair(plugins=ours, guards=impatient) as both, trio.open_nursery() as nursery:
        stalls = LoopWatchdog(both.context.hub, late=0.4)
        await nursery.start(stalls.run)
        await both.start(nursery)
        await both.here.create(SECRETS, {"metadata": {"name": "one"}}, SHOP)

        async def parked() -> bool:
            said = both.plugins.calls.troubles().get("the reflector faulty", "")
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
            said = both.plugins.calls.troubles().get("the reflector faulty", "")
            return "SystemExit: 3" in said

        await eventually(shown)
        nursery.cancel_scope.cancel()


def picky(secret: Json, view: View) -> Plan:
    return Plan(remote=(remote_object(SECRETS, secret["metadata"]["labels"]["name"]),))


@pytest.mark.parametrize("ends", ["mended", "deleted"])
async def test_the_object_at_which_one_breaks_is_named_until_it_is_mended_or_gone(
    ends: str,
) -> None:
    async with pair(plugins=only(MAPS, faulty(picky))) as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        await both.here.create(SECRETS, {"metadata": {"name": "odd"}}, SHOP)

        def said() -> str:
            return both.plugins.calls.troubles().get("the reflector faulty", "")

        async def named() -> bool:
            return said().startswith("shop/odd cannot be worked on: ") and "KeyError" in said()

        async def told() -> bool:
            found = await both.here.list(EVENTS, Selection(SHOP))
            of = [each for each in found if each["involvedObject"]["name"] == "odd"]
            return [each["reason"] for each in of] == [PLUGIN_FAILS]

        async def over() -> bool:
            return not said()

        await eventually(named)
        await eventually(told)
        if ends == "deleted":
            await both.here.delete(SECRETS, "odd", SHOP)
        else:
            patch = {"metadata": {"labels": {"name": "even"}}}
            await both.here.patch(SECRETS, "odd", patch, SHOP)
            await both.comes(SECRETS, "even")
        await eventually(over)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("again", ["at once", "old at once"])
async def test_one_that_wants_to_be_called_again_at_once_is_called_each_second(again: str) -> None:
    called: list[float] = []

    def wants(secret: Json, view: View) -> Plan:
        called.append(trio.current_time())
        if again == "at once":
            return Plan(requeue_after=0.0)
        need = RemoteObject(kind=SECRETS, name="other", lasts=0.0)
        return Plan(needs=() if view.fulfilled(need) is not None else (need,))

    async with pair(plugins=only(MAPS, faulty(wants))) as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        await both.here.create(SECRETS, {"metadata": {"name": "one"}}, SHOP)

        async def twice() -> bool:
            return bool(called) and called[-1] - called[0] > 1.5

        await eventually(twice)
        assert len(called) < 40
        nursery.cancel_scope.cancel()


async def test_reasons_are_told_in_a_line_and_not_all_of_very_many() -> None:
    def talks(secret: Json, view: View) -> Plan:
        many = (Reason(f"Odd\nReason{number}", "a\n\x1b[31mb" * 1_000) for number in range(50))
        return Plan(reasons=tuple(many))

    async with pair(plugins=only(MAPS, faulty(talks))) as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        await both.here.create(SECRETS, {"metadata": {"name": "one"}}, SHOP)

        found: list[Json] = []

        async def told() -> bool:
            every = await both.here.list(EVENTS, Selection(SHOP))
            found[:] = [each for each in every if each["involvedObject"]["name"] == "one"]
            return len(found) == statuswriter.MOST_REASONS

        await eventually(told)
        assert all(is_fit(each["reason"] + each["message"]) for each in found)
        assert max(len(each["message"]) for each in found) <= MESSAGE_BYTES
        nursery.cancel_scope.cancel()


def shown_back(source: Json, remote: tuple[Json, ...], view: View) -> Plan:
    return Plan(status={"seen": len(remote)})


def combined(source: Json, statuses: Mapping[str, Json]) -> Json:
    return dict(next(iter(statuses.values())))


def broken_one(field: str, how: str, function: Callable[..., Any]) -> Reflector:
    """A reflector of Services of which one function breaks."""
    name = f"{field}-{how}"

    def makes(source: Json, view: View) -> Plan:
        made = remote_object(SERVICES, f"{source['metadata']['name']}-{name}")
        return Plan(remote=({**made, "spec": {"ports": [{"port": 80}]}},))

    parts: dict[str, Any] = {
        "outgoing": makes,
        "incoming": shown_back,
        "several": Several.MERGED,
        "combine": combined,
    }
    debounce = function if field == "debounce" else None
    remote = RemoteKind(kind=SERVICES, watch=Watch.FULL, debounce=debounce)
    if field != "debounce":
        parts[field] = function
    return Reflector(name=name, kind=SERVICES, remote=(remote,), **parts)


BROKEN_BETWEEN_CLUSTERS = {
    "Reflector.outgoing": "outgoing",
    "Reflector.incoming": "incoming",
    "Reflector.combine": "combine",
    "Reflector.offered": "offered",
    "RemoteKind.debounce": "debounce",
}


@pytest.mark.parametrize("field", BROKEN_BETWEEN_CLUSTERS.values())
async def test_each_function_that_breaks_is_named_and_holds_nobody_up(
    field: str,
) -> None:
    impatient = CallGuardTimings(slow=broken.BLOCKS, stuck=broken.BLOCKS)
    ways = broken.plain_ways(await broken.cancelled())
    ours = only(MAPS, *(broken_one(field, how, function) for how, function in ways.items()))
    assert len(ours.reflectors) == 1 + len(ways)
    async with pair(plugins=ours, guards=impatient) as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
        await both.here.create(SERVICES, service, SHOP)
        for how in ways if field == "debounce" else ():  # a change there
            await both.comes(SERVICES, f"web-{field}-{how}")
            patch = {"metadata": {"labels": {"changed": "yes"}}}
            await both.there.patch(SERVICES, f"web-{field}-{how}", patch, "shop-rome")

        async def told() -> bool:
            known = both.plugins.calls.troubles().keys() | named_in_log()
            return {f"the reflector {field}-{how}" for how in ways} <= known

        def named_in_log() -> set[str]:
            gauges = (both.plugins.calls.find("reflector", each.name) for each in ours.reflectors)
            return {str(each) for each in gauges if each is not None and each.error}

        await eventually(told)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "map"}}, SHOP)
        await both.comes(CONFIG_MAPS, "map")
        nursery.cancel_scope.cancel()
