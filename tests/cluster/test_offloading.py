"""Offloading on real control planes: the stock scheduler and controllers, on both sides.

Fake nodes make pods run; everything else is real. What liqod alone decides about pods, namespaces
and peers is tried on embedded clusters (`simulated/consumer/test_offloaded_pods.py`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member
from tests.testbed.workloads import core, deployment, deployments

pytestmark = pytest.mark.cluster


def offload(member: Member, namespace: str, *arguments: str) -> None:
    """`liqod offload namespace`."""
    member.liqod("offload", "namespace", namespace, *arguments)


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


def test_scale_delete_and_recreate(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 3))
    settle(rome, shop, 3)
    scale(rome, shop, "web", 6)
    scale(rome, shop, "web", 2)
    settle(milan, f"{shop}-rome", 2)
    show_where_and_how_they_run(rome.pods(shop), milan.pods(f"{shop}-rome"))

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


def show_where_and_how_they_run(here: dict[str, Any], there: dict[str, Any]) -> None:
    """Of pods here and at milan."""
    for name, local in here.items():
        assert local["status"]["podIP"] == there[name]["status"]["podIP"]
        assert local["status"]["qosClass"] == "Burstable"
        assert there[name]["spec"]["nodeName"] == "milan-0"
        assert there[name]["metadata"]["labels"]["offloading.liqo.io/origin"] == "rome"
