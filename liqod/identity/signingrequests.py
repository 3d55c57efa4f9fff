"""Makes signing requests for the API server's own signer, approves them, and deletes them.

None may stay, with any result: not when its creation was cancelled before the response, nor when
the daemon was killed. So each has a name before it is made, and those that no task works on are
swept by :mod:`liqod.provider.garbagecollector`.
"""

import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SIGNING_REQUESTS
from liqod.errors import Invalid, LiqodError, TransientError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects.conditions import Condition
from liqod.runtime.gather import gather
from liqod.runtime.observable import Notifier

SIGNER = "kubernetes.io/kube-apiserver-client"
SELECTOR = f"{labels.REMOTE_TENANT_CSR}={labels.TRUE}"
"""Signing requests of consumers."""
USAGES = ("digital signature", "key encipherment", "client auth")
SIGN_DEADLINE = 30.0
"""Seconds that the signer has, as in Liqo."""
FIRST_POLL, LAST_POLL = 0.005, 1.0
DELETE_DEADLINE = 20.0
"""Seconds for deleting a signing request."""
LAST_DELETE_DEADLINE = 2.0
"""The same once we are cancelled: a leader that lost its Lease must have stopped before another may
lead."""


class _RequestStatus(msgspec.Struct, frozen=True):
    certificate: bytes = b""
    conditions: tuple[Condition, ...] = ()


class _SignedRequest(msgspec.Struct, frozen=True):
    status: _RequestStatus = _RequestStatus()


def labels_of(peer: str) -> dict[str, str]:
    """Labels of the signing request of a consumer."""
    return {labels.REMOTE_TENANT_CSR: labels.TRUE, labels.REMOTE_CLUSTER_ID: peer}


class SigningRequests:
    """Names of the signing requests that are in use."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lost = Notifier()

    @contextmanager
    def one(self) -> Iterator[str]:
        """A new name, held until its signing request is :meth:`gone` or the block ends."""
        name = f"{labels.CSR_NAME_PREFIX}{secrets.token_hex(4)}"
        self._names.add(name)
        try:
            yield name
        finally:
            if name in self._names:
                self._names.remove(name)
                self._lost.notify()

    async def lost(self) -> None:
        """Wait until a name is released whose request may still exist."""
        await self._lost.wait()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def gone(self, name: str) -> None:
        """A signing request was deleted."""
        self._names.discard(name)

    async def sweep(self, client: Client) -> int:
        """Delete unused requests, of this daemon or an earlier one; the number of deleted ones.

        Args:
            client: may list and delete signing requests.
        """
        return await client.delete_selected(
            SIGNING_REQUESTS, Selection(labels=SELECTOR), spared=self._names
        )


async def _not_kept(_: bytes) -> None:
    """The caller keeps the certificate itself."""


async def sign(
    client: Client,
    csr: bytes,
    request_labels: dict[str, str],
    *,
    in_hand: SigningRequests,
    lifetime: int = 0,
    signer: str = SIGNER,
    usages: Sequence[str] = USAGES,
    keep: Callable[[bytes], Awaitable[None]] = _not_kept,
) -> bytes:
    """Have the API server's signer sign a request that the caller vouches for.

    The signing request is deleted, with any result, while the certificate is kept.

    Args:
        client: may create, approve and delete signing requests.
        csr: the request, PEM.
        request_labels: labels of the signing request.
        in_hand: holds the signing request meanwhile.
        lifetime: seconds to request, 0 to leave it to the signer.
        signer: the signer's name.
        usages: the uses of the key.
        keep: keeps the certificate.

    Raises:
        Invalid: the signer refused.
        TransientError: it did not answer within 30 s.
    """
    spec: dict[str, Any] = {
        "request": b64encode(csr).decode(),
        "signerName": signer,
        "usages": list(usages),
    }
    if lifetime:
        spec["expirationSeconds"] = lifetime
    with in_hand.one() as name:
        body = {"metadata": {"name": name, "labels": request_labels}, "spec": spec}
        made = await client.create_full(SIGNING_REQUESTS, body)
        delete = partial(_delete, client, in_hand, name, made["metadata"]["uid"])
        try:
            await _approve(client, made)
            certificate = await _signed(client, name, signer)
        except BaseException:
            await delete()
            raise
        await gather(delete, partial(keep, certificate))
        return certificate


async def _delete(client: Client, in_hand: SigningRequests, name: str, uid: str) -> None:
    async def once() -> None:
        with suppress(LiqodError):  # a failure is not the caller's
            await client.delete(SIGNING_REQUESTS, name, uid=uid)
            in_hand.gone(name)

    try:
        with trio.move_on_after(DELETE_DEADLINE):
            await once()
    finally:
        if name in in_hand:
            with trio.move_on_after(LAST_DELETE_DEADLINE, shield=True):
                await once()


async def _approve(client: Client, made: dict[str, Any]) -> None:
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "IdentityManagerApproval",
        "message": "the request was checked and approved by liqod",
    }
    approved = {**made, "status": {"conditions": [condition]}}
    await client.update(SIGNING_REQUESTS, approved, subresource="approval")


async def _signed(client: Client, name: str, signer: str) -> bytes:
    pause = FIRST_POLL
    with trio.move_on_after(SIGN_DEADLINE):
        while True:
            status = (await client.get(SIGNING_REQUESTS, name, decode=_SignedRequest)).status
            if status.certificate:
                return status.certificate
            for condition in status.conditions:
                if condition.type in ("Denied", "Failed"):
                    raise Invalid(f"the signer refused the request: {condition.message}")
            await trio.sleep(pause)
            pause = min(pause * 1.5, LAST_POLL)
    raise TransientError(f"no certificate within {SIGN_DEADLINE:g} s: does {signer} work here?")
