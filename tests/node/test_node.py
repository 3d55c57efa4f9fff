"""The testbed itself: a pod reaches Ready on a real kubelet, with network, DNS, logs and exec."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.api import wait_until
from tests.testbed.node import NodeCluster, node_pod

pytestmark = pytest.mark.node

PODS = "/api/v1/namespaces/default/pods"


def pod_is_ready(cluster: NodeCluster, name: str) -> bool:
    """True if the kubelet reports the pod Ready."""
    status = cluster.plane.api.get(f"{PODS}/{name}")["status"]
    return any(
        one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", [])
    )


def test_a_pod_serves_resolves_and_shows_its_log(real_node_cluster: NodeCluster) -> None:
    plane = real_node_cluster.plane
    plane.api.call("POST", PODS, node_pod("web", "echo started; exec httpd -f -p 8080 -h /www"))
    plane.kubectl("expose", "pod", "web", "--port=80", "--target-port=8080")
    wait_until("pod web", lambda: pod_is_ready(real_node_cluster, "web"), 30)
    wait_until("its log", lambda: plane.kubectl("logs", "web") == "started\n", 40)

    service = (
        "printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' | nc -w 2 web.default.svc.cluster.local 80"
    )

    def answer() -> bool:
        # CoreDNS and kube-proxy take a moment to see a new Service.
        said = plane.kubectl("exec", "web", "--", "/bin/sh", "-c", service, check=False)
        return said.endswith("hello\n")

    wait_until("an answer by the service's name", answer, 40)


def test_it_calls_a_webhook_on_this_host(real_node_cluster: NodeCluster) -> None:
    """The address by which a daemon on this host is reached from inside is `gateway`."""
    machine = real_node_cluster.machine
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", "--bind", machine.gateway, "0"],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().split(" port ")[1].split()[0]
        url = f"http://{machine.gateway}:{port}/"
        fetch = f"import urllib.request as u; print(u.urlopen('{url}', timeout=5).status)"
        assert machine.run(sys.executable, "-c", fetch) == "200\n"
    finally:
        server.kill()
        server.communicate()


@pytest.mark.pods
def test_two_run_beside_each_other_and_leave_nothing(real_node_cluster: NodeCluster) -> None:
    second = NodeCluster("naples")
    interface = Path(f"/sys/class/net/{second.machine.interface}")
    try:
        second.start()
        nodes = json.loads(second.plane.kubectl("get", "nodes", "-o", "json"))["items"]
        assert [node["metadata"]["name"] for node in nodes] == ["naples"]
        assert interface.exists()
        second.plane.api.call("POST", PODS, node_pod("sleeper"))
        wait_until("pod sleeper", lambda: pod_is_ready(second, "sleeper"), 30)
    finally:
        second.destroy()
    assert not interface.exists()
    assert not second.folder.exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{second.cgroup}"))
    assert real_node_cluster.plane.api.ready()
