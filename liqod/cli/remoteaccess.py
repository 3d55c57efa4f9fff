"""The way of a command to what is reflected at a peer: its virtual nodes, names and credentials."""

from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.errors import ConfigError, NotFound
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.selection import EVERY, Selection
from liqod.resources import NAMESPACE_MAPS, VIRTUAL_NODES, NamespaceMap, VirtualNode


async def virtual_nodes(client: Client, peer: str = "") -> list[VirtualNode]:
    """The virtual nodes of a peer, or of all."""
    found = await client.list(VIRTUAL_NODES, decode=VirtualNode)
    return [each for each in found if peer in ("", each.spec.cluster_id)]


async def remote_namespaces(client: Client, namespace: str, tenant: str = "") -> dict[str, str]:
    """The names that a namespace has at peers, by their ids.

    Args:
        tenant: the tenant namespace of the one peer that is meant; empty for all.
    """
    where = Selection(tenant) if tenant else EVERY
    found = {}
    for each in await client.list(NAMESPACE_MAPS, where, decode=NamespaceMap):
        entry = each.status.current_mapping.get(namespace)
        if entry is not None and labels.REPLICATED not in each.metadata.labels:
            found[each.name] = entry.remote_namespace
    return found


async def credentials_of(client: Client, node: VirtualNode) -> Credentials:
    """The credentials of a virtual node's slice.

    Raises:
        NotFound: it names no kubeconfig.
        ConfigError: that is none.
    """
    reference = node.spec.kubeconfig_secret_ref
    if reference is None or not reference.name:
        raise NotFound(f"the virtual node {node.name} names no kubeconfig Secret")
    secret: dict[str, Any] = await client.get(SECRETS, reference.name, node.namespace)
    data = msgspec.convert(secret["data"][labels.KUBECONFIG_FIELD], bytes, strict=False)
    return credentials.from_kubeconfig(data)


def not_mapped(namespace: str, peer: str) -> ConfigError:
    """The error of a namespace that a peer does not have."""
    return ConfigError(f"the namespace {namespace} is not mapped on {peer}")
