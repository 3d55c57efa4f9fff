"""Server-side apply: what is owned, what is removed, what conflicts."""

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, LEASES, NAMESPACES, NODES, PODS, SERVICES
from liqod.errors import Conflict
from liqod.kube import leases
from tests.contract.api import APPLY


async def apply(api, kind, obj, manager="one", force="false", subresource="", **more):
    full = {"apiVersion": kind.api_version, "kind": kind.name, **obj}
    path = api.path(kind, obj["metadata"]["name"], subresource)
    return await api.call(
        "PATCH", path, full, content=APPLY, fieldManager=manager, force=force, **more
    )


def service(ports, **meta):
    return {
        "metadata": {"name": "s", **meta},
        "spec": {"selector": {"a": "b"}, "ports": ports},
    }


def ports_of(answer):
    return [(each["name"], each["port"]) for each in answer.body["spec"]["ports"]]


LONG_AGO = "2020-01-01T00:00:00.000000Z"
HTTP = {"name": "http", "port": 80}
TLS = {"name": "tls", "port": 443}


async def test_made_then_unchanged(api):
    first = await apply(api, SERVICES, service([HTTP]))
    assert first.status == 201
    entry = first.body["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"]) == ("one", "Apply")
    assert entry["fieldsType"] == "FieldsV1"
    assert 'k:{"port":80,"protocol":"TCP"}' in entry["fieldsV1"]["f:spec"]["f:ports"]
    again = await apply(api, SERVICES, service([HTTP]))
    assert again.status == 200
    assert again.body == first.body


async def test_what_is_no_longer_applied_goes(api):
    await apply(api, SERVICES, service([HTTP, TLS], labels={"a": "1", "b": "2"}))
    answer = await apply(api, SERVICES, service([TLS], labels={"b": "2"}))
    assert ports_of(answer) == [("tls", 443)]
    assert answer.body["metadata"]["labels"] == {"b": "2"}
    assert answer.body["spec"]["clusterIP"]
    bare = await apply(api, SERVICES, service([TLS]))
    assert "labels" not in bare.body["metadata"]


async def test_two_managers_share_a_list(api):
    await apply(api, SERVICES, service([HTTP]))
    both = await apply(api, SERVICES, service([TLS]), manager="two")
    assert ports_of(both) == [("http", 80), ("tls", 443)]
    less = await apply(api, SERVICES, {"metadata": {"name": "s"}}, manager="one")
    assert ports_of(less) == [("tls", 443)]
    assert less.body["spec"]["selector"] == {"a": "b"}


async def test_conflict_and_force(api):
    await apply(api, SERVICES, service([HTTP], labels={"x": "1"}))
    other = service([HTTP], labels={"x": "2"})
    answer = await apply(api, SERVICES, other, manager="two")
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Apply failed with 1 conflict: conflict with "one": .metadata.labels.x'
    )
    with pytest.raises(Conflict):
        await api.client.apply(SERVICES, other, api.namespace, manager="two", force=False)
    forced = await apply(api, SERVICES, other, manager="two", force="true")
    assert forced.body["metadata"]["labels"] == {"x": "2"}
    back = await apply(api, SERVICES, service([HTTP]), manager="one")
    assert back.body["metadata"]["labels"] == {"x": "2"}


async def test_same_value_is_shared(api):
    await apply(api, SERVICES, service([HTTP], labels={"x": "1"}))
    answer = await apply(api, SERVICES, service([HTTP], labels={"x": "1"}), manager="two")
    assert answer.status == 200
    kept = await apply(api, SERVICES, service([HTTP]), manager="one")
    assert kept.body["metadata"]["labels"] == {"x": "1"}


async def test_updates_take_over_what_they_change(api):
    await apply(api, SERVICES, service([HTTP], labels={"x": "1", "y": "1"}))
    await api.client.patch(SERVICES, "s", {"metadata": {"labels": {"x": "9"}}}, api.namespace)
    refused = await apply(api, SERVICES, service([HTTP], labels={"x": "1", "y": "1"}))
    assert refused.status == 409
    dropped = await apply(api, SERVICES, service([HTTP], labels={"y": "1"}))
    assert dropped.body["metadata"]["labels"] == {"x": "9", "y": "1"}


async def test_existing_object(api):
    await api.made(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}})
    same = await apply(api, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    assert same.status == 200
    other = {"metadata": {"name": "c"}, "data": {"b": "2"}}
    assert (await apply(api, CONFIG_MAPS, other)).status == 409
    forced = await apply(api, CONFIG_MAPS, other, force="true")
    assert forced.body["data"] == {"a": "1", "b": "2"}


async def test_labels_of_a_namespace_and_a_pod(api):
    space = {"metadata": {"name": api.namespace, "labels": {"mine": "yes"}}}
    answer = await apply(api, NAMESPACES, space)
    assert answer.body["metadata"]["labels"]["kubernetes.io/metadata.name"] == api.namespace
    assert answer.body["metadata"]["labels"]["mine"] == "yes"
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}
    await api.made(PODS, {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec})
    pod = {"metadata": {"name": "p", "labels": {"mine": "yes"}}}
    answer = await apply(api, PODS, pod)
    assert answer.body["metadata"]["labels"] == {"a": "b", "mine": "yes"}
    answer = await apply(api, PODS, {"metadata": {"name": "p"}})
    assert answer.body["metadata"]["labels"] == {"a": "b"}


async def test_status_of_a_node(api):
    name = f"node-{api.namespace}"
    taint = {"key": "mine", "value": "true", "effect": "NoExecute"}
    try:
        made = await apply(api, NODES, {"metadata": {"name": name}, "spec": {"taints": [taint]}})
        assert made.status == 201
        unready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        assert made.body["spec"]["taints"] == [taint, unready]
        ready = {"type": "Ready", "status": "True", "reason": "Good"}
        other = {"type": "Other", "status": "False", "reason": "Bad"}
        shown = {
            "metadata": {"name": name},
            "spec": {"unschedulable": True},
            "status": {"capacity": {"cpu": "4"}, "conditions": [ready, other]},
        }
        answer = await apply(api, NODES, shown, subresource="status")
        assert answer.status == 200, answer.body
        assert not answer.body["spec"].get("unschedulable")
        assert answer.body["status"]["capacity"] == {"cpu": "4"}
        shown["status"] = {"capacity": {"cpu": "4"}, "conditions": [ready]}
        answer = await apply(api, NODES, shown, subresource="status")
        assert [each["type"] for each in answer.body["status"]["conditions"]] == ["Ready"]
        again = await apply(api, NODES, {"metadata": {"name": name}, "spec": {"taints": [taint]}})
        assert taint in again.body["spec"]["taints"]
        assert again.body["status"]["capacity"] == {"cpu": "4"}
    finally:
        await api.client.delete(NODES, name)


async def test_needs_a_manager_and_the_right_name(api):
    path = api.path(SERVICES, "s")
    body = {"apiVersion": "v1", "kind": "Service", **service([HTTP])}
    answer = await api.call("PATCH", path, body, content=APPLY)
    assert answer.status in (400, 422)
    assert "fieldManager" in answer.message
    answer = await api.call("PATCH", api.path(SERVICES, "t"), body, content=APPLY, fieldManager="x")
    assert answer.status == 400


async def test_dry_run(api):
    answer = await apply(api, SERVICES, service([HTTP]), dryRun="All")
    assert answer.status == 201
    assert (await api.call("GET", api.path(SERVICES, "s"))).status == 404


async def test_a_lease_says_when_it_was_renewed_by_the_servers_own_clock(api):
    made = {"metadata": {"name": "daemon"}, "spec": {"holderIdentity": "a", "renewTime": LONG_AGO}}
    await api.client.create(LEASES, made, api.namespace)
    for number in range(2):
        await trio.sleep(2.1)
        old = await leases.look(api.client, "daemon", api.namespace)
        assert old is not None
        assert old.ago is not None
        assert 1.0 <= old.ago <= 30.0
        spec = {"renewTime": LONG_AGO.replace("00Z", f"0{number + 1}Z")}
        await api.client.patch(LEASES, "daemon", {"spec": spec}, api.namespace)
        new = await leases.look(api.client, "daemon", api.namespace)
        assert new is not None
        assert new.ago is not None
        assert new.ago < old.ago
