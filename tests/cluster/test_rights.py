"""The daemon's own rights: all that it does is done with them, and it needs each of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
import yaml

from liqod.install.daemonrights import DAEMON_ROLES, LEASES
from liqod.install.rarerights import RARE
from tests.cluster.test_offloading import offload, settle
from tests.testbed import audit
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import give_up, start_all
from tests.testbed.workloads import core, deployment, deployments, group, pod, service

pytestmark = pytest.mark.cluster

SHOP = "shop"


@pytest.fixture(scope="module")
def audited() -> Iterator[Federation]:
    """rome and milan with an audit log, in which their daemons have done all that daemons do."""
    try:
        planes = [
            ControlPlane(name, Settings(audit=True, pod_cidr=f"10.{211 + index}.0.0/16"))
            for index, name in enumerate(("rome", "milan"))
        ]
    except Unavailable as reason:
        give_up(reason)
    federation = Federation()
    try:
        start_all(planes)
        for index, plane in enumerate(planes):
            settings = {
                "cluster": {"pod_cidrs": [f"10.{211 + index}.0.0/16"]},
                "peer_defaults": {
                    "pod_network": "routed",
                    "pod_cidrs": ["10.0.0.0/8"],
                    "api_server": "home",
                },
                "api_server": {"for_pods": f"api.{plane.name}.example"},
                "certificates": {"lifetime": 600, "renew_at": 0.01},
                "consumer": {"drain_timeout": 20.0},
            }
            federation.join(plane, settings)
        live(federation)
        yield federation
    finally:
        federation.close()
        for plane in planes:
            plane.destroy()


def live(federation: Federation) -> None:
    """A whole peering: made, used, changed, disturbed, renewed, cordoned, drained and ended."""
    rome, milan = federation.members["rome"], federation.members["milan"]
    federation.peer(rome, milan)
    a_declared_slice_is_completed(rome)
    rome.create("/api/v1/namespaces", {"metadata": {"name": SHOP}})
    for kind in ("configmaps", "secrets"):
        rome.create(core(SHOP, kind), {"metadata": {"name": "conf"}, "data": {"a": "Yg=="}})
    rome.create(core(SHOP, "services"), service("web"))
    stays = pod("stays")
    stays["metadata"]["labels"] = {"app": "web"}
    rome.create(core(SHOP, "pods"), stays)
    offload(rome, SHOP, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(SHOP), deployment("web", 3))
    settle(rome, SHOP, 4)
    there = f"{SHOP}-rome"
    victim = next(iter(milan.pods(there)))
    milan.api.call("DELETE", core(there, "pods", victim))
    settle(milan, there, 3)
    rome.patch(deployments(SHOP, "web"), {"spec": {"replicas": 2}})
    settle(rome, SHOP, 3)
    endpoints = "/apis/discovery.k8s.io/v1/namespaces/shop-rome/endpointslices"
    wait_until("the endpoint of the pod at home", lambda: len(milan.names(endpoints)) == 2, 30)
    label_of_a_pod_follows(rome, milan, there)
    a_pod_that_runs_once_is_told(rome, milan, there)
    for member in (rome, milan):
        member.daemon.stop()
        member.daemon.start(60)
    cordon = ("milan", "--remote-cluster-id", "rome")
    milan.liqod("cordon", "resourceslice", *cordon)
    quota_follows(milan, cordoned=True)
    milan.liqod("uncordon", "resourceslice", *cordon)
    quota_follows(milan, cordoned=False)
    evicts_within_a_budget(rome)
    rome.liqod("unoffload", "namespace", SHOP, "--yes")
    rome.liqod("unpeer", "milan", "--yes")
    milan.liqod("unpeer", "rome", "--yes")


def a_declared_slice_is_completed(rome: Member) -> None:
    """A slice as people write it, without ids and a request."""
    path = group("authentication.liqo.io/v1beta1", "liqo-tenant-milan", "resourceslices")
    labels = rome.api.get(f"{path}/milan")["metadata"]["labels"]
    spec = {"class": "default", "providerClusterID": "milan", "resources": {"cpu": "1"}}
    declared = {"apiVersion": "authentication.liqo.io/v1beta1", "kind": "ResourceSlice"}
    rome.create(path, {**declared, "metadata": {"name": "more", "labels": labels}, "spec": spec})
    rome.comes_to(f"{path}/more", lambda one: len(one["status"]["conditions"]) == 2)
    rome.api.call("DELETE", f"{path}/more")


def label_of_a_pod_follows(rome: Member, milan: Member, there: str) -> None:
    name = next(iter(milan.pods(there)))
    rome.patch(core(SHOP, "pods", name), {"metadata": {"labels": {"seen": "yes"}}})
    wait_until(
        "the label",
        lambda: milan.pods(there)[name]["metadata"]["labels"].get("seen") == "yes",
        30,
    )


def a_pod_that_runs_once_is_told(rome: Member, milan: Member, there: str) -> None:
    """Its ShadowPod says that it runs, so that nobody makes it again."""
    once = pod("once")
    once["spec"]["restartPolicy"] = "Never"
    rome.create(core(SHOP, "pods"), once)
    shadow = f"{group('offloading.liqo.io/v1beta1', there, 'shadowpods')}/once"
    milan.comes_to(shadow, lambda one: one.get("status", {}).get("phase") == "Running")
    rome.api.call("DELETE", core(SHOP, "pods", "once"))


def quota_follows(milan: Member, *, cordoned: bool) -> None:
    """The quota of rome's slice takes no more pods, or takes them again."""
    path = "/apis/offloading.liqo.io/v1beta1/quotas"

    def look() -> bool:
        quotas = milan.api.get(path)["items"]
        [quota] = [each for each in quotas if each["metadata"]["name"].startswith("milan-")]
        return quota["spec"].get("cordoned", False) is cordoned

    wait_until("the quota to follow the slice", look, 30)


def evicts_within_a_budget(rome: Member) -> None:
    """The virtual node is deleted while a disruption budget holds its pods."""
    budget = {
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    rome.create(group("policy/v1", SHOP, "poddisruptionbudgets"), budget)
    slices = group("authentication.liqo.io/v1beta1", "liqo-tenant-milan", "resourceslices")
    rome.api.call("DELETE", f"{slices}/milan")
    wait_until("the node to go", lambda: not rome.api.exists("/api/v1/nodes/milan"), 60)


def requests(federation: Federation) -> set[audit.Request]:
    return set().union(
        *(
            audit.of_user(member.plane.folder / "audit.log")
            for member in federation.members.values()
        )
    )


def test_daemons_run_as_nobody_else(audited: Federation) -> None:
    """Their kubeconfigs hold one token, which is that of the ServiceAccount."""
    for member in audited.members.values():
        [user] = yaml.safe_load(member.kubeconfig.read_text())["users"]
        assert set(user["user"]) == {"token"}
        payload = user["user"]["token"].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        assert claims["sub"] == audit.DAEMON
        assert audit.of_user(member.plane.folder / "audit.log")


def test_nothing_is_refused(audited: Federation) -> None:
    refused = sorted(one for one in requests(audited) if one.code == audit.FORBIDDEN)
    assert refused == []


def test_every_right_is_used_or_says_when(audited: Federation) -> None:
    rules = [rule for rules in (*DAEMON_ROLES.values(), LEASES) for rule in rules]
    rare = {(name, verb) for each in RARE for name in each.resources for verb in each.verbs}
    assert sorted(audit.unused(rules, requests(audited)) - rare) == []
