"""One real control plane: etcd, API server, controller manager and scheduler as child processes.

Ready in 3-4 s and about 900 MB resident. It has no kubelet; fake nodes stand in for those, or a
`node.Machine` runs it together with a real one. Its folder holds everything it writes, keeps its
state over `stop` and `start`, and goes with `destroy`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.testbed import pki, programs, workspace
from tests.testbed.api import Api, wait_until
from tests.testbed.errors import TestbedError
from tests.testbed.processes import GO, Child, Usage, free_ports, plain_environment, tail

START_DEADLINE = 60.0
# An API server waits for its watchers to leave, which they never do.
STOP_DEADLINE = 2.0
STARTED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The programs of a control plane in the order in which they start."""

# What is measured is not to be these programs' own client-side limits.
FRONT_PROXY = "front-proxy-client"
"""As whom an API server comes to those that serve a part of its API."""
UNHURRIED = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True)
class Settings:
    """Settings of a control plane that a test may choose.

    Attributes:
        minor: the Kubernetes minor, e.g. `1.35`; None means the one of this test run.
        pod_cidr: what the nodes' pod networks are cut from; empty gives nodes none.
        service_cidr: where ClusterIPs come from.
        pod_cidr6, service_cidr6: the same in IPv6, where a real node has both; empty for none.
        signing_duration: how long a certificate lives whose request names no time, as Go writes it.
        audit: whether the API server logs every request (metadata only) to `audit.log`.
        checks_kubelets: whether the API server takes no certificate of a kubelet that its own
            authority has not signed.
        more: further flags by program.
    """

    minor: str | None = None
    pod_cidr: str = "10.244.0.0/16"
    service_cidr: str = "10.96.0.0/16"
    pod_cidr6: str = ""
    service_cidr6: str = ""
    signing_duration: str = "8760h"
    audit: bool = False
    checks_kubelets: bool = False
    more: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def pod_cidrs(self) -> str:
        """Of both families, as flags name them."""
        return ",".join(filter(None, (self.pod_cidr, self.pod_cidr6)))

    @property
    def service_cidrs(self) -> str:
        """Of both families, as flags name them."""
        return ",".join(filter(None, (self.service_cidr, self.service_cidr6)))


@dataclass(frozen=True)
class Place:
    """Where the programs run: the API server's address and how to enter its network namespace."""

    address: str = "127.0.0.1"
    enter: tuple[str, ...] = ()


class ControlPlane:
    """A control plane named `name`. `start` it, `destroy` it; both may be called again."""

    def __init__(
        self,
        name: str,
        settings: Settings | None = None,
        place: Place | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.settings = settings or Settings()
        self.place = place or Place()
        self.programs = programs.find(self.settings.minor)
        self.folder = folder or workspace.new(name)
        self.children: dict[str, Child] = {}
        self._ports = dict(zip(("etcd", "peer", "api"), free_ports(3), strict=True))
        self.server = f"https://{self.place.address}:{self._ports['api']}"
        self._certify()

    def _certify(self) -> None:
        """Makes the keys, the certificates and the administrator's kubeconfig."""
        authority = self.authority = pki.Authority(self.name, self.folder / "pki")
        first = self.settings.service_cidr.split("/")[0].rsplit(".", 1)[0] + ".1"
        names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        authority.server("apiserver", "kube-apiserver", [self.place.address, first, *names])
        admin = authority.client("admin", "admin", ["system:masters"])
        authority.client("apiserver-kubelet", "apiserver-kubelet", ["system:masters"])
        front = pki.Authority(f"{self.name}-front", self.folder / "pki" / "front")
        front.client("proxy", FRONT_PROXY)
        pki.write_key(self.folder / "pki" / "sa.key")
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(self.kubeconfig_of(admin))
        self.api = Api(
            self.place.address,
            self._ports["api"],
            authority.pair.certificate,
            admin.certificate,
            admin.key,
        )

    def kubeconfig_of(self, client: pki.Pair) -> str:
        """The text of a kubeconfig of this cluster for a client certificate of its authority."""
        return pki.kubeconfig(self.name, self.server, self.authority.pair.certificate, client)

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts every program that does not run; returns when pods could be created.

        Raises `TestbedError`, with the logs of what failed, and leaves nothing running.
        """
        try:
            for name in ("etcd", "kube-apiserver"):
                self._start(name)
            self._wait("API server", self.api.ready)
            for name in ("kube-controller-manager", "kube-scheduler"):
                self._start(name)
            # The last thing a pod needs, and the controller manager's first work.
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self._wait("default service account", lambda: self.api.exists(account))
        except BaseException:
            self.stop()
            raise

    def _start(self, name: str) -> None:
        if name in self.children and self.children[name].alive:
            return
        command = [*self.place.enter, self.programs.path(name), *self.flags(name)]
        environment = {**plain_environment(), **GO, "HOME": str(self.folder)}
        self.children[name] = Child(
            f"{self.name}/{name}",
            command,
            self.folder / f"{name}.log",
            cwd=self.folder,
            environment=environment,
        )

    def _wait(self, what: str, happens: Any) -> None:
        def look() -> bool:
            for child in self.children.values():
                child.check()
            return bool(happens())

        try:
            wait_until(f"{self.name}: {what}", look, START_DEADLINE)
        except TestbedError as error:
            raise TestbedError(f"{error}\n{self.logs()}") from None

    def stop(self, *names: str) -> None:
        """Stops the named programs, all of them unless named; the state stays."""
        for name in reversed(names or STARTED):
            child = self.children.pop(name, None)
            if child is not None:
                child.stop(STOP_DEADLINE)

    def restart(self, *names: str) -> None:
        """Kills the named programs and starts them again, as after a crash."""
        for name in names or STARTED:
            self.children.pop(name).kill()
        self.start()

    def back_up(self) -> Path:
        """A copy of the state, for `restore`; etcd is away for a second."""
        self.children.pop("etcd").stop(STOP_DEADLINE)
        copy = self.folder / f"backup-{len(list(self.folder.glob('backup-*')))}"
        shutil.copytree(self.folder / "etcd", copy)
        self.start()
        return copy

    def restore(self, copy: Path) -> None:
        """Ends everything and starts it with an earlier state, as from a backup."""
        self.stop()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(copy, self.folder / "etcd")
        self.start()

    def freeze(self, name: str = "kube-apiserver") -> None:
        """Stops a program where it is: it accepts connections and answers nothing."""
        self.children[name].freeze()

    def thaw(self, name: str = "kube-apiserver") -> None:
        """Lets a frozen program go on."""
        self.children[name].thaw()

    def kill(self) -> None:
        """Ends everything at once; the state stays."""
        for child in self.children.values():
            child.kill()
        self.children.clear()
        self.api.close()

    def destroy(self) -> None:
        """Ends everything at once and removes the folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- looking at it ---------------------------------------------------------------------------

    def kubectl(
        self,
        *arguments: str,
        check: bool = True,
        settings: Mapping[str, str] | None = None,
        within: float = 120,
    ) -> str:
        """The output of kubectl as administrator, with these variables of its environment.

        Raises `TestbedError` on failure.
        """
        command = [self.programs.path("kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
            env={**plain_environment(), "HOME": str(self.folder), **(settings or {})},
        )
        if check and answer.returncode != 0:
            raise TestbedError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    def usage(self) -> dict[str, Usage]:
        """Returns the resources that each program has used so far."""
        return {name: child.usage() for name, child in self.children.items()}

    def requests(self) -> Counter[tuple[str, str]]:
        """Returns the numbers of requests that the API server has served, by (verb, resource)."""
        return self.api.requests()

    def logs(self, lines: int = 12) -> str:
        """The end of every program's log."""
        return "\n".join(
            f"--- {self.name}/{name}\n{tail(self.folder / f'{name}.log', lines)}"
            for name in self.children
        )

    # -- flags -----------------------------------------------------------------------------------

    def flags(self, name: str) -> list[str]:
        """The command line of one program."""
        flags = {
            "etcd": self._etcd,
            "kube-apiserver": self._apiserver,
            "kube-controller-manager": self._controllers,
            "kube-scheduler": self._scheduler,
        }[name]()
        return [*flags, *self.settings.more.get(name, ())]

    def _etcd(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{self._ports[port]}" for port in ("etcd", "peer"))
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        ]

    def _apiserver(self) -> list[str]:
        keys = self.folder / "pki"
        flags = [
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            f"--bind-address={self.place.address}",
            f"--secure-port={self._ports['api']}",
            f"--tls-cert-file={keys / 'apiserver.crt'}",
            f"--tls-private-key-file={keys / 'apiserver.key'}",
            f"--client-ca-file={keys / 'ca.crt'}",
            f"--kubelet-client-certificate={keys / 'apiserver-kubelet.crt'}",
            f"--kubelet-client-key={keys / 'apiserver-kubelet.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={keys / 'sa.key'}",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={self.settings.service_cidrs}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--requestheader-client-ca-file={keys / 'front' / 'ca.crt'}",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={keys / 'front' / 'proxy.crt'}",
            f"--proxy-client-key-file={keys / 'front' / 'proxy.key'}",
        ]
        if self.settings.checks_kubelets:
            flags.append(f"--kubelet-certificate-authority={keys / 'ca.crt'}")
        if self.place.address.startswith("127."):
            # An Endpoints object must not hold a loopback address; nothing here would use it.
            flags.append("--endpoint-reconciler-type=none")
            flags.append("--advertise-address=192.0.2.1")
        else:
            flags.append(f"--advertise-address={self.place.address}")
        if self.settings.audit:
            policy = self.folder / "audit.yaml"
            policy.write_text(
                "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
                "rules: [{level: Metadata}]\n"
            )
            flags += [f"--audit-policy-file={policy}", f"--audit-log-path={self.folder}/audit.log"]
        return flags

    def _controllers(self) -> list[str]:
        keys = self.folder / "pki"
        flags = [
            f"--kubeconfig={self.kubeconfig}",
            # No port of its own: the API server's metrics and the logs are what tests read.
            "--secure-port=0",
            "--leader-elect=false",
            f"--service-account-private-key-file={keys / 'sa.key'}",
            f"--root-ca-file={keys / 'ca.crt'}",
            f"--cluster-signing-cert-file={keys / 'ca.crt'}",
            f"--cluster-signing-key-file={keys / 'ca.key'}",
            f"--cluster-signing-duration={self.settings.signing_duration}",
            *UNHURRIED,
        ]
        if self.settings.pod_cidr:
            flags += [
                "--allocate-node-cidrs=true",
                f"--cluster-cidr={self.settings.pod_cidrs}",
                f"--service-cluster-ip-range={self.settings.service_cidrs}",
            ]
        return flags

    def _scheduler(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--secure-port=0",
            "--leader-elect=false",
            *UNHURRIED,
        ]
