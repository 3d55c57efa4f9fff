"""The consumer's side of one peer: everything that borrows from it, in one nursery."""

from typing import NoReturn

import trio

from liqod.consumer.foreignclusters import ForeignClusterOfPeer
from liqod.consumer.identities import Identities
from liqod.consumer.leaving import Leaving
from liqod.consumer.remotes import Remotes
from liqod.consumer.replication import Replication
from liqod.consumer.signing import Signing
from liqod.consumer.slices import Slices
from liqod.consumer.virtualnodes import VirtualNodes
from liqod.home import Peer
from liqod.reflection.engine import Engine


async def borrow(
    peer: Peer, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> NoReturn:
    """Borrow from one peer until cancelled; idle where it lends nothing."""
    remotes = Remotes(peer)
    leaving = Leaving(peer, remotes)
    async with trio.open_nursery() as nursery:
        await nursery.start(remotes.run)
        nursery.start_soon(peer.link.run, remotes, peer.report)
        await nursery.start(Signing(peer).run)
        await nursery.start(Identities(peer).run)
        await nursery.start(leaving.run)
        await nursery.start(Slices(peer).run)
        await nursery.start(Replication(peer, remotes, leaving).run)
        await nursery.start(ForeignClusterOfPeer(peer, remotes, leaving).run)
        await nursery.start(VirtualNodes(peer).run)
        await nursery.start(Engine(peer, remotes).run)
        task_status.started()
    raise AssertionError("rooms never end by themselves")
