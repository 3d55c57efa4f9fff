"""Volumes that would be lost with a namespace at a peer, which keep it there."""

from liqod.context import ClusterContext
from liqod.kube.kinds import CLAIMS, VOLUMES
from liqod.kube.selection import Selection
from liqod.model.objects import claims

SHOWN = 5


async def held_by(home: ClusterContext, namespace: str, peer: str) -> str:
    """Why a namespace stays at a peer that it is taken from; empty where nothing keeps it.

    With the namespace there its claims go, and with them the data: the one who deletes those is
    the one who decides that.

    Raises:
        LiqodError: as the client raises; nothing is given up then.
    """
    if not home.config.storage.enabled:
        return ""
    found = []
    for claim in await home.client.list(CLAIMS, Selection(namespace)):
        if not claims.ours(claim) or not claim["spec"].get("volumeName"):
            continue
        volume = await home.client.find(VOLUMES, claim["spec"]["volumeName"])
        if volume is not None and claims.lies_at(volume) == peer:
            found.append(str(claim["metadata"]["name"]))
    if not found:
        return ""
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return (
        f"the volumes of {', '.join(sorted(found)[:SHOWN])}{more} lie there, and would be lost: "
        "delete these PersistentVolumeClaims first"
    )
