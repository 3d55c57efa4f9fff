"""The CRDs: fresh, exactly Liqo's where they cross clusters, and never less than a live one."""

import copy
from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.resources import CRD_REVISION, DEFINITIONS, REPLICATED
from liqod.resources.__main__ import FOLDER
from liqod.resources.crdmanifests import crd_manifests, file_name, make_crd, merge_crd, render_crd

BY_KIND = {crd["spec"]["names"]["kind"]: crd for crd in crd_manifests()}
AUTH = {
    f"authParams{tail}"
    for tail in (
        "",
        ".ca",
        ".signedCRT",
        ".apiServer",
        ".proxyURL",
        ".awsConfig",
        ".awsConfig.awsAccessKeyID",
        ".awsConfig.awsSecretAccessKey",
        ".awsConfig.awsRegion",
        ".awsConfig.awsClusterName",
        ".awsConfig.awsUserArn",
    )
}
# Every field and every default of the kinds that cross clusters, from Liqo's CRDs at v1.2.
FIELDS = {
    "ResourceSlice": {
        "spec": {
            "spec",
            *("class", "consumerClusterID", "providerClusterID", "csr", "resources", "resources{}"),
        },
        "status": {
            "status",
            *AUTH,
            *("conditions", "conditions[]", "conditions[].type", "conditions[].status"),
            *("conditions[].reason", "conditions[].message", "conditions[].lastTransitionTime"),
            *("resources", "resources{}", "nodeLabels", "nodeLabels{}"),
            *("nodeSelector", "nodeSelector{}"),
            *("storageClasses", "storageClasses[]", "storageClasses[].default"),
            *("storageClasses[].storageClassName", "ingressClasses", "ingressClasses[]"),
            *("ingressClasses[].default", "ingressClasses[].ingressClassName"),
            *("loadBalancerClasses", "loadBalancerClasses[]", "loadBalancerClasses[].default"),
            "loadBalancerClasses[].loadBalancerClassName",
        },
    },
    "NamespaceMap": {
        "spec": {"spec", "desiredMapping", "desiredMapping{}"},
        "status": {
            "status",
            *("currentMapping", "currentMapping{}"),
            *("currentMapping{}.phase", "currentMapping{}.remoteNamespace"),
        },
    },
    "Renew": {
        "spec": {
            "spec",
            *("consumerClusterID", "identityType", "csr", "publicKey"),
            *("resourceSliceRef", "resourceSliceRef.name"),
        },
        "status": {"status", *AUTH},
    },
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "ResourceSlice": {},
    "NamespaceMap": {},
    "Renew": {"resourceSliceRef.name": ""},
}


def schema_of(crd: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def flat(schema: dict[str, Any], path: str) -> dict[str, dict[str, Any]]:
    """Every place of a schema by its path below spec or status."""
    places = {path: schema}
    inner = "" if path in ("spec", "status") else f"{path}."
    for name, each in schema.get("properties", {}).items():
        places |= flat(each, f"{inner}{name}")
    if "items" in schema:
        places |= flat(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        places |= flat(schema["additionalProperties"], f"{path}{{}}")
    return places


@pytest.mark.parametrize("definition", DEFINITIONS, ids=file_name)
def test_committed_files_are_fresh(definition):
    assert (FOLDER / file_name(definition)).read_text() == render_crd(definition), (
        "run `python -m liqod.resources`"
    )


def test_every_kind_says_what_it_is_for():
    for crd in BY_KIND.values():
        assert schema_of(crd)["description"].endswith(".")


def test_nothing_else_is_committed():
    assert {path.name for path in FOLDER.iterdir()} == {file_name(each) for each in DEFINITIONS}
    assert len(DEFINITIONS) == 32


@pytest.mark.parametrize("kind", [kind.name for kind in REPLICATED])
def test_replicated_kinds_have_liqos_fields_and_defaults_and_no_other(kind):
    properties = schema_of(BY_KIND[kind])["properties"]
    defaults: dict[str, Any] = {}
    for half in ("spec", "status"):
        places = flat(properties[half], half)
        assert set(places) == FIELDS[kind][half]
        defaults |= {path: each["default"] for path, each in places.items() if "default" in each}
    assert defaults == DEFAULTS[kind]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Tenant", "clusterID"),
        ("ForeignCluster", "clusterID"),
        ("Network", "cidr"),
        ("Network", "preAllocated"),
        ("IP", "ip"),
    ],
)
def test_immutable_fields(kind, path):
    places = flat(schema_of(BY_KIND[kind])["properties"]["spec"], "spec")
    assert places[path]["x-kubernetes-validations"][0]["rule"] == "self == oldSelf"


def test_a_shadow_pods_pod_is_relayed_unseen():
    pod = schema_of(BY_KIND["ShadowPod"])["properties"]["spec"]["properties"]["pod"]
    assert pod["x-kubernetes-preserve-unknown-fields"] is True
    assert "properties" not in pod


@pytest.mark.parametrize("definition", DEFINITIONS, ids=file_name)
def test_schemas_are_structural(definition):
    """Each place has a type, or is an int-or-string; only objects have properties."""
    for half in ("spec", "status"):
        half_schema = schema_of(make_crd(definition))["properties"].get(half)
        for path, each in flat(half_schema, half).items() if half_schema else ():
            known = "type" in each or each.get("x-kubernetes-int-or-string")
            assert known, path
            if "properties" in each:
                assert each["type"] == "object", path
                assert set(each.get("required", ())) <= set(each["properties"]), path
            if each.get("type") == "array":
                assert "items" in each, path


def test_revision_is_on_every_crd():
    for crd in BY_KIND.values():
        assert crd["metadata"]["annotations"][labels.CRD_REVISION] == str(CRD_REVISION)


# --- merging ------------------------------------------------------------------------------------


def live_crd() -> dict[str, Any]:
    """A CRD as an API server has it, of somebody who knows more and less than we do."""
    crd: dict[str, Any] = copy.deepcopy(BY_KIND["Quota"])
    crd["metadata"] |= {"uid": "1", "resourceVersion": "7", "annotations": {"theirs": "x"}}
    crd["status"] = {"conditions": []}
    crd["spec"]["conversion"] = {"strategy": "None"}
    crd["spec"]["names"]["shortNames"] = ["q"]
    version = crd["spec"]["versions"][0]
    version["additionalPrinterColumns"] = [
        {"name": "Theirs", "type": "string", "jsonPath": ".spec.theirs"}
    ]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["theirs"] = {"type": "string"}
    spec["properties"]["limitsEnforcement"]["enum"] = ["Strict"]
    spec["required"] = ["user"]
    del spec["properties"]["cordoned"]
    older = copy.deepcopy(version) | {"name": "v1alpha1", "storage": False}
    crd["spec"]["versions"].append(older)
    return crd


def test_merged_gains_and_loses_nothing():
    live = live_crd()
    merged = merge_crd(live, BY_KIND["Quota"])
    assert merged["metadata"]["resourceVersion"] == "7"
    assert merged["metadata"]["annotations"] == {
        "theirs": "x",
        labels.CRD_REVISION: str(CRD_REVISION),
    }
    assert merged["spec"]["names"]["shortNames"] == ["q", "qt"]
    version, older = merged["spec"]["versions"]
    assert older == live["spec"]["versions"][1]
    names = [column["name"] for column in version["additionalPrinterColumns"]]
    assert names == ["Enforcement", "Cordoned", "Age", "User", "Theirs"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(spec["properties"]) == {
        *("user", "resources", "limitsEnforcement", "cordoned", "theirs")
    }
    assert spec["properties"]["limitsEnforcement"]["enum"] == ["Hard", "Soft", "None", "Strict"]
    assert spec["required"] == ["user"]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=file_name)
def test_merging_rests(definition):
    ours = make_crd(definition)
    assert merge_crd(None, ours) == ours
    assert merge_crd(ours, ours) == ours


def test_merging_again_changes_nothing():
    merged = merge_crd(live_crd(), BY_KIND["Quota"])
    assert merge_crd(merged, BY_KIND["Quota"]) == merged


def test_a_newer_revision_is_not_lowered():
    live = live_crd()
    live["metadata"]["annotations"][labels.CRD_REVISION] = "99"
    merged = merge_crd(live, BY_KIND["Quota"])
    assert merged["metadata"]["annotations"][labels.CRD_REVISION] == "99"


def test_the_stored_version_stays():
    live = live_crd()
    live["spec"]["versions"] = [live["spec"]["versions"][1] | {"storage": True}]
    versions = merge_crd(live, BY_KIND["Quota"])["spec"]["versions"]
    assert [(each["name"], each["storage"]) for each in versions] == [
        ("v1alpha1", True),
        ("v1beta1", False),
    ]


def test_a_field_of_another_type_is_left_as_it_is():
    live = live_crd()
    spec = schema_of(live)["properties"]["spec"]
    spec["properties"]["user"] = {"type": "integer"}
    merged = schema_of(merge_crd(live, BY_KIND["Quota"]))["properties"]["spec"]
    assert merged["properties"]["user"] == {"type": "integer"}
