"""Deliberate faults on a wire: the simulator's faults, and those below HTTP.

A :class:`Trouble` says which requests it hits and what becomes of their answers. The relay passes
on the API server's own answer, bent as the trouble says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from simulator.wire.failures import ApiError, expired

BAD_CHUNK = b"zz\r\n{}\r\n"
NOT_HTTP = b"\x16\x03\x01 220 mail ready\r\n\r\n\x00\xff"
BROKEN_JSON = b'{"kind":"PodList","items":[{"metadata":{"name":'
OTHER_KIND = b'{"kind":"Recipe","apiVersion":"kitchen/v1","items":"flour"}'
VARIANTS = 8 << 20
"""Bytes of made-up events that a flood repeats."""


class Trouble(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A fault for some requests, in the words of :class:`simulator.faults.Fault`.

    Attributes:
        verb: ``watch``, ``list``, ``get``, ``create``, ``update``, ``patch``, ``delete`` or ``*``.
        path: a regular expression that is searched in the path.
        times: how many requests it hits before it is used up; None for no end.
        delay: seconds before the request is passed on.
        status: answer this instead of the API server.
        retry_after: seconds for the ``Retry-After`` of that answer, 0 for none.
        silent: hold the connection and never answer.
        cut: for a watch: close the connection after so many seconds.
        expire: for a watch: end it with a 410 event after so many seconds.
        garbage: answer ``bytes`` that are not HTTP, broken ``json``, another ``kind``, or a
            ``chunk`` that is none in the middle of the answer.
        stall: after so many bytes of the answer nothing comes any more.
        rate: bytes per second at which answers trickle, 0 for no bound.
        flood: for a watch: once it has shown an object, send changed copies without end, each
            this many bytes long at the least.
    """

    verb: str = "*"
    path: str = ""
    times: int | None = None
    delay: float = 0.0
    status: int = 0
    retry_after: int = 0
    silent: bool = False
    cut: float | None = None
    expire: float | None = None
    garbage: str = ""
    stall: int | None = None
    rate: int = 0
    flood: int = 0

    def matches(self, verb: str, path: str) -> bool:
        """True if it hits a request."""
        left = self.times is None or self.times > 0
        return left and self.verb in ("*", verb) and re.search(self.path, path) is not None

    def strike(self) -> None:
        """It has hit one."""
        if self.times is not None:
            self.times -= 1


def verb_of(method: str, query: dict[str, list[str]]) -> str:
    """The Kubernetes verb of a request, as far as troubles tell them apart."""
    if method != "GET":
        names = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        return names.get(method, method.lower())
    if query.get("watch", [""])[0] in ("1", "true"):
        return "watch"
    return "list" if "limit" in query else "get"


def refusal(trouble: Trouble) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer that a trouble gives."""
    headers = {"content-type": "application/json"}
    if trouble.retry_after:
        headers["retry-after"] = str(trouble.retry_after)
    error = ApiError(trouble.status, "Injected", f"injected fault: {trouble.status}")
    return trouble.status, headers, msgspec.json.encode(error.status())


def expiry() -> bytes:
    """The event that ends a watch whose version is too old."""
    status = msgspec.json.encode(expired("too old resource version: injected fault").status())
    return b'{"type":"ERROR","object":' + status + b"}\n"


def variants(lines: Iterable[bytes], size: int) -> bytes:
    """Changed copies of the objects that a watch has shown, as events, about VARIANTS bytes."""
    shown: list[Any] = [msgspec.json.decode(line) for line in lines]
    events: list[bytes] = []
    total = number = 0
    while total < VARIANTS:
        number += 1
        obj = shown[number % len(shown)]["object"]
        notes = {**(obj["metadata"].get("annotations") or {}), "flood": f"{number}".zfill(size)}
        meta = {**obj["metadata"], "annotations": notes, "resourceVersion": str(10**9 + number)}
        events.append(
            msgspec.json.encode({"type": "MODIFIED", "object": {**obj, "metadata": meta}})
        )
        total += len(events[-1]) + 1
    return b"\n".join(events) + b"\n"
