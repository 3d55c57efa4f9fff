"""Objects: created, read, replaced, patched; versions, generations, names, dry runs."""

import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, SECRETS, SERVICES
from liqod.errors import AlreadyExists, Conflict, Invalid, NotFound
from tests.contract.api import MERGE, OPERATIONS, STRATEGIC


def config(name="one", **more):
    return {"metadata": {"name": name}, "data": {"a": "1"}, **more}


async def test_server_fills_metadata(api):
    made = await api.made(CONFIG_MAPS, config())
    meta = made["metadata"]
    assert meta["namespace"] == api.namespace
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0
    assert "generation" not in meta
    assert made["apiVersion"] == "v1"
    assert made["kind"] == "ConfigMap"
    assert await api.get(CONFIG_MAPS, "one") == made


async def test_generated_names(api):
    names = set()
    for _ in range(3):
        made = await api.made(CONFIG_MAPS, {"metadata": {"generateName": "some-"}})
        names.add(made["metadata"]["name"])
        assert made["metadata"]["generateName"] == "some-"
    assert len(names) == 3
    assert all(len(name) == 10 and name.startswith("some-") for name in names)


async def test_exists_already(api):
    await api.made(CONFIG_MAPS, config())
    answer = await api.create(CONFIG_MAPS, config())
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "one" already exists'
    with pytest.raises(AlreadyExists):
        await api.client.create(CONFIG_MAPS, config(), api.namespace)


async def test_not_found(api):
    answer = await api.call("GET", api.path(DEPLOYMENTS, "none"))
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == 'deployments.apps "none" not found'
    assert answer.body["details"] == {"name": "none", "group": "apps", "kind": "deployments"}
    with pytest.raises(NotFound):
        await api.client.get(CONFIG_MAPS, "none", api.namespace)
    assert await api.client.find(CONFIG_MAPS, "none", api.namespace) is None


async def test_unknown_kind_and_path(api):
    for path in ("/apis/nobody.io/v1/things", "/api/v1/nothings", "/api/v2/pods"):
        assert (await api.call("GET", path)).status == 404


async def test_missing_namespace(api):
    path = CONFIG_MAPS.path("no-such-namespace")
    answer = await api.call("POST", path, {"metadata": {"name": "x"}})
    assert (answer.status, answer.message) == (404, 'namespaces "no-such-namespace" not found')
    listed = await api.call("GET", path)
    assert (listed.status, listed.body["items"]) == (200, [])


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        (CONFIG_MAPS, "Upper", "a lowercase RFC 1123 subdomain must consist of"),
        # Up to Kubernetes 1.35 a DNS-1035 label, from 1.36 an RFC 1123 label.
        (SERVICES, "Web", "label must consist of"),
        (NAMESPACES, "a_b", "a lowercase RFC 1123 label must consist of"),
        (NAMESPACES, "a.b", "must not contain dots"),
        (CONFIG_MAPS, "x" * 254, "must be no more than 253"),
    ],
)
async def test_bad_names(api, kind, name, said):
    obj = {"metadata": {"name": name}}
    if kind is SERVICES:
        obj["spec"] = {"ports": [{"port": 80}]}
    answer = await api.create(kind, obj)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert said in answer.message
    assert "metadata.name: Invalid value:" in answer.message


async def test_no_name(api):
    answer = await api.create(CONFIG_MAPS, {"metadata": {}})
    assert answer.status == 422
    assert "name or generateName is required" in answer.message


async def test_other_kind_or_namespace_in_body(api):
    wrong = await api.call(
        "POST", api.path(CONFIG_MAPS), {"apiVersion": "v1", "kind": "Secret", "metadata": {}}
    )
    assert (wrong.status, wrong.reason) == (400, "BadRequest")
    elsewhere = await api.create(CONFIG_MAPS, {"metadata": {"name": "x", "namespace": "default"}})
    assert elsewhere.status == 400
    assert "does not match the namespace" in elsewhere.message


async def test_body_that_is_no_object(api):
    bodies: list[object] = [[], "text", 3]
    for body in bodies:
        answer = await api.call("POST", api.path(CONFIG_MAPS), body)
        assert answer.status == 400, body


async def test_replace_needs_the_newest_version(api):
    made = await api.made(CONFIG_MAPS, config())
    newer = await api.call("PUT", api.path(CONFIG_MAPS, "one"), {**made, "data": {"a": "2"}})
    assert newer.status == 200
    assert newer.body["metadata"]["uid"] == made["metadata"]["uid"]
    assert newer.body["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    stale = await api.call("PUT", api.path(CONFIG_MAPS, "one"), {**made, "data": {"a": "3"}})
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert stale.message == (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; please'
        " apply your changes to the latest version and try again"
    )
    with pytest.raises(Conflict):
        await api.client.update(CONFIG_MAPS, {**made, "data": {"a": "3"}}, api.namespace)


async def test_replace_without_a_version(api):
    await api.made(CONFIG_MAPS, config())
    answer = await api.call("PUT", api.path(CONFIG_MAPS, "one"), config(data={"b": "2"}))
    assert (answer.status, answer.body["data"]) == (200, {"b": "2"})


async def test_replace_another_object(api):
    made = await api.made(CONFIG_MAPS, config())
    other = {**made, "metadata": {**made["metadata"], "uid": "0" * 8 + made["metadata"]["uid"][8:]}}
    answer = await api.call("PUT", api.path(CONFIG_MAPS, "one"), other)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in answer.message
    renamed = {**made, "metadata": {**made["metadata"], "name": "two"}}
    answer = await api.call("PUT", api.path(CONFIG_MAPS, "one"), renamed)
    assert answer.status == 400
    assert "does not match the name on the URL" in answer.message
    absent = await api.call("PUT", api.path(CONFIG_MAPS, "none"), config("none"))
    assert absent.status == 404


async def test_what_changes_nothing_is_not_written(api):
    made = await api.made(CONFIG_MAPS, config())
    again = await api.call("PUT", api.path(CONFIG_MAPS, "one"), made)
    assert again.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    patched = await api.client.patch(CONFIG_MAPS, "one", {"data": {"a": "1"}}, api.namespace)
    assert patched.metadata.resource_version == made["metadata"]["resourceVersion"]


async def test_merge_patch(api):
    await api.made(CONFIG_MAPS, config(data={"a": "1", "b": "2"}))
    patch = {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"x": "y"}}}
    answer = await api.call("PATCH", api.path(CONFIG_MAPS, "one"), patch, content=MERGE)
    assert answer.status == 200
    assert answer.body["data"] == {"b": "2", "c": "3"}
    assert answer.body["metadata"]["labels"] == {"x": "y"}


async def test_merge_patch_with_version(api):
    made = await api.made(CONFIG_MAPS, config())
    patch = {
        "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
        "data": {"a": "2"},
    }
    assert (
        await api.call("PATCH", api.path(CONFIG_MAPS, "one"), patch, content=MERGE)
    ).status == 200
    patch["data"] = {"a": "3"}
    answer = await api.call("PATCH", api.path(CONFIG_MAPS, "one"), patch, content=MERGE)
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_merge_patch_with_uid_of_another(api):
    await api.made(CONFIG_MAPS, config())
    with pytest.raises(Invalid, match=r"metadata\.uid: .*: field is immutable"):
        await api.client.patch(
            CONFIG_MAPS, "one", {"metadata": {"uid": "not-this-one"}}, api.namespace
        )
    with pytest.raises(NotFound):
        await api.client.patch(CONFIG_MAPS, "none", {"data": {}}, api.namespace)


async def test_json_patch(api):
    await api.made(CONFIG_MAPS, config())
    path = api.path(CONFIG_MAPS, "one")
    good = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
    ]
    answer = await api.call("PATCH", path, good, content=OPERATIONS)
    assert answer.status == 200, answer.body
    assert answer.body["data"] == {"a": "2"}
    assert answer.body["metadata"]["labels"] == {"a/b": "c"}
    bad = [{"op": "test", "path": "/data/a", "value": "1"}]
    assert (await api.call("PATCH", path, bad, content=OPERATIONS)).status == 422
    missing = [{"op": "remove", "path": "/data/none"}]
    assert (await api.call("PATCH", path, missing, content=OPERATIONS)).status == 422


async def test_strategic_merge_patch(api):
    await api.made(
        PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    )
    patch = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
    answer = await api.call("PATCH", api.path(PODS, "p"), patch, content=STRATEGIC)
    assert answer.status == 200, answer.body
    assert [each["image"] for each in answer.body["spec"]["containers"]] == ["i:2"]
    assert answer.body["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


async def test_strategic_merge_orders_what_it_merges(api):
    env = [{"name": each, "value": "1"} for each in "ABCD"]
    spec = {"containers": [{"name": "c", "image": "i:1", "env": env}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    made = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.made(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": made})
    order = [{"name": each} for each in "EDA"]
    fresh = {"name": "E", "value": "1"}
    changed = {"name": "c", "env": [fresh, {"name": "D"}], "$setElementOrder/env": order}
    strategy = {"type": "Recreate", "$retainKeys": ["type"]}
    patch = {"spec": {"strategy": strategy, "template": {"spec": {"containers": [changed]}}}}
    answer = await api.call("PATCH", api.path(DEPLOYMENTS, "d"), patch, content=STRATEGIC)
    assert answer.status == 200, answer.body
    [container] = answer.body["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in container["env"]] == list("EBCDA")
    assert answer.body["spec"]["strategy"] == {"type": "Recreate"}


async def test_other_patches_are_refused(api):
    await api.made(CONFIG_MAPS, config())
    answer = await api.call("PATCH", api.path(CONFIG_MAPS, "one"), {}, content="application/json")
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


async def test_dry_run_changes_nothing(api):
    answer = await api.create(CONFIG_MAPS, config(), dryRun="All")
    assert answer.status == 201
    assert answer.body["metadata"]["uid"]
    assert (await api.call("GET", api.path(CONFIG_MAPS, "one"))).status == 404
    made = await api.made(CONFIG_MAPS, config())
    patched = await api.call(
        "PATCH", api.path(CONFIG_MAPS, "one"), {"data": {"a": "9"}}, content=MERGE, dryRun="All"
    )
    assert patched.body["data"] == {"a": "9"}
    assert (await api.call("DELETE", api.path(CONFIG_MAPS, "one"), dryRun="All")).status == 200
    assert await api.get(CONFIG_MAPS, "one") == made
    assert (await api.create(CONFIG_MAPS, config("x"), dryRun="Some")).status in (400, 422)


async def test_bad_labels(api):
    answer = await api.create(CONFIG_MAPS, {"metadata": {"name": "x", "labels": {"a": "b c"}}})
    assert answer.status == 422
    assert "metadata.labels: Invalid value" in answer.message
    with pytest.raises(Invalid):
        await api.client.create(
            CONFIG_MAPS, {"metadata": {"name": "x", "labels": {"a": "x" * 64}}}, api.namespace
        )


async def test_secrets(api):
    made = await api.made(
        SECRETS, {"metadata": {"name": "s"}, "stringData": {"k": "v"}, "data": {"b": "YQ=="}}
    )
    assert made["type"] == "Opaque"
    assert made["data"] == {"k": "dg==", "b": "YQ=="}
    assert "stringData" not in made
    changed = await api.call("PATCH", api.path(SECRETS, "s"), {"type": "other"}, content=MERGE)
    assert changed.status == 422
    assert "type: Invalid value" in changed.message
    assert "field is immutable" in changed.message
    bad = await api.create(SECRETS, {"metadata": {"name": "t"}, "data": {"k": "%%%"}})
    assert bad.status in (400, 422)


async def test_immutable_config(api):
    await api.made(CONFIG_MAPS, config(immutable=True))
    answer = await api.call(
        "PATCH", api.path(CONFIG_MAPS, "one"), {"data": {"a": "2"}}, content=MERGE
    )
    assert answer.status == 422
    assert "field is immutable when `immutable` is set" in answer.message
    labelled = await api.client.patch(
        CONFIG_MAPS, "one", {"metadata": {"labels": {"a": "b"}}}, api.namespace
    )
    assert labelled.metadata.labels == {"a": "b"}


async def test_generation_counts_the_desired_state(api):
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = await api.made(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    assert made["metadata"]["generation"] == 1

    async def patch(body, subresource=""):
        answer = await api.call(
            "PATCH", api.path(DEPLOYMENTS, "d", subresource), body, content=MERGE
        )
        assert answer.status == 200, answer.body
        return answer.body["metadata"]["generation"]

    assert await patch({"metadata": {"labels": {"x": "y"}}}) == 1
    assert await patch({"spec": {"minReadySeconds": 3}}) == 2
    assert await patch({"spec": {"minReadySeconds": 4}}, "status") == 2


async def test_writes_answer_metadata_when_asked(api):
    partial = await api.client.create(CONFIG_MAPS, config(), api.namespace)
    assert partial.metadata.name == "one"
    assert partial.kind in ("PartialObjectMetadata", "ConfigMap")
