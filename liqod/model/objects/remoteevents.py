"""Converts a peer's Event about a remote object into an Event about the local object. Pure.

Only the parts that a person reads are copied: type, reason, message, times, count and the part of
the pod. The peer chooses all of them, so they are cut and cleaned, and the source is marked
`` (remote)``, as Liqo marks it. An Event is named after the UID of the peer's: a repeated one makes
no second Event.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.rawobjects import UNREADABLE
from liqod.model.objects.partial import Event, EventSeries
from liqod.model.text import printable

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
TYPES: Final = (NORMAL, WARNING)
REMOTE: Final = " (remote)"
"""Suffix that Liqo adds to the name of the component that reports from a peer."""
MESSAGE_BYTES: Final = 1024
"""Bytes of a message; Kubernetes' own bound for a note (``events.k8s.io/v1`` validation)."""
REASON_BYTES: Final = 128
"""Bytes of a reason, of a component's name and of a field's path; Kubernetes' bound for reasons."""
MOST_COUNTED: Final = (1 << 31) - 1
"""The largest ``int32``, which ``count`` is."""
NAME_PART: Final = 200
"""Characters of the object's name in that of its Event, of 253 that there may be."""

Json = dict[str, Any]


class LocalObject(NamedTuple):
    """The local object that an Event is about.

    Attributes:
        kind: its kind.
        namespace, name, uid: its identity.
        created: time of its creation, RFC 3339.
        host: the virtual node that it is on; empty for none.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    created: str | None
    host: str = ""


_decoder = msgspec.json.Decoder(Event)


def read(body: bytes) -> Event | None:
    """A peer's Event; None where the text is none, or its type is unknown to Kubernetes."""
    try:
        found = _decoder.decode(body)
    except UNREADABLE:
        return None
    return found if found.metadata.uid and found.type in TYPES else None


def name_of(found: Event, about: LocalObject, peer: str) -> str:
    """The name of the local Event: a peer cannot choose it, nor that of any other local object."""
    text = f"{peer}/{found.metadata.uid}/{about.uid}"
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:20]
    return f"{about.name[:NAME_PART].rstrip('.-')}.remote-{digest}"


def state_of(found: Event) -> str:
    """A short hash of an Event's content; it changes with the content."""
    said = (found.type, found.reason, found.message, found.count, found.last_timestamp)
    return hashlib.sha256(msgspec.json.encode((*said, found.series))).hexdigest()[:16]


def local_event(found: Event, about: LocalObject, peer: str, now: str) -> Json:
    """The Event of the local object.

    Args:
        found: the peer's Event.
        about: the local object.
        peer: its cluster id.
        now: RFC 3339, this cluster's clock: no Event is later, or older than the object.
    """
    series = found.series or EventSeries()
    told_last = series.last_observed_time or found.last_timestamp
    last = _time(told_last or found.event_time, about.created, now)
    first = _time(found.first_timestamp or found.event_time or told_last, about.created, last)
    component = clean(found.source.component or found.reporting_component, REASON_BYTES)
    teller = (component or "unknown") + REMOTE
    involved = {
        "apiVersion": about.kind.api_version,
        "kind": about.kind.name,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }
    if found.involved_object.field_path:
        involved["fieldPath"] = clean(found.involved_object.field_path, REASON_BYTES)
    return {
        "metadata": {
            "name": name_of(found, about, peer),
            "namespace": about.namespace,
            "labels": {labels.REMOTE_CLUSTER_ID: peer},
            "annotations": {labels.APPLIED_HASH: state_of(found)},
        },
        "involvedObject": involved,
        "type": found.type,
        "reason": clean(found.reason, REASON_BYTES) or "Unknown",
        "message": clean(found.message, MESSAGE_BYTES),
        "source": {"component": teller, **({"host": about.host} if about.host else {})},
        "reportingComponent": teller,
        "firstTimestamp": first,
        "lastTimestamp": last,
        "count": min(max(found.count, series.count, 1), MOST_COUNTED),
    }


def again(event: Mapping[str, Any]) -> Json:
    """The merge patch that gives an existing Event the content of this one."""
    patch = {key: event[key] for key in ("count", "lastTimestamp", "message", "reason")}
    return {**patch, "metadata": {"annotations": event["metadata"]["annotations"]}}


def clean(text: str, most: int) -> str:
    """One line of the visible characters, of so many bytes at the most."""
    line = " ".join(text[:most].split())
    return printable(line).encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _time(told: str | None, earliest: str | None, latest: str) -> str:
    """A time of the peer's clock, between two of this one's; the later where it is none."""
    moment, end = _moment(told), _moment(latest)
    assert end is not None, "a time of this cluster's own"
    begin = _moment(earliest) or end
    found = min(max(moment or end, begin), end)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
