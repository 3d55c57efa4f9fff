"""Probes on a real wire, with packets lost by nftables: no false alarm, and a dead peer noticed."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import TUNNEL_ADDRESSES, PeerNames, Side
from liqod.network.probing.conncheck import Prober
from liqod.network.probing.icmp import largest_packet
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.tunnel.probes.messages import ProbeResult
from tests.kube_cases import until
from tests.testbed import machine, netns
from tests.testbed.netns import Networks

pytestmark = [pytest.mark.netns, pytest.mark.network]

ROME, MILAN = PeerNames("rome-probes", "milan-probes"), PeerNames("milan-probes", "rome-probes")
LOSES = """
table netdev t {{
  chain c {{
    type filter hook ingress device "t0" priority 0
    {rule}
  }}
}}
"""


@pytest.fixture
def wire(networks: Networks) -> Networks:
    """Two peers' namespaces, with a wire for a tunnel."""
    for names in (ROME, MILAN):
        machine.run("ip", "netns", "add", networks.adopt(names.namespace))
    one, other = ROME.namespace, MILAN.namespace
    netns.inside(one, f"ip link add t0 type veth peer name t0 netns {other}")
    sides: tuple[tuple[str, Side], ...] = ((one, "server"), (other, "client"))
    for name, side in sides:
        netns.inside(name, f"ip addr add {TUNNEL_ADDRESSES[side]}/30 dev t0")
        netns.inside(name, "ip link set t0 up mtu 1340")
    return networks


def loses(rule: str) -> None:
    """Drops packets that come to milan by `rule`; none if it is empty."""
    netns.nft(MILAN.namespace, "table netdev t\ndelete table netdev t\n" + LOSES.format(rule=rule))


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[MachineProcess]:
    """The tunnels' process of both, which nobody has begun yet."""
    made = MachineProcess(KernelDatapath("rome-probes"), tmp_path)
    yield made
    await made.end()


@asynccontextmanager
async def probing(process: MachineProcess) -> AsyncIterator[list[ProbeResult]]:
    """Both sides probe; what rome has received."""
    heard: list[ProbeResult] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Prober(process, ROME, "server", heard.append).run)
        nursery.start_soon(Prober(process, MILAN, "client", lambda heard: None).run)
        yield heard
        nursery.cancel_scope.cancel()


async def test_liqos_own_check_and_ours_hear_each_other(
    wire: Networks, conncheck: str, process: MachineProcess
) -> None:
    """Liqo's at rome, ours at milan: each asks, answers, and notices when nothing comes."""
    said: list[list[str]] = []
    heard: list[ProbeResult] = []

    async def listen(process: trio.Process) -> None:
        assert process.stdout is not None
        async for part in process.stdout:
            said.extend(line.split() for line in part.decode().splitlines())

    entering = ("nsenter", f"--net=/run/netns/{ROME.namespace}")
    command = [*entering, conncheck, "milan-probes", TUNNEL_ADDRESSES["client"]]
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process,
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        nursery.start_soon(listen, await nursery.start(run))
        nursery.start_soon(Prober(process, MILAN, "client", heard.append).run)
        await until(lambda: bool(heard) and heard[-1].alive, 15.0)
        await until(lambda: bool(said) and said[-1][0] == "true", 5.0)
        # The latency is made of the time that it finds in the answer, which is its own.
        assert 0 <= int(said[-1][1]) < 500_000
        loses("drop")
        await until(lambda: not heard[-1].alive, 4.5)
        await until(lambda: said[-1][0] == "false", 10.0)
        loses("")
        await until(lambda: heard[-1].alive and said[-1][0] == "true", 5.0)
        nursery.cancel_scope.cancel()


async def test_probes_find_a_namespace_that_is_made_anew(
    wire: Networks, process: MachineProcess
) -> None:
    async with probing(process) as heard:
        await until(lambda: bool(heard) and heard[-1].alive, 15.0)
        netns.inside(ROME.namespace, "ip link delete t0")
        await until(lambda: not heard[-1].alive, 4.5)
        # The address comes back on another interface.
        one, other = ROME.namespace, MILAN.namespace
        netns.inside(one, f"ip link add t0 type veth peer name t0 netns {other}")
        netns.inside(one, "ip addr add 169.254.18.1/30 dev t0")
        netns.inside(other, "ip addr add 169.254.18.2/30 dev t0")
        for name in (one, other):
            netns.inside(name, "ip link set t0 up")
        await until(lambda: heard[-1].alive, 10.0)


def is_longer(heard: list[ProbeResult], known: int) -> bool:
    return len(heard) > known


async def test_a_process_that_is_killed_or_hangs_kills_no_peer(
    wire: Networks, process: MachineProcess
) -> None:
    async with probing(process) as heard, trio.open_nursery() as nursery:
        nursery.start_soon(process.watch)
        await until(lambda: bool(heard) and heard[-1].alive, 15.0)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            found = await process.process()
            assert found is not None
            began, known = trio.current_time(), len(heard)
            os.kill(found, number)
            await until(partial(is_longer, heard, known), 15.0)
            print(f"{number.name}: judged again after {trio.current_time() - began:.2f} s")
            assert await process.process() not in (None, found)
        assert all(each.alive for each in heard[1:])
        # Those of the new process see a tunnel that is dead.
        loses("drop")
        await until(lambda: not heard[-1].alive, 4.5)
        nursery.cancel_scope.cancel()


async def test_the_largest_packet_that_passes_is_found(
    wire: Networks, process: MachineProcess
) -> None:
    assert await largest_packet(process, ROME, "server", 1340) == 1340
    # A hole: larger ones are lost, and nobody says so.
    loses("ip length > 1211 drop")
    assert await largest_packet(process, ROME, "server", 1340, patience=0.05) == 1211
    loses("drop")
    assert await largest_packet(process, ROME, "server", 1340, patience=0.05) is None
