"""This cluster's keys at each tunnel: the private one in its own place, the public one shown.

A peering user reads the Secrets of its tenant namespace, and Liqo's tools the public key from the
one that is named after the gateway. So that one has the public key alone. The private key is in
liqod's own namespace; it also is the record that something of that peer's may be on this machine,
and goes last.
"""

from base64 import b64encode
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.apimachinery.meta import owner_reference
from liqod.errors import AlreadyExists, ProtocolError
from liqod.identity import tunnelkeys
from liqod.identity.tunnelkeys import TunnelKeys
from liqod.kube.client import Client
from liqod.kube.ensure import ensure
from liqod.model import ids
from liqod.model.objects.partial import Secret
from liqod.network.gateway.gatewayobjects import Object


class KeySecret(Secret, frozen=True):
    """A Secret with keys of a tunnel."""

    @property
    def private(self) -> bytes:
        """The private key; empty where there is none."""
        return self.value(labels.PRIVATE_KEY_FIELD)

    @property
    def public(self) -> bytes:
        """The public key; empty where there is none."""
        return self.value(labels.PUBLIC_KEY_FIELD)


async def keys_of(
    client: Client, peer: str, tenant_namespace: str, own: str, given: str = ""
) -> TunnelKeys:
    """The keys at the tunnel to a peer; made where there are none.

    Args:
        client: of this cluster.
        peer: its id.
        tenant_namespace: where Liqo may have left keys, and where ``given`` is.
        own: liqod's own namespace.
        given: name of a Secret of the tenant namespace with the keys that are to be used.

    Raises:
        ProtocolError: the given Secret, or ours, has no private key in it.
    """
    if given:
        named = await client.get(SECRETS, given, tenant_namespace, decode=KeySecret)
        return tunnelkeys.of_private(named.private)
    name = ids.gateway_resource(peer)
    kept = await client.find(SECRETS, name, own, decode=KeySecret)
    if kept is None:
        # A Liqo that ran here before: its peers have the key.
        left = await client.find(SECRETS, name, tenant_namespace, decode=KeySecret)
        before = left.private if left is not None else b""
        keys = tunnelkeys.of_private(before) if before else tunnelkeys.generate()
        try:
            await client.create(SECRETS, private_secret(peer, keys), own)
        except AlreadyExists:
            kept = await client.get(SECRETS, name, own, decode=KeySecret)
        else:
            return keys
    if kept.metadata.labels.get(labels.TUNNEL) != labels.TRUE:
        raise ProtocolError(f"the Secret {own}/{name} is not ours: it is left alone")
    return tunnelkeys.of_private(kept.private)


async def show(client: Client, gateway: Object, public: bytes, live: bytes | None) -> None:
    """Have the Secret from which peers read the public key; what Liqo left in it goes.

    Args:
        client: of this cluster.
        gateway: the owner; the key is deleted with it.
        public: the key.
        live: the Secret as the store has it.
    """
    wanted = public_secret(gateway, public)
    await ensure(client, SECRETS, wanted, live=live, adopt=True)
    if live is not None and msgspec.json.decode(live, type=KeySecret).private:
        nothing = {"data": {labels.PRIVATE_KEY_FIELD: None}}
        await client.patch(SECRETS, wanted["metadata"]["name"], nothing, gateway.namespace)


async def kept(
    client: Client, peer: str, tenant_namespace: str, own: str, given: str = ""
) -> TunnelKeys | None:
    """As :func:`keys_of`, of keys that are there already; None while they are not.

    Raises:
        ProtocolError: the Secret has no private key in it.
    """
    name, place = (given, tenant_namespace) if given else (ids.gateway_resource(peer), own)
    found = await client.find(SECRETS, name, place, decode=KeySecret)
    if found is None or not (given or found.metadata.labels.get(labels.TUNNEL) == labels.TRUE):
        return None
    return tunnelkeys.of_private(found.private)


async def is_kept(client: Client, peer: str, own: str) -> bool:
    """True if there is a private key: objects of that peer may be on this machine."""
    kept = await client.find(SECRETS, ids.gateway_resource(peer), own, decode=KeySecret)
    return kept is not None and kept.metadata.labels.get(labels.TUNNEL) == labels.TRUE


async def forget(client: Client, peer: str, own: str) -> None:
    """Delete the private key, when nothing on this machine is that peer's any more."""
    kept = await client.find(SECRETS, ids.gateway_resource(peer), own, decode=KeySecret)
    if kept is not None and kept.metadata.labels.get(labels.TUNNEL) == labels.TRUE:
        await client.delete(SECRETS, kept.metadata.name, own, uid=kept.metadata.uid)


def private_secret(peer: str, keys: TunnelKeys) -> dict[str, Any]:
    """The Secret with the private key."""
    marks = {
        labels.TUNNEL: labels.TRUE,
        labels.MANAGED_BY_LIQOD: labels.TRUE,
        labels.REMOTE_CLUSTER_ID: peer,
    }
    fields = {
        labels.PRIVATE_KEY_FIELD: b64encode(keys.private).decode(),
        labels.PUBLIC_KEY_FIELD: b64encode(keys.public).decode(),
    }
    return {
        "metadata": {"name": ids.gateway_resource(peer), "labels": marks},
        "type": "Opaque",
        "data": fields,
    }


def public_secret(gateway: Object, public: bytes) -> dict[str, Any]:
    """The Secret that peers read."""
    meta = gateway.metadata
    return {
        "metadata": {
            "name": ids.gateway_resource(meta.name),
            "namespace": meta.namespace,
            "labels": {
                labels.REMOTE_CLUSTER_ID: meta.labels.get(labels.REMOTE_CLUSTER_ID, ""),
                labels.GATEWAY_RESOURCE: labels.TRUE,
            },
            "ownerReferences": [owner_reference(gateway.KIND, meta)],
        },
        "type": "Opaque",
        "data": {labels.PUBLIC_KEY_FIELD: b64encode(public).decode()},
    }
