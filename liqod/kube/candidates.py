"""Leases that show the standbys of the leader: one for each, renewed while it waits.

No decision depends on them; ``liqod status`` reads them, like all its data, from the API server
alone. A standby deletes its own when it leads or ends, and those of standbys that were killed.
"""

import logging
import os
import secrets
import socket
from typing import Any, NoReturn

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES
from liqod.errors import LiqodError, NotFound
from liqod.kube import leases, times
from liqod.kube.client import Client

RENEW = 10.0
"""Seconds between renewals."""
GONE_AFTER = 30.0
"""Seconds without a renewal after which a standby counts as dead."""
REMOVE_DEADLINE = 2.0
SELECTOR = f"{labels.STANDBY}={labels.TRUE}"

log = logging.getLogger(__name__)


def new_identity() -> str:
    """A unique name for this process in elections.

    Host and process id are for people; in containers all are process 1, and hosts may share a name.
    """
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


async def standbys(client: Client, namespace: str) -> tuple[str, ...]:
    """The identities of the standbys that live."""
    found = await leases.looks(client, namespace, SELECTOR)
    return tuple(sorted(each.lease.spec.holder_identity or "" for each in found if _lives(each)))


def _lives(seen: leases.Look) -> bool:
    """True if the Lease was renewed recently, or its age is unknown."""
    return bool(seen.lease.spec.renew_time) and (seen.ago or 0.0) < GONE_AFTER


async def show(client: Client, namespace: str, identity: str) -> NoReturn:
    """Keep the Lease of this standby renewed until cancelled; failures are ignored."""
    name = f"{labels.LEADER_LEASE}-standby-{identity}".lower()
    try:
        await _attempt(_sweep, client, namespace)
        while True:
            await _attempt(_renew, client, namespace, name, identity)
            await trio.sleep(RENEW)
    finally:
        with trio.move_on_after(REMOVE_DEADLINE, shield=True):
            await _attempt(client.delete, LEASES, name, namespace)


async def _attempt(what: Any, *arguments: Any) -> None:
    try:
        await what(*arguments)
    except LiqodError as error:
        log.debug("standby not shown", extra={"reason": str(error)})


async def _renew(client: Client, namespace: str, name: str, identity: str) -> None:
    spec = {
        "holderIdentity": identity,
        "leaseDurationSeconds": int(GONE_AFTER),
        "renewTime": times.precise(),
    }
    marks = {labels.STANDBY: labels.TRUE, labels.MANAGED_BY_LIQOD: labels.TRUE}
    metadata = {"name": name, "namespace": namespace, "labels": marks}
    try:
        await client.patch(LEASES, name, {"spec": spec}, namespace)
    except NotFound:
        await client.create(LEASES, {"metadata": metadata, "spec": spec}, namespace)


async def _sweep(client: Client, namespace: str) -> None:
    """Delete the Leases of standbys that were killed."""
    for each in await leases.looks(client, namespace, SELECTOR):
        if not _lives(each):
            meta = each.lease.metadata
            await client.delete(LEASES, meta.name, namespace, uid=meta.uid)
