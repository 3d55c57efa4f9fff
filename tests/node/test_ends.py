"""How pods at a peer end: by their own exit code, by what the peer does to them, and in order.

The kubelet is real, on one side; a fake node beside it is where drained pods go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.node import pairs
from tests.testbed.api import wait_until
from tests.testbed.controlplane import Settings
from tests.testbed.federation import Member
from tests.testbed.node import NodeCluster
from tests.testbed.workloads import CONTAINER, core, deployment, deployments, group, pod

pytestmark = [pytest.mark.node, pytest.mark.pods]

THERE = "shop-lucca"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
BY_CODE = {
    "action": "FailJob",
    "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]},
}


@contextmanager
def borrowing(
    real_node_cluster: NodeCluster, **settings: dict[str, Any]
) -> Iterator[tuple[Member, Member]]:
    """A borrower and a lender: the lender has one real node, and a fake one that is cordoned."""
    planes = Settings(pod_cidr="10.203.0.0/16")
    with pairs.pair(real_node_cluster, "lucca", planes, own=settings, nodes=0, spare=1) as made:
        naples = made.members["naples"]
        schedulable(naples, spare(naples), there=False)
        with pairs.offloading(made) as both:
            yield both


@pytest.fixture(scope="module")
def pair(real_node_cluster: NodeCluster) -> Iterator[tuple[Member, Member]]:
    """Both, for all tests here."""
    with borrowing(real_node_cluster) as made:
        yield made


def spare(naples: Member) -> str:
    """The fake node of the lender."""
    return f"{naples.name}-0"


def real(naples: Member) -> str:
    """Its real one."""
    names = {str(each["metadata"]["name"]) for each in naples.api.get("/api/v1/nodes")["items"]}
    (name,) = names - {spare(naples)}
    return name


def schedulable(member: Member, node: str, *, there: bool) -> None:
    member.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": not there or None}})


@contextmanager
def on_the_spare_node(naples: Member) -> Iterator[None]:
    """Places new pods on the fake node while the block lasts."""
    schedulable(naples, real(naples), there=False)
    schedulable(naples, spare(naples), there=True)
    try:
        yield
    finally:
        schedulable(naples, real(naples), there=True)
        schedulable(naples, spare(naples), there=False)


def evict(member: Member, namespace: str, name: str) -> None:
    """Evicts a pod as `kubectl drain` does."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    member.create(core(namespace, "pods", f"{name}/eviction"), eviction)


def job(name: str, command: str, rule: dict[str, Any]) -> dict[str, Any]:
    container = {**CONTAINER, "command": ["/bin/sh", "-c", command]}
    once = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    spec = {"backoffLimit": 3, "podFailurePolicy": {"rules": [rule]}, "template": {"spec": once}}
    return {"metadata": {"name": name}, "spec": spec}


def jobs(name: str = "") -> str:
    return group("batch/v1", "shop", "jobs", name)


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    found = obj.get("status", {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})


def of(member: Member, namespace: str, word: str) -> dict[str, dict[str, Any]]:
    """The pods whose name begins like that."""
    return {name: one for name, one in member.pods(namespace).items() if name.startswith(word)}


def test_a_job_ends_by_the_exit_code_that_its_policy_names(pair: tuple[Member, Member]) -> None:
    context, _ = pair
    context.create(jobs(), job("coded", "exit 42", BY_CODE))
    ended = context.comes_to(jobs("coded"), lambda one: condition(one, "Failed"), 40)
    assert condition(ended, "Failed")["reason"] == "PodFailurePolicy"
    (found,) = of(context, "shop", "coded").values()
    (main,) = found["status"]["containerStatuses"]
    assert main["state"]["terminated"]["exitCode"] == 42
    context.api.call("DELETE", jobs("coded") + "?propagationPolicy=Background")


def test_a_jobs_pod_that_is_evicted_there_does_not_count(pair: tuple[Member, Member]) -> None:
    context, naples = pair
    context.create(jobs(), job("moved", "exec sleep 1000", IGNORED))
    wait_until(
        "it to run", lambda: of(context, "shop", "moved").keys() & context.ready_pods("shop"), 40
    )
    (first,) = of(context, "shop", "moved")
    evict(naples, THERE, first)

    def another() -> bool:
        return bool((of(context, "shop", "moved").keys() - {first}) & context.ready_pods("shop"))

    wait_until("another pod of the Job", another, 60)
    assert context.api.get(jobs("moved"))["status"].get("failed", 0) == 0
    context.api.call("DELETE", jobs("moved") + "?propagationPolicy=Background")


def test_pods_of_a_node_that_is_drained_there_are_placed_anew(pair: tuple[Member, Member]) -> None:
    """One of a Deployment ends here, too, and another is placed; a bare one is made again there."""
    context, naples = pair
    context.create(deployments("shop"), deployment("web", 1))
    context.create(core("shop", "pods"), pod("bare"))
    wait_until(
        "two to run", lambda: of(context, "shop", "web").keys() & context.ready_pods("shop"), 40
    )
    wait_until("the bare one to run", lambda: "bare" in context.ready_pods("shop"), 40)
    ((first, _),) = of(context, "shop", "web").items()
    bare = context.pods("shop")["bare"]
    with on_the_spare_node(naples):
        evict(naples, THERE, first)
        evict(naples, THERE, "bare")
        wait_until("the evicted to go", lambda: first not in context.pods("shop"), 40)
        wait_until(
            "another", lambda: of(context, "shop", "web").keys() & context.ready_pods("shop"), 40
        )
        ((_, there),) = of(naples, THERE, "web").items()
        assert there["spec"]["nodeName"] == spare(naples)
        told = context.api.get(
            core("shop", "events") + f"?fieldSelector=involvedObject.name={first}"
        )
        (why,) = {each["message"] for each in told["items"] if each["reason"] == "TakenAway"}
        assert why.startswith("naples has taken the pod away")

        def made_again() -> bool:
            (main,) = context.pods("shop")["bare"]["status"]["containerStatuses"]
            return main["restartCount"] == 1 and "bare" in context.ready_pods("shop")

        wait_until("the bare one to be made again", made_again, 40)
        assert context.pods("shop")["bare"]["metadata"]["uid"] == bare["metadata"]["uid"]
        assert naples.pods(THERE)["bare"]["spec"]["nodeName"] == spare(naples)
    context.api.call("DELETE", deployments("shop", "web"))
    context.api.call("DELETE", core("shop", "pods", "bare"))
    wait_until("nothing left", lambda: not naples.pods(THERE), 40)


def test_who_is_preempted_there_waits_with_the_peers_words(pair: tuple[Member, Member]) -> None:
    context, naples = pair
    wanted = {"requests": {"cpu": "1200m"}}  # of the two that the node has
    made = deployment("low", 1)
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = wanted
    context.create(deployments("shop"), made)
    wait_until(
        "it to run", lambda: of(context, "shop", "low").keys() & context.ready_pods("shop"), 40
    )
    (first,) = of(context, "shop", "low")
    naples.create(PRIORITIES, {"metadata": {"name": "own"}, "value": 1000})
    own = pod("own", priorityClassName="own")
    own["spec"]["containers"][0]["resources"] = wanted
    naples.create(core("default", "pods"), own)
    try:
        wait_until("the lender's own to run", lambda: "own" in naples.ready_pods("default"), 60)

        def waits() -> bool:
            ((name, one),) = of(context, "shop", "low").items()
            status = one["status"]
            return name != first and status.get("reason") == "Unschedulable"

        wait_until("the guest to say that it waits", waits, 40)
        assert not of(context, "shop", "low").keys() & context.ready_pods("shop")
    finally:
        naples.api.call("DELETE", core("default", "pods", "own"))
        naples.api.call("DELETE", f"{PRIORITIES}/own")
    wait_until(
        "it to run", lambda: of(context, "shop", "low").keys() & context.ready_pods("shop"), 60
    )
    context.api.call("DELETE", deployments("shop", "low"))


def test_a_stateful_set_begins_and_ends_in_its_order(pair: tuple[Member, Member]) -> None:
    context, naples = pair
    template = deployment("db", 2)["spec"]["template"]
    spec = {
        "replicas": 2,
        "serviceName": "db",
        "selector": {"matchLabels": template["metadata"]["labels"]},
        "template": template,
    }
    path = group("apps/v1", "shop", "statefulsets")
    context.create(path, {"metadata": {"name": "db"}, "spec": spec})
    both = {"db-0", "db-1"}
    wait_until("both", lambda: both <= context.ready_pods("shop"), 40)
    first, second = (naples.pods(THERE)[name] for name in ("db-0", "db-1"))
    ready = condition(first, "Ready")["lastTransitionTime"]
    assert second["metadata"]["creationTimestamp"] >= ready
    context.patch(f"{path}/db", {"spec": {"replicas": 0}})
    wait_until("the second to end", lambda: "db-1" not in naples.pods(THERE), 40)
    wait_until("the first to end", lambda: "db-0" not in naples.pods(THERE), 40)
    wait_until("nothing here", lambda: not of(context, "shop", "db"), 40)
    context.api.call("DELETE", f"{path}/db")


def test_daemon_sets_come_where_they_name_virtual_nodes(pair: tuple[Member, Member]) -> None:
    context, naples = pair
    path = group("apps/v1", "shop", "daemonsets")
    everywhere = [{"operator": "Exists"}]
    for name, selector in ("asked", {"liqo.io/type": "virtual-node"}), ("everywhere", {}):
        template = deployment(name, 1)["spec"]["template"]
        template["spec"] |= {"tolerations": everywhere, "nodeSelector": selector}
        wanted = {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
        context.create(path, {"metadata": {"name": name}, "spec": wanted})

    def shown() -> bool:
        (other,) = of(context, "shop", "everywhere").values()
        return bool(other["status"].get("reason") == "DaemonSetPod")

    wait_until(
        "the one that asks",
        lambda: of(context, "shop", "asked").keys() & context.ready_pods("shop"),
        40,
    )
    wait_until("the other to say why it waits", shown, 20)
    assert not of(naples, THERE, "everywhere")
    for name in "asked", "everywhere":
        context.api.call("DELETE", f"{path}/{name}")
