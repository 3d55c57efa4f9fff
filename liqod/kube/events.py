"""Kubernetes Events: how a person who looks at an object learns what became of it."""

import datetime
import hashlib
from contextlib import suppress
from typing import Any

import msgspec
import trio

from liqod.errors import AlreadyExists, LiqodError
from liqod.kube.client import Client
from liqod.kube.kinds import EVENTS
from liqod.kube.meta import ObjectMeta

MESSAGE_LIMIT = 1024
"""Longest message that API servers take (``core/v1`` validation)."""
DEADLINE = 5.0


class About(msgspec.Struct, frozen=True, rename="camel"):
    """The object an event is about; decodes from any object."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


def event(about: About, reason: str, message: str, *, warning: bool, at: str) -> dict[str, Any]:
    """A ``core/v1 Event``; saying the same of the same object again gives the same name."""
    meta = about.metadata
    text = f"{meta.uid}/{reason}/{message}"
    return {
        "metadata": {
            "name": f"{meta.name[:200]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}",
            "namespace": meta.namespace or "default",
        },
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        },
        "reason": reason,
        "message": message[:MESSAGE_LIMIT],
        "type": "Warning" if warning else "Normal",
        "source": {"component": "liqod"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


async def tell(
    client: Client, about: About, reason: str, message: str, *, warning: bool = True
) -> None:
    """Write an event once; saying it is worth a try and no more, so this raises nothing."""
    at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = event(about, reason, message, warning=warning, at=at)
    with trio.move_on_after(DEADLINE), suppress(AlreadyExists, LiqodError):
        await client.create(EVENTS, made, made["metadata"]["namespace"])
