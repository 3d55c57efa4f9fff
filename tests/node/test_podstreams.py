"""Commands of `kubectl` on a pod that a real kubelet of another cluster runs.

The consumer's API server checks the certificates of kubelets, and reaches nodes only through a
proxy, as where konnectivity is used: what is tested here works there.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.node import pairs
from tests.testbed import image
from tests.testbed.api import wait_until
from tests.testbed.controlplane import Settings
from tests.testbed.egress import Egress
from tests.testbed.federation import Member
from tests.testbed.metricsserver import MetricsServer
from tests.testbed.node import NodeCluster
from tests.testbed.processes import plain_environment
from tests.testbed.workloads import CONTAINER, core, deployment, deployments

pytestmark = pytest.mark.node

STREAMS_ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/liqo-virtual-kubelet-remote-streams"
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
WEBSOCKET = dict.fromkeys(SPDY, "true")
WAYS = pytest.mark.parametrize("way", [SPDY, WEBSOCKET], ids=["spdy", "websocket"])
MEGABYTES = 8
EAGER = (
    "--horizontal-pod-autoscaler-sync-period=2s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
)
"""Has an autoscaler go by what has just begun, and soon."""
SCALERS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"


@pytest.fixture
def naples(real_node_cluster: NodeCluster) -> NodeCluster:
    """The provider, with a real node."""
    return real_node_cluster


@pytest.fixture(scope="module")
def egress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Egress]:
    """The only way of siena's API server to nodes."""
    made = Egress(tmp_path_factory.mktemp("egress"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def siena(real_node_cluster: NodeCluster, egress: Egress) -> Iterator[Member]:
    """It borrows from naples, whose node is real, and has a pod there."""
    more = {"kube-apiserver": [egress.flag], "kube-controller-manager": EAGER}
    planes = Settings(pod_cidr="10.202.0.0/16", checks_kubelets=True, more=more)
    gateway = real_node_cluster.machine.gateway
    # An API server leads nobody to a node at a loopback address.
    own = {"kubelet": {"host": gateway, "listen": gateway}, "webhook": {"host": gateway}}
    with (
        pairs.pair(real_node_cluster, "siena", planes, own=own) as made,
        pairs.offloading(made) as (context, _),
    ):
        context.create(core("shop", "pods"), pod())
        wait_until("a pod that is ready", lambda: len(context.ready_pods("shop")) == 1, 60)
        yield context


def pod() -> dict[str, Any]:
    """Two containers: a web server that has been restarted once, and one that repeats its input."""
    start = "for n in 1 2 3; do echo line $n; done; [ -e /data/x ] || { touch /data/x; exit 3; }"
    serve = "; mkdir -p /www; echo served > /www/index.html; exec httpd -f -p 8080 -h /www"
    mounts = [{"name": "data", "mountPath": "/data"}]
    web = {**CONTAINER, "name": "web", "command": ["/bin/sh", "-c", start + serve]}
    echo = {**CONTAINER, "name": "echo", "command": ["/bin/cat"], "stdin": True}
    spec = {
        "containers": [{**web, "volumeMounts": mounts}, echo],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 1,
    }
    return {"metadata": {"name": "web"}, "spec": spec}


def command(siena: Member, *words: str) -> list[str]:
    """The words of a call of `kubectl`: of the clusters' minor, or of `TESTBED_KUBECTL`, a path."""
    path = os.environ.get("TESTBED_KUBECTL") or siena.plane.programs.path("kubectl")
    return [str(path), "--kubeconfig", str(siena.plane.kubeconfig), "--namespace", "shop", *words]


def environment(siena: Member, way: Mapping[str, str]) -> dict[str, str]:
    return {**plain_environment(), "HOME": str(siena.plane.folder), **way}


def kubectl(
    siena: Member, *words: str, way: Mapping[str, str] = SPDY, told: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Runs kubectl on a pod, and returns the process that has ended."""
    return subprocess.run(
        command(siena, *words),
        input=told,
        capture_output=True,
        timeout=60,
        check=False,
        env=environment(siena, way),
    )


def said(siena: Member, *words: str, way: Mapping[str, str] = SPDY, told: bytes = b"") -> bytes:
    """Runs kubectl on a pod, asserts that it succeeds, and returns its output."""
    answer = kubectl(siena, *words, way=way, told=told)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_logs_have_all_their_options(siena: Member) -> None:
    logs = ("logs", "web", "--container=web")
    lines = b"line 1\nline 2\nline 3\n"
    assert said(siena, *logs) == lines
    assert said(siena, *logs, "--previous") == lines
    assert said(siena, *logs, "--tail=1") == b"line 3\n"
    assert said(siena, *logs, "--limit-bytes=4") == b"line"
    assert said(siena, *logs, "--since=1h") == lines
    assert said(siena, *logs, "--since-time=2999-01-01T00:00:00Z") == b""
    stamped = said(siena, *logs, "--timestamps").splitlines()
    assert [line.split(b" ", 1)[1] for line in stamped] == lines.splitlines()
    assert stamped[0][:2] == b"20"
    assert said(siena, "logs", "web", "--all-containers", "--prefix").count(b"[pod/web/web]") == 3
    with subprocess.Popen(
        command(siena, *logs, "--follow", "--tail=2"),
        stdout=subprocess.PIPE,
        env=environment(siena, SPDY),
    ) as follow:
        try:
            assert follow.stdout is not None
            assert [follow.stdout.readline() for _ in range(2)] == lines.splitlines(True)[1:]
            assert follow.poll() is None
            said(siena, "exec", "web", "-c", "web", "--", "sh", "-c", "echo more > /proc/1/fd/1")
            assert follow.stdout.readline() == b"more\n"
        finally:
            follow.kill()


@WAYS
def test_exec_has_exit_codes_input_and_a_terminal(siena: Member, way: Mapping[str, str]) -> None:
    run = ("exec", "web", "-c", "web")
    assert said(siena, *run, "--", "echo", "a b", "&c", way=way) == b"a b &c\n"
    answer = kubectl(siena, *run, "--", "sh", "-c", "echo out; echo err >&2; exit 7", way=way)
    assert (answer.returncode, answer.stdout) == (7, b"out\n")
    assert answer.stderr.startswith(b"err\n")
    data = os.urandom(MEGABYTES << 20)
    assert said(siena, *run, "-i", "--", "cat", way=way, told=data) == data
    near, far = pty.openpty()
    try:
        words = command(siena, *run, "-it", "--", "sh", "-c", "test -t 0 && test -t 1 && tty")
        with subprocess.Popen(
            words, stdin=far, stdout=far, stderr=far, env=environment(siena, way)
        ) as running:
            assert running.wait(60) == 0
        assert b"/dev/pts/" in os.read(near, 4096)
    finally:
        os.close(near)
        os.close(far)


@pytest.mark.pods
@WAYS
def test_attach_reaches_what_runs(siena: Member, way: Mapping[str, str]) -> None:
    with subprocess.Popen(
        command(siena, "attach", "web", "-c", "echo", "-i"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(siena, way),
    ) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        try:
            attached.stdin.write(b"hear me\n")
            attached.stdin.flush()
            assert attached.stdout.readline() == b"hear me\n"
        finally:
            attached.kill()


@pytest.mark.pods
@WAYS
def test_ports_are_forwarded(siena: Member, way: Mapping[str, str]) -> None:
    with subprocess.Popen(
        command(siena, "port-forward", "pod/web", ":8080"),
        stdout=subprocess.PIPE,
        env=environment(siena, way),
    ) as forwarding:
        try:
            assert forwarding.stdout is not None
            first = forwarding.stdout.readline().decode()
            port = int(first.split("127.0.0.1:")[1].split(" ")[0])
            for _ in range(3):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
                    assert answer.read() == b"served\n"
        finally:
            forwarding.kill()


@pytest.mark.pods
@WAYS
def test_files_are_copied(siena: Member, way: Mapping[str, str], tmp_path: Path) -> None:
    here, back = tmp_path / "here", tmp_path / "back"
    here.write_bytes(os.urandom(MEGABYTES << 20))
    said(siena, "cp", str(here), "web:/data/there", "-c", "web", way=way)
    said(siena, "cp", "web:/data/there", str(back), "-c", "web", way=way)
    assert back.read_bytes() == here.read_bytes()


def of_debugger(siena: Member, name: str) -> dict[str, Any]:
    """The status of an ephemeral container; empty while there is none."""
    found = siena.api.get(core("shop", "pods", "web"))["status"]
    shown = found.get("ephemeralContainerStatuses", ())
    return next((each for each in shown if each["name"] == name), {})


def waits(siena: Member, name: str) -> str:
    """Why an ephemeral container does not run, as `kubectl debug` prints it."""
    waiting = of_debugger(siena, name).get("state", {}).get("waiting", {})
    return str(waiting.get("message", ""))


@pytest.mark.pods
def test_a_debugger_is_added_to_what_runs(siena: Member) -> None:
    run = ("--image", CONTAINER["image"], "--image-pull-policy", "Never")
    # The profile that kubectl has as default since 1.36 asks for SYS_PTRACE, which `baseline`, the
    # level of Pod Security at the peer, lets nobody have.
    asks = ("debug", "web", *run, "--target", "web")
    refused = kubectl(siena, *asks, "-c", "tracer", "--profile=general", "--attach=false")
    assert refused.returncode == 0, refused.stderr
    wait_until("the refusal is said", lambda: "SYS_PTRACE" in waits(siena, "tracer"), 20)
    debug = (*asks, "-c", "debugger", "--profile=baseline", "-i", "-q")
    # It is in the process namespace of the container that it looks into.
    words = ("sh", "-c", "read word; echo $word; cat /proc/1/cmdline; echo; read word")
    with subprocess.Popen(
        command(siena, *debug, "--", *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(siena, WEBSOCKET),
    ) as debugger:
        assert debugger.stdin is not None
        assert debugger.stdout is not None
        try:
            debugger.stdin.write(b"heard\n")
            debugger.stdin.flush()
            assert debugger.stdout.readline() == b"heard\n"
            assert debugger.stdout.readline().startswith(b"httpd\x00")
            debugger.stdin.write(b"end\n")
            debugger.stdin.flush()
            assert debugger.wait(30) == 0
        finally:
            debugger.kill()
    assert said(siena, "logs", "web", "-c", "debugger").startswith(b"heard\n")

    def ended() -> bool:
        return "terminated" in of_debugger(siena, "debugger").get("state", {})

    wait_until("the debugger's end is told", ended, 20)
    assert "web" in siena.ready_pods("shop")


def limits(siena: Member) -> tuple[str, str]:
    """Milliseconds of a tenth of a second, and bytes, that a container's own cgroup allows it."""
    first, second = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu.max"
    third = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    fourth = "/sys/fs/cgroup/memory.max"
    look = f"cat {first} {third} 2>/dev/null || cat {second} {fourth}"
    cpu, memory = said(siena, "exec", "small", "--", "sh", "-c", look).decode().splitlines()
    return cpu.split(" ")[0], memory


@pytest.mark.pods
def test_what_is_changed_of_a_pod_is_in_force_there(
    siena: Member, real_node_cluster: NodeCluster
) -> None:
    second = "localhost/busybox:2"
    archive = real_node_cluster.folder / "second.tar"
    image.write(archive, second, "SECOND=yes")
    real_node_cluster.load(archive)
    path, there = core("shop", "pods", "small"), core("shop-siena", "pods", "small")
    small = {"cpu": "100m", "memory": "64Mi"}
    container = {**CONTAINER, "resources": {"requests": small, "limits": small}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    siena.create(core("shop", "pods"), {"metadata": {"name": "small"}, "spec": spec})
    wait_until("the pod is ready", lambda: "small" in siena.ready_pods("shop"), 30)
    naples = real_node_cluster.plane.api
    uid = naples.get(there)["metadata"]["uid"]

    def status() -> dict[str, Any]:
        found = siena.api.get(path)["status"]
        assert naples.get(there)["metadata"]["uid"] == uid
        return {**found["containerStatuses"][0], "conditions": found["conditions"]}

    def resize(cpu: str, memory: str) -> None:
        amounts = {"cpu": cpu, "memory": memory}
        sizes = [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]
        patch = json.dumps({"spec": {"containers": sizes}})
        said(siena, "patch", "pod", "small", "--subresource", "resize", "--patch", patch)

    assert limits(siena) == ("10000", str(64 << 20))
    resize("200m", "96Mi")
    wait_until("the container may take more", lambda: limits(siena)[0] == "20000", 20)
    assert limits(siena) == ("20000", str(96 << 20))
    wait_until("it is told", lambda: status()["resources"]["limits"]["memory"] == "96Mi", 20)
    assert status()["restartCount"] == 0

    resize("100", "96Mi")

    def refused() -> bool:
        return any(each.get("reason") == "OverQuota" for each in status()["conditions"])

    wait_until("it is told that this is too much", refused, 20)
    assert limits(siena)[0] == "20000"
    resize("200m", "96Mi")
    wait_until("that is over", lambda: not refused(), 20)
    assert "small" in siena.ready_pods("shop")

    other = json.dumps({"spec": {"containers": [{"name": "main", "image": second}]}})
    said(siena, "patch", "pod", "small", "--patch", other)
    wait_until("it is started again", lambda: status()["restartCount"] == 1, 30)
    assert b"SECOND=yes" in said(siena, "exec", "small", "--", "env")
    assert limits(siena)[0] == "20000"

    said(siena, "patch", "pod", "small", "--patch", '{"spec": {"activeDeadlineSeconds": 1}}')

    def over(pod: dict[str, Any]) -> bool:
        return (pod["status"]["phase"], pod["status"].get("reason")) == (
            "Failed",
            "DeadlineExceeded",
        )

    wait_until("it has ended here", lambda: over(siena.api.get(path)), 30)
    assert over(naples.get(there))
    siena.api.call("DELETE", path)


@WAYS
def test_the_peers_refusal_comes_with_its_words(
    siena: Member, real_node_cluster: NodeCluster, way: Mapping[str, str]
) -> None:
    answer = kubectl(siena, "exec", "web", "-c", "web", "--", "/none", way=way)
    assert answer.returncode != 0
    assert b"/none" in answer.stderr
    naples = real_node_cluster.plane.api
    role = naples.get(STREAMS_ROLE)
    naples.call("DELETE", STREAMS_ROLE)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            answer = kubectl(siena, "exec", "web", "-c", "web", "--", "true", way=way)
            if answer.returncode:
                break
        assert b"the peer naples" in answer.stderr
        assert b"pods/exec" in answer.stderr
        assert said(siena, "logs", "web", "-c", "web", "--tail=1")
    finally:
        del role["metadata"]["resourceVersion"], role["metadata"]["uid"]
        naples.call("POST", STREAMS_ROLE.rpartition("/")[0], role)
    wait_until(
        "a stream again",
        lambda: kubectl(siena, "exec", "web", "-c", "web", "--", "true", way=way).returncode == 0,
        30,
    )


def test_the_way_is_the_proxys_and_the_certificate_the_clusters(
    siena: Member, egress: Egress
) -> None:
    status = siena.api.get("/api/v1/nodes/naples")["status"]
    port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    said(siena, "logs", "web", "-c", "web")
    assert f"{status['addresses'][0]['address']}:{port}" in egress.targets()
    left = siena.api.get("/apis/certificates.k8s.io/v1/certificatesigningrequests")["items"]
    assert left == [], "no request stays"


def test_a_node_answers_as_a_kubelet_by_the_api_server(siena: Member) -> None:
    """The API server says which node it was asked for, and all have one address."""
    proxied = "/api/v1/nodes/{}/proxy/{}"
    pods = siena.api.get(proxied.format("naples", "pods"))["items"]
    assert "web" in {each["metadata"]["name"] for each in pods}
    assert siena.api.raw("GET", proxied.format("naples", "healthz")) == (200, b"ok")
    status, said_ = siena.api.raw("GET", proxied.format("naples", "configz"))
    assert (status, said_) == (404, b"a virtual node has no /configz\n")
    of_naples = siena.api.get("/api/v1/nodes/naples")["status"]
    shown = {name: of_naples[name] for name in ("addresses", "daemonEndpoints")}
    siena.create("/api/v1/nodes", {"metadata": {"name": "other"}, "status": shown})
    try:
        status, said_ = siena.api.raw("GET", proxied.format("other", "pods"))
        assert (status, said_) == (404, b"other is no virtual node here\n")
    finally:
        siena.api.call("DELETE", "/api/v1/nodes/other")


@pytest.mark.pods
def test_pods_there_are_measured_and_scaled(siena: Member, naples: NodeCluster) -> None:
    """By the metrics-servers of both clusters, which are real."""
    busy = deployment("busy", 1)
    [container] = busy["spec"]["template"]["spec"]["containers"]
    container["command"] = ["/bin/sh", "-c", "while :; do :; done"]
    container["resources"]["limits"] = {"cpu": "200m"}
    siena.create(deployments("shop"), busy)
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 100}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "busy"}
    metrics = [{"type": "Resource", "resource": cpu}]
    spec = {"minReplicas": 1, "maxReplicas": 2, "metrics": metrics, "scaleTargetRef": target}
    siena.create(SCALERS, {"metadata": {"name": "busy"}, "spec": spec})
    servers = []
    try:
        for plane in (naples.plane, siena.plane):
            servers.append(MetricsServer(plane))  # noqa: PERF401, what began is ended below

        def measured() -> bool:
            answer = kubectl(siena, "top", "pod", "--containers", "--no-headers")
            rows = [line.split() for line in answer.stdout.decode().splitlines()]
            found = {name: (cpu, memory) for _, name, cpu, memory in rows}
            if not {"main", "web", "echo"} <= found.keys():
                return False
            assert 50 < int(found["main"][0].removesuffix("m")) < 1000, found
            assert all(memory.endswith("Mi") for _, memory in found.values())
            return True

        wait_until("what pods there use", measured, 60)
        rows = said(siena, "top", "node", "--no-headers").decode().split()
        assert rows[0] == "naples"
        assert int(rows[1].removesuffix("m")) > 50
        siena.comes_to(f"{deployments('shop')}/busy", lambda it: it["spec"]["replicas"] == 2, 60)
    finally:
        for each in servers:
            each.close()
        siena.api.call("DELETE", f"{SCALERS}/busy")
        siena.api.call("DELETE", f"{deployments('shop')}/busy")
