"""Changes and deletions by hand in a whole peering, on either side: put right, or explained.

Those of single objects that a reflector or the provider puts right are in
``tests/simulated/reflection/test_hand_edits.py``; no pod is touched by any of them.
"""

from collections.abc import Callable
from typing import Any

import pytest

from liqod.apimachinery.kinds import DEPLOYMENTS, NAMESPACES, NODES, PODS, SECRETS, Kind
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    QUOTAS,
    RESOURCE_SLICES,
    SHADOW_PODS,
    VIRTUAL_NODES,
)
from tests.simulated.borrower import Json, eventually
from tests.simulated.members import AT_MILAN, AT_ROME, USER, Member
from tests.simulated.shops import (
    PATIENCE,
    SHOP,
    THERE,
    is_ready,
    open_shop,
    pod,
    pods_of,
    ready_pods,
    settled,
    uids,
)

pytestmark = pytest.mark.long


async def another(member: Member, kind: Kind, name: str, namespace: str | None, uid: str) -> Json:
    """The object that came after the one with this UID."""
    found: Json = await member.until(
        kind, name, namespace, lambda one: one["metadata"]["uid"] != uid
    )
    return found


async def both_ready(rome: Member) -> None:
    """Wait until the two pods of the Deployment are Ready, whatever else runs."""
    await eventually(
        lambda: ready_pods(rome, SHOP), lambda found: len(found) == 2, seconds=PATIENCE
    )


async def test_a_shadow_pod_that_is_deleted_comes_again_with_its_pod() -> None:
    async with open_shop("milan") as [rome, milan]:
        name, uid = next(iter((await uids(milan, THERE)).items()))
        local = (await uids(rome, SHOP))[name]
        shadow = (await milan.admin.get(SHADOW_PODS, name, THERE))["metadata"]["uid"]
        await milan.admin.delete(SHADOW_PODS, name, THERE)
        await another(milan, SHADOW_PODS, name, THERE, shadow)
        await another(milan, PODS, name, THERE, uid)
        found = await rome.until(
            PODS, name, SHOP, lambda one: "made again 1 times" in str(one["status"])
        )
        assert found["metadata"]["uid"] == local
        await both_ready(rome)


async def test_a_remote_pod_is_put_right() -> None:
    async with open_shop("milan") as [rome, milan]:
        name, uid = next(iter((await uids(milan, THERE)).items()))
        edited = {"metadata": {"labels": {"app": "stolen", "mesh": "yes"}}}
        await milan.admin.patch(PODS, name, edited, THERE)
        found = await milan.until(
            PODS, name, THERE, lambda one: one["metadata"]["labels"]["app"] == "web"
        )
        assert found["metadata"]["labels"]["mesh"] == "yes"
        # Taken from its ShadowPod (as `kubectl delete --cascade=orphan` does) it is taken back.
        await milan.admin.patch(PODS, name, {"metadata": {"ownerReferences": None}}, THERE)
        await milan.until(PODS, name, THERE, lambda one: one["metadata"].get("ownerReferences"))
        status = {"containerStatuses": None, "conditions": None, "phase": "Pending"}
        await milan.admin.patch(PODS, name, {"status": status}, THERE, subresource="status")
        assert (await uids(milan, THERE))[name] == uid
        await milan.admin.delete(PODS, name, THERE, grace=0)
        await another(milan, PODS, name, THERE, uid)
        await both_ready(rome)

        await milan.admin.delete(SHADOW_PODS, name, THERE, propagation="Orphan")
        await both_ready(rome)
        await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, SHOP)
        for member, namespace in ((rome, SHOP), (milan, THERE)):
            await settled(member, namespace, 0)


async def test_the_node_is_put_right() -> None:
    async with open_shop("milan") as [rome, _]:
        before, pods = await rome.admin.get(NODES, "milan"), await uids(rome, SHOP)

        async def comes(holds: Callable[[Json], Any]) -> Json:
            found: Json = await rome.until(NODES, "milan", None, holds)
            return found

        taint = {"key": "mine", "effect": "PreferNoSchedule"}
        labels = {"liqo.io/type": "other", "mine": "kept", "liqo.io/remote-cluster-id": None}
        edited = {"metadata": {"labels": labels}, "spec": {"taints": [taint]}}
        await rome.admin.patch(NODES, "milan", edited)
        keys = {"mine", "virtual-node.liqo.io/not-allowed"}

        def taints(one: Json) -> set[str]:
            return {each["key"] for each in one["spec"].get("taints", ())}

        await comes(lambda one: taints(one) == keys)
        found = await comes(lambda one: one["metadata"]["labels"]["liqo.io/type"] == "virtual-node")
        assert found["metadata"]["labels"]["mine"] == "kept"
        assert found["metadata"]["labels"]["liqo.io/remote-cluster-id"] == "milan"
        status = {"capacity": {"cpu": "999", "example.com/gpu": "1"}, "conditions": []}
        await rome.admin.patch(NODES, "milan", {"status": status}, subresource="status")
        await comes(lambda one: one["status"]["capacity"] == before["status"]["capacity"])
        await comes(is_ready)
        none = {"metadata": {"labels": {"mine": None}}, "spec": {"taints": None}}
        await rome.admin.patch(NODES, "milan", none)
        await comes(lambda one: taints(one) == keys - {"mine"})

        hard = {"spec": {"resourceQuota": {"hard": {"cpu": "999"}}}, "status": None}
        await rome.admin.patch(VIRTUAL_NODES, "milan", hard, AT_ROME)
        await rome.until(
            *(VIRTUAL_NODES, "milan", AT_ROME),
            lambda one: one["spec"]["resourceQuota"]["hard"]["cpu"] == "2",
        )
        await comes(lambda one: one["status"]["capacity"]["cpu"] == "2")
        await both_ready(rome)
        assert await uids(rome, SHOP) == pods, "none of it touched them"

        await rome.admin.delete(NODES, "milan")
        await another(rome, NODES, "milan", None, before["metadata"]["uid"])
        uid = (await rome.admin.get(VIRTUAL_NODES, "milan", AT_ROME))["metadata"]["uid"]
        await rome.admin.delete(VIRTUAL_NODES, "milan", AT_ROME)
        await another(rome, VIRTUAL_NODES, "milan", AT_ROME, uid)
        await comes(is_ready)
        await both_ready(rome)


async def test_maps_and_namespaces_are_put_right() -> None:
    async with open_shop("milan") as [rome, milan]:
        before = await uids(rome, SHOP)

        async def settles() -> None:
            """Wait until both pods are Ready, here and there."""
            await settled(rome, SHOP, 2)
            await eventually(
                lambda: uids(milan, THERE),
                lambda found: found.keys() == before.keys(),
                seconds=PATIENCE,
            )

        def mapped(one: Json) -> Any:
            return one.get("status", {}).get("currentMapping", {}).get(SHOP)

        def desired(one: Json) -> Any:
            return one.get("spec", {}).get("desiredMapping", {}).get(SHOP)

        without = {"spec": {"desiredMapping": {SHOP: None}}}
        await rome.admin.patch(NAMESPACE_MAPS, "milan", without, AT_ROME)
        await rome.until(NAMESPACE_MAPS, "milan", AT_ROME, lambda one: desired(one) == THERE)
        await settles()
        none = {"status": {"currentMapping": None}}
        await rome.admin.patch(NAMESPACE_MAPS, "milan", none, AT_ROME, subresource="status")
        await rome.until(NAMESPACE_MAPS, "milan", AT_ROME, mapped)
        await settles()
        renamed = {"spec": {"desiredMapping": {SHOP: "another"}}}
        await milan.admin.patch(NAMESPACE_MAPS, "milan", renamed, AT_MILAN)
        await milan.until(NAMESPACE_MAPS, "milan", AT_MILAN, lambda one: desired(one) == THERE)
        await settles()
        await milan.gone(NAMESPACES, "another")
        await milan.admin.delete(NAMESPACE_MAPS, "milan", AT_MILAN)
        await milan.until(NAMESPACE_MAPS, "milan", AT_MILAN, mapped)
        await settles()
        await rome.admin.delete(NAMESPACE_MAPS, "milan", AT_ROME)
        await rome.until(NAMESPACE_MAPS, "milan", AT_ROME, mapped)
        await settles()
        uid = (await milan.admin.get(NAMESPACES, THERE))["metadata"]["uid"]
        await milan.admin.delete(NAMESPACES, THERE)
        await another(milan, NAMESPACES, THERE, None, uid)
        await settles()
        assert await uids(rome, SHOP) == before


async def test_slices_and_quotas_are_put_right() -> None:
    async with open_shop("milan") as [rome, milan]:
        wrong = {"status": {"resources": {"cpu": "999"}, "conditions": []}}
        for member, tenant in ((rome, AT_ROME), (milan, AT_MILAN)):
            await member.admin.patch(
                *(RESOURCE_SLICES, "milan", wrong, tenant), subresource="status"
            )
            await member.until(
                *(RESOURCE_SLICES, "milan", tenant),
                lambda one: one["status"]["resources"]["cpu"] == "2",
            )
        more = {"spec": {"resources": {"cpu": "999"}}}

        def is_two(one: Json) -> bool:
            return bool(one["spec"]["resources"]["cpu"] == "2")

        await milan.admin.patch(RESOURCE_SLICES, "milan", more, AT_MILAN)
        await milan.until(RESOURCE_SLICES, "milan", AT_MILAN, is_two)
        quota = await milan.until(QUOTAS, USER, AT_MILAN, is_two)
        await milan.admin.delete(QUOTAS, USER, AT_MILAN)
        await another(milan, QUOTAS, USER, AT_MILAN, quota["metadata"]["uid"])
        assert is_two(await milan.admin.get(QUOTAS, USER, AT_MILAN))
        uid = (await milan.admin.get(RESOURCE_SLICES, "milan", AT_MILAN))["metadata"]["uid"]
        await milan.admin.delete(RESOURCE_SLICES, "milan", AT_MILAN)
        await another(milan, RESOURCE_SLICES, "milan", AT_MILAN, uid)
        await milan.until(
            *(RESOURCE_SLICES, "milan", AT_MILAN),
            lambda one: len(one.get("status", {}).get("conditions", ())) == 2,
        )
        await milan.until(QUOTAS, USER, AT_MILAN, bool)
        await both_ready(rome)
        name = "kubeconfig-resourceslice-milan"
        uid = (await rome.admin.get(SECRETS, name, AT_ROME))["metadata"]["uid"]
        await rome.admin.delete(SECRETS, name, AT_ROME)
        await another(rome, SECRETS, name, AT_ROME, uid)
        await rome.admin.create(PODS, pod("late"), SHOP)
        await settled(rome, SHOP, 3)
        assert "late" in await pods_of(milan, THERE)


async def test_an_offloading_is_put_right() -> None:
    async with open_shop("milan") as [rome, milan]:
        before = await uids(milan, THERE)

        async def comes(holds: Callable[[Json], Any]) -> None:
            await rome.until(NAMESPACE_OFFLOADINGS, "offloading", SHOP, holds)

        async def edit(change: Json, **more: Any) -> None:
            await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", change, SHOP, **more)

        status = {"remoteNamespaceName": "x", "offloadingPhase": "x"}
        await edit({"status": status}, subresource="status")
        await comes(lambda one: one["status"]["offloadingPhase"] == "Ready")
        await edit({"spec": {"namespaceMappingStrategy": "EnforceSameName"}})
        await comes(lambda one: "mapping is immutable" in str(one["status"]))
        marks = {"metadata": {"labels": {"liqo.io/scheduling-enabled": None}}}
        await rome.admin.patch(NAMESPACES, SHOP, marks)
        await rome.until(
            *(NAMESPACES, SHOP, None),
            lambda one: one["metadata"]["labels"].get("liqo.io/scheduling-enabled") == "true",
        )
        assert await uids(milan, THERE) == before
        # A finalizer that is taken off comes back, so that its mapping goes along with it.
        await edit({"metadata": {"finalizers": None}})
        await comes(lambda one: bool(one["metadata"].get("finalizers")))
        await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, SHOP)
        await settled(rome, SHOP, 0)  # these would find no node but milan's
        await rome.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", SHOP)
        await rome.until(
            *(NAMESPACE_MAPS, "milan", AT_ROME),
            lambda one: SHOP not in one.get("spec", {}).get("desiredMapping", {}),
        )
