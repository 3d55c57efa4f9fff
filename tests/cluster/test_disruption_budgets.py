"""PodDisruptionBudgets hold evictions at a peer: real disruption controllers on both sides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import core, deployment, deployments, group

pytestmark = pytest.mark.cluster

APP = {"app": "web"}


def budgets(namespace: str, name: str = "") -> str:
    return group("policy/v1", namespace, "poddisruptionbudgets", name)


def evict(member: Member, namespace: str, name: str) -> int:
    """Evicts a pod as `kubectl drain` does, and returns the status of the answer."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    status, _ = member.api.raw("POST", core(namespace, "pods", f"{name}/eviction"), body)
    return status


def least(found: dict[str, Any]) -> int:
    """How many pods a budget asks for, once its controller has taken that up; -1 before."""
    seen = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
    return int(found["spec"]["minAvailable"]) if seen else -1


def ready(member: Member, namespace: str, count: int) -> None:
    wait_until(f"{count} ready pods", lambda: len(member.ready_pods(namespace)) == count, 40)


def test_a_drain_at_the_peer_waits_for_the_budget_here(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    there = f"{shop}-rome"
    rome.liqod("offload", "namespace", shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 3))
    ready(rome, shop, 3)
    spec: dict[str, Any] = {"selector": {"matchLabels": APP}, "minAvailable": "100%"}
    rome.create(budgets(shop), {"metadata": {"name": "web"}, "spec": spec})
    milan.comes_to(budgets(there, "web"), lambda one: least(one) == 3)
    first, *_ = milan.ready_pods(there)
    assert evict(milan, there, first) == 429
    change = {"spec": {"minAvailable": None, "maxUnavailable": 1}}
    rome.patch(budgets(shop, "web"), change)
    milan.comes_to(budgets(there, "web"), lambda one: least(one) == 2)
    assert evict(milan, there, first) == 201
    wait_until("its end to be seen", lambda: first not in rome.ready_pods(shop), 40)
    ready(rome, shop, 3)
    milan.comes_to(budgets(there, "web"), lambda one: least(one) == 2)
    rome.api.call("DELETE", budgets(shop, "web"))
    milan.goes(budgets(there, "web"))
