"""Three clusters on one network, by the programs that users run: the daemon and `liqod node`.

Rome's networks are joined with milan's by WireGuard, and with genoa's in a websocket.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from liqod.network.dataplane.names import ALIASES_TABLE, PeerNames
from liqod.network.hostcapabilities import FOLDER
from liqod.plugins.network import processes, uapi
from tests.netns.grounds import Ground, ground
from tests.netns.lab import Cluster, Pod, bridge, plug, run
from tests.netns.nodeprogram import NodeProgram
from tests.netns.test_floods import has_ranges
from tests.simulated.addressed import pod_alias
from tests.simulated.borrower import eventually
from tests.simulated.processes import Site, sites
from tests.testbed.daemon import STOP_DEADLINE
from tests.testbed.netns import doorway
from tests.testbed.processes import Child

DAEMON: Final = "liqod run"
NODE: Final = "liqod node"
TUNNEL: Final = "liqod tunnel"
PARTS: Final = (DAEMON, NODE, TUNNEL)
MARK: Final = ("1.2.3.4/32", "dev", "lo")
"""A route of nobody's, which a program takes away that attends the table that it is in."""


class Machine:
    """One cluster's gateway: its daemon, its `liqod node` and that one's `liqod tunnel`.

    Args:
        site: the cluster, and its daemon.
        node: name of the gateway's network namespace.
        program: its `liqod node`.
        pod: a pod on it.
    """

    def __init__(self, site: Site, node: str, program: NodeProgram, pod: Pod) -> None:
        self.site, self.node, self.program, self.pod = site, node, program, pod
        self.control = Path(FOLDER) / f"tunnels-{node}.socket"

    async def start(self) -> None:
        """Starts both programs, and waits until the daemon leads."""
        self.program.start()
        await self.site.start()

    async def tunnel(self) -> int:
        """Id of the tunnels' process."""
        found = await uapi.process(self.control)
        assert found is not None, self.program.said()
        return found

    def tunnels(self) -> list[int]:
        """Ids of all such processes of this machine, also of those that nobody has any more."""
        every = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal())
        return [each for each in every if str(self.control) in processes.command_line(each)]

    async def send(self, part: str, number: signal.Signals) -> None:
        """Sends a signal to a part."""
        if part == TUNNEL:
            os.kill(await self.tunnel(), number)
        else:
            self._child(part).signal(number)

    def _child(self, part: str) -> Child:
        # What enters a namespace becomes the daemon, so that it is this child, too.
        child = self.site.daemon.child if part == DAEMON else self.program.child
        assert child is not None
        return child

    def has(self, part: str) -> bool:
        """True if the daemon, or `liqod node`, runs."""
        return self._child(part).alive

    async def back(self, part: str) -> None:
        """Starts a part that has ended, as its unit does; `liqod node` starts the tunnels'."""
        if part == TUNNEL:
            return
        await trio.to_thread.run_sync(self._child(part).wait, STOP_DEADLINE)
        if part == DAEMON:
            await trio.to_thread.run_sync(self.site.daemon.launch)
        else:
            self.program.start()

    async def attends(self, peer: str) -> None:
        """Waits until `liqod node` keeps a peer's network by the daemon's orders."""
        table = ("table", str(ALIASES_TABLE))
        metric = ("metric", str(PeerNames(self.site.name, peer).metrics[0]))
        run("ip", "-n", self.node, "route", "replace", *MARK, *metric, *table)
        await eventually(
            lambda: MARK[0][:-3] not in run("ip", "-n", self.node, "route", "show", *table),
            seconds=60,
        )

    async def alias(self, peer: str, last: int) -> str:
        """The address under which a pod of a peer's is seen here."""
        return await pod_alias(self.site.admin, peer, last)

    def said(self) -> str:
        """The ends of its logs."""
        return f"{self.site.daemon.tail()}\n{self.program.said()}"

    async def close(self) -> None:
        """Ends what of it still runs, or is stopped."""
        for child in (self.site.daemon.child, self.program.child):
            if child is not None:
                child.thaw()
        self.site.daemon.kill()
        await self.program.close()


def _lay(made: Ground, nodes: tuple[str, ...]) -> None:
    """Gives gateways one network, 198.51.100.1 and on."""
    between = f"{made.word}-between"
    made.lab.make(between)
    bridge(between)
    for number, node in enumerate(nodes, 1):
        made.lab.make(node)
        own = f"198.51.100.{number}/24"
        plug(between, f"port{number}", node, "wan", own, via="198.51.100.99")


@asynccontextmanager
async def three(
    folder: Path, wireguard: str, websocket_server: str
) -> AsyncIterator[tuple[Machine, Machine, Machine]]:
    """Rome, milan and genoa, joined.

    Args:
        folder: for files.
        wireguard: the program of WireGuard.
        websocket_server: ``Consumer`` where rome listens for genoa, ``Provider`` where it dials.
    """
    (folder / "lab").mkdir()
    async with ground(folder / "lab", "rmg") as made:
        machines = list[Machine]()
        clusters = [Cluster(made.lab, own, made.ids[0], "client") for own in made.ids]
        nodes = tuple(each.node for each in clusters)
        _lay(made, nodes)
        pods = [each.pod("pod", last) for last, each in enumerate(clusters, 5)]
        with ExitStack() as doors:
            async with sites(folder, *made.ids) as every:
                for node in nodes:
                    for site in every:
                        doors.enter_context(doorway(node, site.cluster.port))
                for number, (site, node, pod) in enumerate(zip(every, nodes, pods, strict=True), 1):
                    address, place = f"198.51.100.{number}", made.short / f"{number}"
                    program = NodeProgram(node, address, wireguard, place)
                    site.daemon.leave_machine(place / "machine")
                    site.daemon.enter = ("nsenter", f"--net=/run/netns/{node}")
                    site.daemon.settings["cluster"] = {"pod_cidrs": ["10.244.0.0/16"]}
                    site.daemon.settings["webhook"] = {"enabled": False}
                    machines.append(Machine(site, node, program, pod))
                try:
                    for each in machines:
                        await each.start()
                    rome, milan, genoa = machines
                    for each in machines:
                        await eventually(partial(has_ranges, each.site))
                    await _peer(rome, milan)
                    where = ("--gw-server-service-location", websocket_server)
                    await _peer(rome, genoa, "--tunnel", "websocket", *where)
                    yield rome, milan, genoa
                finally:
                    with trio.CancelScope(shield=True):
                        for each in machines:
                            await each.close()


async def _peer(one: Machine, other: Machine, *words: str) -> None:
    user = await other.site.user_for(one.site.name)
    said = await one.site.liqod("peer", "--remote-kubeconfig", str(user), *words)
    assert "packets go from each to the other" in said.out, said
