"""The real metrics-server of one cluster: a process beside its API server, which leads to it.

It comes to kubelets as its own manifests have it: with a ServiceAccount's token that may `get`
`nodes/metrics` and nothing else of nodes, and it takes no kubelet that the cluster's authority does
not vouch for. It looks every ten seconds, the least that it takes.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from tests.testbed import evidence, programs
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.processes import Child, free_ports, plain_environment, tail

NAME, SYSTEM = "metrics-server", "kube-system"
RBAC = "rbac.authorization.k8s.io"
SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices"
KUBECONFIGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
"""Flags that name one."""
RULES = [
    {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
]


class MetricsServer:
    """It runs, and is a part of the cluster's API. Owner calls `close`.

    Args:
        plane: of which cluster.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.log = plane.folder / "metrics-server.log"
        (self._port,) = free_ports(1)
        self._register()
        names = [f"{NAME}.{SYSTEM}.svc", plane.place.address]
        serving = plane.authority.server(NAME, NAME, names)
        kubeconfig = str(self._kubeconfig())
        self.child = Child(
            f"{plane.name}/{NAME}",
            [
                *plane.place.enter,
                str(programs.find_metrics_server()),
                *(f"--{each}={kubeconfig}" for each in KUBECONFIGS),
                f"--bind-address={plane.place.address}",
                f"--secure-port={self._port}",
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
                f"--kubelet-certificate-authority={plane.authority.pair.certificate}",
                "--kubelet-preferred-address-types=InternalIP",
                "--kubelet-use-node-status-port",
                "--metric-resolution=10s",
                "--kubelet-request-timeout=9s",
            ],
            self.log,
            environment={**plain_environment(), "HOME": str(plane.folder)},
        )
        evidence.add(f"metrics-server of {plane.name}", self._tail)
        try:
            wait_until(f"metrics-server of {plane.name}", self._serves, 60)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends it, and takes it out of the cluster's API."""
        self.plane.api.raw("DELETE", f"{SERVICE}/v1beta1.metrics.k8s.io")
        self.child.kill()
        evidence.remove(f"metrics-server of {self.plane.name}", self._tail)

    def _tail(self) -> str:
        return tail(self.log, 30)

    def _serves(self) -> bool:
        self.child.check()
        return bool(self.plane.api.raw("GET", "/apis/metrics.k8s.io/v1beta1")[0] == 200)

    def _register(self) -> None:
        """The objects of its manifests, but that its Service leads to this process."""
        account = {"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM}
        self._put(f"/api/v1/namespaces/{SYSTEM}/serviceaccounts", {"metadata": {"name": NAME}})
        rbac = f"/apis/{RBAC}/v1"
        self._put(f"{rbac}/clusterroles", {"metadata": {"name": NAME}, "rules": RULES})
        reader = f"{rbac}/namespaces/{SYSTEM}/rolebindings"
        for path, name, kind, role in (
            (f"{rbac}/clusterrolebindings", NAME, "ClusterRole", NAME),
            (f"{rbac}/clusterrolebindings", f"{NAME}-d", "ClusterRole", "system:auth-delegator"),
            (reader, NAME, "Role", "extension-apiserver-authentication-reader"),
        ):
            reference = {"apiGroup": RBAC, "kind": kind, "name": role}
            body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [account]}
            self._put(path, body)
        spec = {
            "type": "ExternalName",
            "externalName": self.plane.place.address,
            "ports": [{"port": self._port}],
        }
        self._put(
            f"/api/v1/namespaces/{SYSTEM}/services", {"metadata": {"name": NAME}, "spec": spec}
        )
        authority = self.plane.authority.pair.certificate.read_bytes()
        served = {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"name": NAME, "namespace": SYSTEM, "port": self._port},
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": base64.b64encode(authority).decode(),
        }
        self._put(SERVICE, {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": served})

    def _put(self, path: str, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        if self.plane.api.exists(f"{path}/{name}"):
            self.plane.api.call("DELETE", f"{path}/{name}")
        self.plane.api.call("POST", path, body)

    def _kubeconfig(self) -> Path:
        token = self.plane.kubectl("create", "token", NAME, "--namespace", SYSTEM).strip()
        authority = base64.b64encode(self.plane.authority.pair.certificate.read_bytes()).decode()
        path = self.plane.folder / "metrics-server.kubeconfig"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
            f"clusters: [{{name: x, cluster: {{server: '{self.plane.server}',"
            f" certificate-authority-data: {authority}}}}}]\n"
            f"users: [{{name: x, user: {{token: {token}}}}}]\n"
            "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
        )
        return path
