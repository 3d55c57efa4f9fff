"""Client certificates for consumers, by the CSR API of Kubernetes.

A request that :mod:`liqod.provider.trust` has checked is put to the API server's own signer,
approved by us, and the result kept in a Secret, so that a daemon that comes after us neither signs
again nor forgets. At :attr:`renew_at <liqod.config.Certificates.renew_at>` of its life a
certificate is issued anew for the same request.
"""

import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import trio

from liqod.errors import Invalid, LiqodError, ProtocolError, TransientError
from liqod.identity import certificates, keys, requests
from liqod.kube.client import Client
from liqod.kube.kinds import SECRETS, SIGNING_REQUESTS
from liqod.model import labels
from liqod.together import together

SIGNER = "kubernetes.io/kube-apiserver-client"
USAGES = ("digital signature", "key encipherment", "client auth")
SIGN_DEADLINE = 30.0
"""Seconds that the signer has, as in Liqo."""
FIRST_POLL, LAST_POLL = 0.02, 1.0
DELETE_DEADLINE = 20.0
"""Seconds for deleting a signing request; Kubernetes drops what stays an hour later."""
LAST_DELETE_DEADLINE = 2.0
"""The same once we are cancelled: a leader that lost its Lease must have stopped before another may
lead."""
LEAST_INTERVAL = 5.0
"""Seconds between two certificates for one order: signers backdate what they sign, so a renewal
point early in a short life may be over before the certificate is there."""
CERTIFICATE_FIELD = "certificate"
CSR_FIELD = "csr"


class Order(msgspec.Struct, frozen=True):
    """What is to be issued, and where it is kept.

    Attributes:
        peer: the consumer's id.
        namespace: its tenant namespace here.
        secret: name of the Secret that keeps the certificate.
        csr: the request, PEM, already checked.
        owner: owner reference of the Secret, as JSON.
    """

    peer: str
    namespace: str
    secret: str
    csr: bytes
    owner: dict[str, Any]


class Issued(msgspec.Struct, frozen=True):
    """A certificate for an order.

    Attributes:
        certificate: PEM.
        renew_in: seconds until it is due for renewal, above 0.
    """

    certificate: bytes
    renew_in: float


class _Kept(msgspec.Struct, frozen=True):
    data: dict[str, bytes] = {}


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class _RequestStatus(msgspec.Struct, frozen=True):
    certificate: bytes = b""
    conditions: tuple[_Condition, ...] = ()


class _Request(msgspec.Struct, frozen=True):
    status: _RequestStatus = _RequestStatus()


class Certificates:
    """Issues certificates and keeps them.

    Args:
        client: a client that may create, approve and delete signing requests.
        lifetime: seconds to ask for, 0 to leave it to the signer.
        renew_at: the part of a certificate's life after which it is renewed.
        now: the clock, epoch seconds.
    """

    def __init__(
        self,
        client: Client,
        *,
        lifetime: int = 0,
        renew_at: float = 2 / 3,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._lifetime = lifetime
        self._renew_at = renew_at
        self._now = now
        self._signed: dict[tuple[str, str], float] = {}

    async def issue(self, order: Order) -> Issued:
        """The certificate that is kept for the order, or a new one if none is or it is due.

        Raises:
            Invalid: the signer refused.
            ProtocolError: it signed something else.
            TransientError: it did not answer within 30 s.
        """
        kept = await self._client.find(SECRETS, order.secret, order.namespace, decode=_Kept)
        if kept is not None and kept.data.get(CSR_FIELD) == order.csr:
            certificate = kept.data.get(CERTIFICATE_FIELD, b"")
            left = self._left(certificate, order.csr)
            if left is not None and (left := max(left, self._pause(order))) > 0:
                return Issued(certificate, left)
        certificate = await sign(
            self._client,
            order.csr,
            labels_of(order.peer),
            lifetime=self._lifetime,
            keep=partial(self._keep, order, exists=kept is not None),
        )
        self._note(order)
        left = self._left(certificate, order.csr)
        if left is None:
            raise ProtocolError("the signer gave a certificate for another key")
        return Issued(certificate, max(left, LEAST_INTERVAL))

    def _note(self, order: Order) -> None:
        """It was signed now. Slices come and go: what needs no pause any more is forgotten."""
        now = self._now()
        recent = {key: at for key, at in self._signed.items() if now - at < LEAST_INTERVAL}
        self._signed = {**recent, (order.namespace, order.secret): now}

    def _pause(self, order: Order) -> float:
        """Seconds until the order may be signed again."""
        signed = self._signed.get((order.namespace, order.secret), float("-inf"))
        return signed + LEAST_INTERVAL - self._now()

    def _left(self, certificate: bytes, csr: bytes) -> float | None:
        """Seconds until a certificate is due for renewal; None if it is none for this request."""
        try:
            facts = certificates.read(certificate)
            if not keys.same_public(facts.public_key, requests.inspect(csr).public_key):
                return None
        except ProtocolError:
            return None
        return certificates.renewal(facts, self._renew_at) - self._now()

    async def _keep(self, order: Order, certificate: bytes, *, exists: bool) -> None:
        secret = {
            "metadata": {
                "name": order.secret,
                "namespace": order.namespace,
                "labels": {
                    labels.MANAGED: labels.TRUE,
                    labels.REMOTE_CLUSTER_ID: order.peer,
                },
                "ownerReferences": [order.owner],
            },
            "type": "Opaque",
            "data": {
                CERTIFICATE_FIELD: b64encode(certificate).decode(),
                CSR_FIELD: b64encode(order.csr).decode(),
            },
        }
        if exists:
            del secret["type"]
            await self._client.patch(SECRETS, order.secret, secret, order.namespace)
        else:
            await self._client.create(SECRETS, secret, order.namespace)


def labels_of(peer: str) -> dict[str, str]:
    """Labels of the signing request of a consumer."""
    return {labels.REMOTE_TENANT_CSR: labels.TRUE, labels.REMOTE_CLUSTER_ID: peer}


async def _not_kept(_: bytes) -> None:
    """The caller keeps the certificate itself."""


async def sign(
    client: Client,
    csr: bytes,
    request_labels: dict[str, str],
    *,
    lifetime: int = 0,
    keep: Callable[[bytes], Awaitable[None]] = _not_kept,
) -> bytes:
    """Have the API server's signer sign a request that the caller vouches for.

    The signing request is deleted, whatever comes of it, while the certificate is kept.

    Args:
        client: may create, approve and delete signing requests.
        csr: the request, PEM.
        request_labels: labels of the signing request.
        lifetime: seconds to ask for, 0 to leave it to the signer.
        keep: keeps the certificate.

    Raises:
        Invalid: the signer refused.
        TransientError: it did not answer within 30 s.
    """
    spec: dict[str, Any] = {
        "request": b64encode(csr).decode(),
        "signerName": SIGNER,
        "usages": list(USAGES),
    }
    if lifetime:
        spec["expirationSeconds"] = lifetime
    body = {
        "metadata": {"generateName": labels.CSR_NAME_PREFIX, "labels": request_labels},
        "spec": spec,
    }
    made = await client.create_full(SIGNING_REQUESTS, body)
    delete = partial(_delete, client, made["metadata"]["name"], made["metadata"]["uid"])
    try:
        await _approve(client, made)
        certificate = await _signed(client, made["metadata"]["name"])
    except BaseException:
        await delete()
        raise
    await together(delete, partial(keep, certificate))
    return certificate


async def _delete(client: Client, name: str, uid: str) -> None:
    delete = partial(client.delete, SIGNING_REQUESTS, name, uid=uid)
    tried = False
    try:
        with trio.move_on_after(DELETE_DEADLINE):
            tried = await _tried(delete)
    finally:
        if not tried:
            with trio.move_on_after(LAST_DELETE_DEADLINE, shield=True):
                await _tried(delete)


async def _tried(delete: Callable[[], Awaitable[object]]) -> bool:
    """Whether it is done; if not, the failure is not the caller's."""
    try:
        await delete()
    except LiqodError:
        return False
    return True


async def _approve(client: Client, made: dict[str, Any]) -> None:
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "IdentityManagerApproval",
        "message": "the request was checked and approved by liqod",
    }
    approved = {**made, "status": {"conditions": [condition]}}
    await client.update(SIGNING_REQUESTS, approved, subresource="approval")


async def _signed(client: Client, name: str) -> bytes:
    pause = FIRST_POLL
    with trio.move_on_after(SIGN_DEADLINE):
        while True:
            status = (await client.get(SIGNING_REQUESTS, name, decode=_Request)).status
            if status.certificate:
                return status.certificate
            for condition in status.conditions:
                if condition.type in ("Denied", "Failed"):
                    raise Invalid(f"the signer refused the request: {condition.message}")
            await trio.sleep(pause)
            pause = min(pause * 1.5, LAST_POLL)
    raise TransientError(f"no certificate within {SIGN_DEADLINE:g} s: does {SIGNER} work here?")
