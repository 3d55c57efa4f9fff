"""Reflection of a namespace as a whole: it begins and ends with its map."""

import gc
import weakref

import trio
import trio.testing

from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    SECRETS,
)
from liqod.plugins.contracts import Names
from liqod.reflection.timings import ReflectionTimings
from liqod.resources import SHADOW_PODS
from tests.simulated.borrower import eventually
from tests.simulated.reflecting import SHOP, THERE, pair
from tests.testbed.held import held


async def test_a_namespace_starts_and_stops_with_its_map():
    async with pair() as both, trio.open_nursery() as nursery:
        await both.map(None)
        await both.start(nursery)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, SHOP)
        await trio.sleep(0.1)
        assert await both.there.find(CONFIG_MAPS, "conf", THERE) is None
        await both.map(THERE)
        await both.comes(CONFIG_MAPS, "conf")
        await both.map(None)
        await trio.sleep(0.1)
        await both.here.delete(CONFIG_MAPS, "conf", SHOP)
        await trio.sleep(0.1)
        assert await both.there.find(CONFIG_MAPS, "conf", THERE) is not None
        nursery.cancel_scope.cancel()


async def test_a_namespace_that_stays_is_not_reflected_whatever_the_map_says():
    async with pair() as both, trio.open_nursery() as nursery:
        engine = await both.start(nursery)
        await both.here.create(SECRETS, {"metadata": {"name": "cred"}}, SHOP)
        await both.comes(SECRETS, "cred")
        tenant = {"metadata": {"labels": {"liqo.io/tenant-namespace": "true"}}}
        await both.here.patch(NAMESPACES, SHOP, tenant)
        await eventually(lambda: present(engine.context.namespaces.get(SHOP) is None))
        both.stop()
        anew = await both.start(nursery)
        assert anew.context.namespaces.get(SHOP) is None
        await both.here.patch(
            NAMESPACES, SHOP, {"metadata": {"labels": {"liqo.io/tenant-namespace": None}}}
        )
        await eventually(lambda: present(anew.context.namespaces.get(SHOP) is not None))
        nursery.cancel_scope.cancel()


async def test_how_long_a_namespace_is_off_the_map_is_remembered_while_pods_linger():
    async with pair() as both, trio.open_nursery() as nursery:
        engine = await both.start(nursery, timings=ReflectionTimings(grace=0.2))
        await both.pod("web")
        await both.comes(SHADOW_PODS, "web")
        await both.desire(None)
        await both.map(None)
        await eventually(lambda: present(SHOP in engine.context.unmapped))
        await both.node("another")  # what is read anew while the pod lingers forgets nothing
        await eventually(lambda: present("another" in engine.nodes))
        assert SHOP in engine.context.unmapped
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        await eventually(lambda: present(not engine.queues["pods"]))
        await both.node("third")
        await eventually(lambda: present("third" in engine.nodes))
        assert (engine.context.unmapped, held(engine.context, Names)) == ({}, [])
        nursery.cancel_scope.cancel()


async def test_a_session_that_has_ended_is_held_by_nobody():
    async with pair() as both, trio.open_nursery() as nursery:
        engine = await both.start(nursery)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, SHOP)
        await both.comes(CONFIG_MAPS, "conf")
        for up in (False, True):
            both.link.set(up, "a test says so")
            await trio.testing.wait_all_tasks_blocked(0.05)
        session = weakref.ref(engine.context.namespaces.get(SHOP))
        await both.map(None)
        await eventually(lambda: present(engine.context.namespaces.get(SHOP) is None))
        await eventually(lambda: present((gc.collect(), session() is None)[1]), seconds=10)
        nursery.cancel_scope.cancel()


async def present(it: object) -> bool:
    return bool(it)
