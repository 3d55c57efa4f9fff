"""Embedded clusters whose daemons meet each other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from liqod.apimachinery.kinds import LEASES
from liqod.consumer.identities.clusterkeys import cluster_keys
from liqod.errors import LiqodError
from liqod.handshake.protocol.invitationtokens import InvitationToken
from liqod.handshake.requests import invitations
from liqod.identity import keys
from liqod.kube import times
from liqod.kube.selection import Selection
from liqod.procedures import peeringrequest
from liqod.procedures.peeringrequest import PeeringRequest
from liqod.resources import (
    INCOMING_PEERINGS,
    OUTGOING_PEERINGS,
    IncomingPeering,
    OutgoingPeering,
)
from tests.simulated.members import Member, members
from tests.simulated.processes import Ended, command

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


async def invite(host: Member, **more: Any) -> InvitationToken:
    """An invitation of a cluster's."""
    wanted = invitations.InvitationParameters(
        addresses=(address_of(host),), key=await key_of(host), **{"lifetime": 600, **more}
    )
    token, _ = await invitations.invite(host.admin, "liqo", wanted)
    return token


def by_token(token: InvitationToken, **more: Any) -> PeeringRequest:
    """Returns the request that `liqod peer 'liqod://…'` makes."""
    return PeeringRequest(
        name=token.id,
        addresses=token.addresses,
        key=token.key,
        invitation=(token.id, token.secret),
        **more,
    )


async def ask(guest: Member, host: Member, **more: Any) -> None:
    """Makes the request of `liqod peer NAME`, where the host is seen."""
    known = {"name": host.id, "cluster_id": host.id, "addresses": (address_of(host),)}
    await peeringrequest.ensure_request(guest.admin, "liqo", PeeringRequest(**{**known, **more}))


async def peered(guest: Member, name: str) -> OutgoingPeering:
    """The request when it has come to a peering."""
    with trio.fail_after(60):
        return await peeringrequest.wait(guest.admin, "liqo", name, guest.progress)


async def entries(host: Member) -> list[IncomingPeering]:
    """Returns the requests for a peering that a host has received."""
    return await host.admin.list(INCOMING_PEERINGS, Selection("liqo"), decode=IncomingPeering)


async def outgoing(guest: Member, name: str) -> OutgoingPeering:
    """A request as it is now."""
    return await guest.admin.get(OUTGOING_PEERINGS, name, "liqo", decode=OutgoingPeering)


@asynccontextmanager
async def meeting(*names: str, settings: str = "", **more: Any) -> AsyncIterator[list[Member]]:
    """Clusters whose daemons listen."""
    async with members(*names, settings=ALONE + settings, meets=True, **more) as made:
        yield made


async def run(member: Member, folder: Path, *words: str) -> Ended:
    """A command of a cluster's administrator."""
    path = folder / f"{member.id}.kubeconfig"
    path.write_text(member.cluster.kubeconfig)
    return await command(*words, "--kubeconfig", str(path))


async def lead(
    member: Member, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Renew a Lease by which commands see that the daemon works, until the cluster is gone."""
    spec = {"holderIdentity": "here", "renewTime": times.precise(), "leaseDurationSeconds": 15}
    await member.admin.create(LEASES, {"metadata": {"name": "liqod"}, "spec": spec}, "liqo")
    task_status.started()
    with suppress(LiqodError, trio.ClosedResourceError):
        while True:
            await trio.sleep(1)
            renewed = {"spec": {"renewTime": times.precise()}}
            await member.admin.patch(LEASES, "liqod", renewed, "liqo")
