"""A peer's network as one task of the peer: what of it fails is said and tried again, no more.

Lending and borrowing do not wait for it, and go on without it: where this machine lacks rights or
tools, where an older installation gave none to the daemon, and where the objects are not there.
"""

import logging
from typing import NoReturn

import trio

from liqod.inspect.events import TunnelChanged
from liqod.network.connections import Connections
from liqod.network.ends import KnownEnds
from liqod.network.gatewayplan import Here
from liqod.network.gateways import Gateways
from liqod.network.known import KnownRanges
from liqod.network.machine import Machine
from liqod.network.room import Room
from liqod.peer import Peer
from liqod.supervise import Failure, Supervision, leaves

log = logging.getLogger(__name__)


async def join(peer: Peer, machine: Machine) -> NoReturn:
    """Keep the network of one peer, where one is asked for, until cancelled."""

    def report(failure: Failure | None, error: BaseException | None) -> None:
        if failure is None or error is None:
            return
        peer.report(TunnelChanged(state="Error", reason=failure.reason))
        peer.network.stand(False, failure.reason)
        faults = [each for each in leaves(error) if not isinstance(each, OSError)]
        log.warning("the network of %s failed", peer.id, exc_info=faults[0] if faults else None)

    async def run() -> None:
        await _run(peer, machine)

    await Supervision(run, report).forever()


async def _run(peer: Peer, machine: Machine) -> None:
    home = peer.home
    ends = KnownEnds()
    here = Here(
        namespace=home.namespace,
        problem=machine.problem,
        backends=tuple(machine.tunnels),
        networks=(*home.addressing.pod_cidrs, *home.addressing.service_cidrs),
    )
    connections = Connections(peer, ends)
    async with trio.open_nursery() as nursery:
        await nursery.start(KnownRanges(peer).run)
        await nursery.start(connections.run)
        await nursery.start(Gateways(peer, ends, here, machine.addresses).run)
        nursery.start_soon(Room(peer, machine, ends, connections).run)
