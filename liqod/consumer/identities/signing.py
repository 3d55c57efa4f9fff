"""Signs the nonces of providers with this cluster's key.

A writer of Secrets in a tenant namespace could have anything signed; so only text in the form of
a nonce is: short base64, which no certificate, request or token can be mistaken for.

A signed nonce has done its work when the provider has given an Identity for it, and goes then:
``liqoctl`` would refuse to sign another nonce of that provider as long as it exists.
"""

import re
from base64 import b64encode

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.consumer.identities.clusterkeys import CurrentKeys
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.identity import keys
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_name
from liqod.model import ids
from liqod.model.objects.partial import Secret
from liqod.peers.peer import Peer
from liqod.resources import IDENTITIES
from liqod.telemetry.events import NonceSigned

NONCE = re.compile(rb"[A-Za-z0-9+/]{16,256}={0,2}")
"""Base64 text; Liqo's nonces have 88 characters."""


class SignedNonce(Secret, frozen=True):
    """A Secret with a nonce to sign, and its signature."""

    @property
    def nonce(self) -> bytes:
        """The text to sign; empty if there is none."""
        return self.value(labels.NONCE_FIELD)

    @property
    def signature(self) -> bytes:
        """The signature; empty if there is none."""
        return self.value(labels.SIGNED_NONCE_FIELD)


def _signature(change: StoreChange) -> tuple[str]:
    """An Identity came or went: the signature for which it was given may have been used."""
    return (labels.SIGNED_NONCE_SECRET,)


def is_nonce(text: bytes) -> bool:
    """True if a text looks like a nonce, so that it may be signed."""
    return NONCE.fullmatch(text) is not None


class Signing(Controller[str]):
    """Signs the nonces in one peer's tenant namespace.

    Args:
        peer: the provider.
    """

    def __init__(self, peer: Peer, timings: ConsumerTimings = ORDINARY) -> None:
        self._peer, self._timings = peer, timings
        namespace = peer.tenant_namespace
        self._own = CurrentKeys(peer.context)
        self._secrets = Watched(SECRETS, by_name, Selection(namespace))
        self._identities = Watched(IDENTITIES, _signature, within=(namespace,))
        self._used: dict[str, float] = {}
        """The time when a signature was first seen to have been used, by the UID of its Secret."""
        super().__init__(peer, "signing", self._own.watched, self._secrets, self._identities)

    async def reconcile(self, name: str) -> float | None:
        """Sign the nonce in a Secret, or delete it a while after its signature was used."""
        secret = self._secrets.store.decode((self._peer.tenant_namespace, name), SignedNonce)
        if secret is None or secret.metadata.labels.get(labels.SIGNED_NONCE) != labels.TRUE:
            return None
        if not secret.nonce or secret.metadata.deletion_timestamp:
            return None
        if not is_nonce(secret.nonce):
            self._peer.report(NonceSigned(secret=name, refused="this is no nonce"))
            return None
        own = await self._own.now()
        if secret.signature and keys.verify(own.public, secret.nonce, secret.signature):
            return await self._forget(name, secret.metadata.uid)
        signature = b64encode(keys.sign(own.private, secret.nonce)).decode()
        patch = {"data": {labels.SIGNED_NONCE_FIELD: signature}}
        await self._peer.context.client.patch(SECRETS, name, patch, self._peer.tenant_namespace)
        self._peer.report(NonceSigned(secret=name))
        return None

    async def _forget(self, name: str, uid: str) -> float | None:
        """Delete a signature a while after it has done its work; seconds until then.

        At once where the Identity has gone again: the next nonce may differ.
        """
        namespace = self._peer.tenant_namespace
        given = (namespace, ids.control_plane_identity(self._peer.id)) in self._identities.store
        if name != labels.SIGNED_NONCE_SECRET or not (given or uid in self._used):
            return None
        now = trio.current_time()
        left = self._used.setdefault(uid, now) + self._timings.signature_kept - now
        if given and left > 0:
            return left
        await self._peer.context.client.delete(SECRETS, name, namespace, uid=uid)
        del self._used[uid]
        return None
