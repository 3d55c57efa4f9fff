"""Reads ``coordination.k8s.io`` Leases: the holder, and the seconds since the last renewal.

Taking and keeping one is the task of :mod:`liqod.kube.leaderelection`.
"""

from contextlib import suppress
from typing import Any

import msgspec

from liqod.apimachinery.kinds import LEASES
from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import NotFound, ProtocolError
from liqod.kube import times
from liqod.kube.client import Client


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """``coordination/v1.LeaseSpec``; times are RFC 3339 text."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """``coordination/v1.Lease``, for reading."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class LeaseTerm(msgspec.Struct, frozen=True):
    """The time of one holder of a Lease, which every other change of holder ends.

    Attributes:
        made: Unix time at which the Lease was made, by the API server's clock; 0 where unknown.
            One that was deleted and made anew counts its holders from 0 again.
        transitions: its count of holders.
        held: whether the candidate that is notified of this is the holder.
    """

    made: int
    transitions: int
    held: bool


def term_of(metadata: ObjectMeta, transitions: int, *, held: bool) -> LeaseTerm:
    """The term of a Lease with such metadata."""
    made = 0.0
    with suppress(ValueError, OverflowError):
        made = times.seconds(metadata.creation_timestamp or "")
    return LeaseTerm(int(made), transitions, held)


class Look(msgspec.Struct, frozen=True):
    """A Lease at the time of one read.

    Attributes:
        lease: its content.
        ago: seconds since it was last renewed, to the second and by the API server's clock alone:
            the server records the time of the renewal, and dates its response. None if either is
            missing. The holder's clock is never compared with another.
    """

    lease: Lease
    ago: float | None = None


class _RenewalFields(msgspec.Struct, frozen=True):
    renewed: Any = msgspec.field(name="f:renewTime", default=None)


class _Fields(msgspec.Struct, frozen=True):
    spec: _RenewalFields = msgspec.field(name="f:spec", default=_RenewalFields())


class _Owner(msgspec.Struct, frozen=True):
    time: str = ""
    fields: _Fields = msgspec.field(name="fieldsV1", default=_Fields())


class _LeaseMeta(msgspec.Struct, frozen=True, rename="camel"):
    creation_timestamp: str = ""
    managed_fields: tuple[_Owner, ...] = ()


class _Written(msgspec.Struct, frozen=True):
    metadata: _LeaseMeta = _LeaseMeta()


class _Listed(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


def read(body: bytes | msgspec.Raw, date: float | None) -> Look:
    """Decode a Lease of an API server's response.

    Args:
        body: the object, with its ``managedFields``.
        date: the Unix time of the response, by the server's clock; None if not given.

    Raises:
        msgspec.DecodeError: it is no Lease.
    """
    lease = msgspec.json.decode(body, type=Lease)
    if date is None:
        return Look(lease)
    meta = msgspec.json.decode(body, type=_Written).metadata
    stamps = [each.time for each in meta.managed_fields if each.fields.spec.renewed is not None]
    written: list[float] = []
    for stamp in (meta.creation_timestamp, *stamps):
        with suppress(ValueError, OverflowError):
            written.append(times.seconds(stamp))
    return Look(lease, max(date - max(written), 0.0) if written else None)


async def look(client: Client, name: str, namespace: str) -> Look | None:
    """Read a Lease; None if it does not exist."""
    try:
        found = await client.raw("GET", LEASES.path(namespace, name))
    except NotFound:
        return None
    try:
        return read(found.body, times.date_of(found.headers.get("date", "")))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ProtocolError(f"the lease {namespace}/{name} cannot be read: {error}") from error


async def looks(client: Client, namespace: str, selector: str) -> tuple[Look, ...]:
    """Read the Leases of a namespace that match a label selector."""
    query = {"labelSelector": selector}
    found = await client.raw("GET", LEASES.path(namespace), query=query)
    date = times.date_of(found.headers.get("date", ""))
    try:
        listed = msgspec.json.decode(found.body, type=_Listed).items
        return tuple(read(each, date) for each in listed)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ProtocolError(f"the leases of {namespace} cannot be read: {error}") from error
