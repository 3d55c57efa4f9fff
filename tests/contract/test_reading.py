"""Lists: selectors, pages, metadata only, tables; and what is discovered."""

import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS, SECRETS
from liqod.kube.selection import Selection
from tests.contract.api import MERGE, PARTIAL, PARTIAL_LIST, TABLE


@pytest.fixture
async def three(api):
    for name, labels in (("a", {"k": "1"}), ("b", {"k": "2", "x": ""}), ("c", {})):
        await api.made(
            CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}, "data": {"d": name}}
        )
    return api


async def names(api, **query):
    answer = await api.call("GET", api.path(CONFIG_MAPS), **query)
    assert answer.status == 200, answer.body
    found = [each["metadata"]["name"] for each in answer.body["items"]]
    return [name for name in found if name != "kube-root-ca.crt"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("k", ["a", "b"]),
        ("!k", ["c"]),
        ("k=1", ["a"]),
        ("k==1", ["a"]),
        ("k!=1", ["b", "c"]),
        ("k in (1,2)", ["a", "b"]),
        ("k notin (1)", ["b", "c"]),
        ("k,x", ["b"]),
        ("k=1,x=", []),
        ("x=", ["b"]),
        ("k>1", ["b"]),
    ],
)
async def test_label_selectors(three, selector, found):
    assert await names(three, labelSelector=selector) == found


async def test_field_selectors(three):
    assert await names(three, fieldSelector="metadata.name=b") == ["b"]
    assert await names(three, fieldSelector="metadata.name!=b") == ["a", "c"]
    assert await names(three, fieldSelector=f"metadata.namespace={three.namespace}") == list("abc")
    answer = await three.call("GET", three.path(CONFIG_MAPS), fieldSelector="spec.nope=1")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    answer = await three.call("GET", three.path(CONFIG_MAPS), labelSelector="a b")
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_pods_by_node_and_phase(api):
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": {**spec, "nodeName": "nowhere"}})
    await api.made(PODS, {"metadata": {"name": "q"}, "spec": {**spec, "schedulerName": "none"}})

    async def found(selector):
        return [
            p["metadata"]["name"]
            for p in await api.client.list(PODS, Selection(api.namespace, fields=selector))
        ]

    assert await found("spec.nodeName=nowhere") == ["p"]
    assert await found("spec.nodeName=") == ["q"]
    assert await found("status.phase=Pending") == ["p", "q"]
    assert await found("spec.nodeName=,status.phase!=Pending") == []


async def test_pages(api):
    for number in range(7):
        await api.made(SECRETS, {"metadata": {"name": f"s{number}"}})
    seen, token, remaining = [], "", []
    while True:
        more = {"continue": token} if token else {}
        answer = await api.call("GET", api.path(SECRETS), limit="3", **more)
        seen += [each["metadata"]["name"] for each in answer.body["items"]]
        remaining.append(answer.body["metadata"].get("remainingItemCount"))
        token = answer.body["metadata"].get("continue", "")
        if not token:
            break
    assert seen == [f"s{number}" for number in range(7)]
    assert remaining == [4, 1, None]
    assert len(await api.client.list(SECRETS, Selection(api.namespace), limit=2)) == 7
    bad = await api.call("GET", api.path(SECRETS), **{"continue": "nonsense"})
    assert bad.status == 400


async def test_list_shape(three):
    answer = await three.call("GET", three.path(CONFIG_MAPS), labelSelector="k=1")
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(answer.body["metadata"]["resourceVersion"]) > 0
    assert "kind" not in answer.body["items"][0]
    everywhere = await three.call("GET", CONFIG_MAPS.path(), labelSelector="k=1")
    assert three.namespace in [each["metadata"]["namespace"] for each in everywhere.body["items"]]


async def test_metadata_only(three):
    one = await three.call("GET", three.path(CONFIG_MAPS, "a"), accept=PARTIAL)
    assert (one.body["kind"], one.body["apiVersion"]) == (
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
    )
    assert one.body["metadata"]["name"] == "a"
    assert "data" not in one.body
    many = await three.call("GET", three.path(CONFIG_MAPS), accept=PARTIAL_LIST, labelSelector="k")
    assert many.body["kind"] == "PartialObjectMetadataList"
    assert [each["metadata"]["name"] for each in many.body["items"]] == ["a", "b"]
    assert all("data" not in each for each in many.body["items"])


async def test_table(three):
    answer = await three.call("GET", three.path(CONFIG_MAPS), accept=TABLE, labelSelector="k=1")
    assert answer.body["kind"] == "Table"
    assert [each["name"] for each in answer.body["columnDefinitions"]] == ["Name", "Data", "Age"]
    row = answer.body["rows"][0]
    assert [str(cell) for cell in row["cells"]][:2] == ["a", "1"]
    assert row["object"]["kind"] == "PartialObjectMetadata"


async def test_unknown_accept(three):
    answer = await three.call("GET", three.path(CONFIG_MAPS, "a"), accept="text/html")
    assert answer.status == 406


async def test_health_and_version(api):
    for path in ("/livez", "/readyz", "/healthz"):
        answer = await api.call("GET", path)
        assert (answer.status, answer.body) == (200, "ok")
    version = (await api.call("GET", "/version")).body
    assert version["major"] == "1"
    assert version["gitVersion"].startswith("v1.")


async def test_requests_are_counted_by_verb_and_resource(api, three):
    async def served() -> dict[str, int]:
        text = (await api.call("GET", "/metrics", accept="*/*")).body
        found: dict[str, int] = {}
        for line in text.splitlines():
            if line.startswith("apiserver_request_total{") and 'resource="configmaps"' in line:
                verb = line.partition('verb="')[2].partition('"')[0]
                found[verb] = found.get(verb, 0) + int(float(line.rsplit(" ", 1)[1]))
        return found

    before = await served()
    for name in ("a", "b"):
        await three.call("GET", three.path(CONFIG_MAPS, name))
    patch = {"data": {"more": "1"}}
    await three.call("PATCH", three.path(CONFIG_MAPS, "a"), patch, content=MERGE)
    after = await served()
    assert after["GET"] - before.get("GET", 0) >= 2
    assert after["PATCH"] - before.get("PATCH", 0) >= 1


async def test_discovery(api):
    groups = (await api.call("GET", "/apis")).body
    assert groups["kind"] == "APIGroupList"
    apps = next(each for each in groups["groups"] if each["name"] == "apps")
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert "v1" in (await api.call("GET", "/api")).body["versions"]
    core = (await api.call("GET", "/api/v1")).body["resources"]
    found = {each["name"]: each for each in core}
    assert found["pods"]["namespaced"]
    assert not found["nodes"]["namespaced"]
    assert found["pods"]["shortNames"] == ["po"]
    assert {"get", "list", "watch", "create"} <= set(found["pods"]["verbs"])
    assert {"pods/status", "pods/log", "pods/binding", "pods/eviction"} <= set(found)
    assert (await api.call("GET", "/apis/apps/v1")).body["groupVersion"] == "apps/v1"


async def test_namespaces_have_what_pods_need(api):
    space = await api.get(NAMESPACES, api.namespace)
    assert space["metadata"]["labels"]["kubernetes.io/metadata.name"] == api.namespace
    assert space["spec"]["finalizers"] == ["kubernetes"]
    assert space["status"]["phase"] == "Active"
    root = await api.client.get(CONFIG_MAPS, "kube-root-ca.crt", api.namespace)
    assert "BEGIN CERTIFICATE" in root["data"]["ca.crt"]
    assert await api.client.find(NAMESPACES, "kube-system")
    assert (await api.call("GET", NODES.path())).body["kind"] == "NodeList"
