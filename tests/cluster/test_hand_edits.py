"""Changes and deletions by hand, on either side: put right, or left and explained."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import core, deployments, group, pod, service, slices

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
OFFLOADING = "offloading.liqo.io/v1beta1"
AUTHENTICATION = "authentication.liqo.io/v1beta1"
AT_ROME, AT_MILAN = "liqo-tenant-milan", "liqo-tenant-rome"
MAP = group(OFFLOADING, AT_ROME, "namespacemaps", "milan")
MAP_THERE = group(OFFLOADING, AT_MILAN, "namespacemaps", "milan")
NODE = "/api/v1/nodes/milan"


def uids(member: Member, namespace: str) -> dict[str, str]:
    """The UIDs of the pods of a namespace, by name."""
    return {name: one["metadata"]["uid"] for name, one in member.pods(namespace).items()}


def shadow(shop: str, name: str = "") -> str:
    """The path of a ShadowPod."""
    return group(OFFLOADING, f"{shop}-rome", "shadowpods", name)


def test_a_shadow_pod_is_put_right(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    there = f"{shop}-rome"
    name, uid = next(iter(uids(milan, there).items()))
    path = shadow(shop, name)
    before = milan.api.get(path)

    container = {**before["spec"]["pod"]["containers"][0], "image": "stolen:1"}
    changed = {**before["spec"]["pod"], "containers": [container], "nodeSelector": {"a": "b"}}
    labels = {"app": "stolen", "note": "kept"}
    milan.patch(path, {"metadata": {"labels": labels}, "spec": {"pod": changed}})
    milan.comes_to(path, lambda one: one["spec"] == before["spec"])
    milan.comes_to(path, lambda one: one["metadata"]["labels"]["app"] == "web")
    milan.patch(f"{path}/status", {"status": {"phase": "Failed", "reason": "x", "message": "y"}})
    milan.comes_to(path, lambda one: one["status"] == {"phase": "Running"})
    # None of it touched the pod.
    assert uids(milan, there)[name] == uid

    milan.api.call("DELETE", path)
    milan.comes_to(path, lambda one: one["metadata"]["uid"] != before["metadata"]["uid"])
    milan.comes_to(core(there, "pods", name), lambda one: one["metadata"]["uid"] != uid)
    rome.comes_to(core(shop, "pods", name), lambda one: "made again 1 times" in str(one["status"]))
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)


def test_a_shadow_pod_with_a_finalizer_ends_its_pod(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    rome.create(core(shop, "pods"), pod("single"))
    wait_until("it", lambda: "single" in rome.ready_pods(shop), 40)
    path = shadow(shop, "single")
    milan.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})
    rome.api.call("DELETE", core(shop, "pods", "single"))
    milan.goes(core(f"{shop}-rome", "pods", "single"))
    rome.goes(core(shop, "pods", "single"))
    milan.patch(path, {"metadata": {"finalizers": None}})
    milan.goes(path)


def test_a_remote_pod_is_put_right(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    there = f"{shop}-rome"
    name, uid = next(iter(uids(milan, there).items()))
    path = core(there, "pods", name)
    milan.patch(path, {"metadata": {"labels": {"app": "stolen", "mesh": "yes"}}})
    milan.comes_to(path, lambda one: one["metadata"]["labels"]["app"] == "web")
    # Taken from its ShadowPod (as `kubectl delete --cascade=orphan` does) it is taken back.
    milan.patch(path, {"metadata": {"ownerReferences": None}})
    milan.comes_to(path, lambda one: one["metadata"].get("ownerReferences"))
    status = {"containerStatuses": None, "conditions": None, "phase": "Pending"}
    milan.patch(f"{path}/status", {"status": status})
    assert uids(milan, there)[name] == uid
    milan.api.call("DELETE", f"{path}?gracePeriodSeconds=0")
    milan.comes_to(path, lambda one: one["metadata"]["uid"] != uid)
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)

    milan.api.call("DELETE", shadow(shop, name) + "?propagationPolicy=Orphan")
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)
    rome.patch(deployments(shop, "web"), {"spec": {"replicas": 0}})
    wait_until("no pod at home", lambda: not rome.pods(shop), 60)
    wait_until("no pod there", lambda: not milan.pods(there), 60)


def test_reflected_objects_are_put_right(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    there = f"{shop}-rome"
    rome.create(core(shop, "services"), service("web"))
    rome.create(core(shop, "secrets"), {"metadata": {"name": "web"}, "stringData": {"a": "b"}})
    path = core(there, "services", "web")
    milan.comes_to(path, lambda one: True)
    ports = [{"name": "http", "port": 9999, "targetPort": 1}]
    milan.patch(path, {"spec": {"ports": ports}, "metadata": {"labels": {"note": "kept"}}})
    milan.comes_to(path, lambda one: [p["port"] for p in one["spec"]["ports"]] == [80])
    milan.api.call("DELETE", path)
    milan.comes_to(path, lambda one: [p["port"] for p in one["spec"]["ports"]] == [80])

    # A local endpoint crosses as a ShadowEndpointSlice, from which milan makes its own.
    endpoint = {"addresses": ["10.201.7.7"], "nodeName": "rome-0", "conditions": {"ready": True}}
    marks = {"kubernetes.io/service-name": "web"}
    made = {"metadata": {"name": "web-home", "labels": marks}, "addressType": "IPv4"}
    rome.create(slices(shop), {**made, "endpoints": [endpoint], "ports": [{"port": 8080}]})
    shadow_slice = group(OFFLOADING, there, "shadowendpointslices", "web-home")
    its_slice = slices(there, "web-home")

    def as_it_was() -> None:
        for one in (shadow_slice, its_slice):
            milan.comes_to(one, lambda found: "10.201.7.7" in str(found))
            milan.comes_to(one, lambda found: "10.99.0.1" not in str(found))

    as_it_was()
    wrong = [{"addresses": ["10.99.0.1"]}]
    milan.patch(its_slice, {"endpoints": wrong})
    as_it_was()
    milan.patch(shadow_slice, {"spec": {"template": {"endpoints": wrong}}})
    as_it_was()
    for one in (its_slice, shadow_slice):
        milan.api.call("DELETE", one)
        as_it_was()

    # One that loses its marks is nobody's any more, and is left alone and named.
    secret = core(there, "secrets", "web")
    unmarked = {"offloading.liqo.io/origin": None, "offloading.liqo.io/destination": None}
    milan.comes_to(secret, lambda one: True)
    milan.patch(secret, {"metadata": {"labels": unmarked}})

    def told() -> bool:
        events = rome.api.get(core(shop, "events"))["items"]
        return any("is left alone" in one["message"] for one in events)

    wait_until("an event about the secret", told, 40)
    milan.api.call("DELETE", secret)
    rome.patch(core(shop, "secrets", "web"), {"metadata": {"labels": {"look": "again"}}})
    milan.comes_to(secret, lambda one: "offloading.liqo.io/origin" in one["metadata"]["labels"])


def test_the_node_is_put_right(peered: Clusters, shop: str) -> None:
    rome = peered.rome
    taint = {"key": "mine", "effect": "PreferNoSchedule"}
    labels = {"liqo.io/type": "other", "mine": "kept", "liqo.io/remote-cluster-id": None}
    before, pods = rome.api.get(NODE), uids(rome, shop)
    rome.patch(NODE, {"metadata": {"labels": labels}, "spec": {"taints": [taint]}})
    keys = {"mine", "virtual-node.liqo.io/not-allowed"}
    rome.comes_to(NODE, lambda one: {t["key"] for t in one["spec"]["taints"]} == keys)
    found = rome.comes_to(
        NODE, lambda one: one["metadata"]["labels"]["liqo.io/type"] == "virtual-node"
    )
    assert found["metadata"]["labels"]["mine"] == "kept"
    assert found["metadata"]["labels"]["liqo.io/remote-cluster-id"] == "milan"
    capacity = {"capacity": {"cpu": "999", "example.com/gpu": "1"}, "conditions": []}
    rome.patch(f"{NODE}/status", {"status": capacity})
    rome.comes_to(NODE, lambda one: one["status"]["capacity"] == before["status"]["capacity"])
    wait_until("the node to be ready", lambda: rome.node_is_ready("milan"), 40)
    rome.patch(NODE, {"metadata": {"labels": {"mine": None}}, "spec": {"taints": None}})

    node = group(OFFLOADING, AT_ROME, "virtualnodes", "milan")
    rome.patch(node, {"spec": {"resourceQuota": {"hard": {"cpu": "999"}}}, "status": None})
    rome.comes_to(node, lambda one: one["spec"]["resourceQuota"]["hard"]["cpu"] == "4")
    rome.comes_to(NODE, lambda one: one["status"]["capacity"]["cpu"] == "4")
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)
    assert uids(rome, shop) == pods, "none of it touched them"

    uid = rome.api.get(NODE)["metadata"]["uid"]
    rome.api.call("DELETE", NODE)
    rome.comes_to(NODE, lambda one: one["metadata"]["uid"] != uid)
    uid = rome.api.get(node)["metadata"]["uid"]
    rome.api.call("DELETE", node)
    rome.comes_to(node, lambda one: one["metadata"]["uid"] != uid, 40)
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)


def test_maps_and_namespaces_are_put_right(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    there = f"{shop}-rome"
    before = uids(rome, shop)

    def settled() -> bool:
        return len(rome.ready_pods(shop)) == 2 and uids(milan, there).keys() == before.keys()

    rome.patch(MAP, {"spec": {"desiredMapping": {shop: None}}})
    rome.comes_to(MAP, lambda one: one["spec"]["desiredMapping"].get(shop) == there)
    wait_until("both pods", settled, 60)
    rome.patch(f"{MAP}/status", {"status": {"currentMapping": None}})
    rome.comes_to(MAP, lambda one: shop in one["status"].get("currentMapping", {}))
    wait_until("both pods", settled, 60)
    milan.patch(MAP_THERE, {"spec": {"desiredMapping": {shop: "another"}}})
    milan.comes_to(MAP_THERE, lambda one: one["spec"]["desiredMapping"][shop] == there)
    wait_until("both pods", settled, 60)
    milan.goes("/api/v1/namespaces/another", 60)
    milan.api.call("DELETE", MAP_THERE)
    wait_until("both pods", settled, 60)
    rome.api.call("DELETE", MAP)
    rome.comes_to(MAP, lambda one: shop in one.get("status", {}).get("currentMapping", {}), 40)
    wait_until("both pods", settled, 60)
    milan.api.call("DELETE", f"/api/v1/namespaces/{there}")
    wait_until("both pods", settled, 60)
    assert uids(rome, shop) == before


def test_slices_and_quotas_are_put_right(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    here = group(AUTHENTICATION, AT_ROME, "resourceslices", "milan")
    there = group(AUTHENTICATION, AT_MILAN, "resourceslices", "milan")
    [quota] = milan.api.get(group(OFFLOADING, AT_MILAN, "quotas"))["items"]
    path = group(OFFLOADING, AT_MILAN, "quotas", quota["metadata"]["name"])
    wrong = {"status": {"resources": {"cpu": "999"}, "conditions": []}}
    rome.patch(f"{here}/status", wrong)
    rome.comes_to(here, lambda one: one["status"]["resources"]["cpu"] == "4")
    milan.patch(f"{there}/status", wrong)
    milan.comes_to(there, lambda one: one["status"]["resources"]["cpu"] == "4")
    milan.patch(there, {"spec": {"resources": {"cpu": "999"}}})
    milan.comes_to(there, lambda one: one["spec"]["resources"]["cpu"] == "4")
    milan.comes_to(path, lambda one: one["spec"]["resources"]["cpu"] == "4")
    milan.api.call("DELETE", path)
    milan.comes_to(path, lambda one: one["spec"]["resources"]["cpu"] == "4")
    milan.api.call("DELETE", there)
    milan.comes_to(there, lambda one: len(one.get("status", {}).get("conditions", ())) == 2)
    milan.comes_to(path, lambda one: True)
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)
    secret = core(AT_ROME, "secrets", "kubeconfig-resourceslice-milan")
    rome.api.call("DELETE", secret)
    rome.comes_to(secret, lambda one: True)
    rome.create(core(shop, "pods"), pod("late"))
    wait_until("one more", lambda: "late" in rome.ready_pods(shop), 40)


def test_an_offloading_is_put_right(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    path = group(OFFLOADING, shop, "namespaceoffloadings", "offloading")
    before = uids(milan, f"{shop}-rome")
    rome.patch(f"{path}/status", {"status": {"remoteNamespaceName": "x", "offloadingPhase": "x"}})
    rome.comes_to(path, lambda one: one["status"]["offloadingPhase"] == "Ready")
    rome.patch(path, {"spec": {"namespaceMappingStrategy": "EnforceSameName"}})
    rome.comes_to(path, lambda one: "mapping is immutable" in str(one["status"]))
    rome.patch(
        f"/api/v1/namespaces/{shop}", {"metadata": {"labels": {"liqo.io/scheduling-enabled": None}}}
    )
    rome.comes_to(
        f"/api/v1/namespaces/{shop}",
        lambda one: one["metadata"]["labels"].get("liqo.io/scheduling-enabled") == "true",
    )
    assert uids(milan, f"{shop}-rome") == before
    # A finalizer that is taken off comes back, so that its mapping goes along with it.
    rome.patch(path, {"metadata": {"finalizers": None}})
    rome.comes_to(path, lambda one: bool(one["metadata"]["finalizers"]))
    rome.api.call("DELETE", path)
    rome.comes_to(MAP, lambda one: shop not in one["spec"].get("desiredMapping", {}), 30)
