"""A kind that a peer has not, or gives no right to, holds up that kind there and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, CUSTOM_RESOURCES
from liqod.plugins import loader
from liqod.plugins.contracts import Json, Plan, Reflector, RemoteKind, View, Watch
from liqod.plugins.loader import Plugins
from liqod.reflection.timings import ReflectionTimings
from liqod.telemetry.events import KindRead
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.plugins.test_thirdparty import DEFINITION, GADGETS, served
from tests.simulated.reflecting import SHOP, Pair, pair
from tests.simulated.reflection.test_reflection_plans import only


def follows(gadget: Json, view: View) -> Plan:
    return Plan()


def shows(gadget: Json, remote: tuple[Json, ...], view: View) -> Plan:
    return Plan()


LAMPS = Reflector(
    name="lamps",
    kind=GADGETS,
    outgoing=follows,
    incoming=shows,
    remote=(RemoteKind(kind=GADGETS, watch=Watch.FULL),),
)


def with_lamps() -> Plugins:
    """The built-in plugins, and a reflector of somebody else's."""
    ours, built_in = only(LAMPS), loader.load(sources=loader.built_in())
    return Plugins(
        reflectors=(*built_in.reflectors, *ours.reflectors),
        settings={**built_in.settings, **ours.settings},
        own=built_in.own,
    )


OFTEN = ReflectionTimings(check_every=0.1)


@asynccontextmanager
async def reflected(*faults: Fault, defined: bool = True) -> AsyncIterator[Pair]:
    """Both clusters, with gadgets defined in the first; the engine at work, and looked at often."""
    async with pair(plugins=with_lamps()) as both, trio.open_nursery() as nursery:
        for client in (both.here, both.there) if defined else (both.here,):
            await client.create(CUSTOM_RESOURCES, DEFINITION)
            await eventually(partial(served, client))
        for fault in faults:
            both.milan.faults.add(fault)
        await both.start(nursery, timings=OFTEN)
        yield both
        nursery.cancel_scope.cancel()


def blind(both: Pair, kind: str) -> str:
    """The reason reported to the doctor that a kind there cannot be read; empty where it can."""
    told = [each.payload for each in both.context.hub.history if isinstance(each.payload, KindRead)]
    return next((each.problem for each in reversed(told) if each.kind == kind), "")


FULL = r"/namespaces/shop-rome/"


@pytest.mark.parametrize(
    ("faults", "kind"),
    [
        pytest.param({}, "gadgets", id="no such kind"),
        pytest.param({"path": "/gadgets", "status": 403}, "gadgets", id="no right"),
        pytest.param({"path": "/gadgets", "status": 500}, "gadgets", id="a plugin's kind fails"),
        pytest.param({"path": f"{FULL}services", "status": 403}, "services", id="built in"),
        pytest.param({"path": f"{FULL}pods", "status": 403}, "pods", id="pods"),
    ],
)
async def test_the_peers_node_stays_as_it_is(faults: dict[str, Any], kind: str):
    unwanted = (Fault(**faults),) if faults else ()
    async with reflected(*unwanted, defined=bool(faults)) as both:
        degradations = both.link.degradations

        async def named() -> bool:
            return (
                f"{kind} there cannot be followed" in str(degradations) or blind(both, kind) != ""
            )

        await eventually(named)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, SHOP)
        await both.comes(CONFIG_MAPS, "conf")
        for _ in range(5):
            assert not degradations.grave
            assert not degradations.blind
            await trio.sleep(OFTEN.check_every)


async def test_it_is_said_until_the_right_is_there():
    async with reflected() as both:
        await both.here.create(GADGETS, {"metadata": {"name": "lamp"}, "spec": {}}, SHOP)
        refusal = both.milan.faults.add(Fault(path="/gadgets", status=403))
        both.milan.faults.cut_watches()

        async def said() -> bool:
            return "injected" in blind(both, "gadgets")

        async def over() -> bool:
            return not blind(both, "gadgets") and not both.link.degradations

        await eventually(said)
        both.milan.faults.remove(refusal)
        await eventually(over)


async def test_a_server_that_fails_what_pods_need_counts():
    fault = Fault(path=f"{FULL}pods", status=500)
    async with reflected(fault) as both:

        async def grave() -> bool:
            return both.link.degradations.grave and both.link.degradations.blind

        await eventually(grave)
