"""The doctor sees ShadowPods of which no pod is made, and of which it cannot know."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.apimachinery.meta import Partial
from liqod.cluster.memorylimits import stub_over_limit
from liqod.inspect.lentpods import UNMADE_AFTER, LentPods
from liqod.inspect.objectcaches import Cache
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.model.view import viewrows
from liqod.resources import SHADOW_PODS
from simulator import EmbeddedCluster
from tests.simulated.lender import CONSUMER, SHOP, Lender, lender
from tests.simulated.prepared import installed

MIB = 1 << 20
GUESTS = Selection(labels=labels.GUEST_PODS)
FAT = {"fat": "x" * 100_000}


class Sight:
    """What the doctor would be told."""

    def __init__(self, made: Lender) -> None:
        self._informers = made.context.informers
        self._guests = Cache[str](Partial, viewrows.origin)
        self.pods = LentPods(self._informers, self._guests)

    async def look(self, after: float = 1.0) -> LentPods:
        await trio.sleep(after)
        self._guests.sit_on(self._informers.find(PODS, GUESTS))
        await self._guests.refresh()
        await self.pods.refresh()
        return self.pods


@asynccontextmanager
async def seen(settings: str = "") -> AsyncIterator[tuple[Lender, Sight]]:
    """A cluster with a consumer, where nobody makes pods."""
    async with (
        EmbeddedCluster("milan", state=await installed("milan")) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        lender(admin, cluster.kubeconfig, settings) as made,
    ):
        informers = made.context.informers
        assert informers.holdings is not None
        informers.holdings.belongs(SHOP, CONSUMER)
        await made.map_namespace()
        sight = Sight(made)
        assert (await sight.look()).unmade is None  # nobody follows them
        counted = informers.share(SHADOW_PODS, counted=stub_over_limit)
        async with counted, informers.share(PODS, GUESTS):
            yield made, sight


async def test_a_shadow_pod_with_neither_a_pod_nor_a_reason_is_named_after_a_while():
    async with seen() as (made, sight):
        names = ("refused", "made", "ended", "lost")
        for name in names:
            await made.ask_for(name)
        assert (await sight.look()).unmade == {}
        assert (await sight.look(UNMADE_AFTER - 5)).unmade == {}
        found = (await sight.look(10)).unmade
        assert found is not None
        assert sorted(found.pop(CONSUMER)) == sorted(f"{SHOP}/{each}" for each in names)
        assert found == {}
        for name, status in (
            ("refused", {"phase": "Pending", "reason": "Refused"}),
            ("ended", {"phase": "Succeeded"}),
        ):
            patch = {"status": status}
            await made.admin.patch(SHADOW_PODS, name, patch, SHOP, subresource="status")
        marked = {"offloading.liqo.io/origin": CONSUMER, "liqo.io/managed-by": "shadowpod"}
        spec = {"containers": [{"name": "web", "image": "web"}]}
        await made.admin.create(
            PODS, {"metadata": {"name": "made", "labels": marked}, "spec": spec}, SHOP
        )
        assert (await sight.look()).unmade == {CONSUMER: (f"{SHOP}/lost",)}
        await made.admin.delete(SHADOW_PODS, "lost", SHOP)
        await made.admin.delete(PODS, "made", SHOP)
        assert (await sight.look()).unmade == {}  # it is to be made again, and has not waited
        assert (await sight.look(UNMADE_AFTER + 5)).unmade == {CONSUMER: (f"{SHOP}/made",)}


async def test_a_consumer_of_which_not_all_is_read_is_named():
    async with seen(f"[guests]\nmax_bytes = {MIB}\n") as (made, sight):
        assert (await sight.look()).left_out == {}
        for number in range(9):
            await made.ask_for(f"fat-{number}", annotations=FAT)
        pods = made.context.informers.find(SHADOW_PODS)
        assert pods is not None
        assert pods.store.part is not None
        assert (await sight.look()).left_out == {}
        pods.store.part.swap((SHOP, "others"), None, b"x" * MIB)  # what other stores hold
        await made.ask_for("one-more", annotations=FAT)
        assert (await sight.look()).left_out == {CONSUMER: ("shadowpods",)}
