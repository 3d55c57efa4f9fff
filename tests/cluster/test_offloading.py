"""Offloading on real control planes: the stock scheduler and controllers, on both sides.

Fake nodes make pods run; everything else is real.
"""

from __future__ import annotations

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member
from tests.testbed.workloads import core, deployment, deployments, pod

pytestmark = pytest.mark.cluster


def offload(member: Member, namespace: str, *arguments: str) -> None:
    """`liqod offload namespace`."""
    member.liqod("offload", "namespace", namespace, *arguments)


def nodes_of(member: Member, namespace: str) -> set[str]:
    """The nodes that the pods of a namespace are bound to."""
    return {one["spec"].get("nodeName", "") for one in member.pods(namespace).values()}


def scale(member: Member, namespace: str, name: str, replicas: int) -> None:
    """Changes a Deployment's size and waits until that many pods are Ready, and no more exist."""
    member.patch(deployments(namespace, name), {"spec": {"replicas": replicas}})
    settle(member, namespace, replicas)


def settle(member: Member, namespace: str, replicas: int, seconds: float = 45) -> None:
    """Waits until a namespace has exactly so many pods and all are Ready."""

    def settled() -> bool:
        pods = member.pods(namespace)
        return len(pods) == replicas and len(member.ready_pods(namespace)) == replicas

    try:
        wait_until(f"{replicas} ready pods in {member.name}/{namespace}", settled, seconds, 0.1)
    except TestbedError as late:
        raise TestbedError(f"{late}:\n{unready(member, namespace)}") from None


def unready(member: Member, namespace: str) -> str:
    """How many pods there are, and what the first that are not ready say of themselves."""
    pods = member.pods(namespace)
    names = sorted(pods.keys() - member.ready_pods(namespace))
    shown = [
        f"{name} on {pods[name]['spec'].get('nodeName')}: {pods[name]['status']}" for name in names
    ]
    return "\n".join((f"{len(pods)} pods, {len(names)} not ready", *shown[:3]))


@pytest.mark.parametrize(
    ("strategy", "homes"),
    [("Local", {"rome-0"}), ("Remote", {"milan"}), ("LocalAndRemote", {"rome-0", "milan"})],
)
def test_pod_strategies(peered: Clusters, strategy: str, homes: set[str]) -> None:
    rome = peered.rome
    shop = peered.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", strategy)
    rome.create(deployments(shop), deployment("web", 6))
    settle(rome, shop, 6)
    used = nodes_of(rome, shop)
    assert used <= homes
    assert used == homes or strategy == "LocalAndRemote"
    remote = {name for name, one in rome.pods(shop).items() if one["spec"]["nodeName"] == "milan"}
    remote_pods = peered.milan.pods(f"{shop}-rome") if strategy != "Local" else {}
    assert set(remote_pods) == remote


@pytest.mark.parametrize(
    ("arguments", "remote"),
    [
        (("EnforceSameName",), "{shop}"),
        (("DefaultName",), "{shop}-rome"),
        (("SelectedName", "--remote-namespace-name", "elsewhere"), "elsewhere"),
    ],
    ids=["EnforceSameName", "DefaultName", "SelectedName"],
)
def test_mapping_strategies(peered: Clusters, arguments: tuple[str, ...], remote: str) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    there = remote.format(shop=shop)
    remote_pods = ("--pod-offloading-strategy", "Remote")
    offload(rome, shop, *remote_pods, "--namespace-mapping-strategy", *arguments)
    assert milan.api.exists(f"/api/v1/namespaces/{there}")
    rome.create(core(shop, "pods"), pod("single"))
    settle(rome, shop, 1)
    assert set(milan.pods(there)) == {"single"}

    rome.liqod("unoffload", "namespace", shop, "--yes")
    wait_until(
        "its remote pod to go", lambda: not milan.api.exists(f"/api/v1/namespaces/{there}"), 40
    )


def test_a_namespace_that_is_there_already_is_left_alone(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    milan.create("/api/v1/namespaces", {"metadata": {"name": f"{shop}-rome"}})
    try:
        refused = rome.liqod("offload", "namespace", shop, check=False)
        assert refused.returncode != 0
        found = milan.api.get(f"/api/v1/namespaces/{shop}-rome")
        assert "liqo" not in str(found["metadata"].get("annotations", {}))
        rome.liqod("unoffload", "namespace", shop, "--yes")
        assert milan.api.exists(f"/api/v1/namespaces/{shop}-rome")
        # Once it is gone the right one is made.
        assert rome.liqod("offload", "namespace", shop, check=False).returncode != 0
        milan.api.call("DELETE", f"/api/v1/namespaces/{shop}-rome")
        path = f"/apis/offloading.liqo.io/v1beta1/namespaces/{shop}/namespaceoffloadings/offloading"
        rome.comes_to(path, lambda one: one["status"].get("offloadingPhase") == "Ready", 60)
        found = milan.api.get(f"/api/v1/namespaces/{shop}-rome")
        assert found["metadata"]["annotations"]["liqo.io/original-name"] == shop
    finally:
        milan.api.raw("DELETE", f"/api/v1/namespaces/{shop}-rome")


def test_scale_delete_and_recreate(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 3))
    settle(rome, shop, 3)
    scale(rome, shop, "web", 6)
    scale(rome, shop, "web", 2)
    settle(milan, f"{shop}-rome", 2)

    # A remote pod that someone deletes at the provider comes back there; nothing changes here.
    before = {name: one["metadata"]["uid"] for name, one in rome.pods(shop).items()}
    victim, remote_pod = next(iter(milan.pods(f"{shop}-rome").items()))
    milan.api.call("DELETE", core(f"{shop}-rome", "pods", victim))

    def replaced() -> bool:
        now = milan.pods(f"{shop}-rome").get(victim)
        return now is not None and now["metadata"]["uid"] != remote_pod["metadata"]["uid"]

    wait_until("another remote pod", replaced, 30)
    settle(milan, f"{shop}-rome", 2)
    settle(rome, shop, 2)
    assert {name: one["metadata"]["uid"] for name, one in rome.pods(shop).items()} == before

    # A pod deleted in the local cluster takes its remote pod along, and the Deployment replaces it.
    rome.api.call("DELETE", core(shop, "pods", victim))
    wait_until("the remote pod to go", lambda: victim not in milan.pods(f"{shop}-rome"), 30)
    settle(rome, shop, 2)
    settle(milan, f"{shop}-rome", 2)


def test_pods_show_where_and_how_they_run(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(core(shop, "pods"), pod("single"))
    settle(rome, shop, 1)
    here, there = rome.pods(shop)["single"], milan.pods(f"{shop}-rome")["single"]
    assert here["status"]["podIP"] == there["status"]["podIP"]
    assert here["status"]["qosClass"] == "Burstable"
    assert there["spec"]["nodeName"] == "milan-0"
    assert there["metadata"]["labels"]["offloading.liqo.io/origin"] == "rome"


@pytest.mark.parametrize("killed", ["rome", "milan"])
def test_a_daemon_that_was_down_catches_up(peered: Clusters, killed: str) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 3))
    settle(rome, shop, 3)
    running = {name: one["metadata"]["uid"] for name, one in milan.pods(f"{shop}-rome").items()}

    member = peered.members[killed]
    member.crash()
    rome.patch(deployments(shop, "web"), {"spec": {"replicas": 5}})
    rome.create(core(shop, "pods"), pod("single"))
    wait_until("six pods at home", lambda: len(rome.pods(shop)) == 6, 40)
    member.daemon.start(60)
    settle(rome, shop, 6, 60)
    now = {name: one["metadata"]["uid"] for name, one in milan.pods(f"{shop}-rome").items()}
    assert now.items() >= running.items(), "a running pod was replaced by a daemon's restart"


def test_unoffload_brings_everything_home(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    offload(rome, shop)
    rome.create(deployments(shop), deployment("web", 4))
    settle(rome, shop, 4)
    rome.liqod("unoffload", "namespace", shop, "--yes")
    wait_until(
        "the remote pod to go", lambda: not milan.api.exists(f"/api/v1/namespaces/{shop}-rome"), 40
    )
    # New pods of the namespace know nothing of peers any more.
    rome.create(core(shop, "pods"), pod("after"))
    wait_until("a pod at home", lambda: "after" in rome.ready_pods(shop), 40)
    assert rome.pods(shop)["after"]["spec"]["nodeName"] == "rome-0"


def test_a_selector_chooses_the_peer(two_providers: Clusters) -> None:
    clusters, rome = two_providers, two_providers.rome
    shop = clusters.namespace(rome)
    offload(
        rome,
        shop,
        *("--pod-offloading-strategy", "Remote"),
        *("--selector", "liqo.io/remote-cluster-id=turin"),
    )
    rome.create(deployments(shop), deployment("web", 4))
    settle(rome, shop, 4)
    assert nodes_of(rome, shop) == {"turin"}
    assert clusters.turin.api.exists(f"/api/v1/namespaces/{shop}-rome")
    assert not clusters.milan.api.exists(f"/api/v1/namespaces/{shop}-rome")


def test_two_providers_share_the_pods(two_providers: Clusters) -> None:
    clusters, rome = two_providers, two_providers.rome
    shop = clusters.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 8))
    settle(rome, shop, 8)
    there = {name: set(clusters.members[name].pods(f"{shop}-rome")) for name in ("milan", "turin")}
    assert there["milan"] | there["turin"] == set(rome.pods(shop))
    assert not there["milan"] & there["turin"]
    assert all(there.values())


def test_two_consumers_of_one_provider_are_kept_apart(two_consumers: Clusters) -> None:
    clusters = two_consumers
    for member in (clusters.rome, clusters.turin):
        shop = clusters.namespace(member)
        offload(member, shop, "--pod-offloading-strategy", "Remote")
        member.create(deployments(shop), deployment("web", 3))
        settle(member, shop, 3)
        remote_pods = clusters.milan.pods(f"{shop}-{member.name}")
        assert set(remote_pods) == set(member.pods(shop))


def test_a_pod_over_quota_waits_and_says_so(clusters: Clusters) -> None:
    rome = clusters.rome
    clusters.peer(rome, clusters.milan, cpu="1", memory="1Gi", pods="2")
    shop = clusters.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 3))
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 30)
    # The scheduler already counts what the virtual node has; the third finds no node.
    waiting = [one for one in rome.pods(shop).values() if "nodeName" not in one["spec"]]
    assert len(waiting) == 1
