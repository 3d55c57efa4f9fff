"""Matches remote objects that Liqo made, before liqod replaced it, to local objects.

liqod notes on a remote pod the UID of its local object; Liqo notes none. Then the start of the
local pod decides, or else the ages of the two: a StatefulSet creates a pod again under the same
name, and the remote pod of the former one must not be taken for its own. Pure.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from liqod.apimachinery import labels


def made_for(local: Mapping[str, Any], notes: Mapping[str, str], created: str | None) -> bool:
    """True if a remote object was made for exactly this local object.

    Args:
        local: the local object.
        notes: the annotations of the remote object.
        created: time of its creation, RFC 3339 of the peer's clock.
    """
    meta = local["metadata"]
    noted = notes.get(labels.LOCAL_UID)
    if noted is not None:
        return bool(noted == meta["uid"])
    if (local.get("status") or {}).get("startTime"):
        return True  # only its own remote pod can have reported its start
    if created is None:
        return False
    return _time(created) >= _time(meta["creationTimestamp"])


def is_adopted(notes: Mapping[str, str]) -> bool:
    """True if Liqo made the remote object, and liqod goes on with it as it is."""
    return labels.LOCAL_UID not in notes or labels.ADOPTED in notes


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
