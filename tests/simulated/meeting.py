"""Embedded clusters whose daemons meet each other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod.consumer.identities.keys import cluster_keys
from liqod.handshake import invitations
from liqod.handshake.tokens import Token
from liqod.identity import keys
from liqod.kube.selection import Selection
from liqod.procedures import asking
from liqod.procedures.asking import Request
from liqod.resources import (
    INCOMING_PEERINGS,
    OUTGOING_PEERINGS,
    IncomingPeering,
    OutgoingPeering,
)
from tests.simulated.peering import Member, members

ALONE = """
[webhook]
enabled = false
[handshake]
host = "127.0.0.1"
port = 0
[network]
enabled = false
"""


def address_of(member: Member) -> str:
    """Where its daemon listens."""
    assert member.handshake is not None
    return f"127.0.0.1:{member.handshake.port}"


async def key_of(member: Member) -> str:
    """SHA-256 of its key."""
    return keys.print_of((await cluster_keys(member.admin)).public)


async def invite(host: Member, **more: Any) -> Token:
    """An invitation of a cluster's."""
    wanted = invitations.Wanted(
        addresses=(address_of(host),), key=await key_of(host), **{"lifetime": 600, **more}
    )
    token, _ = await invitations.invite(host.admin, "liqo", wanted)
    return token


def by_token(token: Token, **more: Any) -> Request:
    """What `liqod peer 'liqod://…'` asks."""
    return Request(
        name=token.id,
        addresses=token.addresses,
        key=token.key,
        invitation=(token.id, token.secret),
        **more,
    )


async def ask(guest: Member, host: Member, **more: Any) -> None:
    """What `liqod peer NAME` asks, where the host is seen."""
    known = {"name": host.id, "cluster_id": host.id, "addresses": (address_of(host),)}
    await asking.ask(guest.admin, "liqo", Request(**{**known, **more}))


async def peered(guest: Member, name: str) -> OutgoingPeering:
    """The request when it has come to a peering."""
    with trio.fail_after(60):
        return await asking.wait(guest.admin, "liqo", name, guest.progress)


async def entries(host: Member) -> list[IncomingPeering]:
    """Who asks it."""
    return await host.admin.list(INCOMING_PEERINGS, Selection("liqo"), decode=IncomingPeering)


async def outgoing(guest: Member, name: str) -> OutgoingPeering:
    """A request as it is now."""
    return await guest.admin.get(OUTGOING_PEERINGS, name, "liqo", decode=OutgoingPeering)


@asynccontextmanager
async def meeting(*names: str, settings: str = "", **more: Any) -> AsyncIterator[list[Member]]:
    """Clusters whose daemons listen."""
    async with members(*names, settings=ALONE + settings, meets=True, **more) as made:
        yield made
