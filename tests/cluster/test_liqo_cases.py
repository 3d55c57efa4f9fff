"""Cases by which Liqo tests itself from end to end, asked of liqod on real control planes.

The table of Liqo's cases and the tests that show them is in docs/background/architecture.md;
here are those that no other file asks in the same way.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import core, deployment, deployments, group, pod

pytestmark = [pytest.mark.cluster, pytest.mark.placement]

VIRTUAL, REAL = "Exists", "DoesNotExist"
PODS: dict[str, tuple[str, bool]] = {
    "there": (VIRTUAL, False),
    "here": (REAL, False),
    "there-by-class": (VIRTUAL, True),
    "here-by-class": (REAL, True),
}
"""Pods by name: the nodes that they are pinned to, and whether they name RuntimeClass `liqo`."""


def pinned(name: str, nodes: str, *, by_class: bool) -> dict[str, Any]:
    """A pod that is to run on virtual nodes only, or on others only."""
    term = {"matchExpressions": [{"key": "liqo.io/type", "operator": nodes}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec: dict[str, Any] = {"affinity": {"nodeAffinity": required}}
    return pod(name, **spec, **({"runtimeClassName": "liqo"} if by_class else {}))


def refused_by_scheduler(member: Member, namespace: str) -> set[str]:
    """The pods for which the scheduler has said that it finds no node."""
    return {
        name
        for name, one in member.pods(namespace).items()
        for each in one["status"].get("conditions", ())
        if each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable"
    }


@pytest.mark.parametrize(
    ("strategy", "runs"),
    [
        ("Local", {"here", "there-by-class"}),
        ("Remote", {"there", "there-by-class"}),
        ("LocalAndRemote", {"there", "here", "there-by-class"}),
    ],
)
def test_which_strategy_lets_which_pod_run(peered: Clusters, strategy: str, runs: set[str]) -> None:
    """Liqo's `offloadingpolicies`: three strategies by four pods."""
    rome = peered.rome
    shop = peered.namespace(rome)
    rome.liqod("offload", "namespace", shop, "--pod-offloading-strategy", strategy)
    for name, (nodes, by_class) in PODS.items():
        rome.create(core(shop, "pods"), pinned(name, nodes, by_class=by_class))
    wait_until(f"{runs} to run", lambda: rome.ready_pods(shop) >= runs, 40)
    others = PODS.keys() - runs
    wait_until(f"no node for {others}", lambda: refused_by_scheduler(rome, shop) >= others, 40)
    assert set(rome.ready_pods(shop)) == runs
    bound = {name: one["spec"].get("nodeName") for name, one in rome.pods(shop).items()}
    assert {name for name in runs if bound[name] == "milan"} == {
        name for name in runs if name.startswith("there")
    }


def test_what_a_drained_and_a_cordoned_tenant_can_do(peered: Clusters, shop: str) -> None:
    """Liqo's `resourceenforcement`: a tenant that is active, drained, active again and cordoned."""
    rome, milan = peered.rome, peered.milan
    before = set(rome.ready_pods(shop))
    assert len(before) == 2
    milan.liqod("drain", "tenant", "rome", "--yes")

    def ended() -> bool:
        pods = rome.pods(shop)
        return not milan.pods(f"{shop}-rome") and not before & {
            name for name, one in pods.items() if one["status"]["phase"] == "Running"
        }

    wait_until("the pods of a drained tenant to end", ended, 60)
    assert not rome.ready_pods(shop)
    milan.liqod("activate", "tenant", "rome")
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 60)

    milan.liqod("cordon", "tenant", "rome")
    try:
        running = set(rome.ready_pods(shop))
        rome.create(deployments(shop), deployment("late", 1))

        def refused() -> bool:
            pods = rome.pods(shop)
            late = pods.keys() - running
            return any("cordoned" in pods[name]["status"].get("message", "") for name in late)

        wait_until("the late pod to be refused", refused, 30)
        assert set(rome.ready_pods(shop)) == running
    finally:
        milan.liqod("uncordon", "tenant", "rome")
    wait_until("the late pod to run", lambda: len(rome.ready_pods(shop)) == 3, 90)


def test_a_cron_job_runs_at_the_peer_and_replaces_what_runs_too_long(
    peered: Clusters, shop: str
) -> None:
    rome, milan = peered.rome, peered.milan
    path = group("batch/v1", shop, "cronjobs")
    once = pod("x")["spec"] | {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    spec: dict[str, Any] = {
        "schedule": "* * * * *",
        "suspend": True,
        "concurrencyPolicy": "Replace",
        "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": once}}},
    }
    rome.create(path, {"metadata": {"name": "tick"}, "spec": spec})
    # A Job is named by its minute: that of the one before, and then that of now.
    minute = (datetime.now(UTC) - timedelta(minutes=1)).minute
    first = runs_next(rome, shop, f"{minute} * * * *", set())
    second = runs_next(rome, shop, "* * * * *", {first})
    wait_until("the first to be replaced", lambda: first not in rome.pods(shop), 40)
    wait_until("at the peer, too", lambda: first not in milan.pods(f"{shop}-rome"), 40)
    assert second in milan.ready_pods(f"{shop}-rome")
    rome.api.call("DELETE", f"{path}/tick")
    wait_until("nothing of it there", lambda: second not in milan.pods(f"{shop}-rome"), 40)


def runs_next(member: Member, namespace: str, schedule: str, known: set[str]) -> str:
    """Has the CronJob make up for a start that was due; its pod, once that is Ready."""
    path = group("batch/v1", namespace, "cronjobs", "tick")
    last = datetime.now(UTC) - timedelta(minutes=3)
    told = {"lastScheduleTime": last.strftime("%Y-%m-%dT%H:%M:%SZ")}
    member.patch(path, {"spec": {"suspend": True, "schedule": schedule}})
    member.patch(f"{path}/status", {"status": told})
    member.patch(path, {"spec": {"suspend": False}})  # its controller looks at it at once

    def ready() -> list[str]:
        return [
            each
            for each in member.ready_pods(namespace)
            if each.startswith("tick-") and each not in known
        ]

    wait_until("the next run", lambda: bool(ready()), 40)
    return ready()[0]
