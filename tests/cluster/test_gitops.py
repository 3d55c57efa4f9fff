"""The repository of `examples/gitops`, applied with kubectl and pruned, with a peering in it.

The steps of such a peering, and what is planned of them, are tried in every run on embedded
clusters.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from liqod.identity import keys
from tests.cluster.test_meeting import INCOMING, OUTGOING, nothing_is_left, with_settings
from tests.testbed.api import wait_until
from tests.testbed.clusters import FOREIGN_CLUSTERS, Clusters
from tests.testbed.federation import COMMAND_DEADLINE, Member
from tests.testbed.processes import free_ports
from tests.testbed.workloads import deployment, deployments

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "gitops"
PART = "app.kubernetes.io/part-of=peerings"
PRUNED = (
    *("core/v1/Namespace", "offloading.liqo.io/v1beta1/NamespaceOffloading"),
    *("peering.liqod.io/v1alpha1/OutgoingPeering", "peering.liqod.io/v1alpha1/IncomingPeering"),
)
KEPT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "liqo"}}
"""kubectl prunes only in namespaces that something is applied to."""
SERVICE = "/api/v1/namespaces/liqo/services/listed"
KEYS = "/api/v1/namespaces/liqo/secrets/authentication-keys"


@pytest.fixture
def met(clusters: Clusters) -> Iterator[Clusters]:
    """The clusters, of which milan listens."""
    [port] = free_ports(1)
    with with_settings(clusters.milan, {"handshake": {"host": "127.0.0.1", "port": port}}):
        yield clusters


def public_key(member: Member) -> bytes:
    """The PEM of its key."""
    return keys.public_pem(base64.b64decode(member.api.get(KEYS)["data"]["privateKey"]))


def repository(folder: Path, rome: Member, milan: Member) -> Path:
    """The example, with these clusters' keys and milan's address."""
    made = folder / "gitops"
    shutil.copytree(EXAMPLE, made)
    outgoing, incoming = made / "rome" / "milan.yaml", made / "milan" / "rome.yaml"
    _, asked = yaml.safe_load_all(outgoing.read_text())
    _, let_in = yaml.safe_load_all(incoming.read_text())
    port = milan.daemon.settings["handshake"]["port"]
    text = outgoing.read_text().replace(asked["spec"]["key"], keys.print_of(public_key(milan)))
    outgoing.write_text(text.replace(asked["spec"]["addresses"][0], f"127.0.0.1:{port}"))
    own = public_key(rome)
    before, after = (each.splitlines()[1] for each in (let_in["spec"]["publicKey"], own.decode()))
    named = f"rome-{keys.print_of(own)[:8]}"
    text = incoming.read_text().replace(let_in["metadata"]["name"], named)
    incoming.write_text(text.replace(before, after))
    return made


def apply(member: Member, folder: Path) -> None:
    """As a GitOps controller does: what is there no more is pruned."""
    allowed = [f"--prune-allowlist={each}" for each in PRUNED]
    member.plane.kubectl("apply", "-k", str(folder), "--prune", "-l", PART, *allowed)


def planned(member: Member, folder: Path, status: int) -> dict[str, dict[str, str]]:
    """What `liqod plan` says of a kustomization: by object the clusters by what happens there."""
    manifests = member.plane.kubectl("kustomize", str(folder))
    answer = member.liqod(
        *("plan", "-f", "-", "--prune", PART, "-o", "json"),
        check=False,
        timeout=COMMAND_DEADLINE,
        given=manifests,
    )
    assert answer.returncode == status, answer.stdout + answer.stderr
    return {
        f"{each['kind']} {each['name']}": {
            one["action"]: one["cluster"] for one in each["consequences"]
        }
        for each in json.loads(answer.stdout)["objects"]
        if each["change"] != "same" or each["consequences"]
    }


def status(member: Member, manifest: Path) -> int:
    """The exit status of `liqod plan` of one file."""
    plan = ("plan", "-f", str(manifest))
    return member.liqod(*plan, check=False, timeout=COMMAND_DEADLINE).returncode


def without(folder: Path, name: str) -> None:
    """Takes a file out of a kustomization."""
    (folder / name).unlink()
    path = folder / "kustomization.yaml"
    path.write_text(path.read_text().replace(f"  - {name}\n", ""))


@pytest.mark.release
def test_the_repository_is_applied_planned_and_pruned(met: Clusters, tmp_path: Path) -> None:
    rome, milan = met.rome, met.milan
    made = repository(tmp_path, rome, milan)
    begun = planned(rome, made / "rome", 2)
    assert begun["OutgoingPeering milan"] == {"begins": "milan"}
    assert begun["NamespaceOffloading offloading"] == {"waits": "rome"}

    # The one that asks first: it asks until it is let in.
    apply(rome, made / "rome")
    apply(milan, made / "milan")
    wait_until("the virtual node", lambda: rome.node_is_ready("milan"), 60)
    assert rome.api.get("/api/v1/nodes/milan")["status"]["allocatable"]["pods"] == "50"
    rome.create(deployments("shop"), deployment("web", 1))
    wait_until("a pod", lambda: len(rome.ready_pods("shop")) == 1, 60)

    for member in (rome, milan):
        apply(member, made / member.name)
        assert planned(member, made / member.name, 0) == {}

    without(made / "rome", "shop.yaml")
    assert planned(rome, made / "rome", 2)["NamespaceOffloading offloading"]["ends"] == "milan"
    apply(rome, made / "rome")
    rome.goes("/api/v1/namespaces/shop", 90)
    milan.goes("/api/v1/namespaces/shop-rome", 90)

    path = made / "rome" / "milan.yaml"
    path.write_text(path.read_text().partition("---\n")[0])
    assert planned(rome, made / "rome", 2)["OutgoingPeering milan"] == {"ends": "milan"}
    (made / "rome" / "kept.yaml").write_text(yaml.safe_dump(KEPT))
    kustomization = made / "rome" / "kustomization.yaml"
    before = kustomization.read_text()
    kustomization.write_text(f"{before}  - kept.yaml\n")
    apply(rome, made / "rome")
    rome.goes("/api/v1/nodes/milan", 150)
    assert rome.api.exists("/api/v1/namespaces/liqo-tenant-milan")
    kustomization.write_text(before)

    for member, name in ((rome, "milan.yaml"), (milan, "rome.yaml")):
        peer = name.removesuffix(".yaml")
        (made / member.name / "kept.yaml").write_text(yaml.safe_dump(KEPT))
        path = made / member.name / "kustomization.yaml"
        path.write_text(f"{path.read_text()}  - kept.yaml\n")
        without(made / member.name, name)
        ended = planned(member, made / member.name, 2)
        assert ended[f"Namespace liqo-tenant-{peer}"] == {"ends": peer}
        apply(member, made / member.name)
        member.goes(f"/api/v1/namespaces/liqo-tenant-{peer}", 90)
        member.goes(f"{FOREIGN_CLUSTERS}/{peer}", 60)
        member.plane.kubectl("delete", "-n", "liqo", "configmap", "kept")
    assert not rome.api.exists("/api/v1/nodes/milan")
    assert rome.names(OUTGOING) == milan.names(INCOMING) == set()
    nothing_is_left(met)


def test_items_that_are_taken_out_of_lists_are_planned(clusters: Clusters, tmp_path: Path) -> None:
    rome, manifest = clusters.rome, tmp_path / "service.yaml"
    ports = [{"name": f"p{each}", "port": each, "protocol": "TCP"} for each in (80, 81, 82)]
    service: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "listed", "namespace": "liqo"},
        "spec": {"type": "NodePort", "selector": {"app": "x"}, "ports": ports},
    }
    try:
        for kept in (3, 2, 1):
            service["spec"]["ports"] = service["spec"]["ports"][:kept]
            manifest.write_text(yaml.safe_dump(service))
            assert status(rome, manifest) == 2
            rome.plane.kubectl("apply", "-f", str(manifest))
            assert len(rome.api.get(SERVICE)["spec"]["ports"]) == kept
            assert status(rome, manifest) == 0
    finally:
        rome.plane.kubectl("delete", "-n", "liqo", "service", "listed", "--ignore-not-found")
