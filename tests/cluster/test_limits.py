"""Names, quantities and objects at and past their limits: right work, or a clear refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import CONTAINER, core, group, pod, service, slices

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
OFFLOADING = "offloading.liqo.io/v1beta1"
AUTHENTICATION = "authentication.liqo.io/v1beta1"
AT_ROME = "liqo-tenant-milan"
KIB = 1024
UNICODE = "Ünïcödé → 城市 🌉 \u202e\x7f"


@pytest.fixture
def shop(peered: Clusters) -> str:
    """A namespace of rome that is offloaded to milan."""
    name = peered.namespace(peered.rome)
    peered.rome.liqod("offload", "namespace", name, "--pod-offloading-strategy", "Remote")
    return name


def says(member: Member, path: str, text: str) -> None:
    """Waits until a pod's message contains a text."""
    member.comes_to(path, lambda one: text in one["status"].get("message", ""))


def log_lines(member: Member) -> int:
    """How many lines the daemon has logged."""
    return member.daemon.log.read_text().count("\n")


def sized(name: str, **more: Any) -> Json:
    """A pod that is bound to the virtual node, past the scheduler, which would find no room."""
    wanted = pod(name, nodeName="milan", **more)
    toleration = {"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}
    wanted["spec"]["tolerations"] = [toleration]
    return wanted


def requests(**amounts: str) -> list[Json]:
    """One container that asks for so much."""
    return [{**CONTAINER, "resources": {"requests": amounts}}]


def test_pods_at_their_limits(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    before = log_lines(rome), log_lines(milan)
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    many = [{**CONTAINER, "name": f"c-{number}", "resources": {}} for number in range(100)]
    ports = [{"containerPort": 1 + number} for number in range(1000)]
    environment = [{"name": f"V{n}", "value": "x" * 10 * KIB} for n in range(90)]
    fine = {
        longest: {**pod("longest"), "metadata": {"name": longest}},
        "many": pod("many", containers=many),
        "ports": pod("ports", containers=[{**CONTAINER, "ports": ports}]),
        "zero": pod("zero", containers=requests(cpu="0", memory="0")),
        "nano": pod("nano", containers=requests(cpu="100n", memory="1")),
        "unicode": pod("unicode", containers=[{**CONTAINER, "args": [UNICODE]}]),
    }
    fine["unicode"]["metadata"]["annotations"] = {"note": UNICODE, "large": "x" * 20 * KIB}
    fine["unicode"]["metadata"]["labels"] = {
        f"app.kubernetes.io/{'k' * 60}{n:03}": "v" * 63 for n in range(100)
    }
    for one in fine.values():
        rome.create(core(shop, "pods"), one)
    past = {
        "huge": sized("huge", containers=requests(memory="1Ei")),
        "exponent": sized("exponent", containers=requests(cpu="1e15")),
        "full": sized("full"),
        "large": sized("large", containers=[{**CONTAINER, "env": environment}]),
    }
    past["full"]["metadata"]["annotations"] = {"note": "x" * (256 * KIB - 100)}
    for one in past.values():
        rome.create(core(shop, "pods"), one)
    said = {
        "huge": "milan: memory: the pod asks for 1Ei",
        "exponent": "milan: cpu: the pod asks for 1P",
        "full": "refused by milan: ",
        "large": "bytes",
    }
    for name, text in said.items():
        says(rome, core(shop, "pods", name), text)
    wait_until("those that fit", lambda: rome.ready_pods(shop) == set(fine), 40)
    remote_pod = milan.api.get(core(f"{shop}-rome", "pods", "unicode"))
    assert remote_pod["spec"]["containers"][0]["args"] == [UNICODE]
    assert remote_pod["metadata"]["annotations"]["note"] == UNICODE
    status = rome.liqod("status").stdout
    assert "the pod asks for 1Ei" in status
    assert log_lines(rome) - before[0] < 10, rome.daemon.tail()
    assert log_lines(milan) - before[1] < 10, milan.daemon.tail()


def test_objects_at_their_limits(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    before = log_lines(rome), log_lines(milan)
    there = f"{shop}-rome"
    name = ".".join(["a" * 63] * 3 + ["b" * 61])
    limit = 1024 * KIB
    maps, secrets = core(shop, "configmaps"), core(shop, "secrets")
    rome.create(maps, {"metadata": {"name": name}, "data": {"large": "x" * (limit - 10)}})
    keys = {f"key-{number}": UNICODE for number in range(5000)}
    rome.create(maps, {"metadata": {"name": "keys"}, "data": keys})
    rome.create(secrets, {"metadata": {"name": "large"}, "stringData": {"a": "x" * (limit - 10)}})
    full = {"name": "full", "annotations": {"note": "x" * (256 * KIB - 50)}}
    rome.create(maps, {"metadata": full, "data": {"a": "b"}})
    wanted = service("web")
    wanted["spec"]["ports"] = [{"name": f"p{n}", "port": 1 + n} for n in range(1000)]
    rome.create(core(shop, "services"), wanted)
    endpoints = [
        {"addresses": [f"10.201.{n // 250}.{n % 250 + 1}"], "nodeName": "rome-0"}
        for n in range(1000)
    ]
    marks = {"kubernetes.io/service-name": "web"}
    made = {"metadata": {"name": "web-full", "labels": marks}, "addressType": "IPv4"}
    rome.create(slices(shop), {**made, "endpoints": endpoints, "ports": [{"port": 80}]})

    milan.comes_to(
        core(there, "configmaps", name), lambda one: len(one["data"]["large"]) > limit - 20
    )
    milan.comes_to(core(there, "configmaps", "keys"), lambda one: one["data"] == keys)
    milan.comes_to(core(there, "secrets", "large"), lambda one: len(one["data"]["a"]) > limit)
    milan.comes_to(core(there, "services", "web"), lambda one: len(one["spec"]["ports"]) == 1000)
    milan.comes_to(slices(there, "web-full"), lambda one: len(one["endpoints"]) == 1000)

    def told() -> bool:
        events = rome.api.get(core(shop, "events"))["items"]
        about = [one for one in events if one["involvedObject"]["name"] == "full"]
        return any("refused by milan" in one["message"] for one in about)

    wait_until("an event about the one that is too large", told, 40)
    # A change of each is a change there.
    rome.patch(core(shop, "configmaps", "keys"), {"data": {"key-1": None, "more": "x"}})
    del keys["key-1"]
    milan.comes_to(
        core(there, "configmaps", "keys"), lambda one: one["data"] == {**keys, "more": "x"}
    )
    assert log_lines(rome) - before[0] < 10, rome.daemon.tail()
    assert log_lines(milan) - before[1] < 10, milan.daemon.tail()


def test_names_that_overflow(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    names = ["n" * 58, "n" * 59, "n" * 63]
    for name in names:
        rome.create("/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        rome.liqod("offload", "namespace", names[0])
        assert milan.api.exists(f"/api/v1/namespaces/{names[0]}-rome")
        refused = rome.liqod("offload", "namespace", names[1], check=False)
        assert refused.returncode != 0
        assert "has 64 characters; 63 are allowed" in refused.stdout
        strategy = ("--namespace-mapping-strategy", "EnforceSameName")
        rome.liqod("offload", "namespace", names[2], *strategy)
        assert milan.api.exists(f"/api/v1/namespaces/{names[2]}")
    finally:
        for name in names:
            rome.api.raw("DELETE", group(OFFLOADING, name, "namespaceoffloadings", "offloading"))
            rome.api.raw("DELETE", f"/api/v1/namespaces/{name}")


def test_slices_that_ask_for_the_absurd(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    before = log_lines(rome), log_lines(milan)
    marks = {
        "liqo.io/replication": "true",
        "liqo.io/remoteID": "milan",
        "liqo.io/remote-cluster-id": "milan",
    }
    wishes: dict[str, Json] = {
        "huge": {"cpu": "1Ei", "memory": "1e30", "pods": "9223372036854775807"},
        "vast": {"cpu": "1Ei", "memory": "1e30"},
        "none": {"cpu": "0", "memory": "0", "pods": "0"},
        "negative": {"cpu": "-1"},
        "nonsense": {"cpu": "1", "Not A Resource!": "1"},
    }
    path = group(AUTHENTICATION, AT_ROME, "resourceslices")
    try:
        for name, wish in wishes.items():
            metadata = {"name": name, "labels": marks}
            metadata["annotations"] = {"liqo.io/create-virtual-node": "true"}
            kind = {"apiVersion": AUTHENTICATION, "kind": "ResourceSlice"}
            spec = {"class": "default", "providerClusterID": "milan", "resources": wish}
            rome.create(path, {**kind, "metadata": metadata, "spec": spec})
        for name in ("vast", "none", "nonsense"):
            wait_until(f"the node {name}", lambda n=name: rome.node_is_ready(n), 30)
        assert rome.api.get("/api/v1/nodes/none")["status"]["allocatable"]["cpu"] == "0"

        def told() -> bool:
            status = " ".join(rome.liqod("status").stdout.split())
            denied = "slice negative denied: negative quantities: cpu" in status
            return denied and "slice huge denied: one consumer may have pods 10k" in status

        wait_until("both refusals in the status", told, 40, 0.5)
        assert not rome.api.exists("/api/v1/nodes/huge")
        assert not rome.api.exists("/api/v1/nodes/negative")
    finally:
        for name in wishes:
            rome.api.raw("DELETE", f"{path}/{name}")
    for name in wishes:
        wait_until(f"{name} to go", lambda n=name: not rome.api.exists(f"/api/v1/nodes/{n}"), 40)
    assert log_lines(rome) - before[0] < 12, rome.daemon.tail()
    assert log_lines(milan) - before[1] < 12, milan.daemon.tail()
