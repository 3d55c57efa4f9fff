"""The Lease that names the gateway: read, followed, and written in the version it was read.

It is the only word that counts. Beside its holder and a number that grows with each, it has the
holder's address, the standbys that the holder knows, and where each peer was observed last.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES
from liqod.errors import AlreadyExists, Conflict, LiqodError, NotFound
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.leases import Lease
from liqod.kube.selection import Selection
from liqod.kube.watch import Bookmark
from liqod.network.failover.election import DURATION
from liqod.network.orders.candidacy import Claim, LeaseRecord

WATCH_SECONDS: Final = 300
AGAIN: Final = 0.2
"""Seconds before a watch that broke is begun anew."""
MOST_PEERS: Final = 4096
"""Peers whose endpoints are written to the Lease, at the most."""


def record_of(lease: Lease) -> LeaseRecord:
    """Reads a Lease; malformed parts count as absent."""
    notes = lease.metadata.annotations
    claim = Claim(
        holder=lease.spec.holder_identity or "",
        epoch=lease.spec.lease_transitions or 0,
        version=lease.metadata.resource_version,
        others=tuple(each for each in notes.get(labels.GATEWAY_STANDBYS, "").split(",") if each),
    )
    reached, endpoints = (
        _texts(notes.get(each, "{}")) for each in (labels.GATEWAY_REACHED, labels.GATEWAY_ENDPOINTS)
    )
    return LeaseRecord(claim, notes.get(labels.GATEWAY_ADDRESS, ""), reached, endpoints)


def _texts(text: str) -> dict[str, str]:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=dict[str, str])
    return {}


class GatewayLease:
    """The Lease of this cluster's gateway.

    Args:
        client: of this cluster.
        namespace: liqod's own.
        on_change: called with what it says, whenever that is read; None where there is none.
    """

    def __init__(
        self, client: Client, namespace: str, on_change: Callable[[LeaseRecord | None], None]
    ) -> None:
        self._client, self._namespace, self._on_change = client, namespace, on_change

    async def follow(self) -> NoReturn:
        """Read the Lease, and report each change, until cancelled."""
        while True:
            with suppress(LiqodError):
                await self._watch(await self.read())
            await trio.sleep(AGAIN)

    async def read(self) -> str:
        """Read the Lease and report it; its version, empty where there is none."""
        found = await self._client.find(LEASES, labels.GATEWAY_LEASE, self._namespace, decode=Lease)
        self._on_change(record_of(found) if found is not None else None)
        return found.metadata.resource_version if found is not None else ""

    async def _watch(self, version: str) -> None:
        named = Selection(self._namespace, fields=f"metadata.name={labels.GATEWAY_LEASE}")
        async with self._client.watch(
            LEASES, named, resource_version=version, seconds=WATCH_SECONDS
        ) as watch:
            while (event := await watch.next(WATCH_SECONDS + 10)) is not None:
                if isinstance(event, Bookmark):
                    continue
                lease = msgspec.json.decode(event.item.body, type=Lease)
                self._on_change(record_of(lease) if event.type != "DELETED" else None)

    async def create(self, found: LeaseRecord) -> str | None:
        """Make it; its version, None where another was faster."""
        new = {
            "metadata": {
                "name": labels.GATEWAY_LEASE,
                "namespace": self._namespace,
                "labels": {labels.MANAGED_BY_LIQOD: labels.TRUE},
                "annotations": _notes(found),
            },
            "spec": _spec(found.claim, taken=True),
        }
        try:
            made = await self._client.create(LEASES, new, self._namespace)
        except AlreadyExists:
            return None
        return made.metadata.resource_version

    async def write(self, wanted: LeaseRecord, *, taken: bool) -> str | None:
        """Write it over the version that the claim names.

        Args:
            wanted: as it is to be, over that version.
            taken: whether it was another's.

        Returns:
            Its version; None where it was written meanwhile, or is gone: read it again.

        Raises:
            LiqodError: as the client raises; it may have been written all the same.
        """
        metadata = {"resourceVersion": wanted.claim.version, "annotations": _notes(wanted)}
        patch = {"metadata": metadata, "spec": _spec(wanted.claim, taken=taken)}
        try:
            made = await self._client.patch(LEASES, labels.GATEWAY_LEASE, patch, self._namespace)
        except (Conflict, NotFound):
            return None
        return made.metadata.resource_version


def _notes(wanted: LeaseRecord) -> dict[str, str]:
    kept = dict(sorted(wanted.endpoints.items())[:MOST_PEERS])
    return {
        labels.GATEWAY_ADDRESS: wanted.address,
        labels.GATEWAY_STANDBYS: ",".join(sorted(wanted.claim.others)),
        labels.GATEWAY_REACHED: msgspec.json.encode(wanted.reached, order="sorted").decode(),
        labels.GATEWAY_ENDPOINTS: msgspec.json.encode(kept).decode(),
    }


def _spec(claim: Claim, *, taken: bool) -> dict[str, Any]:
    now = times.precise()
    spec: dict[str, Any] = {"renewTime": now}
    if taken:
        spec |= {
            "holderIdentity": claim.holder,
            "leaseDurationSeconds": int(DURATION),
            "acquireTime": now,
            "leaseTransitions": claim.epoch,
        }
    return spec
