"""Authenticates the inspector's clients, and decides whether one may only look or act too.

On the Unix socket the kernel names the user: root and the daemon's own user act, others look. Over
TCP a client shows a bearer token; the API server says whose it is and what that user may do, so
that rights are ordinary RBAC. Only tokens of the audience ``liqod`` count: one that was made for
the API server itself is not accepted, and so cannot be collected here.
"""

import hashlib
import pwd
import socket
from collections.abc import Iterable

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.inspect.protocol import AUDIENCE
from liqod.kube.client import Client
from liqod.kube.reviews import AuthenticatedUser, bearer_in, may, user_of
from liqod.runtime.unixpeer import unix_peer

GROUP, RESOURCE = "core.liqo.io", "foreignclusters"
"""The resource that a client needs the right to ``get`` to look, and to ``update`` to act."""
KEPT = 10.0
"""Seconds for which an answer of the API server is used again; a refusal, too."""
KEPT_TOKENS = 256


class Guest(msgspec.Struct, frozen=True):
    """A client: its user's name, and whether it may act."""

    user: str
    acting: bool


def local(sock: socket.socket) -> Guest:
    """The client at the other end of a Unix socket."""
    peer = unix_peer(sock)
    try:
        name = pwd.getpwuid(peer.user).pw_name
    except KeyError:
        name = f"uid {peer.user}"
    return Guest(name, acting=peer.trusted)


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token of an ``Authorization`` header; empty where there is none to be used."""
    for name, value in headers:
        if name.lower() == b"authorization":
            return bearer_in(value.decode("latin-1"))
    return ""


class Reviewer:
    """Has the API server review tokens.

    Args:
        client: with the daemon's own identity.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reviews: dict[bytes, tuple[float, Guest | None]] = {}

    async def review(self, token: str) -> Guest | None:
        """The user of a token and that user's rights; None where it may not even look."""
        if not token:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        now = trio.current_time()
        at, known = self._reviews.get(digest, (float("-inf"), None))
        if now - at < KEPT:
            return known
        found = await self._review(token)
        if len(self._reviews) >= KEPT_TOKENS:
            self._reviews.clear()
        self._reviews[digest] = (now, found)
        return found

    async def _review(self, token: str) -> Guest | None:
        user = await user_of(self._client, token, AUDIENCE)
        if user is None or not await self._may(user, "get"):
            return None
        return Guest(user.name, acting=await self._may(user, "update"))

    async def _may(self, user: AuthenticatedUser, verb: str) -> bool:
        return await may(self._client, user, group=GROUP, resource=RESOURCE, verb=verb)


async def remote(reviewer: Reviewer, headers: Iterable[tuple[bytes, bytes]]) -> Guest | None:
    """The client that shows this header, None where it may not look or cannot be reviewed."""
    try:
        return await reviewer.review(bearer(headers))
    except LiqodError:
        return None
