"""Requests that consumers may make."""

from typing import Any

import pytest

from liqod.config import GuestSettings
from liqod.provider.policies.podrestrictions import (
    NotAllowed,
    check_pod,
    namespace_problem,
    tolerations,
)

OPEN = GuestSettings(
    service_accounts=("*",),
    runtime_classes=("*",),
    tolerations=("*",),
    volumes=("*",),
    annotations=("*/*",),
    labels=("*/*",),
    fields=("volumeAttributesClassName",),
)


def ephemeral(metadata: Any = None, **spec: Any) -> Any:
    """A pod with a volume whose claim a controller makes."""
    template = {"metadata": metadata or {}, "spec": spec}
    return {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]}


def projected(*sources: Any) -> Any:
    return {"volumes": [{"name": "v", "projected": {"sources": list(sources)}}]}


@pytest.mark.parametrize(
    ("spec", "setting"),
    [
        ({"serviceAccountName": "deployer"}, "service_accounts"),
        ({"serviceAccount": "deployer"}, "service_accounts"),
        ({"serviceAccountName": 7}, "service_accounts"),
        ({"runtimeClassName": "nvidia"}, "runtime_classes"),
        ({"volumes": [{"name": "v", "csi": {"driver": "secrets-store.csi.k8s.io"}}]}, "volumes"),
        ({"volumes": [{"name": "v", "nfs": {"server": "10.0.0.1"}}]}, "volumes"),
        ({"volumes": [{"name": "v", "emptyDir": {}, "gitRepo": {}}]}, "volumes"),
        (projected({"secret": {}}, {"podCertificate": {"signerName": "bank/own"}}), "volumes"),
        (ephemeral({"annotations": {"nfs.io/storage-path": "../bank"}}), "annotations"),
        (ephemeral({"labels": {"a.io/b": "x"}}), "labels"),
        (ephemeral(volumeAttributesClassName="fast"), "fields"),
    ],
)
def test_what_is_refused_names_the_setting_and_can_be_allowed(spec: Any, setting: str):
    with pytest.raises(NotAllowed, match=rf"the provider's administrator can .*\({setting} under"):
        check_pod(spec, GuestSettings())
    if spec.get("serviceAccountName") != 7:
        check_pod(spec, OPEN)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"serviceAccountName": "default"},
        {"volumes": [{"name": "v", "secret": {}}, {"name": "w", "projected": {}}]},
        projected({"serviceAccountToken": {}}, {"clusterTrustBundle": {}}, {"configMap": {}}),
        projected("nonsense"),
        {"volumes": [{"name": "v", "projected": {"sources": 7}}]},
        ephemeral({"labels": {"app": "web"}, "annotations": {"note": "x"}}, storageClassName="x"),
        {"volumes": [{"name": "v", "ephemeral": "nonsense"}]},
        {"volumes": "nonsense"},
        {"volumes": ["nonsense"]},
    ],
)
def test_what_is_ordinary_passes_and_nonsense_is_the_api_servers(spec: Any):
    check_pod(spec, GuestSettings())


def test_the_claim_of_a_volume_is_of_a_class_for_guests():
    with pytest.raises(NotAllowed, match=r"volume v is of the class vip, .*storage_classes under"):
        check_pod(ephemeral(storageClassName="vip"), GuestSettings(storage_classes=("standard",)))


def test_a_taint_that_keeps_guests_off_is_not_tolerated():
    kept = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec = {
        "tolerations": [
            {"operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            {"key": 7},
            "nonsense",
            kept,
        ]
    }
    assert tolerations(spec, GuestSettings()) == [kept]
    assert len(tolerations(spec, OPEN)) == 4
    assert tolerations({"tolerations": "nonsense"}, OPEN) == []


def test_names_of_namespaces_may_be_asked_to_bear_the_consumers():
    own = GuestSettings(namespaces=("*-{peer}",))
    assert namespace_problem("shop-rome", "rome", own) == ""
    assert "namespaces under [guests]" in namespace_problem("shop", "rome", own)
    assert namespace_problem("shop", "rome", GuestSettings()) == ""
