"""The main job on an embedded default: three clusters, three daemons, one namespace that spreads.

Everything that a user does is done here by the very commands that a user would type, each printed
before it runs; only the clusters are embedded (:mod:`liqod.simulator`).
"""

import argparse
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import trio

from liqod.cli.common import table
from liqod.errors import LiqodError
from liqod.kube import credentials
from liqod.kube.client import Client
from liqod.kube.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
)
from liqod.simulator.cluster import EmbeddedCluster
from liqod.supervise import explain

CONSUMER = "rome"
PROVIDERS = ("milan", "turin")
REPLICAS = 6
NAMESPACE = "shop"
DEADLINE = 60.0
ASKED = ("--cpu", "8", "--memory", "16Gi", "--pods", "50")

CONFIGURATION = """\
[cluster]
kubeconfig = "{kubeconfig}"
pod_cidrs = ["{pod_cidr}"]

[webhook]
host = "127.0.0.1"
port = 0

[kubelet]
host = "127.0.0.1"
listen = "127.0.0.1"
port = 0

[health]
port = 0

[peer_defaults]
pod_network = "routed"
"""


class Failed(LiqodError):
    """A step of the demo did not succeed."""


def say(text: str) -> None:
    """A line of the demo's own, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Demo:
    """One run: a folder with kubeconfigs, configurations and logs, and what runs beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = time.monotonic()
        self._daemons: list[trio.Process] = []

    def kubeconfig(self, name: str) -> Path:
        """Where the administrator's kubeconfig of a cluster lies."""
        return self.folder / f"{name}.kubeconfig"

    async def run(self, *, once: bool) -> int:
        """Everything, in order; stays up until interrupted unless ``once``.

        Returns:
            0 when every replica is Running and Ready at home and has its twin, 1 otherwise.
        """
        async with AsyncExitStack() as stack:
            await self._start_clusters(stack)
            try:
                return await self._tell(once=once)
            finally:
                await self._stop_daemons()

    async def _tell(self, *, once: bool) -> int:
        for name in (CONSUMER, *PROVIDERS):
            own = str(self.folder / f"{name}-daemon.kubeconfig")
            await self._command(
                "install", "--cluster-id", name, "--write-kubeconfig", own, on=name, quiet=True
            )
        await self._start_daemons()
        for provider in PROVIDERS:
            await self._peer_with(provider)
        async with Client(await credentials.load(self.kubeconfig(CONSUMER), None)) as rome:
            await rome.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            await self._command(
                "offload",
                "namespace",
                NAMESPACE,
                "--pod-offloading-strategy",
                "Remote",
                on=CONSUMER,
            )
            await self._create_shop(rome)
            complete = await self._watch_shop(rome)
            await self._show(rome)
        took = time.monotonic() - self.started
        if not complete:
            say(f"\nNot every replica became ready within {DEADLINE:.0f} s")
            return 1
        say(f"\nAll {REPLICAS} replicas are Running and Ready, each with its twin: {took:.1f} s.")
        if not once:
            self._hint()
            await trio.sleep_forever()
        return 0

    async def _start_clusters(self, stack: AsyncExitStack) -> None:
        for index, name in enumerate((CONSUMER, *PROVIDERS)):
            cluster = await stack.enter_async_context(
                EmbeddedCluster(name, nodes=2, start_delay=0.3, pod_cidr=pod_cidr(index))
            )
            self.kubeconfig(name).write_text(cluster.kubeconfig)
            self.kubeconfig(name).chmod(0o600)
            say(f"{name}: an embedded cluster with 2 nodes at {cluster.server}")

    async def _start_daemons(self) -> None:
        for index, name in enumerate((CONSUMER, *PROVIDERS)):
            path = self.folder / f"{name}.toml"
            path.write_text(
                CONFIGURATION.format(
                    kubeconfig=self.folder / f"{name}-daemon.kubeconfig", pod_cidr=pod_cidr(index)
                )
            )
            command = [sys.executable, "-m", "liqod", "run", "--config", str(path)]
            say(f"$ liqod run --config {path}   # beside {name}, in the background")
            with (self.folder / f"{name}.log").open("w") as log:
                self._daemons.append(
                    await trio.lowlevel.open_process(
                        command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
                    )
                )

    async def _stop_daemons(self) -> None:
        with trio.CancelScope(shield=True):
            for daemon in self._daemons:
                if daemon.returncode is None:
                    daemon.send_signal(signal.SIGTERM)
            with trio.move_on_after(10):
                for daemon in self._daemons:
                    await daemon.wait()
            for daemon in self._daemons:
                if daemon.returncode is None:
                    daemon.kill()
                    await daemon.wait()

    async def _peer_with(self, provider: str) -> None:
        user = self.folder / f"{CONSUMER}-at-{provider}.kubeconfig"
        made = await self._command(
            "generate", "peering-user", "--consumer-cluster-id", CONSUMER, on=provider, quiet=True
        )
        user.write_bytes(made)
        user.chmod(0o600)
        await self._command("peer", "--remote-kubeconfig", str(user), *ASKED, on=CONSUMER)

    async def _command(self, *words: str, on: str, quiet: bool = False) -> bytes:
        """Run one liqod command as a user would; its standard output."""
        shown = shlex.join(["liqod", *words, "--kubeconfig", str(self.kubeconfig(on))])
        say(f"$ {shown}")
        command = [sys.executable, "-m", "liqod", *words, "--kubeconfig", str(self.kubeconfig(on))]
        done = await trio.run_process(
            command, check=False, capture_stdout=True, stderr=None, stdin=b""
        )
        if not quiet and done.stdout:
            say(done.stdout.decode().rstrip())
        if done.returncode != 0:
            raise Failed(f"`{shown}` ended with {done.returncode}")
        return done.stdout

    async def _create_shop(self, rome: Client) -> None:
        say(f"$ kubectl -n {NAMESPACE} create …   # ConfigMap, Secret, Service, Deployment")
        for kind, obj in shop_objects():
            await rome.create(kind, obj, NAMESPACE)

    async def _watch_shop(self, rome: Client) -> bool:
        shown = ""
        with trio.move_on_after(DEADLINE):
            while True:
                pods = await rome.list(PODS, NAMESPACE)
                ready = sum(is_ready(pod) for pod in pods)
                twins = await self._twins()
                line = f"  {len(pods)} pods, {ready} ready at home, {len(twins)} twins"
                if line != shown:
                    say(line)
                    shown = line
                names = {pod["metadata"]["name"] for pod in pods}
                if ready == len(pods) == REPLICAS and names == set(twins):
                    return True
                await trio.sleep(0.2)
        return False

    async def _twins(self) -> dict[str, str]:
        """Where each pod's twin runs, by the pod's name."""
        found: dict[str, str] = {}
        for provider in PROVIDERS:
            async with Client(await credentials.load(self.kubeconfig(provider), None)) as client:
                for pod in await client.list(PODS, f"{NAMESPACE}-{CONSUMER}"):
                    if is_ready(pod):
                        found[pod["metadata"]["name"]] = provider
        return found

    async def _show(self, rome: Client) -> None:
        say("")
        await self._command("status", on=CONSUMER)
        twins = await self._twins()
        nodes = {node["metadata"]["name"] for node in await rome.list(NODES)}
        rows = [
            [
                pod["metadata"]["name"],
                pod["status"].get("phase", "Pending"),
                pod["spec"].get("nodeName", "-"),
                twins.get(pod["metadata"]["name"], "-"),
                pod["status"].get("podIP", "-"),
            ]
            for pod in await rome.list(PODS, NAMESPACE)
            if pod["spec"].get("nodeName") in nodes | {None}
        ]
        say("")
        say(table(rows, ["POD", "STATUS", "NODE IN ROME", "TWIN IN", "IP"]))

    def _hint(self) -> None:
        say(f"\nLook around while it runs (everything is in {self.folder}):")
        for command in (
            f"kubectl --kubeconfig {self.kubeconfig(CONSUMER)} get nodes",
            f"kubectl --kubeconfig {self.kubeconfig(CONSUMER)} -n {NAMESPACE} get pods -o wide",
            f"kubectl --kubeconfig {self.kubeconfig(PROVIDERS[0])} get shadowpods,pods -A",
            f"liqod status --kubeconfig {self.kubeconfig(CONSUMER)}",
            f"tail -f {self.folder}/{CONSUMER}.log",
        ):
            say(f"  {command}")
        say("Ctrl-C stops everything and leaves nothing.")


def pod_cidr(index: int) -> str:
    """Pod networks that do not overlap: the demo's clusters are routed to each other."""
    return f"10.{201 + index}.0.0/16"


def is_ready(pod: dict[str, Any]) -> bool:
    """Running, with the condition Ready."""
    status = pod.get("status", {})
    conditions = status.get("conditions", [])
    return status.get("phase") == "Running" and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def shop_objects() -> list[tuple[Any, dict[str, Any]]]:
    """What a user would apply: a ConfigMap, a Secret, a Service and a Deployment that uses them."""
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": "nginx:1.29",
        "ports": [{"name": "http", "containerPort": 8080}],
        "envFrom": [{"configMapRef": {"name": "web"}}, {"secretRef": {"name": "web"}}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return [
        (CONFIG_MAPS, {"metadata": {"name": "web"}, "data": {"GREETING": "buongiorno"}}),
        (SECRETS, {"metadata": {"name": "web"}, "stringData": {"PASSWORD": "s3cret"}}),
        (
            SERVICES,
            {
                "metadata": {"name": "web", "labels": labels},
                "spec": {
                    "selector": labels,
                    "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
                },
            },
        ),
        (
            DEPLOYMENTS,
            {
                "metadata": {"name": "web", "labels": labels},
                "spec": {
                    "replicas": REPLICAS,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [container]},
                    },
                },
            },
        ),
    ]


def main(*, once: bool) -> int:
    """Run the demo in a folder of its own, kept only if it failed; the exit status."""
    say("liqod demo: three embedded clusters, three daemons, one namespace")
    folder = Path(tempfile.mkdtemp(prefix="liqod-demo-"))
    status = 1
    try:
        status = trio.run(lambda: Demo(folder).run(once=once))
    except* KeyboardInterrupt:
        say("\nstopped")
        status = 0
    except* Failed as group:
        say(f"liqod: {explain(group)}")
    if status == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"the logs are kept in {folder}")
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="liqod.demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end by itself, with 0 if all is well")
    sys.exit(main(once=parser.parse_args().once))
