"""Requests the user of a token, and the rights of a user, from the API server.

So rights are ordinary RBAC, or come from any other authorizer of the cluster.
"""

from typing import Any

import msgspec

from liqod.apimachinery.kinds import ACCESS_REVIEWS, TOKEN_REVIEWS
from liqod.kube.client import Client

TOKEN_LIMIT = 16384
"""Most bytes of a token that is reviewed."""


class AuthenticatedUser(msgspec.Struct, frozen=True):
    """A user authenticated by the cluster.

    Attributes:
        name: of the user.
        groups: the user's groups.
        uid: of the user, if there is one.
        extra: further data of the authenticator.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = {}


def bearer_in(value: str) -> str:
    """The token in the value of an ``Authorization`` header; empty without a usable one."""
    scheme, _, token = value.partition(" ")
    usable = token.isascii() and token.isprintable() and len(token) <= TOKEN_LIMIT
    return token.strip() if scheme.lower() == "bearer" and usable else ""


async def user_of(client: Client, token: str, audience: str = "") -> AuthenticatedUser | None:
    """Find the user of a token by a TokenReview; None for nobody's, or another audience's.

    Args:
        client: with the daemon's own identity.
        token: as received.
        audience: the required audience; empty means the API server.
    """
    spec: dict[str, Any] = {"token": token, **({"audiences": [audience]} if audience else {})}
    review = await client.create_full(TOKEN_REVIEWS, {"spec": spec})
    status: dict[str, Any] = review.get("status", {})
    if not status.get("authenticated"):
        return None
    if audience and audience not in status.get("audiences", ()):
        return None
    user: dict[str, Any] = status.get("user", {})
    return AuthenticatedUser(
        user.get("username", ""),
        tuple(user.get("groups") or ()),
        user.get("uid", ""),
        user.get("extra") or {},
    )


async def may(client: Client, user: AuthenticatedUser, **attributes: str) -> bool:
    """True if a SubjectAccessReview lets a user do what the ResourceAttributes name."""
    spec = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": user.extra,
        "resourceAttributes": attributes,
    }
    answer = await client.create_full(ACCESS_REVIEWS, {"spec": spec})
    return bool(answer.get("status", {}).get("allowed"))
