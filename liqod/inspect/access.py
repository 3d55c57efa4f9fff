"""Who a client of the inspector is, and whether it may only look or act too.

On the Unix socket the kernel tells: root and the daemon's own user act, others look. Over TCP a
client shows a bearer token; the API server says whose it is and what that user may do, so that
rights are ordinary RBAC. Only tokens of the audience ``liqod`` count: one that was made for the API
server itself is not accepted, and so cannot be collected here.
"""

import hashlib
import os
import pwd
import socket
import struct
from collections.abc import Iterable
from typing import Any

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.inspect.protocol import AUDIENCE
from liqod.kube.client import Client
from liqod.kube.kinds import TOKEN_REVIEWS, Kind

ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
GROUP, RESOURCE = "core.liqo.io", "foreignclusters"
"""What a client must be allowed to ``get`` in order to look, and to ``update`` in order to act."""
KEPT = 10.0
"""Seconds for which an answer of the API server is used again; a refusal, too."""
KEPT_TOKENS = 256
TOKEN_LIMIT = 16384
"""Bytes of a token that is worth a question."""
_CREDENTIALS = struct.Struct("3i")


class Guest(msgspec.Struct, frozen=True):
    """A client: its user's name, and whether it may act."""

    user: str
    acting: bool


def local(sock: socket.socket) -> Guest:
    """The client at the other end of a Unix socket."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid {uid}"
    return Guest(name, acting=uid in (0, os.geteuid()))


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token of an ``Authorization`` header; empty where there is none to be used."""
    for name, value in headers:
        if name.lower() == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            usable = token.isascii() and token.isprintable() and len(token) <= TOKEN_LIMIT
            return token.strip() if scheme.lower() == "bearer" and usable else ""
    return ""


class Reviewer:
    """Has the API server review tokens.

    Args:
        client: with the daemon's own identity.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[bytes, tuple[float, Guest | None]] = {}

    async def review(self, token: str) -> Guest | None:
        """Whose token it is and what that user may do; None where it may not even look.

        Raises:
            LiqodError: the API server could not be asked.
        """
        if not token:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        now = trio.current_time()
        at, known = self._known.get(digest, (float("-inf"), None))
        if now - at < KEPT:
            return known
        found = await self._ask(token)
        if len(self._known) >= KEPT_TOKENS:
            self._known.clear()
        self._known[digest] = (now, found)
        return found

    async def _ask(self, token: str) -> Guest | None:
        review = await self._client.create_full(
            TOKEN_REVIEWS, {"spec": {"token": token, "audiences": [AUDIENCE]}}
        )
        status: dict[str, Any] = review.get("status", {})
        user: dict[str, Any] = status.get("user", {})
        if not status.get("authenticated") or AUDIENCE not in status.get("audiences", ()):
            return None
        if not await self._may(user, "get"):
            return None
        return Guest(str(user.get("username", "")), acting=await self._may(user, "update"))

    async def _may(self, user: dict[str, Any], verb: str) -> bool:
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups", []),
            "extra": user.get("extra", {}),
            "resourceAttributes": {"group": GROUP, "resource": RESOURCE, "verb": verb},
        }
        answer = await self._client.create_full(ACCESS_REVIEWS, {"spec": spec})
        return bool(answer.get("status", {}).get("allowed"))


async def remote(reviewer: Reviewer, headers: Iterable[tuple[bytes, bytes]]) -> Guest | None:
    """The client that shows this header, None where it may not look or cannot be reviewed."""
    try:
        return await reviewer.review(bearer(headers))
    except LiqodError:
        return None
