"""This cluster's key: one pair for all its identities, in the Secret ``authentication-keys``.

Liqo's commands and other daemons read it under the same name. It is made once, by the first
replica; replicas that race agree on the pair that the API server took.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.cluster.context import ClusterContext
from liqod.cluster.ownid import cluster_uid, notes
from liqod.errors import AlreadyExists, ConfigError, ProtocolError, TransientError
from liqod.identity import certificaterequests, certificates, keys, successions
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched
from liqod.model import ids
from liqod.model.objects.partial import Secret
from liqod.telemetry.events import KeysFailed

RETRY = 1.0
"""Seconds between tries while this cluster's API server does not answer."""


class ClusterKeys(msgspec.Struct, frozen=True):
    """The key pair of a cluster.

    Attributes:
        private: PEM PKCS#8.
        public: PEM PKIX, the public half of ``private``.
        former: the pair before, while a peer identifies this cluster by it alone; None for none.
        succession: the statement that this pair follows that one.
    """

    private: bytes
    public: bytes
    former: "ClusterKeys | None" = None
    succession: str = ""

    def of(self, certificate: bytes) -> "ClusterKeys":
        """The pair that a certificate is for; this one where it is for neither."""
        try:
            shown = certificates.read(certificate).public_key if self.former else b""
        except ProtocolError:
            shown = b""
        return self._with(shown)

    def requested_with(self, request: bytes) -> "ClusterKeys":
        """The pair that has made a request; this one where neither has."""
        try:
            shown = certificaterequests.inspect(request).public_key if self.former else b""
        except ProtocolError:
            shown = b""
        return self._with(shown)

    def _with(self, public: bytes) -> "ClusterKeys":
        former = self.former
        return former if former is not None and former.public == public else self

    def __repr__(self) -> str:
        """Without the private half: it may end up in a log."""
        return "ClusterKeys()"


def keyed_request(own: ClusterKeys, here: str) -> bytes:
    """The PEM request for a user of the control plane that belongs to no other key.

    Args:
        own: this cluster's keys.
        here: its id.
    """
    user = ids.keyed(here, keys.print_of(own.public))
    return certificaterequests.make_csr(own.private, user, labels.CONTROL_PLANE_GROUP)


def is_keyed_request(csr: bytes, own: ClusterKeys, here: str) -> bool:
    """True if a request is one of :func:`keyed_request`, for this very key."""
    user = ids.keyed(here, keys.print_of(own.public))
    group, public = labels.CONTROL_PLANE_GROUP, own.public
    try:
        certificaterequests.check(csr, common_name=user, organization=group, public_key=public)
    except ProtocolError:
        return False
    return True


def offer_of(own: ClusterKeys, here: str) -> str:
    """The offer that makes a provider follow from the former key to this one.

    It is the statement, and the requests that the provider is to sign from then on, as Liqo's and
    with the key in the name.

    Args:
        own: this cluster's keys, of which one is the former.
        here: its id.
    """
    plain = certificaterequests.make_csr(own.private, here, labels.CONTROL_PLANE_GROUP)
    texts = (b64encode(each).decode() for each in (plain, keyed_request(own, here)))
    return " ".join((own.succession, *texts))


async def cluster_keys(client: Client, namespace: str = labels.LIQO_NAMESPACE) -> ClusterKeys:
    """The cluster's keys; they are made if there are none.

    Raises:
        ConfigError: the Secret exists and holds no usable key; it is not overwritten, since every
            peer identifies this cluster by its key.
    """
    found = await client.find(SECRETS, labels.KEYS_SECRET, namespace, decode=Secret)
    if found is None:
        try:
            return await _make(client, namespace)
        except AlreadyExists:
            found = await client.get(SECRETS, labels.KEYS_SECRET, namespace, decode=Secret)
    return _usable(found, namespace)


async def keys_here(client: Client, namespace: str) -> ClusterKeys | None:
    """The cluster's keys; None where there are none, or none that can be used."""
    found = await client.find(SECRETS, labels.KEYS_SECRET, namespace, decode=Secret)
    try:
        return None if found is None else _usable(found, namespace)
    except ConfigError:
        return None


class CurrentKeys:
    """The cluster's keys as they are now, for a controller that has :attr:`watched` opened.

    Args:
        keys: the controller's keys to reconcile when the pair changes.

    Attributes:
        watched: the Secret; its informer is shared by all peers.
    """

    def __init__(self, context: ClusterContext, *keys: str) -> None:
        self._context = context
        fields = f"metadata.name={labels.KEYS_SECRET}"
        selection = Selection(context.namespace, fields=fields)
        self.watched: Watched[str] = Watched(SECRETS, lambda change: keys, selection)

    async def now(self) -> ClusterKeys:
        """The keys. Raises the same as :func:`cluster_keys`."""
        namespace = self._context.namespace
        found = self.watched.store.decode((namespace, labels.KEYS_SECRET), Secret)
        if found is None:  # not seen yet, or deleted: it is looked for, or made anew
            return await cluster_keys(self._context.client, namespace)
        return _usable(found, namespace)


def _usable(found: Secret, namespace: str) -> ClusterKeys:
    private = found.value(labels.PRIVATE_KEY_FIELD)
    before = found.value(labels.FORMER_KEY_FIELD)
    succession = found.value(labels.SUCCESSION_FIELD).decode(errors="replace")
    try:
        former = ClusterKeys(before, keys.public_pem(before)) if before else None
        return ClusterKeys(private, keys.public_pem(private), former, succession)
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


async def succeed(client: Client, namespace: str, cluster_id: str) -> ClusterKeys:
    """Make a new key the successor of this cluster's key, which is kept beside it.

    Raises:
        ConfigError: there is no usable key, or one is kept already.
        Conflict: the Secret has changed meanwhile.
    """
    found = await client.get(SECRETS, labels.KEYS_SECRET, namespace, decode=Secret)
    own = _usable(found, namespace)
    if own.former is not None:
        raise ConfigError("the key before is still kept: a peer knows this cluster by it")
    private = keys.generate_like(own.private)
    made = ClusterKeys(
        private,
        keys.public_pem(private),
        ClusterKeys(own.private, own.public),
        successions.state(cluster_id, own.private, private),
    )
    data = {
        labels.PRIVATE_KEY_FIELD: made.private,
        labels.PUBLIC_KEY_FIELD: made.public,
        labels.FORMER_KEY_FIELD: own.private,
        labels.SUCCESSION_FIELD: made.succession.encode(),
    }
    await _write(client, namespace, found, data)
    return made


async def forget_former(client: Client, namespace: str, former: ClusterKeys) -> None:
    """Destroy a key by which no peer identifies this cluster any more."""
    found = await client.get(SECRETS, labels.KEYS_SECRET, namespace, decode=Secret)
    if found.value(labels.FORMER_KEY_FIELD) == former.private:
        # The statement stays, for peers that get it later.
        await _write(client, namespace, found, {labels.FORMER_KEY_FIELD: None})


async def _write(
    client: Client, namespace: str, found: Secret, data: Mapping[str, bytes | None]
) -> None:
    """Write all at once, over the very version that was read."""
    encoded = {key: each and b64encode(each).decode() for key, each in data.items()}
    meta = found.metadata
    version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    patch: dict[str, Any] = {"metadata": version, "data": encoded}
    await client.patch(SECRETS, labels.KEYS_SECRET, patch, namespace)


class KeyBootstrap:
    """Makes sure, before the peers start, that this cluster has its keys."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Make the keys if they are missing; then there is nothing more to do.

        Raises:
            ConfigError: as :func:`cluster_keys`.
        """
        while True:
            try:
                await cluster_keys(self._context.client, self._context.namespace)
                await self._note_id()
                break
            except TransientError as error:
                self._context.hub.publish(KeysFailed(failed=str(error)))
                await trio.sleep(RETRY)
        task_status.started()
        await trio.sleep_forever()
        raise AssertionError("sleeping for ever has ended")

    async def _note_id(self) -> None:
        """Keep with the key the id by which peers identify it, so that it is not mistaken."""
        client, namespace = self._context.client, self._context.namespace
        noted = await notes(client, namespace)
        if not noted.keys() >= {labels.KNOWN_AS, labels.KNOWN_IN}:
            uid = noted.get(labels.KNOWN_IN) or await cluster_uid(client)
            note = {
                "annotations": {labels.KNOWN_AS: self._context.cluster_id, labels.KNOWN_IN: uid}
            }
            await client.patch(SECRETS, labels.KEYS_SECRET, {"metadata": note}, namespace)
