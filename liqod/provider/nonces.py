"""The nonce that a consumer has to sign: asked for by an empty Secret, filled here.

64 random bytes, kept as their base64 text: it is the text that is signed.
"""

import secrets
from base64 import b64encode
from typing import NoReturn

import msgspec
import trio

from liqod.home import Peer
from liqod.kube.kinds import SECRETS
from liqod.kube.meta import ObjectMeta
from liqod.kube.queue import KeyedQueue
from liqod.kube.store import Change
from liqod.model import labels

NONCE_BYTES = 64


class NonceSecret(msgspec.Struct, frozen=True):
    """A Secret that asks for, or holds, a nonce."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, bytes] | None = None

    @property
    def nonce(self) -> bytes:
        """The text that is to be signed; empty if it is not there yet."""
        return (self.data or {}).get(labels.NONCE_FIELD, b"")


def new_nonce() -> bytes:
    """A nonce as it is kept and signed: base64 text of 64 random bytes."""
    return b64encode(secrets.token_bytes(NONCE_BYTES))


class Nonces:
    """Fills the nonces of one peer's tenant namespace.

    Args:
        peer: the consumer.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._queue: KeyedQueue[str] = KeyedQueue()

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Fill nonces until cancelled."""
        namespace = self._peer.tenant_namespace
        async with self._peer.home.informers.share(SECRETS, namespace) as informer:
            self._store = informer.store
            unsubscribe = informer.subscribe(self._on_secret, namespace=namespace)
            try:
                await self._queue.run(
                    self._fill, on_error=self._peer.failures("nonce"), task_status=task_status
                )
            finally:
                unsubscribe()
        raise AssertionError("a queue never ends")

    def _on_secret(self, change: Change) -> None:
        if change.new is not None:
            self._queue.add(change.key[1])

    async def _fill(self, name: str) -> None:
        secret = self._store.decode((self._peer.tenant_namespace, name), NonceSecret)
        if secret is None or secret.nonce or secret.metadata.deletion_timestamp:
            return
        if secret.metadata.labels.get(labels.NONCE) != labels.TRUE:
            return
        patch = {
            # The version makes a second filling of the same Secret fail instead of replacing.
            "metadata": {"resourceVersion": secret.metadata.resource_version},
            "data": {labels.NONCE_FIELD: b64encode(new_nonce()).decode()},
        }
        await self._peer.home.client.patch(SECRETS, name, patch, self._peer.tenant_namespace)
        self._peer.report("nonce", secret=name)
