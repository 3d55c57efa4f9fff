"""Pods of fragmented and unlike machines, of zones and of Jobs, by the stock schedulers of both
clusters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.testbed import evidence
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Federation, Member, is_true
from tests.testbed.fixtures import give_up, start_all
from tests.testbed.workloads import CONTAINER, core, deployment, deployments, group, pod

pytestmark = [pytest.mark.cluster, pytest.mark.placement]

NODES = "/api/v1/nodes"
ZONE = "topology.kubernetes.io/zone"
SLICE = group("authentication.liqo.io/v1beta1", "liqo-tenant-milan", "resourceslices", "milan")
MACHINE = 16
"""CPUs of each machine of milan's."""
KINDS = ("a100", "h100", "", "")
"""The devices of each, four of one kind."""
SPREAD = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Member, Member]]:
    """Rome borrows from milan, whose four machines have devices of two kinds and tell their room;
    each cluster is a zone."""
    try:
        planes = [
            ControlPlane(name, Settings(pod_cidr=f"10.{221 + index}.0.0/16"))
            for index, name in enumerate(("rome", "milan"))
        ]
    except Unavailable as reason:
        give_up(reason)
    federation = Federation()
    try:
        start_all(planes)
        believes = {"peer_defaults": {"believed_labels": [ZONE]}}
        rome = federation.join(planes[0], believes, nodes=2)
        for number in range(2):
            rome.patch(f"{NODES}/rome-{number}", {"metadata": {"labels": {ZONE: "zone-rome"}}})
        lends = {"show_free": True, "node_labels": {ZONE: "zone-milan"}}
        more = {"provider": lends, "guests": {"max_resources": {}}}
        milan = federation.join(planes[1], more, nodes=len(KINDS), pods=MACHINE)
        for number, kind in enumerate(KINDS):
            milan.patch(f"{NODES}/milan-{number}", {"metadata": {"labels": {ZONE: "zone-milan"}}})
            has = {f"nvidia.com/{kind}": "4"} if kind else {}
            node = milan.api.get(f"{NODES}/milan-{number}")["status"]
            status = {key: {**node[key], **has} for key in ("capacity", "allocatable")}
            patch_status(milan, f"milan-{number}", status)
        asked = {"cpu": "64", "memory": "64Gi", "pods": "64"}
        devices = [f"nvidia.com/{kind}=4" for kind in KINDS if kind]
        federation.peer(rome, milan, *(f"--resource={each}" for each in devices), **asked)
        yield rome, milan
    finally:
        federation.close()
        for plane in planes:
            evidence.remove(plane.name, plane.logs)
            plane.destroy()


def patch_status(member: Member, node: str, status: dict[str, Any]) -> None:
    member.patch(f"{NODES}/{node}/status", {"status": status})


def asking(cpu: str, **devices: str) -> dict[str, Any]:
    """A container that asks for so much, and for devices of some kinds."""
    limits = {f"nvidia.com/{kind}": count for kind, count in devices.items()}
    return {**CONTAINER, "resources": {"requests": {"cpu": cpu, **limits}, "limits": limits}}


def sized(name: str, replicas: int, cpu: str) -> dict[str, Any]:
    """A Deployment of pods that ask for so much."""
    wanted = deployment(name, replicas)
    wanted["spec"]["template"]["spec"]["containers"] = [asking(cpu)]
    return wanted


def shop(rome: Member, name: str, strategy: str = "Remote") -> str:
    """A namespace that is offloaded."""
    rome.create("/api/v1/namespaces", {"metadata": {"name": name}})
    rome.liqod("offload", "namespace", name, "--pod-offloading-strategy", strategy)
    return name


def left(rome: Member, milan: Member, namespace: str) -> None:
    """Take a namespace away again, with its pods at both clusters."""
    rome.liqod("unoffload", "namespace", namespace, "--yes")
    rome.api.call("DELETE", f"/api/v1/namespaces/{namespace}")
    rome.goes(f"/api/v1/namespaces/{namespace}", 90)
    wait_until(
        "its remote one goes",
        lambda: not milan.api.exists(f"/api/v1/namespaces/{namespace}-rome"),
        60,
    )


def waiting(rome: Member, namespace: str) -> set[str]:
    """The pods that the scheduler has given up for now."""
    return {
        name
        for name, each in rome.pods(namespace).items()
        if not each["spec"].get("nodeName")
        and any(
            one["type"] == "PodScheduled" and one["reason"] == "Unschedulable"
            for one in each["status"].get("conditions") or ()
        )
    }


def filled(milan: Member, cpu: int) -> list[str]:
    """Have so many CPUs of each machine used by milan's own pods; their names."""
    names = [f"own-{number}" for number in range(len(KINDS))]
    for number, name in enumerate(names):
        body = pod(name, nodeName=f"milan-{number}", containers=[asking(str(cpu))])
        milan.create(core("default", "pods"), body)
    wait_until("own pods", lambda: milan.ready_pods("default") >= set(names), 60)
    return names


def comes_to_show(rome: Member, largest: str) -> None:
    """The largest place that milan's node comes to show."""

    def shows(node: dict[str, Any]) -> bool:
        found: str | None = node["metadata"]["labels"].get("liqod.io/largest-cpu")
        return found == largest

    rome.comes_to(f"{NODES}/milan", shows, 60)


def test_fifty_pods_that_fit_on_no_machine_are_not_bound_and_hold_nothing(
    made: tuple[Member, Member],
) -> None:
    rome, milan = made
    own = filled(milan, MACHINE // 2)
    comes_to_show(rome, "8100")
    here = shop(rome, "pieces")
    rome.create(deployments(here), sized("large", 50, "12"))
    wait_until("nobody has a place", lambda: len(waiting(rome, here)) == 50, 90)
    rome.create(core(here, "pods"), pod("small", containers=[asking("2")]))
    wait_until("a small one runs", lambda: rome.ready_pods(here) == {"small"}, 60)
    milan.api.call("DELETE", core("default", "pods", own[0]))
    wait_until("one large one runs", lambda: len(rome.ready_pods(here)) == 2, 90)
    time.sleep(10)
    # Of those that came in the same moment as many as the sum has room for: the others wait on.
    bound = [each for each in rome.pods(here).values() if each["spec"].get("nodeName")]
    assert len(bound) <= 1 + (MACHINE + 3 * MACHINE // 2 - 2) // 12
    assert len(rome.ready_pods(here)) == 2
    for name in own[1:]:
        milan.api.call("DELETE", core("default", "pods", name))
    left(rome, milan, here)


def test_of_devices_of_two_kinds_a_pod_gets_what_one_machine_has(
    made: tuple[Member, Member],
) -> None:
    rome, milan = made
    here = shop(rome, "devices")
    for name, wanted in (
        ("more", {"a100": "8"}),
        ("both", {"a100": "1", "h100": "1"}),
        ("one", {"a100": "4"}),
        ("other", {"h100": "2"}),
    ):
        rome.create(core(here, "pods"), pod(name, containers=[asking("1", **wanted)]))
    wait_until("those that fit run", lambda: rome.ready_pods(here) == {"one", "other"}, 60)
    wait_until("the others wait", lambda: waiting(rome, here) == {"more", "both"}, 60)
    there = {name: each["spec"]["nodeName"] for name, each in milan.pods(f"{here}-rome").items()}
    assert there == {"one": "milan-0", "other": "milan-1"}
    left(rome, milan, here)


def test_a_job_that_is_larger_than_what_is_left_runs_as_far_as_there_is_room(
    made: tuple[Member, Member],
) -> None:
    rome, milan = made
    here = shop(rome, "jobs")
    spec = {"containers": [asking("6")], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"app": "job"}}, "spec": spec}
    sizes = {"parallelism": 12, "completions": 12, "backoffLimit": 0}
    job = {"metadata": {"name": "job"}, "spec": {**sizes, "template": template}}
    rome.create(group("batch/v1", here, "jobs"), job)
    fit = len(KINDS) * (MACHINE // 6)
    wait_until("as many as fit run", lambda: len(rome.ready_pods(here)) == fit, 90)
    time.sleep(10)
    status = rome.api.get(group("batch/v1", here, "jobs", "job"))["status"]
    assert not status.get("failed")
    assert len(rome.ready_pods(here)) == fit
    rome.api.call("DELETE", group("batch/v1", here, "jobs", "job"))
    left(rome, milan, here)


def test_zones_spread_pods_over_both_clusters_and_keep_none_at_home_waiting(
    made: tuple[Member, Member],
) -> None:
    rome, milan = made

    def shown(node: dict[str, Any]) -> bool:
        return bool(node["metadata"]["labels"].get(ZONE) == "zone-milan")

    rome.comes_to(f"{NODES}/milan", shown, 60)
    here = shop(rome, "zones", "LocalAndRemote")
    wanted = sized("web", 4, "1")
    constraint = {**SPREAD, "labelSelector": {"matchLabels": {"app": "web"}}}
    wanted["spec"]["template"]["spec"]["topologySpreadConstraints"] = [constraint]
    rome.create(deployments(here), wanted)
    wait_until("all run", lambda: len(rome.ready_pods(here)) == 4, 60)
    nodes = [each["spec"]["nodeName"] for each in rome.pods(here).values()]
    assert nodes.count("milan") == 2
    # The same at home alone: its pods may not run at milan, and would wait for its zone.
    rome.create(deployments("default"), wanted)
    wait_until("all run at home", lambda: len(rome.ready_pods("default")) == 4, 90)
    node = rome.api.get(f"{NODES}/milan")
    assert ZONE not in node["metadata"]["labels"]
    assert node["metadata"]["annotations"]["liqod.io/held-zone"] == "zone-milan"
    assert is_true(node, "Ready")
    assert len(rome.ready_pods(here)) == 4
    rome.api.call("DELETE", deployments("default", "web"))
    left(rome, milan, here)
