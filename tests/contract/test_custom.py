"""Custom resources: served once defined, pruned, defaulted, validated, with their own status."""

import secrets

import pytest

from liqod.apimachinery.kinds import CUSTOM_RESOURCES, Kind
from liqod.errors import Forbidden, Invalid, NotFound
from tests.contract.api import MERGE, TABLE, Json, eventually

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "mode": {"type": "string", "enum": ["slow", "fast"], "default": "slow"},
        "title": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "title is fixed"}],
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "amount": {"x-kubernetes-int-or-string": True},
        "raw": {"type": "string", "format": "byte"},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "on": {"type": "boolean", "default": True},
                },
            },
        },
    },
}
STATUS = {
    "type": "object",
    "properties": {"phase": {"type": "string"}, "count": {"type": "integer"}},
}


def definition(kind, scope="Namespaced", subresource=True):
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    if subresource:
        version["subresources"] = {"status": {}}
    return {
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": scope,
            "names": {
                "kind": kind.name,
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": ["thg"],
            },
            "versions": [version],
        },
    }


async def _defined(api, subresource=True):
    kind = Kind(f"x{secrets.token_hex(4)}.liqod.io", "v1", "Thing", "things")
    manifest = definition(kind, subresource=subresource)
    await api.client.create(CUSTOM_RESOURCES, manifest)

    async def served():
        return (await api.call("GET", api.path(kind))).status == 200

    await eventually(served)
    return kind


@pytest.fixture
async def things(api):
    kind = await _defined(api)
    yield kind
    await api.client.delete(CUSTOM_RESOURCES, f"things.{kind.group}")


def thing(name="t", **spec: object):
    return {"metadata": {"name": name}, "spec": {"size": 1, **spec}}


async def test_definition_is_established(api, things):
    found = await api.client.get(CUSTOM_RESOURCES, f"things.{things.group}")
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert found["status"]["storedVersions"] == ["v1"]
    listed = (await api.call("GET", f"/apis/{things.group}/v1")).body["resources"]
    assert {"things", "things/status"} <= {each["name"] for each in listed}


async def test_defaults_and_pruning(api, things):
    obj = thing(unknown=1, free={"any": {"thing": 1}}, parts=[{"id": "a", "odd": 1}])
    made = await api.made(things, {**obj, "other": 1})
    assert made["spec"] == {
        "size": 1,
        "mode": "slow",
        "free": {"any": {"thing": 1}},
        "parts": [{"id": "a", "on": True}],
    }
    assert "other" not in made
    assert made["metadata"]["generation"] == 1
    listed = (await api.call("GET", api.path(things))).body
    assert listed["kind"] == "ThingList"
    assert listed["items"][0]["kind"] == "Thing"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"size": None}, "spec.size: Required value"),
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or"),
        ({"size": 10}, "should be less than or equal to 9"),
        ({"size": "1"}, 'spec.size in body must be of type integer: "string"'),
        ({"mode": "odd"}, 'spec.mode: Unsupported value: "odd": supported values: "slow", "fast"'),
        ({"parts": [{}]}, "spec.parts[0].id: Required value"),
        ({"labels": {"a": 1}}, "spec.labels.a in body must be of type string"),
    ],
)
async def test_validation(api, things, spec, said):
    answer = await api.create(things, thing(**spec))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message.startswith(f'Thing.{things.group} "t" is invalid: ')
    assert said in answer.message
    with pytest.raises(Invalid):
        await api.client.create(things, thing(**spec), api.namespace)


async def test_strict_fields(api, things):
    answer = await api.create(things, thing(odd=1), fieldValidation="Strict")
    assert answer.status == 400
    assert 'unknown field "spec.odd"' in answer.message


async def test_fixed_field(api, things):
    await api.made(things, thing(title="a"))
    answer = await api.call("PATCH", api.path(things, "t"), {"spec": {"title": "b"}}, content=MERGE)
    assert answer.status == 422
    assert "title is fixed" in answer.message


async def test_status_is_apart(api, things):
    made = await api.made(things, {**thing(), "status": {"phase": "Early"}})
    assert "status" not in made
    both: Json = {
        "spec": {"size": 2},
        "status": {"phase": "Late"},
        "metadata": {"labels": {"a": "b"}},
    }
    main = await api.call("PATCH", api.path(things, "t"), both, content=MERGE)
    assert "status" not in main.body
    assert main.body["spec"]["size"] == 2
    assert main.body["metadata"]["generation"] == 2
    both["spec"]["size"] = 3
    both["metadata"]["labels"] = {"c": "d"}
    sub = await api.call("PATCH", api.path(things, "t", "status"), both, content=MERGE)
    assert sub.body["status"] == {"phase": "Late"}
    assert sub.body["spec"]["size"] == 2
    assert sub.body["metadata"]["labels"] == {"a": "b"}
    assert sub.body["metadata"]["generation"] == 2
    replaced = {**sub.body, "status": {"count": 4}}
    put = await api.call("PUT", api.path(things, "t", "status"), replaced)
    assert put.body["status"] == {"count": 4}
    missing = await api.call("PATCH", api.path(things, "none", "status"), {}, content=MERGE)
    assert missing.status == 404


async def test_status_without_subresource(api):
    kind = await _defined(api, subresource=False)
    try:
        made = await api.made(kind, {**thing(), "status": {"phase": "Early"}})
        assert made["status"] == {"phase": "Early"}
        path = api.path(kind, "t")
        answer = await api.call("PATCH", path, {"status": {"phase": "Late"}}, content=MERGE)
        assert answer.body["metadata"]["generation"] == 2
        assert (await api.call("GET", api.path(kind, "t", "status"))).status == 404
    finally:
        await api.client.delete(CUSTOM_RESOURCES, f"things.{kind.group}")


async def test_replacing_needs_a_version(api, things):
    await api.made(things, thing())
    body = {"apiVersion": things.api_version, "kind": "Thing", **thing(size=2)}
    answer = await api.call("PUT", api.path(things, "t"), body)
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value" in answer.message
    assert "must be specified for an update" in answer.message


async def test_columns(api, things):
    await api.made(things, thing(size=4))
    table = (await api.call("GET", api.path(things), accept=TABLE)).body
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Size", "Age"]
    assert table["rows"][0]["cells"][:2] == ["t", 4]


async def test_definition_takes_its_objects_along(api):
    kind = await _defined(api)
    await api.made(kind, thing())
    await api.client.delete(CUSTOM_RESOURCES, f"things.{kind.group}")
    await api.gone(CUSTOM_RESOURCES, f"things.{kind.group}")

    async def unserved():
        return (await api.call("GET", api.path(kind))).status == 404

    await eventually(unserved)
    with pytest.raises(NotFound):
        await api.client.create(kind, thing(), api.namespace)


async def test_nothing_new_while_a_definition_goes(api):
    kind = await _defined(api)
    held = {**thing(), "metadata": {"name": "t", "finalizers": ["liqod.io/held"]}}
    await api.made(kind, held)
    await api.client.delete(CUSTOM_RESOURCES, f"things.{kind.group}")

    async def refused():
        answer = await api.create(kind, thing("u"), dryRun="All")
        return answer if answer.status == 403 else None

    answer = await eventually(refused)
    why = "create not allowed while custom resource definition is terminating"
    assert answer.reason == "Forbidden"
    assert answer.message == f'things.{kind.group} "u" is forbidden: {why}'
    with pytest.raises(Forbidden):
        await api.client.create(kind, thing("v"), api.namespace)
    assert (await api.call("GET", api.path(kind, "t"))).status == 200
    await api.client.patch(kind, "t", {"metadata": {"finalizers": None}}, api.namespace)
    await api.gone(CUSTOM_RESOURCES, f"things.{kind.group}")


async def test_definition_may_grow(api, things):
    name = f"things.{things.group}"
    found = await api.client.get(CUSTOM_RESOURCES, name)
    version = found["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"]["added"] = {"type": "string"}
    await api.client.patch(CUSTOM_RESOURCES, name, {"spec": {"versions": [version]}})

    async def kept():
        answer = await api.create(things, thing("u", added="x"), dryRun="All")
        return answer.body["spec"].get("added") == "x"

    await eventually(kept)


async def test_bad_definition(api):
    kind = Kind("bad.liqod.io", "v1", "Thing", "things")
    manifest = definition(kind)
    manifest["metadata"]["name"] = "wrong.bad.liqod.io"
    answer = await api.create(CUSTOM_RESOURCES, manifest)
    assert answer.status == 422
    assert "metadata.name: Invalid value" in answer.message
