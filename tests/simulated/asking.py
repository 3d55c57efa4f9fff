"""Clusters with keys of their own that ask milan to let them in, and where it answers them."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import msgspec
import trio

from liqod.config import parse
from liqod.handshake.protocol.messages import Accepted, Ask, Denied, Refused
from liqod.handshake.protocol.outputs import VerifiedPeer
from liqod.handshake.requests import incomingrecord
from liqod.handshake.requests.incomingcontroller import IncomingController
from liqod.handshake.requests.incomingserver import IncomingServer
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.identity import keys
from tests.simulated.members import Member, members

Answer = Accepted | Denied | Refused


def somebody(cluster_id: str) -> VerifiedPeer:
    """A cluster with a key of its own."""
    public = keys.public_pem(keys.generate())
    return VerifiedPeer(
        cluster_id=cluster_id,
        public_key=public.decode(),
        key=keys.print_of(public),
        words="acorn-actor-adder-agate",
        version=1,
        capabilities=frozenset(),
    )


def request(**more: object) -> Ask:
    """A request that nobody has made before."""
    return msgspec.convert(
        {"type": "ask", "request": str(uuid4()), "lifetime": 600, **more}, Ask, strict=False
    )


@asynccontextmanager
async def reception(
    settings: str = "", timings: HandshakeTimings = ORDINARY, most: int = incomingrecord.MOST
) -> AsyncIterator[tuple[Member, IncomingServer, trio.Nursery]]:
    """Where milan answers."""
    async with members("milan") as [milan], trio.open_nursery() as nursery:
        kept = IncomingController(milan.context, timings, most)
        await nursery.start(kept.run)
        if settings:
            config = parse(milan.settings + settings)
            kept.reload(dataclasses.replace(milan.context, config=config))
        yield milan, IncomingServer(kept), nursery
        nursery.cancel_scope.cancel()


def ignored(lifetime: int) -> None:
    """A callback for a wait that ignores it."""
