"""Workloads offloaded between joined clusters of real kubelets, and the requests of their pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.testbed.api import wait_until
from tests.testbed.errors import TestbedError
from tests.testbed.joined import Joined
from tests.testbed.workloads import core, deployment, deployments, group, service, slices

NAMESPACE = "shop"
THERE = f"{NAMESPACE}-rome"
"""The name of rome's namespace at its peers."""
PORT = "8080"
REPLICAS = 4
SERVER = "mkdir -p /tmp/www; hostname > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"
"""Answers with the name of its pod, by both families."""
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
}
BOTH = {"ipFamilyPolicy": "PreferDualStack"}
ASK = r"""
while [ $# -gt 1 ]; do
  echo "$(printf 'GET /index.html HTTP/1.0\r\n\r\n' |
    busybox timeout 4 busybox nc -w 3 "$1" "$2" 2>/dev/null | busybox tail -n 1)"
  shift 2
done
"""
FIND = r"""
domain=$(busybox awk '/^search/ { print $2; exit }' /etc/resolv.conf)
busybox nslookup "$1.$domain" | busybox awk '/^Name/ { seen = 1 } seen && /^Address/ { print $NF }'
"""
"""All addresses of a name; a static program of glibc's, as busybox is, cannot look it up itself."""


class Shop:
    """A namespace of rome that is offloaded to milan.

    Args:
        clusters: rome and milan, joined.
    """

    def __init__(self, clusters: Joined) -> None:
        self.rome, self.milan = clusters.members["rome"], clusters.members["milan"]

    def open(self) -> None:
        """Servers in both clusters behind a Service, and two that know each other by name."""
        self.rome.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self.rome.liqod("offload", "namespace", NAMESPACE)
        for name, more in (("web", {}), ("db", {"clusterIP": "None"})):
            made = service(name)
            made["spec"] |= {**BOTH, **more}
            self.rome.create(core(NAMESPACE, "services"), made)
        self.rome.create(deployments(NAMESPACE), _spread(deployment("web", REPLICAS)))
        known = _spread(deployment("db", 2))
        known["spec"] |= {"serviceName": "db", "podManagementPolicy": "Parallel"}
        self.rome.create(group("apps/v1", NAMESPACE, "statefulsets"), known)
        wait_until(
            "all pods of the shop",
            lambda: len(self.rome.ready_pods(NAMESPACE)) == REPLICAS + 2,
            60,
        )

    def close(self) -> None:
        """Takes it away."""
        self.rome.liqod("unoffload", "namespace", NAMESPACE, "--yes")
        self.rome.api.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}")

    def pods(self, app: str = "") -> dict[str, dict[str, Any]]:
        """Its pods as rome shows them, by name."""
        found = self.rome.pods(NAMESPACE)
        return {
            name: pod
            for name, pod in found.items()
            if app in ("", pod["metadata"]["labels"].get("app"))
        }

    def one(self, node: str, app: str = "web") -> str:
        """The name of a pod that runs in a cluster."""
        found = [name for name, pod in self.pods(app).items() if pod["spec"]["nodeName"] == node]
        return min(found)

    def addresses(self, pod: str) -> list[str]:
        """The addresses under which rome shows a pod, IPv4 first."""
        return ips(self.pods()[pod])

    def say(self, pod: str, *command: str) -> str:
        """Runs a command in a pod, wherever that runs, and returns its output."""
        here = self.pods()[pod]["spec"]["nodeName"] == "rome"
        member, place = (self.rome, NAMESPACE) if here else (self.milan, THERE)
        return member.plane.kubectl("exec", "--namespace", place, pod, "--", *command)

    def tried(self, pod: str, *command: str) -> str | None:
        """The same; None where it fails, or the node's kubelet does not answer."""
        try:
            return self.say(pod, *command)
        except TestbedError:
            return None

    def ask(self, pod: str, targets: Iterable[str], port: str = PORT) -> list[str]:
        """Returns the servers' answers to a pod; empty for one that does not answer."""
        words = [word for each in targets for word in (each, port)]
        return (self.tried(pod, "sh", "-c", ASK, "ask", *words) or "").splitlines()

    def find(self, pod: str, name: str) -> list[str]:
        """The addresses that a name has for a pod, sorted."""
        return sorted((self.tried(pod, "sh", "-c", FIND, "find", name) or "").split())

    def outside(self, name: str, hosts: Mapping[str, str], port: int) -> None:
        """A Service of rome's without selector, with a host of each family."""
        ports = [{"port": 80, "targetPort": port}]
        self.rome.create(
            core(NAMESPACE, "services"),
            {"metadata": {"name": name}, "spec": {**BOTH, "ports": ports}},
        )
        for family, address in hosts.items():
            marks = {"kubernetes.io/service-name": name}
            self.rome.create(
                slices(NAMESPACE),
                {
                    "metadata": {"name": f"{name}-{family.lower()}", "labels": marks},
                    "addressType": family,
                    "endpoints": [{"addresses": [address]}],
                    "ports": [{"port": port}],
                },
            )

    def cluster_ips(self, node: str, name: str) -> list[str]:
        """The addresses that a Service has in a cluster; none while it is not there."""
        member, place = (self.rome, NAMESPACE) if node == "rome" else (self.milan, THERE)
        path = core(place, "services", name)
        if not member.api.exists(path):
            return []
        return list(member.api.get(path)["spec"]["clusterIPs"])


def ips(pod: Mapping[str, Any]) -> list[str]:
    """The addresses of a pod, as its status has them."""
    return [each["ip"] for each in pod["status"].get("podIPs", ())]


def _spread(workload: dict[str, Any]) -> dict[str, Any]:
    """Has a workload's pods serve, in both clusters alike."""
    spec = workload["spec"]["template"]["spec"]
    app = workload["spec"]["selector"]
    spec["topologySpreadConstraints"] = [{**SPREAD, "labelSelector": app}]
    spec["containers"][0]["command"] = ["/bin/sh", "-c", SERVER]
    spec["terminationGracePeriodSeconds"] = 0
    return workload
