"""A stock Deployment of one cluster runs on the real kubelet of another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from liqod.apimachinery import labels
from tests.node import pairs
from tests.testbed import inventory
from tests.testbed.api import wait_until
from tests.testbed.controlplane import Settings
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Federation, Member
from tests.testbed.node import NodeCluster
from tests.testbed.provisioner import Provisioner
from tests.testbed.workloads import (
    CONTAINER,
    core,
    deployment,
    deployments,
    group,
    service,
    slices,
)

pytestmark = pytest.mark.node

LEFT_DEADLINE = 60.0


@pytest.fixture(scope="module")
def federation(real_node_cluster: NodeCluster) -> Iterator[Federation]:
    """rome, which borrows, and naples, whose node is real."""
    own, lent = {"storage": {"enabled": True}}, {"provider": {"storage_classes": ["local"]}}
    planes = Settings(pod_cidr="10.201.0.0/16")
    with pairs.pair(real_node_cluster, "rome", planes, own=own, lent=lent) as made:
        made.members["rome"].liqod("install", "--storage")
        yield made


def web() -> dict[str, Any]:
    """A web server that is Ready once it answers, with configuration from both kinds of data."""
    made = deployment("web", 2)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["command"] = [
        *("/bin/sh", "-c"),
        'echo "$GREETING $PASSWORD"; cat /data/GREETING; echo; exec httpd -f -p 8080 -h /www',
    ]
    container["ports"] = [{"name": "http", "containerPort": 8080}]
    container["envFrom"] = [{"configMapRef": {"name": "web"}}, {"secretRef": {"name": "web"}}]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    container["readinessProbe"] = {
        "httpGet": {"path": "/index.html", "port": "http"},
        "periodSeconds": 1,
    }
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "configMap": {"name": "web"}}]
    return made


def log_of(member: Member, namespace: str, pod: str) -> str:
    """Returns the output of `liqod logs` for a pod."""
    return member.liqod("logs", pod, "--namespace", namespace, check=False).stdout


def test_a_stock_deployment_is_ready_on_a_real_kubelet(federation: Federation) -> None:
    rome, naples = federation.members["rome"], federation.members["naples"]
    before = naples.inventory()
    federation.peer(rome, naples)
    rome.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    rome.liqod("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")
    metadata = {"name": "web"}
    rome.create(
        core("shop", "configmaps"), {"metadata": metadata, "data": {"GREETING": "buongiorno"}}
    )
    rome.create(
        core("shop", "secrets"), {"metadata": metadata, "stringData": {"PASSWORD": "s3cret"}}
    )
    rome.create(core("shop", "services"), service("web"))
    rome.create(deployments("shop"), web())
    wait_until("two ready pods", lambda: len(rome.ready_pods("shop")) == 2, 60)

    here, there = rome.pods("shop"), naples.pods("shop-rome")
    assert set(here) == set(there)
    for name, pod in here.items():
        assert pod["spec"]["nodeName"] == "naples"
        assert there[name]["spec"]["nodeName"] == "naples"
        assert pod["status"]["podIP"] == there[name]["status"]["podIP"]
        state = pod["status"]["containerStatuses"][0]
        assert state["ready"]
        assert state["containerID"].startswith("containerd://")
        wait_until(
            f"the log of {name}",
            lambda name=name: log_of(rome, "shop", name) == "buongiorno s3cret\nbuongiorno\n",
            10,
        )

    def endpoints() -> int:
        found = naples.api.get(slices("shop-rome"))["items"]
        return sum(len(one["endpoints"] or ()) for one in found)

    wait_until("two endpoints over there", lambda: endpoints() == 2, 40)

    rome.liqod("unoffload", "namespace", "shop", "--yes")
    rome.liqod("unpeer", "naples", "--yes")
    naples.liqod("unpeer", "rome", "--yes")
    naples.liqod("delete", "peering-user", "--consumer-cluster-id", "rome", "--yes")
    inventory.wait_for(naples.api, before, LEFT_DEADLINE)


@pytest.mark.pods
def test_a_crashing_pod_shows_its_restarts(federation: Federation) -> None:
    """Status of a real kubelet comes back whole: waiting reasons, restart counts, exit codes."""
    rome, naples = federation.members["rome"], federation.members["naples"]
    federation.peer(rome, naples)
    rome.create("/api/v1/namespaces", {"metadata": {"name": "crash"}})
    rome.liqod("offload", "namespace", "crash", "--pod-offloading-strategy", "Remote")
    made = deployment("bad", 1)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["/bin/sh", "-c", "exit 3"]
    rome.create(deployments("crash"), made)

    def restarted() -> bool:
        for pod in rome.pods("crash").values():
            for state in pod["status"].get("containerStatuses", ()):
                last = state.get("lastState", {}).get("terminated", {})
                return bool(state["restartCount"] >= 1 and last.get("exitCode") == 3)
        return False

    wait_until("a restart that is seen at home", restarted, 40)
    describe_tells_what_happens_there(rome)
    rome.liqod("unoffload", "namespace", "crash", "--yes")
    rome.liqod("unpeer", "naples", "--yes")


def describe_tells_what_happens_there(rome: Member) -> None:
    """The image, the probe, the memory, the crash: of all pods at once, as for a local pod."""
    probe = {"exec": {"command": ["/bin/sh", "-c", "echo not today; exit 1"]}, "periodSeconds": 1}
    hog = ["/bin/sh", "-c", "x=aaaaaaaa; while true; do x=$x$x; done"]
    limited = {"limits": {"memory": "24Mi", "cpu": "500m"}}
    happening: dict[str, dict[str, Any]] = {
        "unpulled": {"image": "127.0.0.1:1/none:1", "imagePullPolicy": "Always"},
        "unready": {"readinessProbe": probe},
        "hog": {"command": hog, "resources": limited},
    }
    for name, more in happening.items():
        spec = {"containers": [{**CONTAINER, **more}], "terminationGracePeriodSeconds": 1}
        rome.create(core("crash", "pods"), {"metadata": {"name": name}, "spec": spec})
    expected = {
        "unpulled": ("Scheduled", "Pulling", "Failed", "127.0.0.1:1/none:1", "BackOff"),
        "unready": ("Scheduled", "Pulled", "Created", "Started", "Unhealthy", "not today"),
        "hog": ("Scheduled", "Started", "OOMKilled", "BackOff"),
        next(each for each in rome.pods("crash") if each.startswith("bad-")): ("BackOff",),
    }
    shown: dict[str, str] = {}

    def told() -> bool:
        for name in expected:
            shown[name] = rome.plane.kubectl("describe", "pod", name, "--namespace", "crash")
        return all(word in shown[name] for name, words in expected.items() for word in words)

    try:
        wait_until("what happens there", told, 40)
    except TestbedError as late:
        raise AssertionError("\n".join(shown.values())) from late
    events = shown["unready"].partition("Events:")[2].splitlines()
    (failed,) = [line for line in events if "Unhealthy" in line]
    assert "Warning" in failed
    assert "kubelet (remote)" in failed


def stateful() -> dict[str, Any]:
    """Two replicas that are not to share a node, each with a volume that counts its starts."""
    made = deployment("db", 2)
    spec = made["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    container["command"] = [
        *("/bin/sh", "-c"),
        "echo start >> /data/starts; wc -l < /data/starts; exec sleep 1000000",
    ]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    apart = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": labels.HOSTNAME}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    spec["affinity"] = {"podAntiAffinity": required}
    claim = {
        "storageClassName": "liqo",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    made["spec"]["serviceName"] = "db"
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return made


def test_a_volume_keeps_its_pod_at_the_peer_and_its_data(federation: Federation) -> None:
    """One replica of a StatefulSet on each cluster; the peer is cordoned for a while."""
    rome, naples = federation.members["rome"], federation.members["naples"]
    federation.peer(rome, naples)
    rome.create("/api/v1/namespaces", {"metadata": {"name": "data"}})
    rome.liqod("offload", "namespace", "data")
    makers = [Provisioner(each.api) for each in (rome, naples)]
    try:
        rome.create(group("apps/v1", "data", "statefulsets"), stateful())
        wait_until("two ready pods", lambda: len(rome.ready_pods("data")) == 2, 60)
        nodes = {pod["spec"]["nodeName"]: name for name, pod in rome.pods("data").items()}
        assert nodes.keys() == {"rome-0", "naples"}
        name = nodes["naples"]
        wait_until("its first start", lambda: log_of(rome, "data", name).strip() == "1", 10)
        there = naples.api.get(core("data-rome", "persistentvolumeclaims"))["items"]
        assert [each["metadata"]["name"] for each in there] == [f"data-{name}"]
        assert there[0]["spec"]["storageClassName"] == "local"

        rome.patch("/api/v1/nodes/naples", {"spec": {"unschedulable": True}})
        before = rome.pods("data")[name]["metadata"]["uid"]
        rome.api.call("DELETE", core("data", "pods", name))

        def waits() -> bool:
            found = rome.pods("data").get(name)
            if found is None or found["metadata"]["uid"] == before:
                return False
            told = [each.get("message", "") for each in found["status"].get("conditions", ())]
            return any("affinity" in each and "volume" in each.lower() for each in told)

        wait_until("the scheduler's word about the volume", waits, 30)
        rome.patch("/api/v1/nodes/naples", {"spec": {"unschedulable": None}})
        wait_until("two ready pods again", lambda: len(rome.ready_pods("data")) == 2, 60)
        assert rome.pods("data")[name]["spec"]["nodeName"] == "naples"
        wait_until("its second start", lambda: log_of(rome, "data", name).strip() == "2", 10)
    finally:
        for each in makers:
            each.close()
    rome.api.call("DELETE", group("apps/v1", "data", "statefulsets", "db"))
    wait_until("no pod", lambda: not rome.pods("data"), 40)
    for claim in rome.names(core("data", "persistentvolumeclaims")):
        rome.api.call("DELETE", core("data", "persistentvolumeclaims", claim))
    path = core("data-rome", "persistentvolumeclaims")
    wait_until("no claim there", lambda: not naples.names(path), 30)
    rome.liqod("unoffload", "namespace", "data", "--yes")
    rome.liqod("unpeer", "naples", "--yes")
