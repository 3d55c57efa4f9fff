"""How much of what a consumer writes is kept in memory.

An API server takes objects of a megabyte and a half, and a consumer may make thousands. A ShadowPod
that is larger than any pod has reason to be is kept as a stub: enough to tell the consumer why
there is no pod. Pure.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from liqod.kube.meta import ObjectMeta
from liqod.kube.objects import UNREADABLE
from liqod.model import labels

MAX_ENDPOINTS: Final = 1 << 18
"""Bytes of a ShadowEndpointSlice; a thousand endpoints, the most there may be, have less."""
_KEPT: Final = (labels.ORIGIN, labels.CREATOR_USER, labels.NODE_NAME)


class _Stub(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: dict[str, Any] = {}


@lru_cache
def trim_to(limit: int) -> Callable[[bytes], bytes]:
    """A function that makes a stub of a ShadowPod of more than ``limit`` bytes.

    The same function for the same limit: by it informers are shared.
    """

    def trim(body: bytes) -> bytes:
        if len(body) <= limit:
            return body
        try:
            found = msgspec.json.decode(body, type=_Stub)
        except UNREADABLE:
            return b'{"tooLarge":%d}' % len(body)
        marks = {key: found.metadata.labels[key] for key in _KEPT if key in found.metadata.labels}
        metadata = msgspec.structs.replace(
            found.metadata, labels=marks, annotations={}, owner_references=(), finalizers=()
        )
        stub = {"metadata": metadata, "status": found.status, "tooLarge": len(body)}
        return msgspec.json.encode(stub)

    return trim


def is_small(body: bytes) -> bool:
    """Whether a ShadowEndpointSlice is small enough to be looked at."""
    return len(body) <= MAX_ENDPOINTS
