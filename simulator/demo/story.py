"""The demo's story: three clusters, three daemons, two peerings, one namespace that spreads.

One provider has handed over a kubeconfig, the other one is found, asked by its name, and answers.
Everything that a user does is done here by the very commands that a user would type, each printed
before it runs; only the clusters are embedded (:mod:`simulator`). Steps that do not depend on each
other run at once.
"""

import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NAMESPACES, PODS, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cli.output import table
from liqod.consumer.identities.clusterkeys import cluster_keys
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.leases import Lease
from liqod.kube.selection import Selection
from liqod.procedures import answering
from liqod.resources import OUTGOING_PEERINGS, IncomingPeering, OutgoingPeering
from liqod.runtime.polling import poll_until
from simulator.cluster import EmbeddedCluster
from simulator.demo import finding
from simulator.demo.programs import Failed, command, daemon, indented, print_line, step, view
from simulator.demo.shop import NAMESPACE, REPLICAS, is_ready, shop_objects

T = TypeVar("T")

CONSUMER = "rome"
FOUND, HANDED = "milan", "turin"
"""The provider that is found and asked, and the one that has handed over a kubeconfig."""
PROVIDERS = (FOUND, HANDED)
CLUSTERS = (CONSUMER, *PROVIDERS)
DEADLINE = 60.0
"""Seconds that daemons may take to come up, and replicas to become ready."""
READING_TIME = 5.0
"""Seconds to read what was printed before the live view covers it."""
WANTED = {"cpu": "8", "memory": "16Gi", "pods": "50"}
ASKED = tuple(word for name, n in WANTED.items() for word in (f"--{name}", n))

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

[handshake]
host = "127.0.0.1"
port = 0

[inspector]
socket = "{socket}"

[network]
enabled = false

[peer_defaults]
pod_network = "routed"
pod_cidrs = ["10.0.0.0/8"]
"""


class Demo:
    """One run: a folder with kubeconfigs, configurations and logs, and what runs beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.complete = False
        self._started = time.monotonic()
        self._clients: dict[str, Client] = {}
        self._daemons: dict[str, trio.Process] = {}
        self._silent = ""  # why nothing is announced; empty where it is

    async def run(self, *, once: bool) -> int:
        """Everything, in order; stays up until cancelled unless ``once``.

        Returns:
            0 when every replica is Running and Ready at the consumer, with its remote pod, else 1.

        Raises:
            Failed: a step did not succeed.
        """
        async with AsyncExitStack() as stack:
            step(f"Three clusters, embedded in this process; their files are in {self.folder}")
            for index, name in enumerate(CLUSTERS):
                await self._start_cluster(stack, index, name)
            step("Install liqod into each of them")
            await at_once(self._install, CLUSTERS)
            # Held until the daemons have ended, which then announce no more.
            self._silent = stack.enter_context(finding.claimed())
            daemons = await stack.enter_async_context(trio.open_nursery())
            step("Run a daemon beside each of them")
            await self._start_daemons(daemons)
            status = await self._work(once=once)
            daemons.cancel_scope.cancel()
        return status

    async def _work(self, *, once: bool) -> int:
        """Run the steps that follow once the daemons are up; see :meth:`run`."""
        step(f"{CONSUMER} borrows from {HANDED}, which has handed over a kubeconfig")
        await self._peer_with(HANDED)
        step(f"{CONSUMER} looks who else is there")
        found = await self._find()
        step(f"{CONSUMER} asks {FOUND} by its name, and the operator of {FOUND} answers")
        await self._ask(compare=not found)
        self.complete = await self._spread()
        await self._show()
        if not self.complete:
            print_line(f"\nNot every replica became ready within {DEADLINE:.0f} s.")
            return 1
        took = time.monotonic() - self._started
        print_line(
            f"\nAll {REPLICAS} replicas are Running and Ready, each on a peer: {took:.1f} s."
        )
        if not once:
            self._hint()
            await self._look()
        return 0

    async def _look(self) -> None:
        """Open the live view where there is a terminal; else stay up until interrupted."""
        if not (sys.stdout.isatty() and sys.stdin.isatty()):
            await trio.sleep_forever()
        await trio.sleep(READING_TIME)
        await view(self.folder, [f"{name}.sock" for name in CLUSTERS])

    async def _start_cluster(self, stack: AsyncExitStack, index: int, name: str) -> None:
        cluster = await stack.enter_async_context(
            EmbeddedCluster(name, nodes=2, start_delay=0.3, pod_cidr=pod_cidr(index))
        )
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(cluster.kubeconfig)
        self._clients[name] = await stack.enter_async_context(
            Client(await credentials.load(path, None))
        )
        print_line(f"  {name}: an API server with 2 nodes at {cluster.server}")

    async def _install(self, name: str) -> None:
        began = time.monotonic()
        await command(
            self.folder,
            *("install", "--cluster-id", name),
            *("--write-kubeconfig", f"{name}-daemon.kubeconfig", "--kubeconfig"),
            f"{name}.kubeconfig",
        )
        print_line(f"  {name}: installed ({time.monotonic() - began:.1f} s)")

    async def _start_daemons(self, daemons: trio.Nursery) -> None:
        for index, name in enumerate(CLUSTERS):
            settings = self.folder / f"{name}.toml"
            settings.write_text(
                CONFIGURATION.format(
                    kubeconfig=self.folder / f"{name}-daemon.kubeconfig",
                    pod_cidr=pod_cidr(index),
                    socket=self.folder / f"{name}.sock",
                )
            )
            if not self._silent:
                with settings.open("a") as file:
                    file.write(finding.ANNOUNCED.format(interface=finding.loopback()))
            print_line(f"$ liqod run --config {name}.toml &")
            self._daemons[name] = await daemons.start(daemon, self.folder, name)
        await at_once(self._leading, CLUSTERS)

    async def _leading(self, name: str) -> None:
        """Wait until a cluster's daemon works, which its Lease shows. Raises Failed."""

        async def leads() -> bool:
            lease = await self._clients[name].find(
                LEASES, labels.LEADER_LEASE, labels.LIQO_NAMESPACE, decode=Lease
            )
            return lease is not None and bool(lease.spec.holder_identity)

        await happens(leads, f"the daemon of {name} did not come up: see {self.folder}/{name}.log")
        print_line(f"  {name}: its daemon is up")

    async def _peer_with(self, provider: str) -> None:
        user = f"{CONSUMER}-at-{provider}.kubeconfig"
        await command(
            self.folder,
            *("generate", "peering-user", "--consumer-cluster-id", CONSUMER),
            *("--kubeconfig", f"{provider}.kubeconfig", "--output", user),
        )
        await command(
            self.folder,
            *("peer", "--remote-kubeconfig", user, *ASKED),
            *("--kubeconfig", f"{CONSUMER}.kubeconfig"),
            name=provider,
        )
        print_line(f"  {provider}: peered; it is the node {provider} in {CONSUMER}")

    async def _find(self) -> bool:
        """Have the one cluster see the other; True if it had to be given the other's address."""
        socket = f"{CONSUMER}.sock"
        why = self._silent or await finding.unseen(self.folder / socket, PROVIDERS)
        if why:
            print_line(f"  not by mDNS: {why}")
            await self._name()
        else:
            print_line(
                f"  by mDNS on {finding.loopback()}, where each daemon announces its cluster"
            )
        print_line(indented(await command(self.folder, "discover", "--socket", socket)))
        return bool(why)

    async def _name(self) -> None:
        """Write into the one cluster's configuration where the other is, and have it read."""
        there, here = self._clients[FOUND], self._clients[CONSUMER]
        secret = await there.get(SECRETS, labels.KEYS_SECRET, labels.LIQO_NAMESPACE, decode=Partial)
        entry = finding.NAMED.format(
            cluster_id=FOUND,
            address=secret.metadata.annotations[labels.MET_AT],
            key=keys.print_of((await cluster_keys(there)).public),
            resources=", ".join(f'{name} = "{n}"' for name, n in WANTED.items()),
        )
        print_line(
            f"  but by its configuration: {CONSUMER}.toml names {FOUND}, which its daemon asks"
        )
        print_line(indented(entry.strip().encode()))
        with (self.folder / f"{CONSUMER}.toml").open("a") as file:
            file.write(entry)
        process = self._daemons[CONSUMER]
        print_line(f"$ kill -HUP {process.pid}   # the daemon of {CONSUMER} reads it again")
        process.send_signal(signal.SIGHUP)
        await happens(partial(request, here), f"the daemon of {CONSUMER} did not ask {FOUND}")

    async def _ask(self, *, compare: bool) -> None:
        """Peer by the name: ask, look into the inbox, and let the asker in.

        Args:
            compare: nothing but the words says who is there.

        Raises:
            Failed: the two sides show different words, or nobody was asked.
        """
        here, there = self._clients[CONSUMER], self._clients[FOUND]
        asking = ("peer", FOUND, *ASKED, "--kubeconfig", f"{CONSUMER}.kubeconfig")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(command, self.folder, *asking, name=FOUND))
            asker = await happens(partial(waiting, there), f"nobody asked {FOUND}")
            asked = await happens(partial(request, here), f"{CONSUMER} asked nobody")
            inbox = await command(self.folder, "inbox", "--kubeconfig", f"{FOUND}.kubeconfig")
            print_line(indented(inbox))
            print_line(
                f"$ kubectl -n liqo get outgoingpeering {FOUND} -o jsonpath={{.status.words}}"
            )
            print_line(f"  {asked.status.words}")
            words = asker.status.words
            if words != asked.status.words or words not in inbox.decode():
                raise Failed("the two sides show different words: somebody stands between")
            yes = ("inbox", "accept", CONSUMER, "--kubeconfig", f"{FOUND}.kubeconfig")
            print_line(indented(await command(self.folder, *yes)))
            if compare:
                await command(self.folder, *asking, "--words", words)
        print_line(f"  {FOUND}: peered; it is the node {FOUND} in {CONSUMER}")

    async def _spread(self) -> bool:
        """Spread the namespace and fill it; whether every replica became ready in time."""
        rome = self._clients[CONSUMER]
        step(f"Spread the namespace {NAMESPACE}, and let the scheduler place {REPLICAS} replicas")
        print_line(f"$ kubectl create namespace {NAMESPACE}")
        await rome.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        done = await command(
            self.folder,
            *("offload", "namespace", NAMESPACE, "--pod-offloading-strategy", "Remote"),
            *("--kubeconfig", f"{CONSUMER}.kubeconfig"),
        )
        print_line(indented(done))
        print_line(
            f"$ kubectl -n {NAMESPACE} apply …   # a ConfigMap, a Secret, a Service, a Deployment"
        )
        for kind, obj in shop_objects():
            await rome.create(kind, obj, NAMESPACE)
        return await self._watch_shop(rome)

    async def _watch_shop(self, rome: Client) -> bool:
        shown = ""
        with trio.move_on_after(DEADLINE):
            while True:
                pods = await rome.list(PODS, Selection(NAMESPACE))
                ready = sum(is_ready(pod) for pod in pods)
                remote_pods = await self._remote_pods()
                line = (
                    f"  {len(pods)} of {REPLICAS} pods made, {len(remote_pods)} run on a peer, "
                    f"{ready} ready in {CONSUMER}"
                )
                if line != shown:
                    print_line(line)
                    shown = line
                names = {pod["metadata"]["name"] for pod in pods}
                if ready == len(pods) == REPLICAS and names == set(remote_pods):
                    return True
                await trio.sleep(0.2)
        return False

    async def _remote_pods(self) -> dict[str, str]:
        """The provider where each pod's remote pod is ready, by the pod's name."""
        return {
            pod["metadata"]["name"]: provider
            for provider in PROVIDERS
            for pod in await self._clients[provider].list(
                PODS, Selection(f"{NAMESPACE}-{CONSUMER}")
            )
            if is_ready(pod)
        }

    async def _show(self) -> None:
        step(f"What {CONSUMER} sees")
        by = ("--kubeconfig", f"{CONSUMER}.kubeconfig", "--socket", f"{CONSUMER}.sock")
        shown = await command(self.folder, "status", *by)
        print_line(shown.decode().rstrip())
        remote_pods = await self._remote_pods()
        rows = [
            [
                pod["metadata"]["name"],
                pod["status"].get("phase", "Pending"),
                pod["spec"].get("nodeName", "-"),
                remote_pods.get(pod["metadata"]["name"], "-"),
                pod["status"].get("podIP", "-"),
            ]
            for pod in await self._clients[CONSUMER].list(PODS, Selection(NAMESPACE))
        ]
        header = ["POD", "STATUS", f"NODE IN {CONSUMER.upper()}", "RUNS IN", "IP"]
        print_line("\n" + table(rows, header))

    def _hint(self) -> None:
        print_line("\nLook around in another terminal while it runs:")
        for line in (
            f"cd {self.folder}; export PATH={Path(sys.executable).parent}:$PATH",
            f"export KUBECONFIG=$PWD/{CONSUMER}.kubeconfig",
            f"liqod status {PROVIDERS[0]} --socket {CONSUMER}.sock",
            f"liqod doctor --socket {CONSUMER}.sock",
            f"liqod discover --socket {CONSUMER}.sock",
            f"liqod top {' '.join(f'--socket {name}.sock' for name in CLUSTERS)}",
            f"kubectl -n {NAMESPACE} get pods -o wide",
            f"kubectl --kubeconfig {PROVIDERS[0]}.kubeconfig get pods -A",
            f"tail -f {CONSUMER}.log",
        ):
            print_line(f"  {line}")
        print_line("\nCtrl-C stops everything and leaves nothing.")
        if sys.stdout.isatty() and sys.stdin.isatty():
            print_line("The live view opens in a moment; q leaves it and stops the demo.")


async def at_once(task: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
    """Do the same for several clusters, side by side."""
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(task, name)


async def happens(look: Callable[[], Awaitable[T | None]], otherwise: str) -> T:
    """Wait for what there is to be. Raises Failed, which says what is not, after a while."""
    return await poll_until(
        look, longest_pause=0.1, within=DEADLINE, failing=lambda: Failed(otherwise)
    )


async def request(client: Client) -> OutgoingPeering | None:
    """The request to the provider that was found, once it has been met or is named for good."""
    found = await client.find(
        OUTGOING_PEERINGS, FOUND, labels.LIQO_NAMESPACE, decode=OutgoingPeering
    )
    return found if found is not None and (found.spec.key or found.status.words) else None


async def waiting(client: Client) -> IncomingPeering | None:
    """The peering that asks, and waits for an answer; None while there is none."""
    for entry in await answering.entries(client, labels.LIQO_NAMESPACE):
        if entry.status.phase == "Waiting" and entry.status.words:
            return entry
    return None


def pod_cidr(index: int) -> str:
    """Pod networks that do not overlap: the demo's clusters are routed to each other."""
    return f"10.{201 + index}.0.0/16"
