"""Names of Services of the set by a real CoreDNS that is configured as liqod prints it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dns.exception
import dns.message
import dns.query
import dns.rcode
import pytest
from dns.rdatatype import RdataType

from liqod.install import dnsserver
from tests.cluster.test_shared_services import API, IMPORT, WISH, serve
from tests.testbed import evidence
from tests.testbed.api import wait_until
from tests.testbed.clusters import pod_cidr, settings
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import give_up, start_all
from tests.testbed.processes import Child, free_ports
from tests.testbed.workloads import core, deployments, group, slices
from tests.unit.model.test_corefile import page_blocks, page_rights

pytestmark = [pytest.mark.cluster, pytest.mark.clusterset]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "system:serviceaccount:kube-system:coredns"
COREFILE = """\
.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
}
"""
USUAL: dict[str, Any] = {
    "metadata": {"name": "system:coredns"},
    "rules": [
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["list", "watch"],
        },
    ],
}
"""The rights that CoreDNS has in every cluster."""
LOOPBACK = "127.0.0.1"
NOTHING = "web.shop.svc.cluster.local.shop.svc.cluster.local"
HOME = "kubernetes.default.svc.cluster.local"
NAME = "web.shop.svc.clusterset.local"


class NameServers:
    """CoreDNS processes with the rights of the cluster's DNS server."""

    def __init__(self, rome: Member, program: str) -> None:
        self._rome, self._program = rome, program
        self._children: list[Child] = []

    def start(
        self, corefile: str, address: str = LOOPBACK, port: int = 0, account: str = ACCOUNT
    ) -> int:
        """Start one with a Corefile as it is in the cluster, and an account's rights; its port."""
        port = port or free_ports(1)[0]
        folder = self._rome.folder
        kubeconfig = folder / f"coredns-{port}.kubeconfig"
        pair = self._rome.plane.authority.client("coredns", account, ["system:serviceaccounts"])
        kubeconfig.write_text(self._rome.plane.kubeconfig_of(pair))
        here = re.sub(r":(?:10)?53 \{", f":{port} {{\n    bind {address}", corefile)
        here = re.sub(
            r"^( +kubernetes .+)$", rf"\1\n       kubeconfig {kubeconfig}", here, flags=re.M
        )
        path = folder / f"Corefile-{port}"
        path.write_text(here)
        log = Path(f"{path}.log")
        self._children.append(Child("coredns", [self._program, "-conf", str(path)], log))
        return port

    def stop(self) -> None:
        """Stop all of them."""
        for each in self._children:
            each.kill()


def asked(port: int, name: str, where: str = LOOPBACK) -> tuple[str, set[str]]:
    """The code of the answer about a name, and its addresses."""
    query = dns.message.make_query(name, RdataType.A)
    try:
        answer = dns.query.udp(query, where, timeout=5, port=port)
    except (dns.exception.DNSException, OSError):
        return "", set()
    found = {item.address for one in answer.answer for item in one if item.rdtype == RdataType.A}
    return dns.rcode.to_text(answer.rcode()), found


@pytest.fixture(scope="module")
def exporting() -> Iterator[Member]:
    """A cluster that exports a Service, and has the objects of CoreDNS; tests take `rome`."""
    try:
        plane = ControlPlane("rome", Settings(pod_cidr=pod_cidr(0)))
    except Unavailable as reason:
        give_up(reason)
    made = Federation()
    try:
        start_all([plane])
        evidence.add(plane.name, plane.logs)
        member = Member(plane, {**settings(0), "services": {"enabled": True}})
        made.members["rome"] = member
        member.install()
        member.liqod("install", "--services")
        member.run_nodes()
        member.daemon.start()
        member.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        serve(member, 1)
        configuration = {"metadata": {"name": "coredns"}, "data": {"Corefile": COREFILE}}
        member.create(core("kube-system", "configmaps"), configuration)
        member.create(deployments("kube-system"), DEPLOYMENT)
        member.create(f"{RBAC}/clusterroles", USUAL)
        member.create(f"{RBAC}/clusterrolebindings", binding("system:coredns"))
        yield member
    finally:
        made.close()
        evidence.remove(plane.name, plane.logs)
        plane.destroy()


@pytest.fixture
def rome(exporting: Member) -> Iterator[Member]:
    """That cluster, from which what the test has made is taken again."""
    yield exporting
    rights = zip(("clusterroles", "clusterrolebindings"), page_rights(), strict=True)
    for path in (
        *(f"{RBAC}/{kind}/{each['metadata']['name']}" for kind, each in rights),
        group(API, "shop", "serviceexports", "db"),
        core("shop", "services", "db"),
        core("kube-system", "services", "kube-dns"),
    ):
        exporting.api.raw("DELETE", path)
    exporting.patch(CONFIGURATION, {"data": {"Corefile": COREFILE}})


def binding(role: str) -> dict[str, Any]:
    """The binding of a role to CoreDNS."""
    return {
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}],
    }


MARKS = {"k8s-app": "kube-dns"}
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "coredns", "labels": MARKS},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": MARKS},
        "template": {
            "metadata": {"labels": MARKS},
            "spec": {
                "serviceAccountName": "coredns",
                "containers": [
                    {"name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.13.1"}
                ],
                "volumes": [{"name": "config-volume", "configMap": {"name": "coredns"}}],
            },
        },
    },
}
"""CoreDNS as kubeadm makes it; the process of the test stands in for its pods."""


def layer(rome: Member) -> str:
    """The line of the doctor on the names of the set; its first sign is the verdict."""
    said = rome.liqod("doctor", check=False).stdout
    found = re.search(r"^ +([^ ] +names of the set .+)$", said, re.MULTILINE)
    return found.group(1) if found is not None else ""


def test_coredns_answers_by_what_is_printed(rome: Member, coredns: str) -> None:
    found = rome.comes_to(IMPORT, lambda one: bool(one["spec"].get("ips")))
    ips = set(found["spec"]["ips"])
    servers = NameServers(rome, coredns)
    try:
        wait_until("its fault", lambda: layer(rome).startswith("✗"), 30)
        said = " ".join(rome.liqod("doctor", check=False).stdout.split())
        steps = re.search(
            r"make the line `([^`]+)` to `([^`]+)`, and add in its block `([^`]+)`", said
        )
        assert steps is not None, said
        line, wanted, option = steps.groups()
        changed = COREFILE.replace(f"{line} {{", f"{wanted} {{\n       {option}")
        assert changed != COREFILE

        # Without the rights it does not say of a name that there is none: search paths break.
        port = servers.start(changed)
        wait_until("an answer", lambda: asked(port, HOME)[0] == "NOERROR", 30)
        assert asked(port, NOTHING)[0] == asked(port, NAME)[0] == "SERVFAIL"
        change = {"data": {"Corefile": changed}}
        rome.patch(core("kube-system", "configmaps", "coredns"), change)
        assert "may not list and watch serviceimports" in layer(rome)
        for path, made in zip(("clusterroles", "clusterrolebindings"), page_rights(), strict=True):
            rome.create(f"{RBAC}/{path}", made)
        wait_until("the import", lambda: asked(port, NAME) == ("NOERROR", ips), 90)
        assert asked(port, NOTHING)[0] == "NXDOMAIN"
        assert layer(rome).startswith("✓")
        members_are_found_by_host_and_cluster(rome, port)

        # One without that option answers by the line that `explain` prints.
        told = rome.liqod("explain", "serviceimport", "web", "-n", "shop").stdout
        rewrite = re.search(r"rewrite name .+$", told, re.MULTILINE)
        assert rewrite is not None, told
        older = COREFILE.replace("    errors\n", f"    errors\n    {rewrite.group()}\n")
        port = servers.start(older)
        wait_until("an answer", lambda: asked(port, HOME)[0] == "NOERROR", 30)
        assert asked(port, NAME) == ("NOERROR", ips)
    finally:
        servers.stop()


MEMBERS = [
    {"addresses": ["10.200.0.5"], "hostname": "db-0", "conditions": {"ready": True}},
    {"addresses": ["10.200.0.6"], "conditions": {"ready": True}},
    {"addresses": ["10.200.0.7"], "hostname": "db-2", "conditions": {"ready": False}},
]
"""Endpoints of a Service without a selector, one of which has no hostname."""


def members_are_found_by_host_and_cluster(rome: Member, port: int) -> None:
    """Of a headless Service, all that are ready; and there is no name of a cluster alone."""
    name = "db.shop.svc.clusterset.local"
    sql = {"name": "sql", "port": 5432, "protocol": "TCP"}
    headless = {"metadata": {"name": "db"}, "spec": {"clusterIP": "None", "ports": [sql]}}
    created = rome.create(core("shop", "services"), headless)
    assert created["spec"]["ipFamilies"] == ["IPv4", "IPv6"]  # in a cluster of one family
    marks = {"name": "db-1", "labels": {"kubernetes.io/service-name": "db"}}
    rome.create(
        slices("shop"),
        {"metadata": marks, "addressType": "IPv4", "endpoints": MEMBERS, "ports": [sql]},
    )
    rome.create(group(API, "shop", "serviceexports"), {**WISH, "metadata": {"name": "db"}})
    ready = {"10.200.0.5", "10.200.0.6"}
    wait_until("its members", lambda: asked(port, name) == ("NOERROR", ready), 60)
    hosts = {"db-0": "10.200.0.5", "10-200-0-6": "10.200.0.6"}
    for host, address in hosts.items():
        assert asked(port, f"{host}.rome.{name}") == ("NOERROR", {address})
    for nobody in (f"db-2.rome.{name}", f"db-0.milan.{name}", f"rome.{name}"):
        assert asked(port, nobody) == ("NXDOMAIN", set())
    query = dns.message.make_query(f"_sql._tcp.{name}", RdataType.SRV)
    answer = dns.query.udp(query, LOOPBACK, timeout=5, port=port)
    found = {str(item.target) for one in answer.answer for item in one}
    assert found == {f"{host}.rome.{name}." for host in hosts}


SERVICE: dict[str, Any] = {
    "metadata": {"name": "kube-dns", "labels": MARKS},
    "spec": {"selector": MARKS, "ports": [{"name": "dns", "protocol": "UDP", "port": 53}]},
}
CONFIGURATION = core("kube-system", "configmaps", "coredns")


@contextmanager
def on_this_machine(address: str) -> Iterator[None]:
    """An address of the cluster is one of this machine's, as it is reached on a node."""
    place = (f"{address}/32", "dev", "lo")
    subprocess.run(["ip", "address", "add", *place], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "address", "del", *place], check=True)


def test_an_installation_gives_them_to_coredns_and_takes_them_back(
    rome: Member, coredns: str
) -> None:
    found = rome.comes_to(IMPORT, lambda one: bool(one["spec"].get("ips")))
    ips = set(found["spec"]["ips"])
    servers = NameServers(rome, coredns)
    address = str(rome.create(core("kube-system", "services"), SERVICE)["spec"]["clusterIP"])
    before = rome.api.get(CONFIGURATION)["data"]["Corefile"]
    pods = rome.api.get(deployments("kube-system", "coredns"))["spec"]["template"]

    def answers(name: str) -> tuple[str, set[str]]:
        return asked(53, name, address)

    with on_this_machine(address):
        try:
            rome.liqod("install", "--services-dns")
            changed = rome.api.get(CONFIGURATION)["data"]["Corefile"]
            assert changed != before
            assert layer(rome).startswith("?"), layer(rome)  # nothing answers yet
            servers.start(changed, address, 53)
            wait_until("the import", lambda: answers(NAME) == ("NOERROR", ips), 60)
            assert (answers(NOTHING)[0], answers(HOME)[0]) == ("NXDOMAIN", "NOERROR")
            wait_until("its answer", lambda: f"{address} answers {NAME}" in layer(rome), 30)
            assert layer(rome).startswith("✓")
            said = rome.liqod("install", "--services-dns").stderr
            assert f"names of the set: {address} answers {NAME}" in said
            assert rome.api.get(CONFIGURATION)["data"]["Corefile"] == changed

            # One that does not have what the ConfigMap says is not taken for one that has.
            servers.stop()
            servers.start(before, address, 53)
            wait_until("an answer", lambda: answers(HOME)[0] == "NOERROR", 30)
            assert layer(rome).startswith("✗"), layer(rome)

            rome.liqod("install", "--no-services-dns")
            assert rome.api.get(CONFIGURATION)["data"]["Corefile"] == before
            assert rome.api.get(deployments("kube-system", "coredns"))["spec"]["template"] == pods
            assert "does not serve clusterset.local" in layer(rome)
            assert answers(NOTHING)[0] == "NXDOMAIN"
        finally:
            servers.stop()


def test_a_server_of_the_zone_alone_answers_it_and_ends_no_other_name(
    rome: Member, coredns: str
) -> None:
    found = rome.comes_to(IMPORT, lambda one: bool(one["spec"].get("ips")))
    ips = set(found["spec"]["ips"])
    starts = "clusterset.local:53 {\n    errors\n    kubernetes"
    (beside,) = (each for each in page_blocks(page="dns-server") if each.startswith(starts))
    servers = NameServers(rome, coredns)
    try:
        port = servers.start(f"{COREFILE}{beside}")
        wait_until("an answer", lambda: asked(port, HOME)[0] == "NOERROR", 30)
        # Without the rights, too.
        assert (asked(port, NOTHING)[0], asked(port, NAME)[0]) == ("NXDOMAIN", "SERVFAIL")
        for path, made in zip(("clusterroles", "clusterrolebindings"), page_rights(), strict=True):
            rome.create(f"{RBAC}/{path}", made)
        wait_until("the import", lambda: asked(port, NAME) == ("NOERROR", ips), 90)
    finally:
        servers.stop()


def test_a_dns_server_of_its_own_answers_the_names_of_the_set_and_no_others(
    rome: Member, coredns: str
) -> None:
    found = rome.comes_to(IMPORT, lambda one: bool(one["spec"].get("ips")))
    ips = set(found["spec"]["ips"])
    servers = NameServers(rome, coredns)
    made = {
        each["kind"]: each
        for each in dnsserver.manifests("liqo", dnsserver.IMAGE)
        if each["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    }
    try:
        # With the rights of its own account alone, as its pods have them.
        rome.create(core("liqo", "serviceaccounts"), made["ServiceAccount"])
        rome.create(f"{RBAC}/clusterroles", made["ClusterRole"])
        rome.create(f"{RBAC}/clusterrolebindings", made["ClusterRoleBinding"])
        # The ports of its health are the pod's, and here everybody's.
        alone = re.sub(r"^    (health|ready) :.+\n", "", dnsserver.COREFILE, flags=re.M)
        port = servers.start(alone, account="system:serviceaccount:liqo:liqod-dns")
        wait_until("the import", lambda: asked(port, NAME) == ("NOERROR", ips), 60)
        assert asked(port, "no-such.shop.svc.clusterset.local")[0] == "NXDOMAIN"
        for other in (HOME, "example.com"):
            assert asked(port, other) == ("REFUSED", set())

        # The cluster's own forwards the zone, and answers its names as before.
        forwards = f"{COREFILE}clusterset.local:53 {{\n    forward . {LOOPBACK}:{port}\n}}\n"
        own = servers.start(forwards)
        wait_until("an answer", lambda: asked(own, HOME)[0] == "NOERROR", 30)
        wait_until("the import", lambda: asked(own, NAME) == ("NOERROR", ips), 60)
        assert asked(own, NOTHING)[0] == "NXDOMAIN"
    finally:
        servers.stop()
