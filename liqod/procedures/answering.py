"""Answering who asks to borrow, as ``liqod inbox`` does it.

The decision is written into the entry, and the daemon goes on.
"""

from typing import Any

from liqod.errors import ConfigError, Misuse
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects import quantities
from liqod.polling import poll_until
from liqod.resources import INCOMING_PEERINGS, IncomingPeering
from liqod.resources.peering import ACCEPT, DENY

Decision = dict[str, Any]


async def entries(client: Client, namespace: str) -> list[IncomingPeering]:
    """All of the inbox, who waits first."""
    found = await client.list(INCOMING_PEERINGS, Selection(namespace), decode=IncomingPeering)
    return sorted(found, key=lambda each: (each.status.phase != "Waiting", each.name))


async def entry(client: Client, namespace: str, who: str) -> IncomingPeering:
    """The entry that is meant by its name or by a cluster's id.

    Raises:
        ConfigError: there is none, or more than one.
    """
    found = await entries(client, namespace)
    mine = [each for each in found if who in (each.name, each.spec.cluster_id)]
    if not mine:
        others = ", ".join(each.spec.cluster_id for each in found) or "nobody"
        raise ConfigError(f"{who} does not ask; {others} does")
    if len(mine) > 1:
        names = ", ".join(each.name for each in mine)
        raise ConfigError(
            f"{len(mine)} clusters say that they are {who}, with different keys: compare the words,"
            f" and say which by its name ({names})"
        )
    return mine[0]


def acceptance(
    entry: IncomingPeering, less: dict[str, str], *, always: bool = False, replace: bool = False
) -> Decision:
    """What lets a cluster in.

    Args:
        entry: who asks.
        less: what is granted of it, by resource name, where that is less than was asked.
        always: also for what it asks later.
        replace: though it was known by another key.

    Raises:
        Misuse: more is granted than was asked.
        ConfigError: a quantity is none.
    """
    for name, text in less.items():
        asked = entry.spec.resources.get(name)
        if asked is not None and quantities.parse(text) > quantities.parse(asked):
            who = entry.spec.cluster_id
            raise Misuse(f"{who} asks for {name} {asked}: no more than that can be granted")
    decision = {"decision": ACCEPT, "granted": less or None, "always": always or None}
    return {**decision, "replace": True} if replace else decision


def denial(*, always: bool = False) -> Decision:
    """What does not let it in; ``always``: also for what it asks later."""
    return {"decision": DENY, "always": always or None}


async def decide(
    client: Client, namespace: str, entry: IncomingPeering, decision: Decision
) -> None:
    """Write it over the very entry that was read: another request is another question.

    Raises:
        Conflict: the entry has changed since.
    """
    patch = {"metadata": {"resourceVersion": entry.metadata.resource_version}, "spec": decision}
    await client.patch(INCOMING_PEERINGS, entry.name, patch, namespace)


async def taken_up(
    client: Client, namespace: str, name: str, *, within: float = float("inf")
) -> IncomingPeering:
    """The entry when the daemon has acted on a decision.

    Raises:
        TransientError: it has not in that many seconds.
    """

    async def look() -> IncomingPeering | None:
        found = await client.get(INCOMING_PEERINGS, name, namespace, decode=IncomingPeering)
        known = found.spec.replace and found.status.phase == "Waiting"
        return found if found.status.phase != "Waiting" or known else None

    return await poll_until(look, within=within)


def outcome(entry: IncomingPeering) -> str:
    """One sentence about what a decision came to."""
    granted = ", ".join(f"{name} {n}" for name, n in entry.status.granted.items())
    if entry.status.phase in ("Accepted", "Done"):
        return f"{entry.spec.cluster_id} is accepted: {granted}"
    return f"{entry.spec.cluster_id}: {entry.status.reason}"
