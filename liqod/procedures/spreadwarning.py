"""Looks for workloads of this cluster that a new virtual node would hurt, for a warning."""

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DEPLOYMENTS, NAMESPACES, NODES, STATEFUL_SETS
from liqod.apimachinery.meta import Partial
from liqod.errors import Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects import spreading


async def hurt(client: Client, *nodes: str) -> str:
    """The warning about workloads whose pods may wait because of a virtual node, or would, so that
    it does not show its zone; empty for none.

    Of several nodes the first that hurts any is named.

    Pods of offloaded namespaces are left out: they mostly tolerate it.

    Args:
        client: its rights may not be enough to look; then the result is empty.
        nodes: the virtual nodes.
    """
    try:
        live = [await client.find(NODES, node, decode=Partial) for node in nodes]
        known = [each.metadata for each in live if each is not None]
        if not known:
            return ""
        which = Selection(labels=f"{labels.SCHEDULING_ENABLED}={labels.TRUE}", metadata_only=True)
        offloaded = await client.list(NAMESPACES, which, decode=Partial)
        names = {each.metadata.name for each in offloaded}
        found = [
            (kind.name, each)
            for kind in (DEPLOYMENTS, STATEFUL_SETS)
            for each in await client.list(kind)
            if each["metadata"].get("namespace") not in names
        ]
    except (Forbidden, NotFound):
        return ""
    said = []
    for each in known:
        if zone := each.annotations.get(labels.HELD_ZONE):
            said.append(spreading.held_back(each.name, each.labels, zone, found))
        said.append(spreading.warning(each.name, each.labels, found))
    return next(filter(None, said), "")
