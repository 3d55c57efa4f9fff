"""The resources of a slice at the consumer, against objects of a real peering."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from liqod.consumer.identities.signing import is_nonce
from liqod.consumer.slices.sliceobjects import identity_of, is_source, node_labels, virtual_node_of
from liqod.model.peering.parts import Part
from liqod.provider.tenants.nonces import new_nonce
from liqod.resources import ResourceSlice

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects" / "consumer"


def load(kind, number=0):
    document = yaml.safe_load(next(OBJECTS.glob(f"cr-{kind}.*")).read_text())
    return document["items"][number] if "items" in document else document


def a_slice(**changes):
    return msgspec.convert(load("resourceslices") | changes, ResourceSlice)


def without_liqod(labels):
    return {key: value for key, value in labels.items() if not key.startswith("liqod.io/")}


def test_the_identity_is_the_one_that_liqo_makes():
    made = identity_of(a_slice(), "lz")
    there = load("identities", 1)
    assert made is not None
    assert made["spec"] == there["spec"]
    assert made["metadata"]["name"] == there["metadata"]["name"]
    assert made["metadata"]["ownerReferences"] == there["metadata"]["ownerReferences"]
    assert without_liqod(made["metadata"]["labels"]) == there["metadata"]["labels"]


def test_the_virtual_node_is_the_one_that_liqo_makes_without_its_deployment():
    made = virtual_node_of(a_slice(), "lz")
    there = load("virtualnodes")
    assert made is not None
    for key in ("clusterID", "kubeconfigSecretRef", "resourceQuota", "labels", "storageClasses"):
        assert made["spec"][key] == there["spec"][key]
    assert without_liqod(made["metadata"]["labels"]) == there["metadata"]["labels"]
    assert made["metadata"]["ownerReferences"] == there["metadata"]["ownerReferences"]


@pytest.mark.parametrize(
    ("authentication", "resources", "identity", "node"),
    [
        ("Accepted", "Accepted", True, True),
        ("Accepted", "Denied", True, False),
        ("Accepted", None, True, False),
        ("Denied", "Accepted", False, False),
        (None, "Accepted", False, False),
        (None, None, False, False),
    ],
)
def test_what_there_is_follows_the_verdicts(authentication, resources, identity, node):
    verdicts = {"Authentication": authentication, "Resources": resources}
    conditions = [{"type": t, "status": s} for t, s in verdicts.items() if s]
    found = a_slice(status=load("resourceslices")["status"] | {"conditions": conditions})
    assert (identity_of(found, "lz") is not None) is identity
    assert (virtual_node_of(found, "lz") is not None) is node


def test_its_labels_are_those_that_this_cluster_vouches_for():
    status = load("resourceslices")["status"] | {"nodeLabels": {"tier": "gold", "region": "eu"}}
    made = virtual_node_of(
        a_slice(status=status),
        "lz",
        believe=("region",),
        given={"tier": "bronze", "node-role.kubernetes.io/x": ""},
    )
    assert made is not None
    marks = {"liqo.io/remote-cluster-id": "lz", "region": "eu", "tier": "bronze"}
    assert made["spec"]["labels"] == marks


@pytest.mark.parametrize(
    "key",
    [
        "karpenter.sh/nodepool",
        "karpenter.k8s.aws/instance-family",
        "kubernetes.azure.com/managed",
        "node.cluster.x-k8s.io/pool",
        "eks.amazonaws.com/nodegroup",
        "cloud.google.com/gke-nodepool",
    ],
)
def test_no_label_makes_it_a_node_of_an_autoscaler_or_a_cloud_here(key):
    found = {key: "general", "eks.amazonaws.com/capacity": "spot"}
    assert node_labels(found, ("*/*",)) == {"eks.amazonaws.com/capacity": "spot"}
    assert key not in node_labels(found, (key,))


def test_a_zone_of_this_clusters_own_is_never_a_peers() -> None:
    zone = "topology.kubernetes.io/zone"
    marks = {zone: "eu-1a", "topology.kubernetes.io/region": "eu-1"}
    status = load("resourceslices")["status"] | {"nodeLabels": marks}

    def shown(zones: tuple[str, ...], **options: Any) -> str | None:
        made = virtual_node_of(a_slice(status=status), "lz", zones=zones, **options)
        assert made is not None
        zone_of: str | None = made["spec"]["labels"].get(zone)
        assert made["spec"]["labels"].get("topology.kubernetes.io/region") in (None, "eu-1")
        return zone_of

    assert shown(("eu-1b",), believe=("*/*",)) == "eu-1a"
    assert shown(("eu-1b", "eu-1a"), believe=("*/*",)) is None
    assert shown(("eu-1c",), given={zone: "eu-1c"}) is None


def test_a_node_is_made_on_request_only():
    source = load("resourceslices")
    source["metadata"].pop("annotations")
    assert virtual_node_of(msgspec.convert(source, ResourceSlice), "lz") is None


def test_sources_and_replicas_of_one_namespace_are_told_apart():
    assert is_source(load("resourceslices")["metadata"]["labels"], "lz")
    assert not is_source(load("resourceslices")["metadata"]["labels"], "ly")
    assert not is_source({"liqo.io/replication": "false", "liqo.io/remoteID": "lz"}, "lz")


def test_only_nonces_are_signed():
    assert is_nonce(new_nonce())
    assert len(new_nonce()) == 88
    for text in (b"", b"short", b"x" * 300, b"\x30\x82" * 20, b"-----BEGIN X-----", b"a b" * 20):
        assert not is_nonce(text)


@pytest.mark.parametrize(("told", "noted"), [('{"groups":[{"nodes":1}]}', True), ("[]", False)])
def test_what_a_provider_tells_of_its_nodes_is_noted_where_it_can_be_read(told, noted):
    metadata = load("resourceslices")["metadata"]
    annotations = {**metadata["annotations"], "liqod.io/free-capacity": told}
    made = virtual_node_of(a_slice(metadata={**metadata, "annotations": annotations}), "lz")
    assert made is not None
    notes = made["metadata"].get("annotations", {})
    assert notes.get("liqod.io/free-capacity") == (told if noted else None)


def test_the_node_of_a_part_has_its_share_its_labels_and_its_taints_and_binds_pods_to_it():
    status = load("resourceslices")["status"] | {"nodeSelector": {"for": "guests"}}
    part = Part(
        "0a1b2c3d",
        labels={"pool": "red", "topology.kubernetes.io/zone": "a", "not valid": "x"},
        lacks=("disk",),
        taints=(
            ("gpu", "yes", "NoSchedule"),
            ("not valid", "", "NoSchedule"),
            ("gpu", "yes", "Never"),
        ),
        share={"cpu": 1_500_000_000, "memory": 2**30 * 10**9},
        told='{"groups":[{"nodes":1}]}',
    )
    slice_ = a_slice(status=status)
    made = virtual_node_of(slice_, "lz", believe=("pool",), part=part)
    assert made is not None
    assert made["metadata"]["name"] == f"{slice_.name}-0a1b2c3d"
    assert made["metadata"]["annotations"]["liqod.io/free-capacity"] == part.told
    spec = made["spec"]
    assert spec["resourceQuota"]["hard"] == {"cpu": "1500m", "memory": "1Gi"}
    assert spec["labels"]["pool"] == "red"
    assert "topology.kubernetes.io/zone" not in spec["labels"]
    assert spec["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    patch = spec["offloadingPatch"]
    zone = {"topology.kubernetes.io/zone": "a"}
    assert patch["nodeSelector"] == {"for": "guests", "pool": "red", **zone}
    required = patch["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms = [{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]
    assert required == {"nodeSelectorTerms": terms}
    one = msgspec.structs.replace(part, machine=True)
    of_one = virtual_node_of(slice_, "lz", part=one)
    assert of_one is not None
    selector = {"for": "guests", "liqod.io/machine": "0a1b2c3d"}
    assert of_one["spec"]["offloadingPatch"] == {"nodeSelector": selector}
    gone = msgspec.structs.replace(part, not_told_since="2026-11-28T12:00:00Z")
    shut = virtual_node_of(slice_, "lz", part=gone)
    assert shut is not None
    assert {"key": "liqod.io/not-told", "effect": "NoSchedule"} in shut["spec"]["taints"]
