"""Claims of the virtual StorageClass, as values; and pods that name some."""

from typing import Any

import pytest

from liqod.errors import ConfigError
from liqod.model.objects import eligibility, podspec, scheduling, volumeclaims
from liqod.model.objects.eligibility import Placement
from liqod.model.objects.volumeclaims import ClaimView

CLAIM: dict[str, Any] = {
    "metadata": {
        "name": "db",
        "namespace": "shop",
        "uid": "1-2",
        "annotations": {
            "volume.kubernetes.io/selected-node": "milan",
            "volume.kubernetes.io/storage-provisioner": "liqo.io/storage",
        },
    },
    "spec": {
        "storageClassName": "liqo",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeMode": "Block",
    },
}


def noted(**notes: str) -> dict[str, Any]:
    keys = {f"liqo.io/{key.replace('_', '-')}": value for key, value in notes.items()}
    return {**CLAIM, "metadata": {**CLAIM["metadata"], "annotations": keys}}


def test_at_a_peer_it_is_of_the_class_offered_first_and_of_the_same_mode():
    spec = volumeclaims.remote_spec(CLAIM, ("disks", "slow"), None)
    assert spec == {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Block",
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "disks",
    }


def test_annotations_ask_for_another_class_and_other_modes():
    asked = noted(remote_storage_class="slow", remote_access_modes="ReadWriteMany, ReadOnlyMany")
    spec = volumeclaims.remote_spec(asked, ("disks", "slow"), None)
    assert spec["storageClassName"] == "slow"
    assert spec["accessModes"] == ["ReadWriteMany", "ReadOnlyMany"]


def test_the_class_of_one_that_is_there_stays():
    there = {"spec": {"storageClassName": "disks"}}
    assert volumeclaims.remote_spec(CLAIM, ("other",), there)["storageClassName"] == "disks"


@pytest.mark.parametrize(
    ("claim", "classes", "why"),
    [
        (CLAIM, (), "no StorageClass"),
        (noted(remote_storage_class="gold"), ("disks",), "StorageClass gold"),
    ],
)
def test_what_is_not_offered_is_said(claim, classes, why):
    with pytest.raises(ConfigError, match=why):
        volumeclaims.remote_spec(claim, classes, None)


def test_the_volume_of_one_at_a_peer_says_where_it_lies():
    volume = volumeclaims.peer_volume(CLAIM, "milan", "Retain")
    assert volumeclaims.lies_at(volume) == "milan"
    assert volume["metadata"]["name"] == "pvc-1-2"
    assert volume["spec"]["hostPath"] == {"path": volumeclaims.PLACEHOLDER}
    assert volume["spec"]["claimRef"]["uid"] == "1-2"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["volumeMode"] == "Block"


def test_the_volume_of_one_here_is_the_real_one_and_stays_off_virtual_nodes():
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    real = {
        "spec": {
            "csi": {"driver": "d", "volumeHandle": "h"},
            "capacity": {"storage": "2Gi"},
            "claimRef": {"uid": "other"},
            "mountOptions": ["ro"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [zone]}},
        }
    }
    volume = volumeclaims.home_volume(CLAIM, real, "Delete")
    assert volumeclaims.lies_at(volume) == ""
    assert volume["spec"]["csi"] == {"driver": "d", "volumeHandle": "h"}
    assert volume["spec"]["capacity"] == {"storage": "2Gi"}
    assert volume["spec"]["mountOptions"] == ["ro"]
    assert volume["spec"]["claimRef"]["uid"] == "1-2"
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert [each["key"] for each in term["matchExpressions"]] == ["zone", "liqo.io/type"]


def test_the_default_class_is_the_newest_that_is_not_the_virtual_one():
    def made(name: str, created: str, provisioner: str = "disks") -> dict[str, Any]:
        default = {volumeclaims.DEFAULT_CLASS: "true"}
        meta = {"name": name, "creationTimestamp": created, "annotations": default}
        return {"metadata": meta, "provisioner": provisioner}

    found = [
        made("a", "2026-01-01"),
        made("b", "2026-01-02"),
        made("l", "2026-03", "liqo.io/storage"),
    ]
    assert volumeclaims.default_class(found) == "b"
    assert volumeclaims.default_class(found[2:]) == ""


@pytest.mark.parametrize(
    ("size", "shown"),
    [("2Gi", "2Gi"), ("9Ei", None), ("-1", None), ("x", None), ("1" * 40, None), (7, None)],
)
def test_what_a_hostile_peer_says_of_a_claim_is_bounded(size, shown):
    found = volumeclaims.believed({"capacity": {"storage": size}})
    assert found == (None if shown is None else {"storage": shown})
    assert volumeclaims.believed({"capacity": "much"}) is None
    assert (
        len(volumeclaims.claim_condition("milan", False, "x" * 9000)["message"])
        == volumeclaims.MESSAGE_LIMIT
    )


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef", "selector"])
def test_what_the_class_has_not_is_said(field):
    assert volumeclaims.problem(CLAIM) == ""
    assert field in volumeclaims.problem({"spec": {**CLAIM["spec"], field: {"name": "x"}}})


# --- Pods -----------------------------------------------------------------------------------------

STORING = {"key": "storage.liqo.io/available", "operator": "NotIn", "values": ["false"]}


def pod(*volumes: dict[str, Any], **spec: Any) -> dict[str, Any]:
    named = [{"name": f"v{number}", **each} for number, each in enumerate(volumes)]
    return {"metadata": {"name": "web"}, "spec": {"volumes": named, "containers": [], **spec}}


def of(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


def ephemeral(name: str) -> dict[str, Any]:
    return {"ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": name}}}}


def placement(strategy: Any = "LocalAndRemote", **found: ClaimView) -> Placement:
    return Placement(strategy, storage_class="liqo", claims=found)


def terms(value: dict[str, Any], placed: Placement) -> list[Any]:
    affinity = scheduling.placed_affinity(value, placed, eligibility.decide(value, placed))
    if affinity is None:
        return []
    (required,) = affinity["nodeAffinity"].values()
    return [each["matchExpressions"] for each in required["nodeSelectorTerms"]]


@pytest.mark.parametrize(
    ("volume", "reason"),
    [
        (of("db"), None),
        (of("nfs"), "PersistentVolumeClaim"),
        (of("none"), eligibility.CLAIM_MISSING),
        (ephemeral("liqo"), None),
        (ephemeral("local"), "EphemeralVolume"),
    ],
)
def test_which_volumes_keep_a_pod_here(volume, reason):
    placed = placement(db=ClaimView("liqo"), nfs=ClaimView("nfs", bound=True))
    decided = eligibility.decide(pod(volume), placed)
    verdict = decided.stays
    assert (verdict.reason if verdict else None) == reason
    assert scheduling.needs_toleration(pod(volume), placed, decided) == (reason is None)


def test_without_storage_no_claim_follows():
    verdict = eligibility.decide(pod(of("db")), Placement()).stays
    assert verdict is not None
    assert "claims follow no pod here" in verdict.message


def test_peers_without_storage_are_left_out_while_there_is_no_volume():
    assert terms(pod(of("db")), placement(db=ClaimView("liqo"))) == [[STORING]]
    assert terms(pod(of("db")), placement()) == [[STORING]]
    assert terms(pod(of("db")), placement(db=ClaimView("liqo", bound=True))) == []
    assert terms(pod(ephemeral("liqo")), placement()) == [[STORING]]
    (both,) = terms(pod(of("db")), placement("Remote", db=ClaimView("liqo")))
    assert STORING in both
    assert len(both) == 2
    assert terms(pod(of("db")), placement("Local", db=ClaimView("liqo"))) == []


def test_a_pod_whose_claim_came_late_gets_its_toleration():
    decided = eligibility.decide(pod(of("db")), placement())
    affinity = scheduling.placed_affinity(pod(of("db")), placement(), decided)
    value = pod(of("db"), affinity=affinity)
    value["metadata"]["resourceVersion"] = "1"
    assert scheduling.late_patch(value, placement()) is None
    assert scheduling.late_patch(value, placement(db=ClaimView("liqo"))) is not None


def test_an_ephemeral_volume_is_the_claim_that_was_made_of_it():
    spec = podspec.shadow_spec(pod(ephemeral("liqo")), consumer="rome")
    assert spec["volumes"] == [{"name": "v0", "persistentVolumeClaim": {"claimName": "web-v0"}}]
