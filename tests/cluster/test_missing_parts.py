"""Parts of the installation that somebody takes away or changes under a running daemon.

A definition deleted under load and installed again, a webhook that the API server cannot reach, a
cluster id that is another one all of a sudden: `status` names it and the remedy, nothing of others
is touched, and all is as before once it is repaired.
"""

from __future__ import annotations

import time

import pytest

from tests.cluster.test_killed_daemons import Churn, answered
from tests.cluster.test_offloading import nodes_of, offload, settle
from tests.testbed.api import wait_until
from tests.testbed.clusters import SLICES, Clusters
from tests.testbed.federation import Member
from tests.testbed.processes import free_ports
from tests.testbed.witness import Witness
from tests.testbed.workloads import core, deployment, deployments, pod

pytestmark = pytest.mark.cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TENANTS = "/apis/authentication.liqo.io/v1beta1/tenants"
CLUSTER_ID = core("liqo", "configmaps", "liqo-clusterid-configmap")
WEBHOOK_DEADLINE = 2.0
"""Seconds that the API server waits for the webhook."""


def remote(clusters: Clusters, replicas: int) -> str:
    """A namespace of rome whose pods run at milan, with so many of them."""
    shop = clusters.namespace(clusters.rome)
    offload(clusters.rome, shop, "--pod-offloading-strategy", "Remote")
    clusters.rome.create(deployments(shop), deployment("web", replicas))
    settle(clusters.rome, shop, replicas)
    return shop


@pytest.mark.parametrize(
    ("where", "definitions", "pods_stay"),
    [
        ("milan", ("namespacemaps.offloading", "resourceslices.authentication"), True),
        ("rome", ("namespacemaps.offloading", "virtualnodes.offloading"), True),
        # Kubernetes itself collects the pods, which the ShadowPods own.
        ("milan", ("shadowpods.offloading",), False),
    ],
    ids=["what the provider was asked", "what the consumer asks", "shadow pods"],
)
def test_definitions_deleted_under_load(
    peered: Clusters, where: str, definitions: tuple[str, ...], *, pods_stay: bool
) -> None:
    rome, milan, there = peered.rome, peered.milan, peered.members[where]
    shop = remote(peered, 3)
    reflected = f"{shop}-rome"
    theirs = core(reflected, "configmaps", "theirs")
    milan.create(core(reflected, "configmaps"), {"metadata": {"name": "theirs"}})
    kept = [f"/api/v1/namespaces/{reflected}", theirs]
    before = [milan.api.get(path)["metadata"]["uid"] for path in kept]
    node = rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"]
    with Witness(rome.api, shop) as context, Witness(milan.api, reflected) as away:
        with Churn(rome, shop) as churn:
            delete(there, *definitions)
            shown = there.liqod("status").stdout
            for each in definitions:
                assert f"the custom resource {each}.liqo.io is missing" in shown
            there.liqod("install")
        last = {f"churn-{number}" for number in range(max(churn.made - 5, 0), churn.made)}

        def settled() -> bool:
            here = rome.ready_pods(shop)
            web = {name for name in here if name.startswith("web-")}
            return len(web) == 3 and here - web == last and set(milan.pods(reflected)) == here

        wait_until("the pods that are to be there, and no other", settled, 90)
    assert [milan.api.get(path)["metadata"]["uid"] for path in kept] == before
    assert rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"] == node
    assert rome.node_is_ready("milan")
    assert not context.replaced()
    assert not pods_stay or not away.replaced()
    assert "is missing" not in there.liqod("status").stdout


def delete(member: Member, *definitions: str) -> None:
    """Deletes definitions, and waits until they are gone with all objects of their kinds."""
    paths = [f"{DEFINITIONS}/{each}.liqo.io" for each in definitions]
    for path in paths:
        member.api.call("DELETE", path)
    wait_until("their end", lambda: not any(member.api.exists(path) for path in paths), 30)


def restart(member: Member) -> None:
    member.daemon.stop()
    member.daemon.start(60)


def test_a_webhook_that_answers_nothing(peered: Clusters) -> None:
    """A daemon that hangs: pods of other namespaces never know, those of offloaded ones stay."""
    rome = peered.rome
    shop, plain = remote(peered, 2), peered.namespace(rome)
    assert rome.daemon.child is not None
    rome.daemon.child.freeze()
    try:
        took = []
        for name in ("plain", "also", "third"):
            began = time.monotonic()
            rome.create(core(plain, "pods"), pod(name))
            took.append(time.monotonic() - began)
        assert min(took) < WEBHOOK_DEADLINE
        began = time.monotonic()
        rome.create(core(shop, "pods"), pod("missed"))
        assert time.monotonic() - began < 5 * WEBHOOK_DEADLINE
        wait_until("one pod", lambda: runs(rome, plain, "plain"), 40)
        wait_until("the other", lambda: runs(rome, shop, "missed"), 40)
    finally:
        rome.daemon.child.thaw()
    assert rome.pods(shop)["missed"]["spec"]["nodeName"] == "rome-0"


def runs(member: Member, namespace: str, name: str) -> bool:
    return name in member.ready_pods(namespace)


def test_a_webhook_that_cannot_be_reached(peered: Clusters) -> None:
    rome = peered.rome
    shop, plain, both = remote(peered, 2), peered.namespace(rome), peered.namespace(rome)
    (port,) = free_ports(1)
    rome.daemon.settings["webhook"] = {"advertise": f"127.0.0.1:{port}"}
    restart(rome)
    try:
        said = f"the API server cannot reach the webhook: nothing answers it at https://127.0.0.1:{port}"
        wait_until("its word", lambda: said in rome.liqod("status").stdout, 30)
        assert str(port) in offload_says(rome, both)
        rome.create(core(plain, "pods"), pod("plain"))
        rome.create(core(shop, "pods"), pod("missed"))
        # Without its toleration this one finds no node; it is given one.
        virtual = {"liqo.io/type": "virtual-node"}
        rome.create(core(both, "pods"), pod("stray", nodeSelector=virtual))
        wait_until("the stray", lambda: runs(rome, both, "stray"), 30)
        wait_until("others", lambda: runs(rome, plain, "plain") and runs(rome, shop, "missed"), 40)
        assert nodes_of(rome, both) == {"milan"}
        assert rome.pods(shop)["missed"]["spec"]["nodeName"] == "rome-0"
        shown = rome.liqod("status").stdout
        assert f"1 pod of {shop}" in " ".join(shown.split())
    finally:
        del rome.daemon.settings["webhook"]
        restart(rome)
    rome.api.call("DELETE", core(shop, "pods", "missed"))
    wait_until("a quiet status", lambda: "problems" not in rome.liqod("status").stdout, 40)
    rome.create(core(shop, "pods"), pod("later"))
    wait_until("a pod at milan", lambda: runs(rome, shop, "later"), 40)
    assert rome.pods(shop)["later"]["spec"]["nodeName"] == "milan"


def offload_says(member: Member, namespace: str) -> str:
    answer = member.liqod("offload", "namespace", namespace)
    return answer.stdout + answer.stderr


def identities(clusters: Clusters) -> dict[str, tuple[str, str]]:
    """Returns UID and generation of a peering's objects on both sides, by kind and cluster."""
    found = {}
    for member in (clusters.rome, clusters.milan):
        for path in (TENANTS, SLICES, "/apis/offloading.liqo.io/v1beta1/namespacemaps"):
            for one in member.api.get(path)["items"]:
                meta = one["metadata"]
                key = f"{member.name}{path}/{meta['namespace']}/{meta['name']}"
                found[key] = (meta["uid"], str(meta.get("generation")))
    return found


def test_a_cluster_id_changed_by_mistake(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = remote(peered, 2)
    before, node = identities(peered), rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"]
    (port,) = free_ports(1)
    rome.daemon.settings["health"] = {"port": port}
    mark = rome.daemon.mark()
    said = "this cluster is rome to its peers, and cannot become roma"
    with Witness(milan.api, f"{shop}-rome") as away:
        rome.patch(CLUSTER_ID, {"data": {"CLUSTER_ID": "roma"}})
        # The running daemon says so, and goes on under the id that its peers know.
        wait_until("its word", lambda: any(said in line for line in rome.daemon.lines(mark)), 40)
        assert said in rome.liqod("status").stdout
        rome.patch(deployments(shop, "web"), {"spec": {"replicas": 3}})
        settle(rome, shop, 3)

        # One that starts does nothing before it is repaired.
        rome.daemon.stop()
        rome.daemon.launch()
        wait_until("its refusal", lambda: rome.daemon.has_said(f"STATUS=waiting: {said}"), 30)
        assert answered(port) == (503, answered(port)[1])
        assert said in answered(port)[1]
        refused = rome.liqod("peer", "--remote-kubeconfig", str(rome.plane.kubeconfig), check=False)
        assert refused.returncode != 0
        assert said in refused.stderr
        assert identities(peered) == before
        assert rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"] == node

        rome.liqod("install", "--cluster-id", "rome")
        wait_until("the leader", lambda: rome.daemon.has_said("STATUS=leading"), 40)
        rome.patch(deployments(shop, "web"), {"spec": {"replicas": 4}})
        settle(rome, shop, 4)
    del rome.daemon.settings["health"]
    assert not away.replaced()
    assert identities(peered) == before
    assert rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"] == node
    assert said not in rome.liqod("status").stdout
