"""CoreDNS in real pods gets the names of the set and loses them, and no name fails meanwhile; and a
DNS server of liqod's own, in real pods, answers them to pods."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_service_names import DEPLOYMENT, HOME, NAME, RBAC, SERVICE, USUAL, binding
from tests.cluster.test_shared_services import IMPORT, WISH
from tests.testbed import image, pages, shownblocks
from tests.testbed.api import wait_until
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import whole_cluster
from tests.testbed.node import NodeCluster, node_pod
from tests.testbed.workloads import core, deployments, group
from tests.unit.model.test_corefile import page_blocks

pytestmark = [pytest.mark.node, pytest.mark.clusterset]

IMAGE = "localhost/coredns:v1.13.1"
COREFILE = """\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
}
"""
CONFIGURATION = core("kube-system", "configmaps", "coredns")
COREDNS = deployments("kube-system", "coredns")
OWN = "app.kubernetes.io/name=liqod-dns"
SERVED = re.compile(r"✓ +names of the set")
HEARD = "hello from web"
SERVER = f"mkdir -p /tmp/www; echo {HEARD} > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"
CALL = r"""
said=$(busybox nslookup "$0")
address=$(echo "$said" | busybox awk '/^Name/ { seen = 1 } seen && /^Address/ { print $NF }')
printf 'GET /index.html HTTP/1.0\r\n\r\n' | busybox nc -w 3 "$address" 80 || true
"""
"""Calls a name by what the pod's own DNS server answers, as a static busybox looks nothing up."""
ASK = """
import sys, time
import dns.message, dns.query, dns.rcode
names = ("kubernetes.default.svc.cluster.local", "no-such-host.default.svc.cluster.local")
while True:
    for name in names:
        try:
            query = dns.message.make_query(name, "A")
            found = dns.rcode.to_text(dns.query.udp(query, sys.argv[1], timeout=1).rcode())
        except Exception as error:
            found = type(error).__name__
        print(name.partition(".")[0], found, flush=True)
    time.sleep(0.05)
"""
"""Asks for a name that is there, and for one that is not, and prints the codes."""


def write_image(target: Path, program: str) -> None:
    """An image of CoreDNS alone."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as layer:
        image.add(layer, "coredns", Path(program).read_bytes(), 0o755)
    image.pack(target, IMAGE, [stream.getvalue()], {"Entrypoint": ["/coredns"]})


def pods() -> dict[str, Any]:
    """The Deployment as kubeadm makes it: two replicas that are ready with the plugin `ready`."""
    template = DEPLOYMENT["spec"]["template"]
    container = {
        "name": "coredns",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns"}],
    }
    spec = {**template["spec"], "containers": [container], "dnsPolicy": "Default"}
    return {
        "metadata": DEPLOYMENT["metadata"],
        "spec": {**DEPLOYMENT["spec"], "replicas": 2, "template": {**template, "spec": spec}},
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[NodeCluster]:
    """A cluster of its own: in one that others share, liqod may be installed, and have peers."""
    with whole_cluster("ravenna") as made:
        yield made


@pytest.fixture(scope="module")
def ravenna(cluster: NodeCluster, coredns: str) -> Iterator[Member]:
    """The cluster, whose DNS server is of real pods."""
    made = Federation()
    archive = cluster.folder / "coredns.tar"
    write_image(archive, coredns)
    cluster.load(archive)
    try:
        tables = {"webhook": {"host": cluster.machine.gateway}, "services": {"enabled": True}}
        member = Member(cluster.plane, tables)
        made.members["ravenna"] = member
        for path, one in objects():
            member.create(path, one)
        has_both(member)
        member.install()
        yield member
    finally:
        made.close()


def has_both(member: Member) -> None:
    """Waits until both pods of CoreDNS are of its Deployment as it is now, and available."""

    def has(one: dict[str, Any]) -> bool:
        status = one["status"]
        counts = [status.get(key) for key in ("updatedReplicas", "availableReplicas", "replicas")]
        return status["observedGeneration"] >= one["metadata"]["generation"] and counts == [2] * 3

    member.comes_to(COREDNS, has, 60)


def objects() -> list[tuple[str, dict[str, Any]]]:
    """The objects of CoreDNS, each with the path of its collection."""
    account = {"metadata": {"name": "coredns"}}
    return [
        (f"{RBAC}/clusterroles", USUAL),
        (f"{RBAC}/clusterrolebindings", binding("system:coredns")),
        (core("kube-system", "serviceaccounts"), account),
        (core("kube-system", "configmaps"), {**account, "data": {"Corefile": COREFILE}}),
        (deployments("kube-system"), pods()),
        (core("kube-system", "services"), SERVICE),
    ]


class Questions:
    """A program on the node that asks the DNS server's Service all the time."""

    def __init__(self, cluster: NodeCluster, address: str) -> None:
        self._output = cluster.folder / "questions"
        with self._output.open("w") as out:
            command = [*cluster.machine.inside, sys.executable, "-c", ASK, address]
            self._process = subprocess.Popen(command, stdout=out)

    def end(self) -> Counter[tuple[str, ...]]:
        """End it; the number of each code, by the name."""
        self._process.kill()
        self._process.wait()
        return Counter(tuple(line.split()) for line in self._output.read_text().splitlines())


def server(ravenna: Member) -> str:
    """The address of the cluster's DNS server."""
    found = ravenna.api.get(core("kube-system", "services", "kube-dns"))
    return str(found["spec"]["clusterIP"])


def doctor(cluster: NodeCluster) -> str:
    """The doctor's output on the node."""
    words = ("-m", "liqod", "doctor", "--kubeconfig", str(cluster.plane.kubeconfig))
    return subprocess.run(
        [*cluster.machine.inside, sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_no_name_fails_while_it_comes_and_goes(
    cluster: NodeCluster, ravenna: Member, tmp_path: Path
) -> None:
    dry_run, gives, takes = shownblocks.commands("how-to/service-names", "")
    typed = pages.terminal(tmp_path, cluster.plane)
    typed.type("export KUBECONFIG=$PWD/ravenna.kubeconfig")
    address = server(ravenna)
    questions = Questions(cluster, address)
    try:
        typed.section([dry_run, gives])
        changed = ravenna.api.get(CONFIGURATION)["data"]["Corefile"]
        answer = f"{address} answers dns-version.clusterset.local"
        wait_until("its answer", lambda: answer in doctor(cluster), 20)
        typed.section([takes])
        back = ravenna.api.get(CONFIGURATION)["data"]["Corefile"]
    finally:
        codes = questions.end()
    assert "clusterset.local" in changed
    assert back == COREFILE
    assert f"{address} answers" not in doctor(cluster)
    assert codes["kubernetes", "NOERROR"] > 20
    assert codes["no-such-host", "NXDOMAIN"] > 20
    wrong = {each: count for each, count in codes.items() if each[1] == "SERVFAIL"}
    assert not wrong, codes


def calls(ravenna: Member, name: str) -> str:
    """What a pod hears that calls a name."""
    return ravenna.plane.kubectl("exec", "-n", "shop", "client", "--", "sh", "-c", CALL, name)


def share(ravenna: Member) -> None:
    """A Service of a real pod, exported, and a pod that asks the cluster's DNS server."""
    ravenna.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    client = node_pod("client")
    resolver = {"dnsPolicy": "None", "dnsConfig": {"nameservers": [server(ravenna)]}}
    client["spec"] = {**client["spec"], **resolver}
    for each in (client, node_pod("web", SERVER)):
        ravenna.create(core("shop", "pods"), each)
    ports = [{"port": 80, "targetPort": 8080}]
    web = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    ravenna.create(core("shop", "services"), web)
    ravenna.create(group(WISH["apiVersion"], "shop", "serviceexports"), WISH)


def test_a_dns_server_in_pods_of_its_own_answers_pods(
    cluster: NodeCluster, ravenna: Member, tmp_path: Path
) -> None:
    gives, takes = shownblocks.commands("how-to/dns-server", "")
    typed = pages.terminal(tmp_path, cluster.plane)
    typed.type("export KUBECONFIG=$PWD/ravenna.kubeconfig")
    [said] = typed.section([gives])
    own = ravenna.api.get(core("liqo", "services", "liqod-dns"))["spec"]["clusterIP"]
    assert own in said
    pods = ravenna.api.get(f"{core('liqo', 'pods')}?labelSelector={OWN.replace('=', '%3D')}")
    assert {each["metadata"]["name"] for each in pods["items"]} <= ravenna.ready_pods("liqo")
    assert len(pods["items"]) == 2

    ravenna.daemon.start()
    share(ravenna)
    (block,) = (each for each in page_blocks(page="dns-server") if "forward . 10.96.0.99" in each)
    forwards = COREFILE + block.replace("10.96.0.99", own)
    ravenna.patch(CONFIGURATION, {"data": {"Corefile": forwards}})
    again = {"metadata": {"annotations": {"example.com/corefile": "forwards"}}}
    ravenna.patch(COREDNS, {"spec": {"template": again}})
    has_both(ravenna)
    ips = ravenna.comes_to(IMPORT, lambda one: one["spec"].get("ips"))["spec"]["ips"]
    wait_until("the name", lambda: HEARD in calls(ravenna, NAME), 60)
    wait_until("its answer", lambda: SERVED.search(doctor(cluster)), 30)
    asked = ("exec", "-n", "shop", "client", "--", "busybox", "nslookup")
    for address in (own, server(ravenna)):
        assert ips[0] in ravenna.plane.kubectl(*asked, NAME, address)

    typed.section([takes])
    wait_until("them to go", lambda: not ravenna.ready_pods("liqo"), 30)
    assert not ravenna.api.exists(core("liqo", "services", "liqod-dns"))
    assert HEARD not in calls(ravenna, NAME)
    assert "Name:" in ravenna.plane.kubectl(*asked, HOME)
