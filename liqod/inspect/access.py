"""Authenticates the inspector's clients, and decides if a client may only look, or act too.

On the Unix socket the kernel names the user: root and the daemon's own user act, others look. Over
TCP a client sends a bearer token; the API server returns its user and the rights of that user, so
that rights are ordinary RBAC. Only tokens of the audience ``liqod`` count: a token for the API
server itself is not accepted, and so cannot be collected here.
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
"""The resource for rights: a client needs ``get`` to look, and ``update`` to act."""
KEPT = 10.0
"""Seconds for which a response of the API server is reused; a refusal, too."""
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
    """The token of an ``Authorization`` header; empty without a usable one."""
    for name, value in headers:
        if name.lower() == b"authorization":
            return bearer_in(value.decode("latin-1"))
    return ""


class Reviewer:
    """Reviews tokens through the API server.

    Args:
        client: with the daemon's own identity.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reviews: dict[bytes, tuple[float, Guest | None]] = {}

    async def review(self, token: str) -> Guest | None:
        """Review a token; its user with the rights, or None for a user that may not look."""
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
    """The client with these headers; None if it may not look or cannot be reviewed."""
    try:
        return await reviewer.review(bearer(headers))
    except LiqodError:
        return None
