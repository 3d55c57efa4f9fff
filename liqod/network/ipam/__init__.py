"""Manages addresses: this cluster's own ranges, the aliases of peers' ranges, the lent addresses.

Liqo's resources, in Liqo's words: each range is a ``Network`` (:mod:`.networks`), of which this
cluster's own are made here (:mod:`.own`); a peer's ranges come with its ``Configuration``, which
gets their aliases (:mod:`.configurations`); an ``IP`` gives another host an address that peers
reach (:mod:`.ips`), and so have the API server (:mod:`.apiserver`), peers that are relayed
(:mod:`.relays`) and endpoints at one peer that another reaches (:mod:`.transits`). The status of
these is all there is to remember: :mod:`.book` is read from it.

None of this needs the kernel: it works beside any API server.
"""

from typing import NoReturn

import trio

from liqod.cluster.context import ClusterContext
from liqod.network.ipam.apiserver import ServerAddress
from liqod.network.ipam.book import Book
from liqod.network.ipam.configurations import Configurations
from liqod.network.ipam.ips import IPs
from liqod.network.ipam.networks import Networks
from liqod.network.ipam.own import OwnRanges
from liqod.network.ipam.relays import Relays
from liqod.network.ipam.transits import Transits


async def run(context: ClusterContext) -> NoReturn:
    """Keep addresses until cancelled."""
    book = Book(context.config.network)
    async with trio.open_nursery() as nursery:
        # The existing objects are read first: nothing is given before.
        await nursery.start(Networks(context, book).run)
        nursery.start_soon(OwnRanges(context).run)
        nursery.start_soon(Configurations(context, book).run)
        # Before other IPs, whose addresses come after its own.
        await nursery.start(ServerAddress(context).run)
        nursery.start_soon(IPs(context).run)
        nursery.start_soon(Relays(context).run)
        nursery.start_soon(Transits(context).run)
    raise AssertionError("controllers end by cancellation only")
