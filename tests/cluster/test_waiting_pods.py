"""Pods that find no place at the peer, by the stock schedulers of both clusters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.workloads import CONTAINER, core, group, pod

pytestmark = pytest.mark.cluster


def sized(name: str, cpu: str) -> dict[str, Any]:
    return pod(name, containers=[{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}])


def test_pods_without_a_place_leave_the_grant_to_smaller_ones(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    here, there = peered.namespace(rome), peered.namespace(milan)
    rome.liqod("offload", "namespace", here, "--pod-offloading-strategy", "Remote")
    room = int(milan.api.get("/api/v1/nodes/milan-0")["status"]["allocatable"]["cpu"])
    milan.create(core(there, "pods"), sized("own", f"{1000 * room - 1500}m"))
    milan.comes_to(core(there, "pods", "own"), lambda one: one["spec"].get("nodeName"))
    for name in ("large-1", "large-2"):  # all four CPUs of the grant
        rome.create(core(here, "pods"), sized(name, "2"))
    node = "/api/v1/nodes/milan"
    rome.comes_to(node, lambda one: one["status"]["allocatable"]["cpu"] == "8", 60)
    assert rome.api.get(node)["status"]["capacity"]["cpu"] == "4"
    rome.create(core(here, "pods"), sized("small", "1"))
    wait_until("the small one runs", lambda: rome.ready_pods(here) == {"small"}, 60)
    shadows = group("offloading.liqo.io/v1beta1", f"{here}-rome", "shadowpods")
    reasons = [each.get("status", {}).get("reason") for each in milan.api.get(shadows)["items"]]
    assert sorted(filter(None, reasons)) == ["OverQuota"]
    milan.api.call("DELETE", core(there, "pods", "own"))
    wait_until("one large pod runs too", lambda: len(rome.ready_pods(here)) == 2, 90)
    rome.api.call("DELETE", core(here, "pods", "small"))
    wait_until("both run", lambda: rome.ready_pods(here) == {"large-1", "large-2"}, 90)
    rome.comes_to(node, lambda one: one["status"]["allocatable"]["cpu"] == "4", 60)
