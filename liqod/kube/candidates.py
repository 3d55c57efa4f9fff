"""Leases by which standbys show that they are there: one for each, renewed while it waits.

Nothing is decided by them; ``liqod status`` reads them, as it reads everything, from the API server
alone. A standby takes its own away when it leads or ends, and those of standbys that were killed.
"""

import logging
import os
import secrets
import socket
from datetime import UTC, datetime
from typing import Any, NoReturn

import msgspec
import trio

from liqod.errors import LiqodError, NotFound
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.kinds import LEASES
from liqod.kube.meta import ObjectMeta
from liqod.kube.selection import Selection
from liqod.model import labels

RENEW = 10.0
"""Seconds between renewals."""
GONE_AFTER = 30.0
"""Seconds without a renewal after which a standby is taken for dead."""
REMOVE_DEADLINE = 2.0
SELECTOR = f"{labels.STANDBY}={labels.TRUE}"

log = logging.getLogger(__name__)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str = ""
    renew_time: str = ""


class Candidate(msgspec.Struct, frozen=True):
    """The Lease of a standby, for reading."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()

    def alive(self, now: datetime) -> bool:
        """Whether it was renewed of late."""
        renewed = self.spec.renew_time
        return bool(renewed) and (now - datetime.fromisoformat(renewed)).total_seconds() < (
            GONE_AFTER
        )


def new_identity() -> str:
    """A name for this process in elections, which no other process has.

    Host and process id are for people; in containers all are process 1, and hosts may share a name.
    """
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


async def standbys(client: Client, namespace: str) -> tuple[str, ...]:
    """The identities of the standbys that live."""
    found = await client.list(LEASES, Selection(namespace, labels=SELECTOR), decode=Candidate)
    now = datetime.now(UTC)
    return tuple(sorted(each.spec.holder_identity for each in found if each.alive(now)))


async def show(client: Client, namespace: str, identity: str) -> NoReturn:
    """Show that this standby is there until cancelled; worth a try and no more."""
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
    """Remove what standbys left that were killed."""
    now = datetime.now(UTC)
    for each in await client.list(LEASES, Selection(namespace, labels=SELECTOR), decode=Candidate):
        if not each.alive(now):
            meta = each.metadata
            await client.delete(LEASES, meta.name, namespace, uid=meta.uid)
