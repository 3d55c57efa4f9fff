"""The Pod that is made from a ShadowPod."""

import time
from typing import Any

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.config import GuestSettings
from liqod.errors import Invalid
from liqod.kube import times
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.model.objects.podchanges import state
from liqod.provider.policies.podrestrictions import NotAllowed
from liqod.provider.workloads.podshape import (
    REQUIRED,
    awaits_way,
    on_real_nodes,
    pod_manifest,
    pod_spec,
)
from liqod.provider.workloads.shadow import MADE, Shadow

REAL = {"key": "liqo.io/type", "operator": "NotIn", "values": ["virtual-node"]}
ARCH = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}


def shaped(spec: dict[str, Any]) -> Shadow:
    body = {"metadata": {"name": "web"}, "spec": {"pod": spec}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Shadow)


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
    made = pod_manifest(shadow, GuestSettings())
    assert set(made["spec"]) == {"containers", "affinity"}
    assert made["spec"]["containers"] == pod["containers"]
    assert made["metadata"]["ownerReferences"][0]["kind"] == "ShadowPod"


def test_the_way_home_is_written_as_it_is_reached_from_here():
    """It is so for a ShadowPod by liqod and for one by Liqo."""
    ranges = PeerRanges(
        own=ClusterCidrs(("10.244.0.0/16",), ("10.70.0.0/20",)),
        peer=ClusterCidrs(("10.244.0.0/16",), ("10.70.0.0/20",)),
        seen=ClusterCidrs(("10.71.0.0/16",), ("10.72.0.0/20",)),
    )
    home = {"ip": "10.70.0.1", "hostnames": ["kubernetes.default", "kubernetes.default.svc"]}
    other = {"ip": "10.70.0.1", "hostnames": ["printer"]}
    shadow = shaped({"containers": [], "hostAliases": [other, home]})
    made = pod_manifest(shadow, GuestSettings(), ranges)["spec"]["hostAliases"]
    assert made == [other, {**home, "ip": "10.72.0.1"}]
    assert pod_manifest(shadow, GuestSettings())["spec"]["hostAliases"] == [other, home]


@pytest.mark.parametrize(
    ("names", "age", "waits"),
    [
        (["kubernetes.default"], 2, True),
        (["kubernetes.default"], 60, False),
        (["printer"], 2, False),
    ],
)
def test_only_a_new_pod_that_names_its_api_server_waits_for_networks(names, age, waits):
    shadow = shaped({"containers": [], "hostAliases": [{"ip": "10.70.0.1", "hostnames": names}]})
    made = msgspec.structs.replace(shadow.metadata, creation_timestamp=times.of(time.time() - age))
    assert awaits_way(msgspec.structs.replace(shadow, metadata=made)) is waits


@pytest.mark.parametrize(
    ("asked", "made"),
    [(30, 30), (3600, 3600), (3601, 3600), (2_000_000_000, 3600), (10**12, 3600), (None, None)],
)
def test_a_guest_ends_within_its_bound(asked: int | None, made: int | None):
    spec = {"containers": [], **({} if asked is None else {"terminationGracePeriodSeconds": asked})}
    shadow = shaped(spec)
    found = pod_manifest(shadow, GuestSettings())["spec"]
    assert found.get("terminationGracePeriodSeconds") == made


def test_images_can_be_asked_for_at_each_start():
    containers = [{"name": "web", "image": "bank/web", "imagePullPolicy": "Never"}]
    volumes = [
        {"name": "data", "image": {"reference": "bank/data", "pullPolicy": "Never"}},
        {"name": "cache", "emptyDir": {}},
    ]
    spec = {"containers": containers, "initContainers": containers, "volumes": volumes}
    shadow = shaped(spec)
    found = pod_manifest(shadow, GuestSettings(always_pull=True))["spec"]
    assert found["volumes"][0]["image"] == {"reference": "bank/data", "pullPolicy": "Always"}
    assert found["volumes"][1] == volumes[1]
    for group in ("containers", "initContainers"):
        assert [each["imagePullPolicy"] for each in found[group]] == ["Always"]
    assert pod_manifest(shadow, GuestSettings())["spec"]["containers"] == containers


def test_a_pod_notes_what_it_was_made_with_and_debuggers_come_later():
    containers = [{"name": "web", "image": "web"}]
    made = pod_manifest(shaped({"containers": containers}), GuestSettings())
    assert made["metadata"]["annotations"][labels.CHANGES] == state({"containers": containers})
    debuggers = [{"name": "debugger", "image": "b", "imagePullPolicy": "Never"}]
    asked = {"containers": containers, "ephemeralContainers": debuggers}
    made = pod_manifest(shaped(asked), GuestSettings())
    assert made["metadata"]["annotations"][labels.CHANGES] == MADE
    assert "ephemeralContainers" not in made["spec"]
    added = pod_spec(asked, GuestSettings(always_pull=True))["ephemeralContainers"]
    assert [each["imagePullPolicy"] for each in added] == ["Always"]


def test_a_pod_for_one_node_gets_its_name_for_the_key_and_no_other_key_counts():
    arch = {"matchExpressions": [ARCH], "matchFields": []}
    required = {REQUIRED: {"nodeSelectorTerms": [arch, {}]}}
    selector = {"liqod.io/machine": "0a1b2c3d", "for": "guests"}
    spec = {"containers": [], "nodeSelector": selector, "affinity": {"nodeAffinity": required}}
    machines = {"0a1b2c3d": "milan-7"}
    made = pod_manifest(shaped(spec), GuestSettings(), None, machines)["spec"]
    assert made["nodeSelector"] == {"for": "guests"}
    field = {"key": "metadata.name", "operator": "In", "values": ["milan-7"]}
    assert made["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [ARCH, REAL], "matchFields": [field]},
        {"matchExpressions": [REAL], "matchFields": [field]},
    ]
    with pytest.raises(NotAllowed):
        pod_manifest(shaped(spec), GuestSettings(), None, {})
    bad: dict[str, Any] = {REQUIRED: {"nodeSelectorTerms": [{"matchFields": 1}]}}
    with pytest.raises(Invalid):
        pod_manifest(
            shaped({**spec, "affinity": {"nodeAffinity": bad}}), GuestSettings(), None, machines
        )
