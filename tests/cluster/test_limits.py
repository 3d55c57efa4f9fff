"""Pods and objects at and past the limits of a real API server: right work, or a clear refusal.

Names of namespaces and quantities of slices are tried on embedded clusters
(`simulated/peering/test_limits.py`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import CONTAINER, core, pod, service, slices

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
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
