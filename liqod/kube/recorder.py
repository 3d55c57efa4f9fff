"""Writes Kubernetes Events, which show users of an object the changes of its state."""

import hashlib
from contextlib import suppress
from typing import Any

import trio

from liqod.apimachinery.kinds import EVENTS, Kind
from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import LiqodError
from liqod.kube import times
from liqod.kube.client import Client

MESSAGE_LIMIT = 1024
"""Longest message that API servers accept (``core/v1`` validation)."""
DEADLINE = 5.0
REPORTER = "liqod"
"""Component of our Events."""
WARNING = "Warning"
NORMAL = "Normal"


def event(
    kind: Kind,
    meta: ObjectMeta,
    reason: str,
    message: str,
    *,
    at: str,
    type: str = WARNING,
    related: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A ``core/v1`` Event about the object of that kind and metadata, by default a Warning.

    Equal Events about the same object have the same name.

    Args:
        kind: of the object.
        meta: its metadata.
        reason: one CamelCase word.
        message: one sentence; cut to :data:`MESSAGE_LIMIT` characters.
        at: RFC 3339 time.
        type: ``Warning`` or ``Normal``.
        related: an ObjectReference to another object concerned.
    """
    made = _event(kind, meta, (reason, message), at, type, f"{meta.uid}/{reason}/{message}")
    return made if related is None else {**made, "related": related}


def change(
    kind: Kind, meta: ObjectMeta, reason: str, message: str, *, at: str, type: str
) -> dict[str, Any]:
    """An Event of a change from one state to another: one for each reason and minute."""
    return _event(kind, meta, (reason, message), at, type, f"{meta.uid}/{reason}/{at[:16]}")


def _event(
    kind: Kind, meta: ObjectMeta, said: tuple[str, str], at: str, type: str, text: str
) -> dict[str, Any]:
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {
        "metadata": {
            "name": f"{meta.name[:200].rstrip('.-')}.{digest}",
            "namespace": meta.namespace or "default",
        },
        "involvedObject": {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        },
        "reason": said[0],
        "message": said[1][:MESSAGE_LIMIT],
        "type": type,
        "source": {"component": REPORTER},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


async def record(
    client: Client, kind: Kind, meta: ObjectMeta, reason: str, message: str, *, type: str = WARNING
) -> None:
    """Write an Event once, by default a Warning; a single attempt that raises nothing."""
    await _try(client, event(kind, meta, reason, message, at=times.now(), type=type))


async def record_change(
    client: Client, kind: Kind, meta: ObjectMeta, reason: str, message: str, *, type: str
) -> None:
    """Write an Event of a change from one state to another; raises nothing."""
    await _try(client, change(kind, meta, reason, message, at=times.now(), type=type))


async def _try(client: Client, made: dict[str, Any]) -> None:
    with trio.move_on_after(DEADLINE), suppress(LiqodError):
        await client.create(EVENTS, made, made["metadata"]["namespace"])
