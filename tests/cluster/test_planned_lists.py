"""What `liqod plan` says of taking something out of an object is what kubectl then does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from liqod.cli import manifests
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.procedures import applypatch
from liqod.procedures.dryrun import DryRun, PlannedObject, shown
from tests.testbed.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
PLACE = {"name": "planned", "namespace": "default"}
AFFINE = {"matchLabels": {"app": "x"}}


def container(name: str, *env: str, **more: Any) -> Json:
    return {
        "name": name,
        "image": f"{name}:1",
        "env": [{"name": each, "value": "1"} for each in env],
        **more,
    }


def deployment(strategy: Json, metadata: Json, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "x"}, **metadata}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 0, "selector": AFFINE, "strategy": strategy, "template": template},
    }


def named(api_version: str, kind: str, **fields: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, **fields}


def webhook(name: str, *conditions: str) -> Json:
    return {
        "name": f"{name}.example.io",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "admissionReviewVersions": ["v1"],
        "rules": [
            {key: ["*"] for key in ("apiGroups", "apiVersions", "resources", "operations")},
        ],
        "matchConditions": [{"name": each, "expression": "true"} for each in conditions],
    }


def spread(*keys: str) -> list[Json]:
    whenever = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": AFFINE}
    return [{"topologyKey": each, **whenever} for each in keys]


def volume(name: str, **source: Any) -> Json:
    return {"name": name, **source}


def rule(resource: str) -> Json:
    return {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}


FULL = deployment(
    {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    {"annotations": {"kept": "1", "gone": "1"}},
    containers=[
        container(
            "web",
            *"ABC",
            ports=[{"containerPort": 80}, {"containerPort": 81}],
            volumeMounts=[{"name": "one", "mountPath": each} for each in ("/a", "/b")],
            envFrom=[{"configMapRef": {"name": each}} for each in ("one", "two")],
            args=["a", "b"],
            resources={"limits": {"cpu": "1", "memory": "1Gi"}},
        ),
        container("side"),
    ],
    initContainers=[container("first"), container("second"), container("third")],
    volumes=[volume("one", configMap={"name": "x"}), volume("two"), volume("three")],
    tolerations=[{"key": each, "operator": "Exists"} for each in "ab"],
    nodeSelector={"kept": "1", "gone": "1"},
    imagePullSecrets=[{"name": each} for each in "ab"],
    hostAliases=[{"ip": f"10.0.0.{each}", "hostnames": ["h", "i"]} for each in (1, 2)],
    topologySpreadConstraints=spread("zone", "rack"),
)
LESS = deployment(
    {"type": "Recreate"},
    {"annotations": {"kept": "1"}},
    containers=[
        container(
            "web",
            *"CA",
            ports=[{"containerPort": 81}],
            volumeMounts=[{"name": "one", "mountPath": "/b"}],
            envFrom=[{"configMapRef": {"name": "two"}}],
            args=["b"],
            resources={"limits": {"cpu": "1"}},
        )
    ],
    initContainers=[container("third"), container("first")],
    volumes=[volume("two", configMap={"name": "other"}), volume("one", emptyDir={})],
    tolerations=[{"key": "b", "operator": "Exists"}],
    nodeSelector={"kept": "1"},
    imagePullSecrets=[{"name": "b"}],
    hostAliases=[{"ip": "10.0.0.2", "hostnames": ["i"]}],
    topologySpreadConstraints=spread("rack"),
)
TAKEN = {
    "deployment": (FULL, LESS),
    "none of it": (FULL, deployment({}, {}, containers=[container("side")])),
    "order alone": (
        deployment({}, {}, containers=[container("web", *"ABC")]),
        deployment({}, {}, containers=[container("web", *"BAC")]),
    ),
    "data": (
        named("v1", "ConfigMap", data={"a": "1", "b": "1"}),
        named("v1", "ConfigMap", data={"a": "1"}),
    ),
    "all data": (named("v1", "ConfigMap", data={"a": "1"}), named("v1", "ConfigMap")),
    "quota": (
        named("v1", "ResourceQuota", spec={"hard": {"pods": "1", "cpu": "1"}}),
        named("v1", "ResourceQuota", spec={"hard": {"pods": "1"}}),
    ),
    "rules": (
        named("rbac.authorization.k8s.io/v1", "Role", rules=[rule("pods"), rule("nodes")]),
        named("rbac.authorization.k8s.io/v1", "Role", rules=[rule("nodes")]),
    ),
    "policy": (
        named(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec={"podSelector": AFFINE, "ingress": [{"ports": [{"port": 1}, {"port": 2}]}]},
        ),
        named(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec={"podSelector": {}, "ingress": [{"ports": [{"port": 2}]}]},
        ),
    ),
    "budget": (
        named("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1, "selector": AFFINE}),
        named(
            "policy/v1",
            "PodDisruptionBudget",
            spec={"minAvailable": 1, "selector": {"matchLabels": {"other": "x"}}},
        ),
    ),
    "webhooks": (
        named(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            webhooks=[webhook("one", "a", "b"), webhook("two")],
        ),
        named(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            webhooks=[webhook("one", "b")],
        ),
    ),
    "account": (
        named("v1", "ServiceAccount", imagePullSecrets=[{"name": each} for each in "ab"]),
        named("v1", "ServiceAccount", imagePullSecrets=[{"name": "b"}]),
    ),
}
"""What is applied first, and with something taken out."""


@pytest.fixture
def applied(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Path]:
    """The file of the object, which is deleted afterwards."""
    path = tmp_path / "object.yaml"
    yield path
    control_plane.kubectl("delete", "-f", str(path), "--ignore-not-found")


def told_of(found: Json) -> Json:
    """An object without what its controller notes meanwhile."""
    made = shown(found)
    made["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    return made


def write(path: Path, found: Json) -> None:
    path.write_text(yaml.safe_dump({**found, "metadata": PLACE}))


async def planned(plane: ControlPlane, path: Path) -> PlannedObject:
    async with Client(from_kubeconfig(plane.kubeconfig.read_text())) as client:
        [found] = await DryRun(client, "kubectl").run(manifests.read([str(path)]))
    return found


@pytest.mark.parametrize("case", TAKEN)
async def test_what_is_taken_out_is_planned(
    control_plane: ControlPlane, applied: Path, case: str
) -> None:
    before, after = TAKEN[case]
    write(applied, before)
    control_plane.kubectl("apply", "-f", str(applied))
    write(applied, after)
    told = await planned(control_plane, applied)
    assert told.change == "changed", told.problem
    assert told.after is not None
    control_plane.kubectl("apply", "-f", str(applied))
    stays = await planned(control_plane, applied)
    assert stays.before is not None
    assert told_of(told.after) == told_of(stays.before)
    assert stays.change == "same"


async def test_what_another_hand_has_added_stays(
    control_plane: ControlPlane, applied: Path
) -> None:
    write(applied, FULL)
    control_plane.kubectl("apply", "-f", str(applied))
    control_plane.kubectl("-n", "default", "set", "env", "deployment/planned", "-c", "web", "X=1")
    write(applied, LESS)
    told = await planned(control_plane, applied)
    control_plane.kubectl("apply", "-f", str(applied))
    live = (await planned(control_plane, applied)).before
    assert told.after is not None
    assert live is not None
    assert told_of(told.after) == told_of(live)
    [web] = live["spec"]["template"]["spec"]["containers"]
    assert {each["name"] for each in web["env"]} == {"A", "C", "X"}


def test_the_keys_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    """Each field of each kind that people write is merged as the API server says of it."""
    wrong, lists = set(), set()
    groups = control_plane.api.get("/openapi/v3")["paths"]
    for path in groups:
        if path not in ("api/v1", *(f"apis/{each}" for each in served(groups))):
            continue
        schemas = control_plane.api.get(f"/openapi/v3/{path}")["components"]["schemas"]
        for schema in schemas.values():
            kinds = [each["kind"] for each in schema.get("x-kubernetes-group-version-kind", ())]
            if len(kinds) != 1 or kinds[0].endswith("List") or kinds == ["ComponentStatus"]:
                continue  # lists, options of requests, and one that can only be read
            [kind] = kinds
            for within, name, field in fields(schemas, schema, "", set()):
                key = field.get("x-kubernetes-patch-merge-key", "")
                how = set(filter(None, field.get("x-kubernetes-patch-strategy", "").split(",")))
                merged = {"merge"} if by_table(within, name) is not None else set()
                merged |= {"retainKeys"} if name in applypatch.UNIONS else set()
                merged |= {"replace"} if (kind, name) in applypatch.WHOLE else set()
                lists |= {name} if how else set()
                if (how, key) != (merged, by_table(within, name) or ""):
                    wrong.add((kind, within, name, tuple(sorted(how)), key))
    assert lists >= {"env", "webhooks", "finalizers", "selector"}
    assert wrong == set()


def served(paths: Json) -> set[str]:
    """The group and version of built-in kinds among paths such as ``apis/apps/v1``."""
    found = {path.removeprefix("apis/") for path in paths if path.count("/") == 2}
    return {each for each in found if each.split("/")[0] in applypatch.BUILT_IN}


def by_table(within: str, name: str) -> str | None:
    """The key by which a list is merged; empty for a set, None where it is replaced."""
    if (within, name) in applypatch.SETS:
        return ""
    return applypatch.KEYS_WITHIN.get((within, name)) or applypatch.KEYS.get(name)


def fields(
    schemas: Json, schema: Json, within: str, above: set[str]
) -> Iterator[tuple[str, str, Json]]:
    """The lists and objects of a kind: the field around it, its name, its schema."""
    for name, field in schema.get("properties", {}).items():
        if name == "status":
            continue
        inner = field.get("items", field)
        ref: str = [*inner.get("allOf", ()), inner][0].get("$ref", "")
        if field.get("type") == "array" or ref:
            yield within, name, field
        below = ref.rpartition("/")[2]
        if below and below not in above:
            yield from fields(schemas, schemas[below], name, {*above, below})
