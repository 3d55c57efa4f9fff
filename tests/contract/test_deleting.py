"""Deletion: preconditions, finalizers, owners, grace, whole namespaces."""

import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS
from liqod.errors import Conflict
from liqod.kube.selection import Selection
from tests.contract.api import MERGE, eventually

POD = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}


async def remove(api, kind, name, body=None, **query):
    return await api.call("DELETE", api.path(kind, name), body, **query)


def options(**more):
    return {"apiVersion": "v1", "kind": "DeleteOptions", **more}


async def test_deleted_at_once(api):
    made = await api.made(CONFIG_MAPS, {"metadata": {"name": "a"}})
    answer = await remove(api, CONFIG_MAPS, "a")
    assert answer.status == 200
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    assert answer.body["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": made["metadata"]["uid"],
    }
    assert (await remove(api, CONFIG_MAPS, "a")).status == 404
    assert await api.client.delete(CONFIG_MAPS, "a", api.namespace) is False


async def test_preconditions(api):
    made = await api.made(CONFIG_MAPS, {"metadata": {"name": "a"}})
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    wrong = await remove(api, CONFIG_MAPS, "a", options(preconditions={"uid": "other"}))
    assert (wrong.status, wrong.reason) == (409, "Conflict")
    assert wrong.message == (
        f'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does'
        f" not match the UID in record ({uid}). The object might have been deleted and then"
        " recreated"
    )
    stale = options(preconditions={"resourceVersion": "1"})
    assert (await remove(api, CONFIG_MAPS, "a", stale)).status == 409
    with pytest.raises(Conflict):
        await api.client.delete(CONFIG_MAPS, "a", api.namespace, uid="other")
    right = options(preconditions={"uid": uid, "resourceVersion": version})
    assert (await remove(api, CONFIG_MAPS, "a", right)).status == 200


async def test_finalizers_hold(api):
    await api.made(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["liqod.io/test"]}})
    answer = await remove(api, CONFIG_MAPS, "a")
    assert answer.status == 200
    meta = answer.body["metadata"]
    assert meta["deletionTimestamp"].endswith("Z")
    assert meta["deletionGracePeriodSeconds"] == 0
    assert (await api.create(CONFIG_MAPS, {"metadata": {"name": "a"}})).status == 409
    again = await remove(api, CONFIG_MAPS, "a")
    assert again.status == 200
    added = {"metadata": {"finalizers": ["liqod.io/test", "liqod.io/more"]}}
    refused = await api.call("PATCH", api.path(CONFIG_MAPS, "a"), added, content=MERGE)
    assert refused.status == 422
    assert "no new finalizers can be added if the object is being deleted" in refused.message
    changed = await api.client.patch(CONFIG_MAPS, "a", {"data": {"x": "y"}}, api.namespace)
    assert changed.metadata.deletion_timestamp
    freed = {"metadata": {"finalizers": None}}
    answer = await api.call("PATCH", api.path(CONFIG_MAPS, "a"), freed, content=MERGE)
    assert answer.status == 200
    assert (await api.call("GET", api.path(CONFIG_MAPS, "a"))).status == 404


async def test_collection(api):
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {})):
        await api.made(SECRETS, {"metadata": {"name": name, "labels": labels}})
    answer = await api.call("DELETE", api.path(SECRETS), labelSelector="x=1")
    assert answer.status == 200
    left = await api.client.list(SECRETS, Selection(api.namespace))
    assert [each["metadata"]["name"] for each in left] == ["c"]


def owned(owner, name, **more):
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


async def test_dependents_follow_their_owner(api):
    owner = await api.made(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    child = await api.made(CONFIG_MAPS, owned(owner, "child"))
    await api.made(SECRETS, owned(child, "grandchild"))
    await remove(api, CONFIG_MAPS, "owner")
    await api.gone(CONFIG_MAPS, "child")
    await api.gone(SECRETS, "grandchild")


async def test_owner_that_is_not_there(api):
    owner = await api.made(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    await remove(api, CONFIG_MAPS, "owner")
    await api.made(CONFIG_MAPS, owned(owner, "child"))
    await api.gone(CONFIG_MAPS, "child")


async def test_one_of_two_owners(api):
    first = await api.made(CONFIG_MAPS, {"metadata": {"name": "first"}})
    second = await api.made(CONFIG_MAPS, {"metadata": {"name": "second"}})
    child = owned(first, "child")
    child["metadata"]["ownerReferences"] += owned(second, "x")["metadata"]["ownerReferences"]
    await api.made(CONFIG_MAPS, child)
    await remove(api, CONFIG_MAPS, "first")

    async def owners():
        found = await api.get(CONFIG_MAPS, "child")
        names = [each["name"] for each in found["metadata"]["ownerReferences"]]
        return names == ["second"]

    await eventually(owners)


async def test_foreground(api):
    owner = await api.made(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    child = owned(owner, "child", blockOwnerDeletion=True)
    child["metadata"]["finalizers"] = ["liqod.io/test"]
    await api.made(CONFIG_MAPS, child)
    answer = await remove(api, CONFIG_MAPS, "owner", propagationPolicy="Foreground")
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def child_goes():
        found = await api.get(CONFIG_MAPS, "child")
        return found["metadata"].get("deletionTimestamp")

    await eventually(child_goes)
    assert (await api.get(CONFIG_MAPS, "owner"))["metadata"]["deletionTimestamp"]
    patch = {"metadata": {"finalizers": None}}
    await api.client.patch(CONFIG_MAPS, "child", patch, api.namespace)
    await api.gone(CONFIG_MAPS, "owner")


async def test_orphans(api):
    owner = await api.made(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    await api.made(CONFIG_MAPS, owned(owner, "child"))
    await remove(api, CONFIG_MAPS, "owner", propagationPolicy="Orphan")
    await api.gone(CONFIG_MAPS, "owner")
    child = await api.get(CONFIG_MAPS, "child")
    assert "ownerReferences" not in child["metadata"]


async def test_pods_that_run_nowhere_go_at_once(api):
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": POD})
    answer = await remove(api, PODS, "p")
    assert (answer.status, answer.body["kind"]) == (200, "Pod")
    assert (await api.call("GET", api.path(PODS, "p"))).status == 404


async def test_pods_have_their_grace(api):
    spec = {**POD, "nodeName": "elsewhere", "terminationGracePeriodSeconds": 77}
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": spec})
    answer = await remove(api, PODS, "p")
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 77
    assert answer.body["metadata"]["generation"] == 2
    shorter = await remove(api, PODS, "p", options(gracePeriodSeconds=5))
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await remove(api, PODS, "p", options(gracePeriodSeconds=50))
    assert longer.body["metadata"]["deletionGracePeriodSeconds"] == 5
    uid = answer.body["metadata"]["uid"]
    assert await api.client.delete(PODS, "p", api.namespace, uid=uid, grace=0)
    assert (await api.call("GET", api.path(PODS, "p"))).status == 404


async def test_namespaces_are_emptied(api):
    name = f"{api.namespace}-x"
    await api.client.create(NAMESPACES, {"metadata": {"name": name}})
    await eventually(lambda: api.client.find(SERVICE_ACCOUNTS, "default", name))
    held = {"metadata": {"name": "held", "finalizers": ["liqod.io/test"]}}
    await api.client.create(CONFIG_MAPS, held, name)
    await api.client.create(PODS, {"metadata": {"name": "p"}, "spec": POD}, name)
    answer = await api.call("DELETE", NAMESPACES.path(None, name))
    assert answer.status == 200
    assert answer.body["status"]["phase"] == "Terminating"
    refused = await api.call("POST", SECRETS.path(name), {"metadata": {"name": "s"}})
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert (
        f"unable to create new content in namespace {name} because it is being terminated"
        in refused.message
    )

    async def emptied():
        return not await api.client.list(PODS, Selection(name))

    await eventually(emptied)
    assert (await api.call("GET", NAMESPACES.path(None, name))).status == 200
    await api.client.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, name)
    await api.gone(NAMESPACES, name)
    assert (await api.call("GET", CONFIG_MAPS.path(name, "held"))).status == 404
