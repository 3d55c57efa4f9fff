"""What OverridePolicies change of an object on its way to a peer, and what they may not."""

import copy
from typing import Any

import msgspec
import pytest

from liqod.apimachinery.kinds import CLAIMS, INGRESSES, PODS, SERVICES
from liqod.model.crossing import overrides
from liqod.model.crossing.overrides import Override, compiled, in_order, overridden
from liqod.resources.overrides import WIDENING, ImageOverride

Json = dict[str, Any]

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "shop"}, "annotations": {}},
    "spec": {
        "containers": [
            {"name": "web", "image": "nginx:1.27", "env": [{"name": "MODE", "value": "home"}]},
            {"name": "log", "image": "ghcr.io/acme/log@sha256:abc"},
        ],
        "initContainers": [{"name": "init", "image": "busybox"}],
        "nodeSelector": {"disk": "ssd"},
        "priority": 7,
    },
}
SHADOW: Json = {
    "apiVersion": "offloading.liqo.io/v1beta1",
    "kind": "ShadowPod",
    "metadata": POD["metadata"],
    "spec": {"pod": POD["spec"]},
}


def policy(name: str = "mirror", namespace: str = "shop", **spec: Any) -> Override:
    told = {"objects": [{"kind": "Pod"}], **spec}
    meta = {"name": name, "namespace": namespace, "generation": 3}
    return compiled(msgspec.json.encode({"metadata": meta, "spec": told}))


def changed(made: Json, *found: Override, content: str = "") -> Json:
    after, problems = overridden(made, content, found)
    assert problems == {}
    return after


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("nginx", {"registry": "mirror:5000"}, "mirror:5000/nginx"),
        ("nginx:1.27", {"registry": "mirror.example.org"}, "mirror.example.org/nginx:1.27"),
        ("docker.io/library/nginx:1", {"registry": "mirror.io"}, "mirror.io/library/nginx:1"),
        ("localhost/a/b", {"repository": "c"}, "localhost/c"),
        ("host:5000/a:1", {"tag": "2"}, "host:5000/a:2"),
        ("host:5000/a", {"tag": "2"}, "host:5000/a:2"),
        ("a/b@sha256:12", {"registry": "m.io"}, "m.io/a/b@sha256:12"),
        ("a/b:1@sha256:12", {"tag": "2"}, "a/b:2"),
        ("acme/web:1", {"repository": "acme/web-milan"}, "acme/web-milan:1"),
    ],
)
def test_parts_of_an_image(before: str, wanted: dict[str, str], after: str) -> None:
    assert overrides.image(before, ImageOverride(**wanted)) == after


def test_the_fields_of_a_pod() -> None:
    one = policy(
        image={"registry": "mirror.io"},
        labels={"site": "milan"},
        annotations={"note": "x"},
        env=[{"name": "MODE", "value": "away"}, {"name": "NEW"}],
        requests={"cpu": "2"},
        limits={"memory": "1Gi"},
        nodeSelector={"gpu": "a100"},
        tolerations=[{"key": "spot", "operator": "Exists"}],
        priorityClassName="low",
    )
    before = copy.deepcopy(SHADOW)
    after = changed(SHADOW, one, content="spec.pod")
    assert before == SHADOW, "the object here is changed"
    assert after["metadata"]["labels"] == {"app": "shop", "site": "milan"}
    assert after["metadata"]["annotations"] == {"note": "x"}
    spec = after["spec"]["pod"]
    web, log = spec["containers"]
    assert (web["image"], log["image"]) == ("mirror.io/nginx:1.27", "mirror.io/acme/log@sha256:abc")
    assert spec["initContainers"][0]["image"] == "mirror.io/busybox"
    assert web["env"] == [{"name": "MODE", "value": "away"}, {"name": "NEW", "value": ""}]
    assert web["resources"] == {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    assert spec["nodeSelector"] == {"disk": "ssd", "gpu": "a100"}
    assert spec["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert (spec["priorityClassName"], spec.get("priority")) == ("low", None)


def test_named_containers_only() -> None:
    after = changed(POD, policy(containers=["log"], image={"tag": "2"}))
    images = [each["image"] for each in after["spec"]["containers"]]
    assert images == ["nginx:1.27", "ghcr.io/acme/log:2"]


def test_classes_and_hosts_where_a_kind_has_them() -> None:
    one = policy(
        objects=[{"kind": "Ingress"}, {"kind": "PersistentVolumeClaim"}, {"kind": "Service"}],
        storageClassName="fast",
        ingressClassName="nginx",
        hosts={"shop.example.org": "milan.example.org"},
    )
    rules = [{"host": "shop.example.org"}, {"host": "other.example.org"}]
    tls = [{"hosts": ["shop.example.org"]}]
    ingress = {"kind": "Ingress", "metadata": {"name": "a"}, "spec": {"rules": rules, "tls": tls}}
    after = changed(ingress, one)["spec"]
    assert after["ingressClassName"] == "nginx"
    assert [each["host"] for each in after["rules"]] == ["milan.example.org", "other.example.org"]
    assert after["tls"] == [{"hosts": ["milan.example.org"]}]
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {"x": 1}}
    assert changed(claim, one)["spec"]["storageClassName"] == "fast"
    service = {"kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": []}}
    assert changed(service, one) == service, "a field that a kind has not is passed over"
    told = {"hostnames": ["shop.example.org"], "rules": []}
    route = {"kind": "HTTPRoute", "metadata": {"name": "a"}, "spec": told}
    assert changed(route, one)["spec"] == {"hostnames": ["milan.example.org"], "rules": []}


def test_a_patch_after_all_else_and_its_values() -> None:
    one = policy(
        labels={"tier": "1"},
        patch=[
            {"op": "replace", "path": "/metadata/labels/tier", "value": '"2"'},
            {"op": "add", "path": "/spec/containers/0/args", "value": '["-v", 3]'},
            {"op": "add", "path": "/spec/hostname", "value": "plain text"},
            {"op": "remove", "path": "/spec/nodeSelector"},
            {"op": "add", "path": "/metadata/annotations/acme.org~1x", "value": "y"},
        ],
    )
    after = changed(POD, one)
    assert after["metadata"]["labels"]["tier"] == "2"
    assert after["metadata"]["annotations"] == {"acme.org/x": "y"}
    assert after["spec"]["containers"][0]["args"] == ["-v", 3]
    assert after["spec"]["hostname"] == "plain text"
    assert "nodeSelector" not in after["spec"]


def test_what_one_object_gets_of_a_patch_is_no_other_s() -> None:
    grows = [{**ADD, "value": "[]"}, {**ADD, "path": "/spec/x/-", "value": "1"}]
    one = policy(patch=grows)
    assert [changed(POD, one)["spec"]["x"] for _ in range(3)] == [[1], [1], [1]]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/spec/absent", "value": "1"},
        {"op": "remove", "path": "/spec/containers/9"},
        {"op": "add", "path": "/spec/absent/below", "value": "1"},
        {"op": "add", "path": "/spec/containers/0/name/deeper", "value": "1"},
        {"op": "add", "path": "/spec/containers/x", "value": "1"},
        {"op": "replace", "path": "/metadata/labels/absent", "value": "1"},
    ],
)
def test_an_operation_without_its_path_is_left_out_and_told(operation: Json) -> None:
    one = policy(patch=[operation, {"op": "add", "path": "/spec/hostname", "value": "h"}])
    after, problems = overridden(POD, "", [one])
    assert problems == {"shop/mirror": f"there is no {operation['path']} to {operation['op']}"}
    assert after["spec"]["hostname"] == "h", "the other operations are applied"


def test_the_order_is_that_of_names_after_the_cluster_s_own() -> None:
    first = policy("z", "liqod", labels={"tier": "own"})
    second = policy("a", labels={"tier": "a"})
    third = policy("b", labels={"tier": "b"})
    ordered = in_order([third, second, first], "liqod")
    assert [each.name for each in ordered] == ["z", "a", "b"]
    assert changed(POD, *ordered)["metadata"]["labels"]["tier"] == "b"


@pytest.mark.parametrize(
    ("spec", "kind", "source", "peer", "concerns"),
    [
        ({}, PODS, POD, "milan", True),
        ({"peers": ["milan"]}, PODS, POD, "milan", True),
        ({"peers": ["turin"]}, PODS, POD, "milan", False),
        ({"objects": [{"kind": "Pod", "names": ["web"]}]}, PODS, POD, "milan", True),
        ({"objects": [{"kind": "Pod", "names": ["api"]}]}, PODS, POD, "milan", False),
        ({"objects": [{"kind": "Pod", "labels": {"app": "shop"}}]}, PODS, POD, "milan", True),
        ({"objects": [{"kind": "Pod", "labels": {"app": "x"}}]}, PODS, POD, "milan", False),
        ({"objects": [{"kind": "Pod", "apiVersion": "v1"}]}, PODS, POD, "milan", True),
        ({"objects": [{"kind": "Pod", "apiVersion": "v2"}]}, PODS, POD, "milan", False),
        ({}, SERVICES, POD, "milan", False),
        ({"objects": [{"kind": "Ingress"}]}, INGRESSES, POD, "milan", True),
        ({"objects": [{"kind": "ConfigMap"}]}, CLAIMS, POD, "milan", False),
    ],
)
def test_which_objects_a_policy_is_for(
    spec: Json, kind: Any, source: Json, peer: str, concerns: bool
) -> None:
    assert policy(**spec).concerns(kind, source, peer) is concerns


ADD = {"op": "add", "path": "/spec/x"}
REFUSED: list[Json] = [
    {"objects": []},
    {"objects": [{"kind": "Secret"}]},
    {"labels": {"liqo.io/x": "1"}},
    {"annotations": {"sub.liqod.io/x": "1"}},
    {"labels": {"topology.kubernetes.io/zone": "here"}},
    {"patch": [{"op": "move", "path": "/spec/a"}]},
    {"patch": [{"op": "add", "path": "", "value": "{}"}]},
    {"patch": [{"op": "add", "path": "/kind", "value": "Node"}]},
    {"patch": [{"op": "add", "path": "/status/phase", "value": "Running"}]},
    {"patch": [{"op": "add", "path": "/metadata/name", "value": "other"}]},
    {"patch": [{"op": "add", "path": "/metadata/labels", "value": "{}"}]},
    {"patch": [{"op": "remove", "path": "/metadata/labels/liqo.io~1remote-cluster-id"}]},
    {"patch": [{"op": "add", "path": "/spec/serviceAccountName", "value": "admin"}]},
    {"patch": [{**ADD, "path": "/spec/containers/0", "value": '{"securityContext": {}}'}]},
    {"patch": [{**ADD, "value": '[{"a": [{"hostPath": {"path": "/"}}]}]'}]},
    {"patch": [{**ADD, "value": '{"\\u0068ostPath": 1}'}]},
    {"patch": [{**ADD, "value": "x" * 4097}]},
    {"image": 3},
]


@pytest.mark.parametrize("spec", REFUSED, ids=str)
def test_what_a_policy_may_not(spec: Json) -> None:
    one = policy(**spec)
    assert one.problem
    assert not one.concerns(PODS, POD, "milan"), "nothing of a refused policy is applied"


@pytest.mark.parametrize("field", WIDENING)
def test_no_field_that_widens_rights_is_named(field: str) -> None:
    by_path = policy(patch=[{**ADD, "path": f"/spec/a/{field}/b", "value": "1"}])
    by_value = policy(patch=[{**ADD, "value": f'{{"b": {{"{field}": 1}}}}'}])
    assert field in by_path.problem
    assert field in by_value.problem
