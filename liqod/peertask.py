"""The whole life of one peer: what is lent to it and what is borrowed from it, in one nursery.

Lending (:mod:`liqod.provider`) and borrowing (:mod:`liqod.consumer`) are independent: with most
peers only one of the two has anything to do, and with some both have. When this task is
cancelled, everything done for the peer ends; what is left is in custom resources, and the next
start continues from there.
"""

import trio

from liqod.consumer.borrowing import borrow
from liqod.consumer.link import Link
from liqod.context import ClusterContext
from liqod.errors import NotStarted
from liqod.network.joining import join
from liqod.network.machine import NOWHERE, Machine
from liqod.peer import Peer
from liqod.provider.lending import lend
from liqod.reach import follow
from liqod.telemetry.events import PeerRunning

LOOK_DEADLINE = 5.0
"""Seconds for the first look at whether networks are joined."""
START_DEADLINE = 60.0
"""Seconds for the first look at the API server; then the peer is begun anew, and says why."""


async def run_peer(
    home: ClusterContext, peer_id: str, tenant_namespace: str, machine: Machine = NOWHERE
) -> None:
    """Lend to and borrow from one peer until cancelled, and keep the network with it."""
    peer = Peer(peer_id, home, tenant_namespace, Link(home.tries))
    with home.rooms.peer(peer):
        await _live(peer, machine)


async def stand_by_peer(
    home: ClusterContext, peer_id: str, tenant_namespace: str, machine: Machine
) -> None:
    """Be ready to have the tunnel to one peer until cancelled; nothing is lent or borrowed."""
    await join(Peer(peer_id, home, tenant_namespace, Link(home.tries)), machine, leads=False)


async def _live(peer: Peer, machine: Machine) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(join, peer, machine)
        # By what is known already, a start changes no address. No network is waited for beyond
        # that: lending and borrowing go on while there is nothing to translate by.
        with trio.move_on_after(LOOK_DEADLINE):
            await peer.network.looked.wait()
        nursery.start_soon(follow, peer)
        for begin in (lend, borrow):
            with trio.move_on_after(START_DEADLINE) as patience:
                await nursery.start(begin, peer)
            if patience.cancelled_caught:
                raise NotStarted(f"{begin.__name__} did not start in {START_DEADLINE:.0f} s")
        peer.report(PeerRunning())
