"""Matches remote objects that Liqo made, before liqod took its place here, to local objects.

liqod notes on a remote pod the UID of the object it stands for; Liqo notes none. Then the start of
the local pod decides, or else which of the two is older: a pod of a StatefulSet comes again under
its name, and the remote pod of the one before must not be taken for its own. Pure.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from liqod.apimachinery import labels


def made_for(local: Mapping[str, Any], notes: Mapping[str, str], created: str | None) -> bool:
    """True if a remote object was made for this very local object.

    Args:
        local: the object here.
        notes: the annotations of what is there.
        created: when that was made, RFC 3339 of the peer's clock.
    """
    meta = local["metadata"]
    noted = notes.get(labels.LOCAL_UID)
    if noted is not None:
        return bool(noted == meta["uid"])
    if (local.get("status") or {}).get("startTime"):
        return True  # only its own remote pod can have told that it has started
    if created is None:
        return False
    return _time(created) >= _time(meta["creationTimestamp"])


def is_adopted(notes: Mapping[str, str]) -> bool:
    """True if Liqo made the remote object, and liqod goes on with it as it is."""
    return labels.LOCAL_UID not in notes or labels.ADOPTED in notes


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
