"""A whole cluster with a real node: control plane, containerd, kubelet, kube-proxy and CoreDNS.

All of it runs in one `machine.Machine`, Ready in about five seconds and under 1 GB. The API server
listens at the machine's own address, so a daemon on this host and the pods in there use the same
URL, and the API server calls a webhook of such a daemon at `cluster.machine.gateway`. Nothing is
pulled: the only image is `image.NAME` (use `imagePullPolicy: Never`).

Needs root and, on Debian, installs what is missing of `PACKAGES`.
"""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.testbed import image, machine, packages, programs, workspace
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane, Place, Settings
from tests.testbed.errors import TestbedError, Unavailable
from tests.testbed.processes import GO, Child, plain_environment, signal_inside, tail

PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    # The command alone may be the one with libraries, which are not in a container.
    "/usr/share/doc/busybox-static": "busybox-static",
    "ip": "iproute2",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
"""The command or file that shows that a package of Debian's is there."""

INOTIFY_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH_INSTANCES = 1024
CGROUP = "liqod-testbed-"
READY_DEADLINE = 60.0
DNS = 10
"""The host number of cluster DNS in the service network."""


@functools.cache
def prepare() -> None:
    """Gets what this machine lacks for a real node; raises `Unavailable` with the reason."""
    if os.geteuid() != 0:
        raise Unavailable("a real kubelet needs root")
    packages.provide(PACKAGES)
    if "kubelet" not in programs.find():
        raise Unavailable("there is no kubelet among the programs of KUBEBUILDER_ASSETS")
    programs.find_coredns()
    _allow_watching()
    _sweep()


def _allow_watching() -> None:
    """Several kubelets, containerds and API servers beside each other watch more files than the
    kernel lets one user do by default."""
    current = int(INOTIFY_INSTANCES.read_text())
    if current < ENOUGH_INSTANCES:
        INOTIFY_INSTANCES.write_text(str(ENOUGH_INSTANCES))


def _sweep() -> None:
    """Removes the cgroups of test runs that were killed."""
    for hierarchy in machine.hierarchies():
        for left in hierarchy.glob(f"{CGROUP}*"):
            if workspace.is_of_dead_run(left.name, CGROUP):
                machine.remove_cgroups(left.name)


class NodeCluster:
    """A cluster whose only node, named like it, is a real one. `start` it, then `destroy` it."""

    def __init__(self, name: str, settings: Settings | None = None) -> None:
        prepare()
        self.name = name
        self.settings = settings or Settings()
        self._commands: dict[str, list[str]] = {}
        self._children: dict[str, Child] = {}
        folder = workspace.new(name)
        self.machine = machine.Machine(name, folder)
        self.cgroup = f"{CGROUP}{os.getpid()}-{self.machine.index}"
        try:
            place = Place(self.machine.address, self.machine.network)
            self.plane = ControlPlane(name, self.settings, place, folder)
            machine.make_cgroups(self.cgroup)
        except BaseException:
            self.machine.destroy()
            raise
        self.folder = self.plane.folder
        network = self.settings.service_cidr.split("/")[0].rsplit(".", 1)[0]
        self.dns = f"{network}.{DNS}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, good on this host and inside."""
        return self.plane.kubeconfig

    def start(self) -> None:
        """Starts everything; returns when the node is Ready. Raises `TestbedError` with logs."""
        try:
            self._begin()
            self._kubelet()
            self._proxy()
            self._coredns()
            image.write(self.folder / "busybox.tar")
            self.load(self.folder / "busybox.tar")
            self._wait("node", self._node_ready)
        except BaseException:
            self.destroy()
            raise

    def _begin(self) -> None:
        self._network()
        self._containerd()
        self.plane.start()

    def load(self, archive: Path) -> None:
        """Loads a container image; pods name it with `imagePullPolicy: Never` or a tag."""
        self._ctr("images", "import", str(archive))

    def mirror(self, registry: str, port: int) -> None:
        """Has images of a registry, such as `ghcr.io`, be pulled from a port of this host."""
        folder = self.folder / "registries" / registry
        folder.mkdir(parents=True)
        url = f"http://{self.machine.gateway}:{port}"
        text = f'server = "{url}"\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n'
        (folder / "hosts.toml").write_text(text)

    def destroy(self) -> None:
        """Ends everything and removes its traces from this host."""
        self.plane.kill()
        self.machine.destroy()
        for child in self._children.values():
            child.kill()
        self.plane.destroy()
        machine.remove_cgroups(self.cgroup)

    def logs(self, lines: int = 12) -> str:
        """The end of every program's log."""
        running = self._children.values()
        own = (f"--- {child.name}\n{tail(child.log, lines)}" for child in running)
        return "\n".join((self.plane.logs(lines), *own))

    def _node_ready(self) -> bool:
        path = f"/api/v1/nodes/{self.name}"
        if not self.plane.api.exists(path):
            return False
        conditions = self.plane.api.get(path)["status"].get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def _wait(self, what: str, happens: Callable[[], bool]) -> None:
        def look() -> bool:
            for child in self._children.values():
                child.check()
            return happens()

        try:
            wait_until(f"{self.name}: {what}", look, READY_DEADLINE)
        except TestbedError as error:
            raise TestbedError(f"{error}\n{self.logs()}") from None

    def _run(self, name: str, enter: tuple[str, ...], *command: str) -> None:
        self._commands[name] = [*enter, *command]
        self._launch(name)

    def _launch(self, name: str) -> None:
        self._children[name] = Child(
            f"{self.name}/{name}",
            self._commands[name],
            self.folder / f"{name}.log",
            environment={**plain_environment(), **GO, "HOME": str(self.folder)},
        )

    def restart(self, name: str) -> None:
        """Kills one of the node's programs and starts it again, as after a crash."""
        signal_inside(self._children[name], signal.SIGKILL)
        self._children[name].kill()
        self._launch(name)
        if name == "containerd":
            self._wait(name, self._containerd_answers)

    def _network(self) -> None:
        self.machine.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        # kube-proxy answers on the node's own addresses, loopback among them.
        self.machine.run("sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
        if self.settings.pod_cidr6:
            self.machine.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        # Cluster DNS without a pod: CoreDNS listens on the service's own address. Of that scope no
        # packet that is masqueraded on its way to another node gets it.
        address = (f"{self.dns}/32", "dev", "lo", "scope", "host")
        self.machine.run("ip", "address", "add", *address)

    def masquerade(self) -> None:
        """Gives packets of its pods to hosts of no cluster the node's address, as CNIs do."""
        rules = ["type nat hook postrouting priority srcnat;"]
        own = {"ip": self.settings.pod_cidr, "ip6": self.settings.pod_cidr6}
        for family, prefix in own.items():
            if prefix:
                rules.append(f"{family} saddr {prefix} {family} daddr != {prefix} masquerade")
        self.machine.run("nft", "\n".join(("table inet cni {", "chain out {", *rules, "}", "}")))

    def subnets(self) -> list[str]:
        """The ranges of its pods, by family: the first, as the controller manager cuts them."""
        found = [self.settings.pod_cidr.split("/")[0].rsplit(".", 2)[0] + ".0.0/24"]
        if self.settings.pod_cidr6:
            found.append(self.settings.pod_cidr6.split("/")[0] + "/64")
        return found

    def _containerd(self) -> None:
        subnets = self.subnets()
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "cni0",
                    "isGateway": True,
                    "ipMasq": False,
                    "hairpinMode": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(self.folder / "ipam"),
                        "ranges": [[{"subnet": each}] for each in subnets],
                        "routes": [{"dst": each} for each in ("0.0.0.0/0", "::/0")[: len(subnets)]],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(network))
        self.socket = self.folder / "containerd.sock"
        config = self.folder / "containerd.toml"
        config.write_text(_CONTAINERD.format(folder=self.folder, socket=self.socket))
        self._run("containerd", self.machine.inside, "containerd", "-c", str(config))
        self._wait("containerd", self._containerd_answers)

    def _containerd_answers(self) -> bool:
        try:
            self._ctr("version")
        except TestbedError:
            return False
        return True

    def _ctr(self, *arguments: str) -> str:
        return machine.run("ctr", "-a", str(self.socket), "-n", "k8s.io", *arguments)

    def _kubelet(self) -> None:
        client = self.plane.authority.client("node", f"system:node:{self.name}", ["system:nodes"])
        kubeconfig = self.folder / "node.kubeconfig"
        kubeconfig.write_text(self.plane.kubeconfig_of(client))
        resolver = self.folder / "resolv.conf"
        resolver.write_text("nameserver 192.0.2.53\n")
        serving = self.plane.authority.server("kubelet", self.name, [self.machine.address])
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "x509": {"clientCAFile": str(self.plane.authority.pair.certificate)},
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "address": self.machine.address,
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "localStorageCapacityIsolation": False,
            "clusterDNS": [self.dns],
            "clusterDomain": "cluster.local",
            "resolvConf": str(resolver),
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        }
        file = self.folder / "kubelet.yaml"
        file.write_text(json.dumps(config))
        self._run(
            "kubelet",
            self.machine.inside,
            self.plane.programs.path("kubelet"),
            f"--config={file}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self._addresses()}",
            f"--root-dir={self.folder / 'kubelet'}",
        )

    def _addresses(self) -> str:
        """The node's own, as flags name them."""
        second = (self.machine.address6,) if self.settings.pod_cidr6 else ()
        return ",".join((self.machine.address, *second))

    def _proxy(self) -> None:
        # Its own user, as where kubeadm sets a cluster up: a group of administrators would hide a
        # missing right.
        client = self.plane.authority.client("proxy", "system:kube-proxy")
        kubeconfig = self.folder / "proxy.kubeconfig"
        kubeconfig.write_text(self.plane.kubeconfig_of(client))
        self._run(
            "kube-proxy",
            self.machine.inside,
            self.plane.programs.path("kube-proxy"),
            f"--kubeconfig={kubeconfig}",
            "--proxy-mode=nftables",
            f"--hostname-override={self.name}",
            f"--cluster-cidr={self.settings.pod_cidrs}",
            "--conntrack-max-per-core=0",
        )

    def _coredns(self) -> None:
        corefile = self.folder / "Corefile"
        corefile.write_text(_COREFILE.format(address=self.dns, kubeconfig=self.kubeconfig))
        program = str(programs.find_coredns())
        self._run("coredns", self.machine.inside, program, "-conf", str(corefile))


def node_pod(name: str, command: str = "sleep 1000000") -> dict[str, Any]:
    """A pod of the tests' image that runs `command` in its shell."""
    container = {
        "name": "main",
        "image": image.NAME,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", command],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


# Without CAP_SYS_RESOURCE runc dies on lowering a pod's OOM score ("can't get final child's PID
# from
# pipe"), hence restrict_oom_score_adj.
_CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "{folder}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/busybox:1"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{folder}/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""

_COREFILE = """.:53 {{
  bind {address}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig}
  }}
  cache 5
}}
"""
