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
        for key, note in labels.HELD.items():
            if held := each.annotations.get(note):
                said.append(spreading.held_back(each.name, each.labels, (key, held), found))
        said.append(spreading.warning(each.name, await _further(client, each.labels), found))
    return next(filter(None, said), "")


async def _further(client: Client, marks: dict[str, str]) -> dict[str, str]:
    """The labels of a virtual node without a region that has nodes of this cluster, too."""
    region = marks.get(labels.REGION)
    if region is None:
        return marks
    real = f"{labels.REGION}={region},{labels.TYPE}!={labels.VIRTUAL_NODE_TYPE}"
    here = await client.list(NODES, Selection(labels=real, metadata_only=True), decode=Partial)
    return {key: value for key, value in marks.items() if not (here and key == labels.REGION)}
