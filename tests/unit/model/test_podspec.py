"""The spec of a pod at a peer: against a real pair of objects, and rule by rule."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from liqod.apimachinery import labels
from liqod.model.crossing.fields import COPIED
from liqod.model.objects import selectors
from liqod.model.objects.homeapi import HomeApi, access
from liqod.model.objects.podspec import shadow_spec

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def items(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load((OBJECTS / name).read_text())["items"])


def pod(annotations=None, marks=None, **spec) -> dict[str, Any]:
    containers = [{"name": "web", "image": "nginx"}]
    return {
        "metadata": {"name": "web", "annotations": annotations or {}, "labels": marks or {}},
        "spec": {"containers": containers, "restartPolicy": "Always", **spec},
    }


def shadow(source, patch=None, home=None) -> dict[str, Any]:
    before = copy.deepcopy((source, patch))
    spec = shadow_spec(source, consumer="ly", patch=patch, home=home)
    assert (source, patch) == before
    return spec


def test_a_real_pod_becomes_what_liqo_made_of_it_but_for_the_home_api():
    local = {each["metadata"]["name"]: each for each in items("consumer/ns-demo-pods.yaml")}
    for there in items("provider/cr-shadowpods.offloading.liqo.io.yaml"):
        expected = copy.deepcopy(there["spec"]["pod"])
        for group in ("containers", "initContainers"):
            for container in expected[group]:
                env = [e for e in container["env"] if not e["name"].startswith("KUBERNETES_")]
                container["env"] = env
                if not env:
                    del container["env"]
        for volume in expected["volumes"]:
            if "projected" in volume:
                sources = volume["projected"]["sources"]
                volume["projected"]["sources"] = [s for s in sources if "secret" not in s]
        assert shadow(local[there["metadata"]["name"]]) == expected


def test_a_real_pod_that_may_speak_with_home_becomes_what_liqo_made_of_it():
    """But for the namespace's name, the consumer's, and a variable that Liqo leaves out."""
    local = {each["metadata"]["name"]: each for each in items("consumer/ns-demo-pods.yaml")}
    home = HomeApi(mode="home", host="kubernetes.default")
    for there in items("provider/cr-shadowpods.offloading.liqo.io.yaml"):
        found = shadow(local[there["metadata"]["name"]], home=home)
        expected = copy.deepcopy(there["spec"]["pod"])
        for spec in (found, expected):
            for group in ("containers", "initContainers"):
                for container in spec[group]:
                    env = {each["name"]: each for each in container["env"]}
                    env.pop("KUBERNETES_SERVICE_PORT_HTTPS", None)
                    container["env"] = env
        (volume,) = [each for each in expected["volumes"] if "projected" in each]
        sources = volume["projected"]["sources"]
        assert sources[2].keys() == {"downwardAPI"}
        key = f"{volume['name']}-namespace"
        item = {"key": key, "path": "namespace"}
        sources[2] = {"secret": {"name": sources[0]["secret"]["name"], "items": [item]}}
        assert found == expected


@pytest.mark.parametrize(
    "field",
    [
        *("nodeName", "schedulerName", "priority", "priorityClassName", "preemptionPolicy"),
        *("overhead", "schedulingGates", "readinessGates"),
        *("resourceClaims", "serviceAccount", "serviceAccountName"),
        *("hostNetwork", "hostPID", "hostIPC"),
    ],
)
def test_what_speaks_of_this_cluster_stays(field):
    assert field not in shadow(pod(**{field: "x"}))
    assert field not in COPIED


def test_tokens_stay_and_the_rest_of_the_volume_travels():
    projected = {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt"}},
            {"configMap": {"name": "conf"}},
            {"downwardAPI": {"items": []}},
        ],
    }
    spec = shadow(
        pod(
            volumes=[
                {"name": "api", "projected": projected},
                {"name": "ca", "configMap": {"name": "kube-root-ca.crt", "optional": True}},
                {"name": "tmp", "emptyDir": {}},
            ]
        )
    )
    api, ca, tmp = spec["volumes"]
    assert api["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"configMap": {"name": "kube-root-ca.crt.ly"}},
            {"configMap": {"name": "conf"}},
            {"downwardAPI": {"items": []}},
        ],
    }
    assert ca["configMap"] == {"name": "kube-root-ca.crt.ly", "optional": True}
    assert tmp == {"name": "tmp", "emptyDir": {}}
    assert spec["automountServiceAccountToken"] is False


def test_environments():
    env = [
        {"name": "SA", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CA", "valueFrom": {"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "c"}}},
        {"name": "PLAIN", "value": "x"},
    ]
    source = pod(serviceAccountName="robot")
    source["spec"]["containers"][0] |= {
        "env": env,
        "envFrom": [{"configMapRef": {"name": "kube-root-ca.crt"}}, {"secretRef": {"name": "s"}}],
    }
    container = shadow(source)["containers"][0]
    assert container["env"] == [
        {"name": "SA", "value": "robot"},
        env[1],
        {
            "name": "CA",
            "valueFrom": {"configMapKeyRef": {"name": "kube-root-ca.crt.ly", "key": "c"}},
        },
        env[3],
    ]
    assert container["envFrom"] == [
        {"configMapRef": {"name": "kube-root-ca.crt.ly"}},
        {"secretRef": {"name": "s"}},
    ]


def test_access_to_the_peers_own_api():
    volume = {
        "name": "api",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt"}},
            ]
        },
    }
    annotations = {labels.API_SERVER_SUPPORT: "remote"}
    source = pod(annotations, serviceAccountName="robot", volumes=[volume])
    spec = shadow(source)
    assert access(source) == "remote"
    assert spec["automountServiceAccountToken"] is True
    assert spec["serviceAccountName"] == "robot"
    assert spec["volumes"] == [volume]
    source["metadata"]["annotations"][labels.REMOTE_SERVICE_ACCOUNT] = "theirs"
    assert shadow(source)["serviceAccountName"] == "theirs"
    assert access(pod({labels.API_SERVER_SUPPORT: "nonsense"})) == "disabled"


def test_host_ports_go_with_the_host_network():
    source = pod(hostNetwork=True)
    source["spec"]["containers"][0]["ports"] = [
        {"containerPort": 80, "hostPort": 80},
        {"containerPort": 81, "hostPort": 8081},
    ]
    assert shadow(source)["containers"][0]["ports"] == [
        {"containerPort": 80},
        {"containerPort": 81, "hostPort": 8081},
    ]
    del source["spec"]["hostNetwork"]
    assert shadow(source)["containers"][0]["ports"][0]["hostPort"] == 80


def test_tolerations():
    mine = {"key": "gpu", "operator": "Exists"}
    taint = {"key": labels.VIRTUAL_NODE_TAINT, "operator": "Exists", "effect": "NoExecute"}
    added = {"key": "pool", "operator": "Equal", "value": "lent"}
    source = pod(tolerations=[mine, taint])
    assert shadow(source)["tolerations"] == [mine]
    assert shadow(source, {"tolerations": [added, mine]})["tolerations"] == [mine, added]
    assert "tolerations" not in shadow(pod(tolerations=[taint]))


def test_os_and_arch_travel():
    source = pod(
        nodeSelector={"kubernetes.io/arch": "arm64", "disk": "ssd"},
        os={"name": "linux"},
        affinity={
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                                {"key": "zone", "operator": "In", "values": ["a"]},
                            ]
                        }
                    ]
                }
            },
            "podAntiAffinity": {REQUIRED: [{"topologyKey": "x"}]},
        },
    )
    spec = shadow(source, {"nodeSelector": {"pool": "lent"}})
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "arm64", "pool": "lent"}
    assert spec["os"] == {"name": "linux"}
    expression = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    assert spec["affinity"] == {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    }


def expression(key, *values):
    return {"key": key, "operator": "In", "values": list(values)}


def required(*terms):
    listed = [{"matchExpressions": list(term)} for term in terms]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}


OS = expression("kubernetes.io/os", "linux")
ARM = expression("kubernetes.io/arch", "arm64")
ZONE = expression("zone", "a")
POOL = expression("pool", "lent")
DISK = expression("disk", "ssd")


@pytest.mark.parametrize(
    ("own", "patch", "expected"),
    [
        (None, None, None),
        (required([ZONE]), None, None),
        # an alternative that asks for no platform matches any
        (required([ARM, ZONE], [ZONE]), None, None),
        (required([ARM, ZONE], [OS]), None, required([ARM], [OS])),
        (required([ARM, ZONE], [ARM]), None, required([ARM])),
        (None, required([POOL]), required([POOL])),
        # both are asked for, not one of them
        (required([ARM]), required([POOL], [DISK]), required([ARM, POOL], [ARM, DISK])),
    ],
)
def test_node_affinity(own, patch, expected):
    source = pod(affinity=own) if own else pod()
    spec = shadow(source, {"affinity": patch} if patch else None)
    assert spec.get("affinity") == expected


def test_preferences_of_the_virtual_node_are_kept():
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    spec = shadow(pod(affinity=required([ARM])), {"affinity": {"nodeAffinity": preferred}})
    node = spec["affinity"]["nodeAffinity"]
    assert node.keys() == {REQUIRED, *preferred}
    assert selectors.selects(
        node[REQUIRED]["nodeSelectorTerms"], "n", {"kubernetes.io/arch": "arm64"}
    )


MARKS = {"app": "web", "tier": "front", "pod-template-hash": "1", "controller-revision-hash": "2"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({labels.ANTI_AFFINITY_PRESET: "nonsense"}, None),
        (
            {labels.ANTI_AFFINITY_PRESET: "hard"},
            {
                REQUIRED: [
                    {
                        "labelSelector": {"matchLabels": {"app": "web", "tier": "front"}},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            },
        ),
        (
            {labels.ANTI_AFFINITY_PRESET: "soft", labels.ANTI_AFFINITY_LABELS: "app, none"},
            {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": {"app": "web"}},
                            "topologyKey": "kubernetes.io/hostname",
                        },
                    }
                ]
            },
        ),
        ({labels.ANTI_AFFINITY_PRESET: "soft", labels.ANTI_AFFINITY_LABELS: "none"}, None),
        ({labels.ANTI_AFFINITY_PRESET: "propagate"}, {REQUIRED: [{"topologyKey": "own"}]}),
    ],
)
def test_anti_affinity_presets(annotations, expected):
    own = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "own"}]}, "podAffinity": {"x": 1}}
    spec = shadow(pod(annotations, MARKS, affinity=own))
    assert spec.get("affinity", {}).get("podAntiAffinity") == expected
    assert "podAffinity" not in spec.get("affinity", {})


@pytest.mark.parametrize(
    ("annotated", "own", "patched", "expected"),
    [
        ("kata", "gvisor", "runc", "kata"),
        (None, "gvisor", "runc", "gvisor"),
        (None, "liqo", "runc", "runc"),
        (None, None, "runc", "runc"),
        (None, "liqo", "liqo", None),
        ("", None, None, None),
    ],
)
def test_runtime_class(annotated, own, patched, expected):
    annotations = {} if annotated is None else {labels.REMOTE_RUNTIME_CLASS: annotated}
    source = pod(annotations, **({"runtimeClassName": own} if own else {}))
    spec = shadow(source, {"runtimeClassName": patched} if patched else None)
    assert spec.get("runtimeClassName") == expected


HASH = "pod-template-hash"


def selector(*keys: str) -> dict[str, Any]:
    """A selector as the first API server leaves it: with what the label keys came to."""
    merged = [{"key": key, "operator": "In", "values": ["x"]} for key in keys]
    return {"labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": merged}}


def test_label_keys_that_are_in_the_selector_already_are_not_asked_for_again():
    spread = {"maxSkew": 1, "topologyKey": "zone", "matchLabelKeys": [HASH]}
    term = {"topologyKey": "zone", "matchLabelKeys": [HASH], "mismatchLabelKeys": ["tenant"]}
    apart = {
        REQUIRED: [term | selector(HASH, "tenant"), term | selector(HASH)],
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": term | selector(HASH, "tenant")}
        ],
    }
    spec = shadow(
        pod(
            {labels.ANTI_AFFINITY_PRESET: "propagate"},
            topologySpreadConstraints=[spread | selector(HASH), spread | selector()],
            affinity={"podAntiAffinity": apart},
        )
    )
    merged, unmerged = spec["topologySpreadConstraints"]
    assert merged == {"maxSkew": 1, "topologyKey": "zone"} | selector(HASH)
    assert unmerged == spread | selector()
    found = spec["affinity"]["podAntiAffinity"]
    assert found[REQUIRED] == [
        {"topologyKey": "zone"} | selector(HASH, "tenant"),
        {"topologyKey": "zone", "mismatchLabelKeys": ["tenant"]} | selector(HASH),
    ]
    (preferred,) = found["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"] == {"topologyKey": "zone"} | selector(HASH, "tenant")


def test_isolation_and_limits_of_the_whole_pod_travel():
    limits = {"limits": {"cpu": "1", "memory": "1Gi"}}
    spec = shadow(pod(hostUsers=False, resources=limits))
    assert (spec["hostUsers"], spec["resources"]) == (False, limits)


def test_ephemeral_containers_travel_as_others_do_until_they_end():
    variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}}
    debuggers = [{"name": name, "image": "busybox", "env": [variable]} for name in ("one", "two")]
    source = pod(ephemeralContainers=debuggers)
    told = shadow(source)["ephemeralContainers"]
    assert [(each["name"], each["env"]) for each in told] == [
        (name, [{"name": "A", "value": "default"}]) for name in ("one", "two")
    ]
    ended = [{"name": "one", "state": {"terminated": {}}}, {"name": "two", "state": {}}]
    source["status"] = {"ephemeralContainerStatuses": ended}
    assert [each["name"] for each in shadow(source)["ephemeralContainers"]] == ["two"]
