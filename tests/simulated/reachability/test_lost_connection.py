"""The way to a peer is lost by something in between that keeps this side's connections alive."""

from contextlib import asynccontextmanager

import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES
from liqod.consumer.timings import ConsumerTimings
from liqod.plugins import loader
from liqod.resources import FOREIGN_CLUSTERS, RESOURCE_SLICES
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import members
from tests.simulated.relaying import relayed

SOON = 30.0
"""Seconds; a watch by itself takes two and a half minutes to notice that it leads nowhere."""


OFTEN = ConsumerTimings(probe_every=0.5, first_deadline=1.0, second_deadline=1.0)
"""Probes come more often, so that the test ends sooner."""


@asynccontextmanager
async def apart(folder):
    """Rome borrows from milan over a relay, with a reflected ConfigMap."""
    plugins = loader.load(sources=loader.built_in())
    async with (
        members("rome", "milan", plugins=plugins, consumer_timings=OFTEN) as [rome, milan],
        relayed(milan.cluster, folder) as relay,
    ):
        await milan.stop()
        milan.advertise = relay.server
        await milan.start()
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await rome.admin.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {}}, "shop")
        await milan.until(NAMESPACES, "shop-rome", None, bool)
        await milan.until(CONFIG_MAPS, "a", "shop-rome", bool)
        yield rome, milan, relay


@pytest.mark.long
@pytest.mark.parametrize("noticed", [False, True])
async def test_what_is_watched_there_is_watched_again_at_once(tmp_path, noticed):
    async with apart(tmp_path) as (rome, milan, relay):
        if noticed:
            relay.freeze()
            await rome.until(FOREIGN_CLUSTERS, "milan", None, lambda f: "answers nothing" in str(f))
        relay.forget()
        await milan.admin.delete(CONFIG_MAPS, "a", "shop-rome")
        less = {"spec": {"resources": {"cpu": "1"}}}
        await milan.admin.patch(RESOURCE_SLICES, "milan", less, "liqo-tenant-rome")

        async def restored():
            found = await milan.admin.get(RESOURCE_SLICES, "milan", "liqo-tenant-rome")
            again = await milan.admin.find(CONFIG_MAPS, "a", "shop-rome")
            return again is not None and found["spec"]["resources"]["cpu"] == "2"

        await eventually(restored, seconds=SOON)
