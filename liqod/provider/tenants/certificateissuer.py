"""Client certificates for consumers, by the CSR API of Kubernetes.

A request that :mod:`liqod.provider.tenants.trust` has checked is signed
(:mod:`liqod.identity.signingrequests`), and the result kept in a Secret, so that a daemon that
comes after us neither signs again nor forgets. At
:attr:`renew_at <liqod.config.CertificateSettings.renew_at>` of its life a certificate is issued
    anew for
the same request.
"""

import hashlib
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.errors import ProtocolError
from liqod.identity import certificaterequests, certificates, keys
from liqod.identity.signingrequests import SigningRequests, labels_of, sign
from liqod.kube.client import Client
from liqod.model.objects.partial import Secret

LEAST_INTERVAL = 5.0
"""Seconds between two certificates for one order: signers backdate what they sign, so a renewal
point early in a short life may be over before the certificate exists."""
CERTIFICATE_FIELD = "certificate"
CSR_FIELD = "csr"


class Order(msgspec.Struct, frozen=True):
    """A certificate to issue, and the Secret that keeps it.

    Attributes:
        peer: the consumer's id.
        namespace: its tenant namespace here.
        secret: name of the Secret that keeps the certificate.
        csr: the request, PEM, already checked.
        owner: owner reference of the Secret, as JSON.
        authority: PEM of this API server's authorities, as given to consumers. When they are
            others, former certificates may be worth nothing, so it is signed anew.
        barren: nothing is given with it. One with which something is, is another: what was issued
            under a cordon is no proof that something was given before.
    """

    peer: str
    namespace: str
    secret: str
    csr: bytes
    owner: dict[str, Any]
    authority: bytes = b""
    barren: bool = False

    @property
    def era(self) -> str:
        """SHA-256 of the authorities, hexadecimal, to detect a change of them."""
        return hashlib.sha256(self.authority).hexdigest()


class IssuedCertificate(msgspec.Struct, frozen=True):
    """A certificate for an order.

    Attributes:
        certificate: PEM.
        renew_in: seconds until it is due for renewal, above 0.
    """

    certificate: bytes
    renew_in: float


def _serves(kept: Secret, order: Order) -> bool:
    """True if a kept certificate is for this very order, and the authorities are the same."""
    data, annotations = kept.data or {}, kept.metadata.annotations
    barren = labels.BARREN in annotations
    if data.get(CSR_FIELD) != order.csr or barren != order.barren:
        return False
    era = annotations.get(labels.SIGNED_UNDER)
    if era is None:  # of a version that did not note it, or of Liqo
        return certificates.is_issued_by(data.get(CERTIFICATE_FIELD, b""), order.authority)
    return era == order.era


class CertificateIssuer:
    """Issues certificates and keeps them.

    Args:
        client: a client that may create, approve and delete signing requests.
        in_hand: holds those that are being worked on.
        lifetime: seconds to request, 0 to leave it to the signer.
        renew_at: the part of a certificate's life after which it is renewed.
        now: the clock, epoch seconds.
    """

    def __init__(
        self,
        client: Client,
        in_hand: SigningRequests,
        *,
        lifetime: int = 0,
        renew_at: float = 2 / 3,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._in_hand = in_hand
        self._lifetime = lifetime
        self._renew_at = renew_at
        self._now = now
        self._signed: dict[tuple[str, str], float] = {}

    async def issue(self, order: Order) -> IssuedCertificate:
        """The certificate that is kept for the order, or a new one if none is or it is due.

        Raises:
            Invalid: the signer refused.
            ProtocolError: it signed something else.
            TransientError: it did not answer within 30 s.
        """
        kept = await self._client.find(SECRETS, order.secret, order.namespace, decode=Secret)
        if kept is not None and _serves(kept, order):
            certificate = kept.value(CERTIFICATE_FIELD)
            left = self._left(certificate, order.csr)
            if left is not None and (left := max(left, self._pause(order))) > 0:
                return IssuedCertificate(certificate, left)
        certificate = await sign(
            self._client,
            order.csr,
            labels_of(order.peer),
            in_hand=self._in_hand,
            lifetime=self._lifetime,
            keep=partial(self._keep, order, kept),
        )
        self._note(order)
        left = self._left(certificate, order.csr)
        if left is None:
            raise ProtocolError("the signer gave a certificate for another key")
        return IssuedCertificate(certificate, max(left, LEAST_INTERVAL))

    def _note(self, order: Order) -> None:
        """Record the time of a signature; slices come and go: those without a pause are dropped."""
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
            if not keys.same_public(facts.public_key, certificaterequests.inspect(csr).public_key):
                return None
        except ProtocolError:
            return None
        return certificates.renewal(facts, self._renew_at) - self._now()

    async def _keep(self, order: Order, kept: Secret | None, certificate: bytes) -> None:
        marks: dict[str, str | None] = {labels.SIGNED_UNDER: order.era}
        if order.barren:
            marks[labels.BARREN] = labels.TRUE
        elif kept is not None and labels.BARREN in kept.metadata.annotations:
            marks[labels.BARREN] = None
        secret = {
            "metadata": {
                "name": order.secret,
                "namespace": order.namespace,
                "labels": {
                    labels.MANAGED: labels.TRUE,
                    labels.REMOTE_CLUSTER_ID: order.peer,
                },
                "annotations": marks,
                "ownerReferences": [order.owner],
            },
            "type": "Opaque",
            "data": {
                CERTIFICATE_FIELD: b64encode(certificate).decode(),
                CSR_FIELD: b64encode(order.csr).decode(),
            },
        }
        if kept is not None:
            del secret["type"]
            await self._client.patch(SECRETS, order.secret, secret, order.namespace)
        else:
            await self._client.create(SECRETS, secret, order.namespace)
