"""Tenant namespaces: the one namespace that each peer has in this cluster, found by its labels.

Its creation lets the peer in; the commands of both sides make it.
"""

from collections.abc import Mapping
from typing import Any, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.errors import AlreadyExists, ConfigError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.resources import (
    IDENTITIES,
    NAMESPACE_MAPS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)

REVOKED: Final = frozenset(
    (
        *(labels.REVOKED_TENANT, labels.REVOKED_PROVIDER),
        *(labels.REVOKED_KEYS, labels.REVOKED_PROVIDER_KEYS),
    )
)
"""Annotations by which alone it is known that somebody was revoked."""


def tenant_namespace(consumer: str, name: str = "") -> dict[str, Any]:
    """The namespace of a peer, as it is created; its creation lets the peer in."""
    return {
        "metadata": {
            "name": name or ids.tenant_namespace(consumer),
            "labels": {
                labels.TENANT_NAMESPACE: labels.TRUE,
                labels.REMOTE_CLUSTER_ID: consumer,
                labels.MANAGED_BY_LIQOD: labels.TRUE,
            },
        }
    }


def replicas_of(consumer: str) -> str:
    """The label selector of the replicas that a consumer made in its tenant namespace."""
    return f"{labels.ORIGIN_ID}={consumer},{labels.REPLICATED}={labels.TRUE}"


def is_from(labels_of: dict[str, str], peer: str) -> bool:
    """True if an object with these labels is a replica that the peer made here."""
    return (
        labels_of.get(labels.REPLICATED) == labels.TRUE and labels_of.get(labels.ORIGIN_ID) == peer
    )


def users_of(consumer: str) -> str:
    """The label selector of a consumer's peering users, whichever program made them."""
    names = (consumer, f"{labels.LIQOCTL_USER}{consumer}")
    # The API server refuses a selector with a value that no label can have.
    fit = ",".join(name for name in names if len(name) <= ids.LABEL_LIMIT)
    return f"{labels.PEERING_USER} in ({fit})"


def tenant_of(namespace: Partial) -> str | None:
    """The peer that a namespace belongs to, if it is a tenant namespace.

    One that is being deleted still is one: what is in it has to be let go first.
    """
    meta = namespace.metadata
    if meta.labels.get(labels.TENANT_NAMESPACE) != labels.TRUE:
        return None
    peer = meta.labels.get(labels.REMOTE_CLUSTER_ID, "")
    return peer if ids.cluster_id_problem(peer) is None else None


def former_of(marks: Mapping[str, str]) -> str:
    """SHA-256 of the key before, while its names have rights; empty for none.

    Args:
        marks: annotations of a tenant namespace.
    """
    return marks.get(labels.FORMER_KEY, "").partition(" ")[0]


def consumer_keys(marks: Mapping[str, str]) -> frozenset[str]:
    """SHA-256 of the key by which a consumer is accepted, and of the one before.

    Args:
        marks: annotations of its tenant namespace.
    """
    return frozenset((marks.get(labels.ACCEPTED_KEY, ""), former_of(marks))) - {""}


async def find_tenant(client: Client, peer: str) -> ObjectMeta | None:
    """The namespace here that belongs to a peer; the first by name, as the daemon takes it."""
    found = await client.list(NAMESPACES, Selection(labels=_selector(peer)), decode=Partial)
    return min((each.metadata for each in found), key=lambda meta: meta.name, default=None)


async def look_up_tenant(client: Client, peer: str) -> ObjectMeta | None:
    """The same without waiting for the API server's cache.

    Its labels and annotations are current, and so is the existence of one of the usual name. Only
    one of another name that was made just now may be missed: before something is given or
    destroyed, :func:`find_tenant` is asked.
    """
    selection = Selection(labels=_selector(peer), cached=True)
    seen = await client.list(NAMESPACES, selection, decode=Partial)
    names = sorted({each.metadata.name for each in seen} | {ids.tenant_namespace(peer)})
    for name in names:
        found = await client.find(NAMESPACES, name, decode=Partial)
        if found is not None and tenant_of(found) == peer:
            return found.metadata
    return None


def _selector(peer: str) -> str:
    return f"{labels.TENANT_NAMESPACE}={labels.TRUE},{labels.REMOTE_CLUSTER_ID}={peer}"


async def find_tenant_namespace(client: Client, peer: str) -> str | None:
    """Its name."""
    found = await find_tenant(client, peer)
    return found.name if found is not None else None


async def ensure_tenant_namespace(client: Client, peer: str) -> str:
    """The namespace of a peer here; made if there is none.

    Raises:
        ConfigError: the name is taken by a namespace of something else, or the peer is just
            leaving.
    """
    seen = await look_up_tenant(client, peer)
    found = seen.name if seen is not None else await find_tenant_namespace(client, peer)
    if found is None:
        wanted = tenant_namespace(peer)
        try:
            return (await client.create(NAMESPACES, wanted)).metadata.name
        except AlreadyExists as error:
            # Where both peer at once, the other side has made it meanwhile.
            found = await find_tenant_namespace(client, peer)
            if found is None:
                name = wanted["metadata"]["name"]
                raise ConfigError(
                    f"the namespace {name} exists and is not the tenant namespace of {peer}: label"
                    f" it {labels.TENANT_NAMESPACE}=true and {labels.REMOTE_CLUSTER_ID}={peer},"
                    " or delete it"
                ) from error
    live = await client.get(NAMESPACES, found, decode=Partial)
    if labels.TOMBSTONE in live.metadata.annotations or live.metadata.deletion_timestamp:
        raise ConfigError(
            f"this cluster is still leaving {peer} (namespace {found}): wait until it is gone, or"
            f" end it with `liqod unpeer {peer} --forget`"
        )
    return found


async def drop_unused_tenant_namespace(client: Client, peer: str) -> bool:
    """Delete an unused namespace of a peer that a command made; True if it did.

    One that notes that the peer was revoked stays, for nothing else does.
    """
    name = await find_tenant_namespace(client, peer)
    if name is None:
        return False
    live = await client.find(NAMESPACES, name, decode=Partial)
    if live is None or live.metadata.labels.get(labels.MANAGED_BY_LIQOD) != labels.TRUE:
        return False
    if REVOKED & live.metadata.annotations.keys():
        return False
    for kind in (TENANTS, IDENTITIES, RESOURCE_SLICES, NAMESPACE_MAPS, VIRTUAL_NODES):
        if await client.list(kind, Selection(name), decode=Partial):
            return False
    if await client.list(SECRETS, Selection(name, labels=labels.IDENTITY_TYPE), decode=Partial):
        return False
    return await client.delete(NAMESPACES, name, uid=live.metadata.uid)
