"""Attacks of a tenant of a borrowing cluster on another tenant, with a name it chose."""

import pytest

from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.resources import NAMESPACE_MAPS, NAMESPACE_OFFLOADINGS
from tests.simulated.borrower import Json, eventually, offload
from tests.simulated.members import Member, members

CHOSEN = {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": "market"}
AT_ROME, AT_MILAN = "liqo-tenant-milan", "liqo-tenant-rome"


def reason(found: Json) -> str:
    """Why the offloading is, or is not, ready at milan."""
    told = found.get("status", {}).get("remoteNamespacesConditions", {}).get("milan", ())
    return next((each["reason"] for each in told if each["type"] == "Ready"), "")


async def ready(rome: Member, namespace: str, why: str) -> Json:
    def ask(found: Json) -> bool:
        return reason(found) == why

    found: Json = await rome.until(NAMESPACE_OFFLOADINGS, "offloading", namespace, ask)
    return found


async def another(milan: Member, uid: str) -> Json:
    """The namespace market, once it is another one than that."""

    def ask(found: Json) -> bool:
        return bool(found["metadata"]["uid"] != uid)

    found: Json = await milan.until(NAMESPACES, "market", None, ask)
    return found


@pytest.mark.long
async def test_nobody_inherits_a_namespace_with_its_name() -> None:
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "first", **CHOSEN)
        await ready(rome, "first", "NamespaceCreated")
        firsts = await milan.admin.get(NAMESPACES, "market")
        here = await rome.admin.get(NAMESPACES, "first")
        assert firsts["metadata"]["annotations"]["liqod.io/local-uid"] == here["metadata"]["uid"]
        await milan.admin.create(SECRETS, {"metadata": {"name": "db-password"}}, "market")

        await milan.stop()  # for an upgrade, say
        await rome.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", "first")
        await rome.gone(NAMESPACE_OFFLOADINGS, "offloading", "first")
        await offload(rome.admin, "second", **CHOSEN)
        await ready(rome, "second", "FormerNamespaceRemains")
        asked = await rome.admin.get(NAMESPACE_MAPS, "milan", AT_ROME)
        assert not asked["spec"].get("desiredMapping")
        # And where nobody asks: neither a later name nor the same one gets what is there.
        step = {"spec": {"desiredMapping": {"second": "market"}}}
        await rome.stop()
        await milan.admin.patch(NAMESPACE_MAPS, "milan", step, AT_MILAN)
        await milan.start()
        seconds = await another(milan, firsts["metadata"]["uid"])
        assert seconds["metadata"]["annotations"]["liqo.io/original-name"] == "second"
        await rome.start()
        await ready(rome, "second", "NamespaceCreated")
        assert await milan.admin.find(SECRETS, "db-password", "market") is None


@pytest.mark.long
async def test_one_that_was_made_again_inherits_nothing_and_what_is_not_noted_is_adopted() -> None:
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "first", **CHOSEN)
        await ready(rome, "first", "NamespaceCreated")
        made = await milan.admin.get(NAMESPACES, "market")
        local = (await rome.admin.get(NAMESPACES, "first"))["metadata"]["uid"]
        # As an older daemon has left it.
        bare = {"metadata": {"annotations": {"liqod.io/local-uid": None}}}
        await milan.admin.patch(NAMESPACES, "market", bare)

        def noted(found: Json) -> bool:
            return bool(found["metadata"]["annotations"].get("liqod.io/local-uid") == local)

        kept = await milan.until(NAMESPACES, "market", None, noted)
        assert kept["metadata"]["uid"] == made["metadata"]["uid"]

        # Somebody takes the finalizer off, so that nothing at milan ends meanwhile.
        await rome.stop()
        free = {"metadata": {"finalizers": None}}
        await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", free, "first")
        await rome.admin.delete(NAMESPACES, "first")
        await rome.gone(NAMESPACES, "first")
        await offload(rome.admin, "first", **CHOSEN)
        await rome.start()
        again = await another(milan, made["metadata"]["uid"])
        here = await rome.admin.get(NAMESPACES, "first")
        assert again["metadata"]["annotations"]["liqod.io/local-uid"] == here["metadata"]["uid"]
        await ready(rome, "first", "NamespaceCreated")


@pytest.mark.long
async def test_another_s_default_name_cannot_be_chosen() -> None:
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        squat = CHOSEN | {"remoteNamespaceName": "payroll-rome"}
        await offload(rome.admin, "squatter", **squat)
        await ready(rome, "squatter", "NameReserved")
        await offload(rome.admin, "payroll")
        await ready(rome, "payroll", "NamespaceCreated")
        found = await milan.admin.get(NAMESPACES, "payroll-rome")
        assert found["metadata"]["annotations"]["liqo.io/original-name"] == "payroll"

        async def told() -> bool:
            asked = await rome.admin.get(NAMESPACE_MAPS, "milan", AT_ROME)
            return dict(asked["spec"]["desiredMapping"]) == {"payroll": "payroll-rome"}

        await eventually(told)
