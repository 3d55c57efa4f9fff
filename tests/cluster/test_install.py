"""`liqod install` and `uninstall` on a cluster of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from tests.testbed import inventory
from tests.testbed.clusters import pod_cidr
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.federation import Member
from tests.testbed.inventory import Item

pytestmark = pytest.mark.cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def member(new_control_plane: Callable[..., ControlPlane]) -> Iterator[Member]:
    """A fresh cluster into which nothing is installed yet."""
    made = Member(new_control_plane("genoa", Settings(pod_cidr=pod_cidr(9))))
    yield made
    made.close()


def versions(member: Member, items: set[Item]) -> dict[str, str]:
    """The resourceVersion of what belongs to liqod among some objects of the core group."""
    return {
        str(item): str(
            member.api.get(f"/api/v1/namespaces/{item.namespace}/{item.resource}/{item.name}")[
                "metadata"
            ]["resourceVersion"]
        )
        for item in items
        if item.namespace == "liqo" and item.resource in {"configmaps", "serviceaccounts"}
    }


def test_all_of_it_can_be_taken_out_again(member: Member) -> None:
    before = member.inventory()
    member.install()
    installed = member.inventory()
    assert member.names(DEFINITIONS)
    # The daemon makes its own keys, Lease and webhook with its own rights.
    member.daemon.start()
    assert member.daemon.stop() < 10

    refused = member.liqod("uninstall", check=False)
    assert refused.returncode != 0, "it asks before it deletes"
    assert "--yes" in refused.stderr
    assert installed <= member.inventory()

    member.liqod("uninstall", "--yes", "--purge")
    inventory.wait_for(member.api, before, 60)


def test_again_it_upgrades_and_writes_only_what_differs(member: Member) -> None:
    member.install()
    installed = member.inventory()
    known = versions(member, installed)
    assert known
    definition = f"{DEFINITIONS}/tenants.authentication.liqo.io"
    generation = member.api.get(definition)["metadata"]["generation"]
    member.liqod("install")
    assert member.inventory() == installed
    assert versions(member, installed) == known
    assert member.api.get(definition)["metadata"]["generation"] == generation

    # What somebody took away comes back; what somebody added to a definition stays.
    member.plane.kubectl("delete", "runtimeclass", "liqo")
    member.liqod("install")
    assert member.api.exists("/apis/node.k8s.io/v1/runtimeclasses/liqo")


def test_another_cluster_id_is_refused(member: Member) -> None:
    member.install()
    refused = member.liqod("install", "--cluster-id", "elsewhere", check=False)
    assert refused.returncode != 0
    assert "genoa" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_beside_liqo_itself_nothing_is_touched(member: Member) -> None:
    labels = {
        "app.kubernetes.io/name": "controller-manager",
        "app.kubernetes.io/component": "controller-manager",
        "app.kubernetes.io/part-of": "liqo",
    }
    member.plane.kubectl("create", "namespace", "liqo")
    container = {
        "name": "controller-manager",
        "image": "ghcr.io/liqotech/liqo-controller-manager:v1.2.0",
    }
    deployment = {
        "metadata": {"name": "liqo-controller-manager", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    member.create("/apis/apps/v1/namespaces/liqo/deployments", deployment)
    before = {
        item for item in member.inventory() if item.resource not in {"pods", "replicasets.apps"}
    }
    refused = member.liqod("install", "--cluster-id", "genoa", check=False)
    assert refused.returncode != 0
    assert "Liqo" in refused.stderr
    assert {
        item for item in member.inventory() if item.resource not in {"pods", "replicasets.apps"}
    } == before


def test_dry_run_prints_what_kubectl_can_apply(member: Member) -> None:
    before = member.inventory()
    printed = member.liqod("install", "--cluster-id", "genoa", "--dry-run", "-o", "yaml").stdout
    assert member.inventory() == before
    documents = [one for one in yaml.safe_load_all(printed) if one]
    assert {"CustomResourceDefinition", "ClusterRole", "ServiceAccount"} <= {
        one["kind"] for one in documents
    }
    path = member.folder / "all.yaml"
    path.write_text(printed)
    member.plane.kubectl("apply", "--server-side", "-f", str(path))
    member.liqod("install", "--cluster-id", "genoa")
