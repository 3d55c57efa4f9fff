"""The nonce that a consumer has to sign: requested by an empty Secret, filled here.

64 random bytes, kept as their base64 text: it is the text that is signed. A value that the
requester has put in is replaced, or it could choose a text that it has had signed already: the
tenant namespace keeps the digest of the nonce that was made here.
"""

import hashlib
import secrets
from base64 import b64encode

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.kube.client import Client
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_name
from liqod.model.objects.partial import Secret
from liqod.peers.peer import Peer
from liqod.telemetry.events import NonceMade

NONCE_BYTES = 64


class NonceSecret(Secret, frozen=True):
    """A Secret that requests, or holds, a nonce."""

    @property
    def nonce(self) -> bytes:
        """The text that is to be signed; empty if there is none yet."""
        return self.value(labels.NONCE_FIELD)


def new_nonce() -> bytes:
    """A nonce as it is kept and signed: base64 text of 64 random bytes."""
    return b64encode(secrets.token_bytes(NONCE_BYTES))


async def is_ours(client: Client, namespace: str, nonce: bytes) -> bool:
    """True if a nonce is the one that was made here last for that tenant namespace."""
    live = await client.find(NAMESPACES, namespace, decode=Partial)
    return live is not None and live.metadata.annotations.get(labels.NONCE_DIGEST) == _digest(nonce)


def _digest(nonce: bytes) -> str:
    return hashlib.sha256(nonce).hexdigest()


class Nonces(Controller[str]):
    """Fills the nonces of one peer's tenant namespace.

    Args:
        peer: the consumer.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._client = peer.context.client
        namespace = peer.tenant_namespace
        self._secrets = Watched(SECRETS, by_name, Selection(namespace))
        super().__init__(peer, "nonce", self._secrets)

    async def reconcile(self, name: str) -> None:
        """Fill a Secret that requests a nonce, or holds one that was not made here."""
        namespace = self._peer.tenant_namespace
        secret = self._secrets.store.decode((namespace, name), NonceSecret)
        if name != labels.NONCE_SECRET or secret is None or secret.metadata.deletion_timestamp:
            return
        if secret.metadata.labels.get(labels.NONCE) != labels.TRUE:
            return
        if secret.nonce and await is_ours(self._client, namespace, secret.nonce):
            return
        nonce = new_nonce()
        mark = {"metadata": {"annotations": {labels.NONCE_DIGEST: _digest(nonce)}}}
        await self._client.patch(NAMESPACES, namespace, mark)
        patch = {
            # The version makes a second filling of the same Secret fail instead of replacing.
            "metadata": {"resourceVersion": secret.metadata.resource_version},
            "data": {labels.NONCE_FIELD: b64encode(nonce).decode()},
        }
        await self._client.patch(SECRETS, name, patch, namespace)
        self._peer.report(NonceMade(secret=name))
