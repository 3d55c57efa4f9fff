"""Withdraws the Services of the set from a cluster that is to share none any more.

No controller keeps from then on what was made before. Objects of another program stay. Each
replica at a peer is deleted by the replication with that peer.
"""

from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.clusterset.sharing import MADE_HERE, Kinds, KindsMissing, kinds_here
from liqod.errors import Forbidden
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects.patches import exact_patch
from liqod.resources.exchanges import SERVICE_EXCHANGES, ServiceExchange
from liqod.resources.multicluster import SERVICE_NAME, ServiceExport

_OURS: Final = f"{labels.MANAGED_BY_LIQOD}={labels.TRUE}"
_ASKED: Final = f"{_OURS},{labels.REPLICATION}={labels.TRUE}"
_NOTHING: Final = {"shared": False, "exports": {}, "confirmed": {}}


async def withdraw(context: ClusterContext) -> None:
    """Delete this cluster's imports, and take back what peers were told; nothing where the kinds
    or the rights are not there."""
    client = context.client
    try:
        kinds = await kinds_here(client)
        if kinds is not None:
            await _forget_peers(client)
            await _delete_imports(client, kinds)
    except (Forbidden, KindsMissing):
        return  # an installation without `--services`, or what was made is gone with its kind


async def _forget_peers(client: Client) -> None:
    """Delete this cluster's exchanges, and answer those of peers as one that shares nothing."""
    await client.delete_selected(SERVICE_EXCHANGES, Selection(labels=_ASKED))
    for each in await client.list(SERVICE_EXCHANGES, decode=ServiceExchange):
        meta, before = each.metadata, msgspec.to_builtins(each.status)
        patch = exact_patch(before, _NOTHING) if before else None
        if patch and meta.deletion_timestamp is None:
            body = {"status": patch}
            await client.patch(
                SERVICE_EXCHANGES, meta.name, body, meta.namespace, subresource="status"
            )


async def _delete_imports(client: Client, kinds: Kinds) -> None:
    """Delete the objects of all imports; the imports last, by which the others are found."""
    found = await client.list(kinds.imports, Selection(labels=_OURS), decode=Partial)
    await client.delete_selected(ENDPOINT_SLICES, Selection(labels=MADE_HERE))
    await client.delete_selected(SERVICES, Selection(labels=f"{SERVICE_NAME},{_OURS}"))
    for each in found:
        meta = each.metadata
        await _clear_conditions(client, kinds, meta.namespace, meta.name)
        if meta.deletion_timestamp is None:
            await client.delete(kinds.imports, meta.name, meta.namespace, uid=meta.uid)


async def _clear_conditions(client: Client, kinds: Kinds, namespace: str, name: str) -> None:
    """Remove the conditions of an export, which nothing keeps true from now on."""
    export = await client.find(kinds.exports, name, namespace, decode=ServiceExport)
    if export is not None and export.status.conditions:
        nothing: dict[str, Any] = {"status": {"conditions": []}}
        await client.patch(kinds.exports, name, nothing, namespace, subresource="status")
