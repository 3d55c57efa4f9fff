"""Garbage is swept: of unknown peers, of a former gateway, and by `uninstall`."""

import dataclasses
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.network import sweeping
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from liqod.network.failover.fence import Fence
from liqod.network.gatewayhost import GatewayHost
from liqod.network.yieldedtunnels import YieldedTunnels
from liqod.resources.fabric import FABRIC, INTERNAL_FABRICS
from liqod.runtime.observable import Observable
from simulator import EmbeddedCluster
from tests.netns.test_datapath import planned
from tests.simulated.localmachine import LocalMachine
from tests.simulated.members import served
from tests.simulated.prepared import installed
from tests.testbed.netns import Networks, inside, state

pytestmark = [pytest.mark.netns, pytest.mark.network]


@asynccontextmanager
async def leading(networks: Networks) -> AsyncIterator[tuple[Any, Client, KernelDatapath, str]]:
    """A daemon's components, its administrator, and the kernel of its machine."""
    own, node = f"rome-{networks.make('x')[1:7]}", networks.make("node")
    async with (
        EmbeddedCluster(own, state=await installed(own)) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        trio.open_nursery() as nursery,
        served(own, cluster, admin, nursery) as member,
    ):
        yield member.context, admin, KernelDatapath(own, node), node
        nursery.cancel_scope.cancel()


async def begin(
    kernel: KernelDatapath, networks: Networks, own: str, peer: str, at: int
) -> PeerNames:
    names = PeerNames(own, peer)
    networks.adopt(names.namespace)
    await kernel.prepare(names)
    inside(names.namespace, f"ip tuntap add {names.tunnel} mode tun")
    await kernel.apply(planned(names, at))
    return names


async def tenant(admin: Client, peer: str) -> None:
    marks = {labels.TENANT_NAMESPACE: labels.TRUE, labels.REMOTE_CLUSTER_ID: peer}
    await admin.create(NAMESPACES, {"metadata": {"name": f"tenant-{peer}", "labels": marks}})


async def test_a_leading_daemon_sweeps_what_nobody_knows_for_a_minute(networks: Networks):
    async with leading(networks) as (context, admin, kernel, node):
        await tenant(admin, "milan")
        known = await begin(kernel, networks, context.cluster_id, "milan", 1)
        before = state(node)
        await begin(kernel, networks, context.cluster_id, "forgotten", 2)
        late = await begin(kernel, networks, context.cluster_id, "late", 3)
        local = LocalMachine(context.cluster_id, GatewayHost(datapath=kernel))

        async def comes_late() -> None:
            await trio.sleep(0.2)
            await tenant(admin, "late")

        async with trio.open_nursery() as nursery:
            await nursery.start(local.run)
            nursery.start_soon(comes_late)
            (mark,) = await sweeping.sweep(context, local.remote, unknown_for=0.5)
            nursery.cancel_scope.cancel()
        assert mark.endswith("/forgotten")
        # One whose tenant namespace came in the meantime is a peer like any other.
        left = await kernel.leftovers([known])
        assert [names.hash for names in left] == [late.hash]
        await kernel.remove(late)
        assert state(node) == before
        kernel.close()


async def test_a_list_that_is_empty_by_mistake_destroys_nothing(networks: Networks):
    async with leading(networks) as (context, _, kernel, node):
        for number in range(sweeping.MANY + 1):
            await begin(kernel, networks, context.cluster_id, f"milan-{number}", number)
        before, left = state(node), await kernel.leftovers([])
        assert len(left) == sweeping.MANY + 1
        local = LocalMachine(context.cluster_id, GatewayHost(datapath=kernel))
        async with trio.open_nursery() as nursery:
            await nursery.start(local.run)
            assert await sweeping.sweep(context, local.remote, unknown_for=0.1) == ()
            nursery.cancel_scope.cancel()
        assert (state(node), await kernel.leftovers([])) == (before, left)
        kernel.close()


async def test_of_a_former_gateway_nothing_is_left_once_the_leader_is_elsewhere(
    networks: Networks,
):
    async with leading(networks) as (context, admin, kernel, node):
        await tenant(admin, "milan")
        before = state(node)
        await begin(kernel, networks, context.cluster_id, "milan", 1)
        network = msgspec.structs.replace(context.config.network, node="here")
        config = msgspec.structs.replace(context.config, network=network)
        context = dataclasses.replace(context, config=config)
        local = LocalMachine(context.cluster_id, GatewayHost(datapath=kernel))
        async with trio.open_nursery() as nursery:
            await nursery.start(local.run)
            led_by = Observable("another")
            await nursery.start(YieldedTunnels(context, local.remote, led_by).run)
            assert await kernel.leftovers([]) != []
            gateway = {"node": "there", "index": 1, "address": "192.168.1.11", "holder": "another"}
            fabric = {"metadata": {"name": FABRIC}, "spec": {"gateway": gateway}}
            await admin.create(INTERNAL_FABRICS, fabric, context.namespace)
            with trio.fail_after(30):
                while await kernel.leftovers([]) != []:  # noqa: ASYNC110  # the kernel
                    await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert state(node) == before
        kernel.close()


UNINSTALLS = """
import sys, trio
from liqod.network.cleaning import sweep_all
print(*trio.run(sweep_all, sys.argv[1]), sep=chr(10))
"""


def test_uninstall_leaves_no_namespace_rule_process_or_socket(
    networks: Networks, wireguard: str
) -> None:
    own, node = f"rome-{networks.make('x')[1:7]}", networks.make("node")
    before = state(node)
    kernel = KernelDatapath(own, node)
    names = PeerNames(own, "milan")
    networks.adopt(names.namespace)
    trio.run(kernel.prepare, names)
    entering = ["nsenter", f"--net=/run/netns/{node}"]
    uninstall = [*entering, sys.executable, "-c", UNINSTALLS, own]
    socket = Path(f"/var/run/wireguard/{names.tunnel}.sock")
    # A tunnel whose daemon was killed.
    tunnel = [*entering, wireguard, "-f", names.tunnel]
    with subprocess.Popen(tunnel, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 10
            while not socket.exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            inside(node, f"ip link set {names.tunnel} netns {names.namespace}")
            trio.run(kernel.apply, planned(names))
            kernel.close()
            said = subprocess.run(uninstall, capture_output=True, text=True, check=True).stdout
            assert f"network namespace {names.namespace} deleted" in said
            assert process.wait(5) is not None
            assert not socket.exists()
        finally:
            process.kill()
    assert not Path(f"/run/netns/{names.namespace}").exists()
    assert state(node) == before
    again = subprocess.run(uninstall, capture_output=True, text=True, check=True).stdout
    assert again.strip() == ""


# Names of namespaces are the machine's, on which other tests have theirs: these see but some.
ALONE = """
set -e
folder=$1 node=$2; shift 2
mkdir "$folder/all" "$folder/some"
mount --rbind /run/netns "$folder/all"
mount --bind "$folder/some" /run/netns
while [ "$1" != -- ]; do
    touch "/run/netns/$1"; mount --bind "$folder/all/$1" "/run/netns/$1"; shift
done; shift
umount --lazy "$folder/all"
exec nsenter "--net=/run/netns/$node" "$@"
"""


def test_a_machine_that_liqod_leaves_keeps_nothing_of_any_cluster(
    networks: Networks, tmp_path: Path
) -> None:
    node = networks.make("node")
    before = state(node)
    word = networks.make("x")[1:7]
    made = [
        PeerNames(f"{word}-{name}", "milan") for name in ("rome", "with-a-name-of-63-" + 38 * "a")
    ]
    for number, names in enumerate(made):
        kernel = KernelDatapath(names.own_id, node)
        trio.run(begin, kernel, networks, names.own_id, "milan", number)
        kernel.close()
        trio.run(Fence(names.own_id, node).hold, 60.0)
    assert state(node) != before
    seen = [node, *(each.namespace for each in made)]
    alone = ["unshare", "--mount", "sh", "-c", ALONE, "sh", str(tmp_path), node, *seen, "--"]
    clean = [*alone, sys.executable, "-m", "liqod", "node", "--clean-all"]
    done = subprocess.run(clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert state(node) == before
    for names in made:
        assert f"network namespace {names.namespace} deleted" in done.stderr
