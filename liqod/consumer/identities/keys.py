"""This cluster's key: one pair for all its identities, in the Secret ``authentication-keys``.

Liqo's commands and other daemons read it under the same name. It is made once, by whoever comes
first; replicas that race agree on what the API server took.
"""

from base64 import b64encode
from typing import NoReturn

import msgspec
import trio

from liqod.context import ClusterContext
from liqod.errors import AlreadyExists, ConfigError, ProtocolError, TransientError
from liqod.identity import keys
from liqod.inspect.events import KeysFailed
from liqod.kube.client import Client
from liqod.kube.kinds import SECRETS
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched
from liqod.model import labels
from liqod.ownid import known_as

RETRY = 1.0
"""Seconds between tries while this cluster's API server does not answer."""


class ClusterKeys(msgspec.Struct, frozen=True):
    """The key pair of a cluster.

    Attributes:
        private: PEM PKCS#8.
        public: PEM PKIX, the public half of ``private``.
    """

    private: bytes
    public: bytes

    def __repr__(self) -> str:
        """Without the private half: it may end up in a log."""
        return "ClusterKeys()"


class _KeysSecret(msgspec.Struct, frozen=True):
    data: dict[str, bytes] = {}


async def cluster_keys(client: Client, namespace: str = labels.LIQO_NAMESPACE) -> ClusterKeys:
    """The cluster's keys; they are made if there are none.

    Raises:
        ConfigError: the Secret exists and holds no usable key; it is not overwritten, since every
            peer knows this cluster by its key.
    """
    found = await client.find(SECRETS, labels.KEYS_SECRET, namespace, decode=_KeysSecret)
    if found is None:
        try:
            return await _make(client, namespace)
        except AlreadyExists:
            found = await client.get(SECRETS, labels.KEYS_SECRET, namespace, decode=_KeysSecret)
    return _usable(found, namespace)


class OwnKeys:
    """The cluster's keys as they are now, for a controller that has :attr:`watched` opened.

    Args:
        home: this cluster.

    Attributes:
        watched: the Secret; its informer is shared by all peers.
    """

    def __init__(self, home: ClusterContext) -> None:
        self._home = home
        fields = f"metadata.name={labels.KEYS_SECRET}"
        self.watched: Watched[str] = Watched(
            SECRETS, selection=Selection(home.namespace, fields=fields)
        )

    async def now(self) -> ClusterKeys:
        """The keys. Raises the same as :func:`cluster_keys`."""
        namespace = self._home.namespace
        found = self.watched.store.decode((namespace, labels.KEYS_SECRET), _KeysSecret)
        if found is None:  # not seen yet, or deleted: it is looked for, or made anew
            return await cluster_keys(self._home.client, namespace)
        return _usable(found, namespace)


def _usable(found: _KeysSecret, namespace: str) -> ClusterKeys:
    private = found.data.get(labels.PRIVATE_KEY_FIELD, b"")
    try:
        return ClusterKeys(private, keys.public_pem(private))
    except ProtocolError as error:
        raise ConfigError(
            f"the Secret {namespace}/{labels.KEYS_SECRET} holds no usable key: {error};"
            " delete it to have a new one made (every peering must then be made again)"
        ) from error


async def _make(client: Client, namespace: str) -> ClusterKeys:
    private = keys.generate()
    made = ClusterKeys(private, keys.public_pem(private))
    secret = {
        "metadata": {
            "name": labels.KEYS_SECRET,
            "namespace": namespace,
            "labels": {labels.MANAGED: labels.TRUE},
        },
        "type": "Opaque",
        "data": {
            labels.PRIVATE_KEY_FIELD: b64encode(made.private).decode(),
            labels.PUBLIC_KEY_FIELD: b64encode(made.public).decode(),
        },
    }
    await client.create(SECRETS, secret, namespace)
    return made


class Keys:
    """Makes sure, before the peers start, that this cluster has its keys.

    Args:
        home: this cluster.
    """

    def __init__(self, home: ClusterContext) -> None:
        self._home = home

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Make the keys if they are missing; then there is nothing more to do.

        Raises:
            ConfigError: as :func:`cluster_keys`.
        """
        while True:
            try:
                await cluster_keys(self._home.client, self._home.namespace)
                await self._note_id()
                break
            except TransientError as error:
                self._home.hub.publish(KeysFailed(failed=str(error)))
                await trio.sleep(RETRY)
        task_status.started()
        await trio.sleep_forever()
        raise AssertionError("sleeping for ever has ended")

    async def _note_id(self) -> None:
        """Keep with the key the id by which peers come to know it, so that it is not mistaken."""
        client, namespace = self._home.client, self._home.namespace
        if not await known_as(client, namespace):
            note = {"annotations": {labels.KNOWN_AS: self._home.cluster_id}}
            await client.patch(SECRETS, labels.KEYS_SECRET, {"metadata": note}, namespace)
