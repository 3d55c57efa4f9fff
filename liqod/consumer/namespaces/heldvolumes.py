"""Volumes that would be lost with a namespace at a peer, which keep it there."""

from liqod.apimachinery.kinds import CLAIMS, VOLUMES
from liqod.cluster.context import ClusterContext
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects import volumeclaims
from liqod.model.view.figures import listed

SHOWN = 5


async def lying(client: Client, namespace: str) -> dict[str, list[str]]:
    """The claims of a namespace whose data is at peers, by peer."""
    found: dict[str, list[str]] = {}
    for claim in await client.list(CLAIMS, Selection(namespace)):
        if not volumeclaims.ours(claim) or not claim["spec"].get("volumeName"):
            continue
        volume = await client.find(VOLUMES, claim["spec"]["volumeName"])
        peer = "" if volume is None else volumeclaims.lies_at(volume)
        if peer:
            found.setdefault(peer, []).append(str(claim["metadata"]["name"]))
    return found


def would_be_lost(names: list[str], where: str) -> str:
    """The message that these volumes would be lost, with the remedy."""
    return (
        f"the volumes of {listed(sorted(names), SHOWN)} lie {where}, and would be lost: "
        "delete these PersistentVolumeClaims first"
    )


async def held_by(context: ClusterContext, namespace: str, peer: str) -> str:
    """The reason why a namespace stays at a peer that it leaves; empty if nothing keeps it.

    The namespace there takes its claims with it, and with them the data: that is for the user
    to decide, by deleting the claims.

    Raises:
        LiqodError: as the client raises; nothing is given up then.
    """
    if not context.config.storage.enabled:
        return ""
    names = (await lying(context.client, namespace)).get(peer)
    return would_be_lost(names, "there") if names else ""
