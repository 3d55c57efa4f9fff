"""The Pod that is made from a ShadowPod."""

from typing import Any

import msgspec
import pytest

from liqod.config import Guests
from liqod.errors import Invalid
from liqod.provider.podshape import REQUIRED, on_real_nodes, pod_manifest
from liqod.provider.shadow import Shadow

REAL = {"key": "liqo.io/type", "operator": "NotIn", "values": ["virtual-node"]}
ARCH = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}


def terms(spec: dict[str, Any]) -> Any:
    return on_real_nodes(spec)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_a_pod_never_lands_on_a_virtual_node():
    assert terms({}) == [{"matchExpressions": [REAL]}]


def test_every_alternative_gets_the_requirement():
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [ARCH]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [],
        },
        "podAntiAffinity": {"x": 1},
    }
    spec = {"affinity": affinity, "containers": []}
    first, second = terms(spec)
    assert first == {"matchExpressions": [ARCH, REAL]}
    assert second["matchExpressions"] == [REAL]
    made = on_real_nodes(spec)
    assert made["affinity"]["podAntiAffinity"] == {"x": 1}
    assert "preferredDuringSchedulingIgnoredDuringExecution" in made["affinity"]["nodeAffinity"]
    assert spec["affinity"] is affinity
    assert first not in affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


@pytest.mark.parametrize(
    "affinity",
    [
        "text",
        {"nodeAffinity": 7},
        {"nodeAffinity": {REQUIRED: []}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["x"]}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": {"a": 1}}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": {"a": 1}}]}}},
    ],
)
def test_nonsense_is_refused_and_not_stumbled_over(affinity: Any):
    with pytest.raises(Invalid):
        on_real_nodes({"affinity": affinity})


def test_the_consumer_chooses_neither_node_nor_priority():
    pod = {
        "containers": [{"name": "web", "image": "web"}],
        "nodeName": "control-plane",
        "priorityClassName": "system-node-critical",
        "priority": 2000001000,
    }
    body = {
        "metadata": {"name": "web-1", "namespace": "shop-rome", "uid": "u1"},
        "spec": {"pod": pod},
    }
    shadow = msgspec.json.decode(msgspec.json.encode(body), type=Shadow)
    made = pod_manifest(shadow, Guests())
    assert set(made["spec"]) == {"containers", "affinity"}
    assert made["spec"]["containers"] == pod["containers"]
    assert made["metadata"]["ownerReferences"][0]["kind"] == "ShadowPod"
