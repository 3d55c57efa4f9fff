"""CoreDNS in real pods gets the names of the set and loses them, and no name fails meanwhile."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_service_names import DEPLOYMENT, RBAC, SERVICE, USUAL, binding
from tests.testbed import image, pages, shownblocks
from tests.testbed.api import wait_until
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import whole_cluster
from tests.testbed.node import NodeCluster
from tests.testbed.workloads import core, deployments

pytestmark = pytest.mark.node

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


@pytest.fixture
def cluster() -> Iterator[NodeCluster]:
    """A cluster of its own: in one that others share, liqod may be installed, and have peers."""
    with whole_cluster("ravenna") as made:
        yield made


@pytest.fixture
def ravenna(cluster: NodeCluster, coredns: str) -> Iterator[Member]:
    """The cluster, whose DNS server is of real pods."""
    made = Federation()
    archive = cluster.folder / "coredns.tar"
    write_image(archive, coredns)
    cluster.load(archive)
    try:
        member = Member(cluster.plane)
        made.members["ravenna"] = member
        for path, one in objects():
            member.create(path, one)
        place = deployments("kube-system", "coredns")
        wait_until(
            "CoreDNS", lambda: member.api.get(place)["status"].get("availableReplicas") == 2, 60
        )
        member.install()
        yield member
    finally:
        made.close()


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


def test_no_name_fails_while_it_comes_and_goes(
    cluster: NodeCluster, ravenna: Member, tmp_path: Path
) -> None:
    dry_run, gives, takes = shownblocks.commands("how-to/service-names", "")
    typed = pages.terminal(tmp_path, cluster.plane)
    typed.type("export KUBECONFIG=$PWD/ravenna.kubeconfig")
    service = ravenna.api.get(core("kube-system", "services", "kube-dns"))
    address = str(service["spec"]["clusterIP"])

    def doctor() -> str:
        """The doctor's output on the node."""
        words = ("-m", "liqod", "doctor", "--kubeconfig", str(ravenna.plane.kubeconfig))
        return subprocess.run(
            [*cluster.machine.inside, sys.executable, *words],
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    questions = Questions(cluster, address)
    try:
        typed.section([dry_run, gives])
        changed = ravenna.api.get(CONFIGURATION)["data"]["Corefile"]
        assert f"{address} answers dns-version.clusterset.local" in doctor()
        typed.section([takes])
        back = ravenna.api.get(CONFIGURATION)["data"]["Corefile"]
    finally:
        codes = questions.end()
    assert "clusterset.local" in changed
    assert back == COREFILE
    assert f"{address} answers" not in doctor()
    assert codes["kubernetes", "NOERROR"] > 20
    assert codes["no-such-host", "NXDOMAIN"] > 20
    wrong = {each: count for each, count in codes.items() if each[1] == "SERVFAIL"}
    assert not wrong, codes
