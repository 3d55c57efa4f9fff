"""Signs the nonces of providers with this cluster's key.

Whoever can write a Secret in a tenant namespace could have anything signed; so only what looks like
a nonce is: short base64 text, which no certificate, request or token can be mistaken for.
"""

import re
from base64 import b64encode
from contextlib import AsyncExitStack
from typing import NoReturn

import msgspec
import trio

from liqod.consumer.keys import own_keys
from liqod.home import Peer
from liqod.identity import keys
from liqod.kube.kinds import SECRETS
from liqod.kube.meta import ObjectMeta
from liqod.kube.queue import KeyedQueue
from liqod.kube.store import Change
from liqod.model import labels

NONCE = re.compile(rb"[A-Za-z0-9+/]{16,256}={0,2}")
"""Base64 text; Liqo's nonces have 88 characters."""


class SignedNonce(msgspec.Struct, frozen=True):
    """A Secret with a nonce to sign, and its signature."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, bytes] | None = None

    @property
    def nonce(self) -> bytes:
        """The text to sign; empty if there is none."""
        return (self.data or {}).get(labels.NONCE_FIELD, b"")

    @property
    def signature(self) -> bytes:
        """The signature; empty if there is none."""
        return (self.data or {}).get(labels.SIGNED_NONCE_FIELD, b"")


def is_nonce(text: bytes) -> bool:
    """Whether a text may be signed."""
    return NONCE.fullmatch(text) is not None


class Signing:
    """Signs the nonces in one peer's tenant namespace.

    Args:
        peer: the provider.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._queue: KeyedQueue[str] = KeyedQueue()

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Sign until cancelled."""
        namespace = self._peer.tenant_namespace
        async with AsyncExitStack() as stack:
            secrets = await stack.enter_async_context(
                self._peer.home.informers.share(SECRETS, namespace)
            )
            self._own = await stack.enter_async_context(own_keys(self._peer.home))
            self._store = secrets.store
            stack.callback(secrets.subscribe(self._on_secret, namespace=namespace))
            await self._queue.run(
                self._sign, on_error=self._peer.failures("signing"), task_status=task_status
            )
        raise AssertionError("a queue never ends")

    def _on_secret(self, change: Change) -> None:
        if change.new is not None:
            self._queue.add(change.key[1])

    async def _sign(self, name: str) -> None:
        secret = self._store.decode((self._peer.tenant_namespace, name), SignedNonce)
        if secret is None or secret.metadata.labels.get(labels.SIGNED_NONCE) != labels.TRUE:
            return
        if not secret.nonce or secret.metadata.deletion_timestamp:
            return
        if not is_nonce(secret.nonce):
            self._peer.report("signing", secret=name, refused="this is no nonce")
            return
        own = await self._own()
        if secret.signature and keys.verify(own.public, secret.nonce, secret.signature):
            return
        signature = b64encode(keys.sign(own.private, secret.nonce)).decode()
        patch = {"data": {labels.SIGNED_NONCE_FIELD: signature}}
        await self._peer.home.client.patch(SECRETS, name, patch, self._peer.tenant_namespace)
        self._peer.report("signing", secret=name)
