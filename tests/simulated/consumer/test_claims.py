"""The life of claims of the virtual StorageClass, from where the first pod lands to their end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import (
    CLAIMS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
)
from liqod.consumer import volumeprovisioner as room
from liqod.consumer.timings import ConsumerTimings
from liqod.consumer.volumeprovisioner import VolumeProvisioner
from liqod.install.manifests import storage_class
from liqod.kube.cache.memoryquota import MemoryQuota
from liqod.kube.selection import Selection
from liqod.resources import VIRTUAL_NODES
from liqod.runtime.backoff import Backoff
from simulator.controllers.volumes import PROVISIONER, SELECTED
from tests.simulated.borrower import eventually
from tests.simulated.lendingpods import lending
from tests.simulated.reflecting import SHOP, TENANT, THERE, Pair, beside

Json = dict[str, Any]
ENABLED = (
    '[peer_defaults]\npod_network = "routed"\n'
    'pod_cidrs = ["10.0.0.0/8"]\n[storage]\nenabled = true\n'
)
OFFERED: list[Json] = [{"storageClassName": "slow"}, {"storageClassName": "disks", "default": True}]


def of_class(name: str, **more: Any) -> Json:
    return {
        "metadata": {"name": name, "annotations": more.pop("annotations", {})},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def claim(name: str, **more: Any) -> Json:
    spec = {
        "storageClassName": "liqo",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        **more.pop("spec", {}),
    }
    return {"metadata": {"name": name, **more}, "spec": spec}


def node(name: str, peer: str = "") -> Json:
    virtual = {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": peer}
    return {
        "metadata": {"name": name, "labels": virtual if peer else {}},
        "status": {
            "allocatable": {"pods": "10", "cpu": "10", "memory": "10Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@asynccontextmanager
async def storing(*nodes: Json, classes: list[Json] = OFFERED) -> AsyncIterator[tuple[Pair, Any]]:
    """Rome with these nodes, and milan, which offers these classes."""
    async with lending(text=ENABLED) as (both, nursery):
        await both.here.create(NAMESPACES, {"metadata": {"name": "liqo-storage"}})
        await both.here.create(STORAGE_CLASSES, storage_class())
        await both.there.create(STORAGE_CLASSES, of_class("disks"))
        await offer(both, classes)
        for each in nodes:
            await both.here.create(NODES, each)
        yield both, nursery


async def offer(both: Pair, classes: list[Json]) -> None:
    patch = {"spec": {"storageClasses": classes}}
    await both.here.patch(VIRTUAL_NODES, both.name, patch, TENANT)


async def pod(both: Pair, name: str, of: str = "db", **spec: Any) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": of}}]
    await both.pod(name, node="", spec={"volumes": volumes, **spec})


async def bound(both: Pair, name: str = "db") -> Json:
    """The claim here, once it has its volume."""
    found = await here(both, name, lambda each: phase(each) == "Bound")
    return await both.here.get(VOLUMES, found["spec"]["volumeName"])


async def here(both: Pair, name: str, holds: Any) -> Json:
    return await both.comes(CLAIMS, name, holds, client=both.here, namespace=SHOP)


def phase(found: Json) -> str:
    return str(found.get("status", {}).get("phase"))


async def on(both: Pair, name: str, where: str) -> None:
    def there(found: Json) -> bool:
        return bool(found["spec"].get("nodeName") == where)

    await both.comes(PODS, name, there, client=both.here, namespace=SHOP)


async def events(both: Pair, reason: str) -> list[str]:
    found = await both.here.list(EVENTS, Selection(SHOP))
    return [each["message"] for each in found if each["reason"] == reason]


@pytest.mark.long
async def test_the_volume_is_where_the_first_pod_lands_and_goes_with_its_claim():
    async with storing(node("milan", "milan")) as (both, nursery):
        await nursery.start(VolumeProvisioner(both.context).run)
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")
        await on(both, "one", "milan")
        volume = await bound(both)
        assert volume["spec"]["hostPath"] == {"path": "/tmp/liqo-placeholder"}
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        where = {"key": "liqo.io/remote-cluster-id", "operator": "In", "values": ["milan"]}
        assert term == {"matchExpressions": [where]}
        there = await both.comes(CLAIMS, "db", lambda each: phase(each) == "Bound")
        assert there["spec"]["storageClassName"] == "disks"
        assert there["spec"]["accessModes"] == ["ReadWriteOnce"]
        assert SELECTED not in there["metadata"]["annotations"] or (
            there["metadata"]["annotations"][SELECTED] != "milan"
        )
        remote_pod = await both.comes(PODS, "one", lambda each: phase(each) == "Running")
        (mounted,) = [each for each in remote_pod["spec"]["volumes"] if each["name"] == "data"]
        assert mounted["persistentVolumeClaim"] == {"claimName": "db"}
        await both.here.delete(PODS, "one", SHOP)
        await both.goes(PODS, "one", client=both.here, namespace=SHOP)
        await both.here.delete(CLAIMS, "db", SHOP)
        await both.goes(CLAIMS, "db")
        await both.goes(VOLUMES, volume["metadata"]["name"], client=both.here, namespace="")


async def test_later_pods_go_where_the_volume_is_and_wait_while_that_is_cordoned():
    async with storing(node("milan", "milan")) as (both, nursery):
        await nursery.start(VolumeProvisioner(both.context).run)
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")
        await on(both, "one", "milan")
        await both.here.create(NODES, node("own"))
        await both.here.patch(NODES, "milan", {"spec": {"unschedulable": True}})
        await both.here.delete(PODS, "one", SHOP)
        await both.goes(PODS, "one", client=both.here, namespace=SHOP)
        await pod(both, "two")

        def waits(found: Json) -> bool:
            told = found.get("status", {}).get("conditions") or []
            return any("PersistentVolume's node affinity" in each["message"] for each in told)

        found = await both.comes(PODS, "two", waits, client=both.here, namespace=SHOP)
        assert "unschedulable" in found["status"]["conditions"][0]["message"]
        await both.here.patch(NODES, "milan", {"spec": {"unschedulable": None}})
        await on(both, "two", "milan")


async def test_on_a_real_node_it_is_a_volume_of_this_cluster_s_own_class():
    async with storing(node("own")) as (both, nursery):
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        await both.here.create(STORAGE_CLASSES, of_class("local", annotations=default))
        await nursery.start(VolumeProvisioner(both.context).run)
        made = await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")
        await on(both, "one", "own")
        volume = await bound(both)
        real = await both.here.get(CLAIMS, made.metadata.uid, "liqo-storage")
        source = await both.here.get(VOLUMES, real["spec"]["volumeName"])
        assert real["spec"]["storageClassName"] == "local"
        assert volume["spec"]["hostPath"] == source["spec"]["hostPath"]
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["operator"] == "NotIn"
        assert await both.there.find(CLAIMS, "db", THERE) is None
        more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        await both.here.patch(CLAIMS, "db", more, SHOP)
        await here(both, "db", lambda each: each["status"]["capacity"] == {"storage": "2Gi"})
        await both.here.delete(PODS, "one", SHOP)
        await both.here.delete(CLAIMS, "db", SHOP)
        await both.goes(
            CLAIMS, real["metadata"]["name"], client=both.here, namespace="liqo-storage"
        )
        await both.goes(VOLUMES, volume["metadata"]["name"], client=both.here, namespace="")


async def test_without_a_default_class_it_is_said_and_not_tried_without_end():
    soon = ConsumerTimings(volume_refused=Backoff(first=0.2, last=60.0))
    async with storing(node("own")) as (both, nursery):
        await nursery.start(VolumeProvisioner(both.context, soon).run)
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")

        async def told() -> bool:
            return any(
                "no volume on own: this cluster has no default StorageClass" in each
                for each in await events(both, room.FAILED)
            )

        await eventually(told)
        before = both.context.client.stats.requests["patch", "persistentvolumeclaims"]
        await trio.sleep(1.0)
        # Pauses of 0.2, 0.4 and 0.8 s: that is two more, or three.
        patches = both.context.client.stats.requests["patch", "persistentvolumeclaims"] - before
        assert 1 <= patches <= 3


async def test_a_peer_without_storage_is_left_for_another():
    soon = ConsumerTimings(volume_refused=Backoff(first=0.1, last=60.0))
    async with storing(node("milan", "milan"), classes=[]) as (both, nursery):
        await nursery.start(VolumeProvisioner(both.context, soon).run)
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")

        async def told() -> bool:
            return any("no StorageClass" in each for each in await events(both, room.FAILED))

        await eventually(told)
        assert await both.there.list(CLAIMS) == []
        await offer(both, OFFERED)
        await on(both, "one", "milan")


async def test_what_the_peer_refuses_is_said_before_the_pod_is_bound():
    soon = ConsumerTimings(volume_refused=Backoff(first=0.1, last=60.0))
    async with storing(node("milan", "milan")) as (both, nursery):
        await nursery.start(VolumeProvisioner(both.context, soon).run)
        asked = claim("db", annotations={"liqo.io/remote-storage-class": "gold"})
        await both.here.create(CLAIMS, asked, SHOP)
        await pod(both, "one")

        async def told() -> bool:
            return any("StorageClass gold" in each for each in await events(both, room.FAILED))

        await eventually(told)
        assert not (await both.here.get(PODS, "one", SHOP))["spec"].get("nodeName")


async def test_it_grows_and_a_claim_that_is_lost_is_not_made_again():
    async with storing(node("milan", "milan")) as (both, nursery):
        await nursery.start(VolumeProvisioner(both.context).run)
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")
        volume = await bound(both)
        await both.comes(CLAIMS, "db", lambda each: phase(each) == "Bound")
        more = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
        await both.here.patch(CLAIMS, "db", more, SHOP)
        await here(both, "db", lambda each: each["status"].get("capacity") == {"storage": "5Gi"})

        def larger(found: Json) -> bool:
            return bool(found["spec"]["capacity"] == {"storage": "5Gi"})

        name = volume["metadata"]["name"]
        await both.comes(VOLUMES, name, larger, client=both.here, namespace="")
        await both.there.delete(CLAIMS, "db", THERE)

        async def told() -> bool:
            return bool(await events(both, "VolumeLost"))

        await eventually(told)
        assert await both.there.find(CLAIMS, "db", THERE) is None


@pytest.mark.long
@pytest.mark.placement
async def test_a_daemon_that_is_killed_at_any_step_goes_on():
    async with storing(node("milan", "milan")) as (both, nursery):
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")
        await both.comes(CLAIMS, "db")  # asked for by the reflector, and no volume yet
        both.stop()
        await both.start(nursery)
        await here(both, "db", lambda each: each["status"].get("conditions"))
        both.stop()
        async with trio.open_nursery() as first:
            await first.start(VolumeProvisioner(both.context).run)
            volume = await bound(both)
            first.cancel_scope.cancel()
        await both.start(nursery)
        await on(both, "one", "milan")
        await both.comes(CLAIMS, "db", lambda each: phase(each) == "Bound")
        await both.here.delete(PODS, "one", SHOP)
        await both.goes(PODS, "one", client=both.here, namespace=SHOP)
        await both.here.delete(CLAIMS, "db", SHOP)
        await both.goes(CLAIMS, "db")
        await nursery.start(VolumeProvisioner(both.context).run)
        await both.goes(VOLUMES, volume["metadata"]["name"], client=both.here, namespace="")


@pytest.mark.long
@pytest.mark.placement
async def test_a_claim_of_the_same_name_does_not_get_the_other_s_data():
    async with storing(node("milan", "milan")) as (both, nursery):
        await nursery.start(VolumeProvisioner(both.context).run)
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")
        await bound(both)
        first = await both.comes(CLAIMS, "db", lambda each: phase(each) == "Bound")
        both.stop()
        await both.here.delete(CLAIMS, "db", SHOP)
        again = claim("db", annotations={SELECTED: "milan"})
        await both.here.create(CLAIMS, again, SHOP)
        await both.start(nursery)
        uid = first["metadata"]["uid"]
        await both.comes(CLAIMS, "db", lambda each: each["metadata"]["uid"] != uid)


@pytest.mark.long
@pytest.mark.placement
async def test_of_two_peers_only_the_chosen_one_has_it():
    async with storing(node("milan", "milan")) as (both, nursery), beside(both, "turin") as turin:
        await turin.start(nursery)
        await nursery.start(VolumeProvisioner(both.context).run)
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")
        await bound(both)
        await both.comes(CLAIMS, "db", lambda each: phase(each) == "Bound")
        assert await turin.there.list(CLAIMS) == []
        turin.stop()


async def test_a_peer_that_says_nothing_is_left_for_another():
    soon = ConsumerTimings(volume_refused=Backoff(first=0.1, last=60.0), volume_answer=0.2)
    async with storing(node("milan", "milan")) as (both, nursery):
        both.stop()
        await nursery.start(VolumeProvisioner(both.context, soon).run)
        await both.here.create(CLAIMS, claim("db"), SHOP)
        await pod(both, "one")

        async def told() -> bool:
            return any("does not answer" in each for each in await events(both, room.FAILED))

        await eventually(told)


async def test_a_real_claim_that_came_to_nothing_goes():
    async with storing(node("own"), node("milan", "milan")) as (both, nursery):
        nobody = {**of_class("local"), "provisioner": "example.com/none"}
        nobody["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        await both.here.create(STORAGE_CLASSES, nobody)
        await nursery.start(VolumeProvisioner(both.context).run)
        uids = []
        for name in ("db", "gone"):
            made = await both.here.create(CLAIMS, claim(name, annotations={SELECTED: "own"}), SHOP)
            uids.append(made.metadata.uid)
        for uid in uids:
            await both.comes(CLAIMS, uid, client=both.here, namespace="liqo-storage")
        await both.here.delete(CLAIMS, "gone", SHOP)
        chosen = {"metadata": {"annotations": {SELECTED: "milan"}}}
        await both.here.patch(CLAIMS, "db", chosen, SHOP)
        await bound(both)
        for uid in uids:
            await both.goes(CLAIMS, uid, client=both.here, namespace="liqo-storage")


async def test_without_the_setting_nobody_asks_for_claims():
    async with lending() as (both, nursery):
        nursery.start_soon(VolumeProvisioner(both.context).run)
        await both.here.create(CLAIMS, claim("db", annotations={SELECTED: "milan"}), SHOP)
        await both.pod("warm-up")
        await both.comes(PODS, "warm-up")
        kinds = {kind for _, kind in both.requests()}
        assert "pods" in {each.partition("/")[0] for each in kinds}
        assert not {each for each in kinds if each.startswith("persistentvolume")}


async def test_the_claims_of_a_namespace_are_counted():
    """By a word in them anybody's claims are held: they count as his others do."""
    async with storing(node("one")) as (both, nursery):
        both.context.informers.holdings = holdings = MemoryQuota(1 << 20, "guests.max_bytes")
        await nursery.start(VolumeProvisioner(both.context).run)
        word = {"annotations": {"liqod.io/claim": "x", "note": "x" * 100_000}}
        for number in range(20):
            await both.here.create(CLAIMS, claim(f"c-{number}", **word), SHOP)

        async def full() -> bool:
            return holdings.used(holdings.owner(SHOP)) > 900_000

        await eventually(full)
        assert holdings.used(holdings.owner(SHOP)) <= 1 << 20
