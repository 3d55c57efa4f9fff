"""``python -m liqod.install.departure``: leaves all peers before Helm takes an installation away.

The program of the Job that the chart runs first at ``helm uninstall``. It ends in time and with
status 0 whatever happens, since a Job that fails would keep Helm from uninstalling. Its output, and
the termination message of its container, name what is left, each with the step that ends it.
"""

import os
from pathlib import Path
from typing import Any, Final

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownid import own_cluster_id
from liqod.errors import LiqodError, NotFound
from liqod.install import removal
from liqod.kube import leases
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.selection import Selection
from liqod.model.peering.intervals import LEADER_RENEWS_EVERY
from liqod.procedures import unpeering
from liqod.resources import NAMESPACE_OFFLOADINGS, TENANTS
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress
from liqod.runtime.supervise import explain

WITHIN: Final = 60.0
"""Seconds for all peers together."""
ANSWERS_WITHIN: Final = 15.0
"""Seconds for the API server, beside them."""
UNDER_WAY: Final = "owner=helm,status=uninstalling"
"""Selects Helm's record of a release that it uninstalls, in whichever kind it keeps these."""
MESSAGE: Final = Path("/dev/termination-log")
"""The container's termination message, where it is one."""


async def depart(
    client: Client, namespace: str, *, within: float = WITHIN, progress: Progress
) -> list[str]:
    """Bring offloaded namespaces back and leave every peer, all at once; returns what is left.

    Args:
        client: of this cluster.
        namespace: liqod's own.
        within: seconds after which the rest is left as it is.
        progress: told of each step.
    """
    if not await _uninstalls(client, namespace):
        return ["Helm uninstalls no release here: every peer stays"]
    tenants = await _tenants(client)
    if tenants is None and (undefined := await _undefined(client, namespace)):
        return [undefined]
    peers = await removal.peers_left(client, tenants or [])
    if (peers or await _offloaded(client)) and not await _works(client, namespace):
        return [f"no daemon works here: {', '.join(peers) or 'what is offloaded'} stays as it is"]
    await _bring_back(client)
    left = {peer: f"the peering with {peer} has not ended in time" for peer in peers}

    async def leave(peer: str) -> None:
        try:
            end = await unpeering.unpeer(client, peer, liqo=namespace, progress=progress)
        except LiqodError as error:
            left[peer] = f"the peering with {peer} has not ended: {error}"
            return
        left[peer] = _rest(peer, end)

    with trio.move_on_after(within):
        async with trio.open_nursery() as nursery:
            for peer in peers:
                nursery.start_soon(leave, peer)
        await _brought_back(client)
    lines = [line for line in left.values() if line]
    if offloaded := await _offloaded(client):
        lines.append(f"the offloading of {', '.join(offloaded)} has not ended in time")
    return lines


async def _uninstalls(client: Client, namespace: str) -> bool:
    """True if Helm is at it: the Job's manifest may have been applied by hand, with all others."""
    under_way = Selection(namespace, labels=UNDER_WAY)
    for kind in (SECRETS, CONFIG_MAPS):
        if await client.list(kind, under_way, decode=Partial):
            return True
    return False


async def _works(client: Client, namespace: str) -> bool:
    """True if a daemon renews its Lease; without one nothing would go on that is begun."""
    first = await leases.look(client, labels.LEADER_LEASE, namespace)
    if first is None or not first.lease.spec.holder_identity:
        return False

    async def renewed() -> bool:
        now = await leases.look(client, labels.LEADER_LEASE, namespace)
        return now is not None and now.lease.spec.renew_time != first.lease.spec.renew_time

    with trio.move_on_after(3 * LEADER_RENEWS_EVERY):
        return await poll_until(renewed)
    return False


async def _tenants(client: Client) -> list[dict[str, Any]] | None:
    """All Tenants; None where somebody has deleted the definitions."""
    try:
        return await client.list(TENANTS)
    except NotFound:
        return None


async def _undefined(client: Client, namespace: str) -> str:
    """A sentence where all peerings went with the definitions; empty where there were none."""
    tenant = Selection(labels=labels.REMOTE_CLUSTER_ID)
    found = await client.list(NAMESPACES, tenant, decode=Partial)
    peers = sorted(each.metadata.labels[labels.REMOTE_CLUSTER_ID] for each in found)
    if not peers:
        return ""
    return (
        "liqod's definitions are deleted, and every peering with them: "
        f"`liqod unpeer {await own_cluster_id(client, namespace)}` at {', '.join(peers)} "
        "ends what is there of this cluster"
    )


def _rest(peer: str, end: unpeering.Departed) -> str:
    """The rest of a peering, with the step that ends it; empty for none."""
    if not end.complete:
        return (
            f"{peer} does not answer: what it has of this cluster goes when liqod is here again"
            " and it answers; `liqod uninstall --forget` gives that up"
        )
    return end.keeps.summary(peer)


async def _bring_back(client: Client) -> None:
    try:
        await client.delete_selected(NAMESPACE_OFFLOADINGS, Selection())
    except NotFound:
        return


async def _brought_back(client: Client) -> None:
    async def none() -> bool:
        return not await _offloaded(client)

    await poll_until(none)


async def _offloaded(client: Client) -> list[str]:
    """The namespaces that are offloaded."""
    try:
        found = await client.list(NAMESPACE_OFFLOADINGS, decode=Partial)
    except NotFound:
        return []
    return sorted(each.metadata.namespace for each in found)


async def _depart() -> list[str]:
    """Depart with the rights of the pod's ServiceAccount."""
    namespace = os.environ.get("LIQOD_NAMESPACE", labels.LIQO_NAMESPACE)
    with trio.move_on_after(WITHIN + ANSWERS_WITHIN):
        found = await credentials.load()
        async with Client(found, user_agent="liqod-uninstall") as client:
            return await depart(client, namespace, progress=print)
    return ["the API server does not answer: no peer was left"]


def main() -> None:
    """Depart, and tell what is left."""
    try:
        lines = trio.run(_depart)
    except Exception as error:  # Whatever it is: it must not keep Helm from going on.
        lines = [f"no peer was left: {explain(error)}"]
    text = "\n".join(lines) or "every peer was left"
    print(text, flush=True)
    if MESSAGE.exists():
        MESSAGE.write_text(text)


if __name__ == "__main__":
    main()
