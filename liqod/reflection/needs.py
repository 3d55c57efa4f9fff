"""Fetches what reflectors ask for, and keeps it until it expires.

A need is a value, so two objects that ask for the same share one answer. Nothing here is written
to a disk or a resource: after a restart the needs are asked again.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from liqod.kube.client import Client
from liqod.kube.kinds import SERVICE_ACCOUNTS
from liqod.plugins.contracts import Need, RemoteObject, ServiceAccountToken, Token

REFRESH_AT = 0.8
"""Part of a token's life after which it is asked again (Liqo's)."""
KEPT = 600.0
"""Seconds that an answer without an end of its own is kept."""
SPARE = 64
"""How many answers are kept at least before those are dropped that hold no more: a whole object
takes 20 kB."""


class _Granted(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str = ""


class _TokenRequest(msgspec.Struct, rename="camel"):
    status: _Granted = msgspec.field(default_factory=_Granted)


class Answer(msgspec.Struct, frozen=True):
    """What was fetched.

    Attributes:
        value: it.
        until: Trio time at which it is to be fetched again.
    """

    value: Any
    until: float


class Needs:
    """The answers of one peer."""

    def __init__(self) -> None:
        self._answers: dict[Need, Answer] = {}
        self._enough = SPARE

    def get(self, need: Need) -> Any:
        """What fulfils a need, while it holds."""
        answer = self._answers.get(need)
        if answer is None or answer.until <= trio.current_time():
            return None
        return answer.value

    def expiry(self, need: Need) -> float | None:
        """Seconds until the answer is to be fetched again; None where there is none."""
        answer = self._answers.get(need)
        return None if answer is None else max(0.0, answer.until - trio.current_time())

    def put(self, need: Need, value: Any, seconds: float = KEPT) -> None:
        """Keep an answer for so many seconds."""
        now = trio.current_time()
        if len(self._answers) >= self._enough:
            self._answers = {
                key: answer for key, answer in self._answers.items() if answer.until > now
            }
            self._enough = max(SPARE, 2 * len(self._answers))
        self._answers[need] = Answer(value, now + seconds)


async def fulfil(
    need: Need,
    needs: Needs,
    *,
    local: Client,
    namespace: str,
    read: Callable[[RemoteObject], Awaitable[Any]],
) -> None:
    """Fetch what one need asks for.

    Args:
        need: the need.
        needs: where the answer goes.
        local: client of this cluster.
        namespace: the namespace of the object that needs it.
        read: reads a whole object at the peer.

    Raises:
        LiqodError: it cannot be had now.
    """
    if isinstance(need, ServiceAccountToken):
        spec: dict[str, Any] = {
            "expirationSeconds": max(600, need.seconds),
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": need.pod,
                "uid": need.pod_uid,
            },
        }
        if need.audience:
            spec["audiences"] = [need.audience]
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": spec,
        }
        answer = await local.create_subresource(
            SERVICE_ACCOUNTS, need.account, namespace, "token", request, decode=_TokenRequest
        )
        granted = Token(answer.status.token, answer.status.expiration_timestamp)
        needs.put(need, granted, REFRESH_AT * max(600, need.seconds))
    elif isinstance(need, RemoteObject):
        needs.put(need, await read(need) or {}, need.lasts)
    else:
        raise TypeError(f"nothing here fulfils a {type(need).__name__}")
