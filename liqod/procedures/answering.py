"""Answers requests to borrow, as ``liqod inbox`` does.

The decision is written into the entry, and the daemon goes on. A cluster with another known key is
accepted only where the operator confirms the new one.
"""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.cluster.tenancy import find_tenant, former_of, look_up_tenant
from liqod.errors import ConfigError, Misuse, ProtocolError
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects import quantities
from liqod.model.peering import providerkeys
from liqod.resources import (
    INCOMING_PEERINGS,
    OUTGOING_PEERINGS,
    IncomingPeering,
    OutgoingPeering,
)
from liqod.resources.peering import ACCEPT, DENY
from liqod.runtime.polling import poll_until

Decision = dict[str, Any]

STANDING: Final = ("Accepted", "Done")
"""Phases of an accepted cluster: only `liqod revoke` takes that back."""


async def entries(client: Client, namespace: str) -> list[IncomingPeering]:
    """All entries of the inbox, those that wait first."""
    found = await client.list(INCOMING_PEERINGS, Selection(namespace), decode=IncomingPeering)
    return sorted(found, key=lambda each: (each.status.phase != "Waiting", each.name))


async def entry(client: Client, namespace: str, who: str) -> IncomingPeering:
    """The entry with a name or with a cluster's id.

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


def key_of(entry: IncomingPeering) -> str:
    """SHA-256 of the key that an entry is about, hexadecimal; empty where it holds none."""
    try:
        return keys.print_of(entry.spec.public_key.encode())
    except ProtocolError:
        return ""


def name_of(cluster_id: str, key: str) -> str:
    """Name of a cluster's entry: by id and key, for two clusters may say that they are one."""
    return f"{cluster_id}-{key[:8]}"


async def known_key(
    client: Client, namespace: str, cluster_id: str, *, cached: bool = False
) -> str:
    """The known key of a consumer; empty for one that is unknown, or was revoked.

    Args:
        client: of this cluster.
        namespace: liqod's own.
        cluster_id: the consumer's.
        cached: read the cache, which may miss a consumer that was accepted just now.
    """
    find = look_up_tenant if cached else find_tenant
    tenant = await find(client, cluster_id)
    if tenant is not None:
        if labels.REVOKED_TENANT in tenant.annotations:
            return ""
        if labels.ACCEPTED_KEY in tenant.annotations:
            return tenant.annotations[labels.ACCEPTED_KEY]
    found = await _of_cluster(client, namespace, cluster_id, cached=cached)
    coming = [each for each in found if each.status.phase == "Accepted"]  # to be a tenant
    # A key that the operator confirmed as the replacement replaces all the others.
    first = min(coming, key=lambda each: (not is_replaced(each), each.name), default=None)
    return key_of(first) if first is not None else ""


async def known_keys(client: Client, namespace: str, cluster_id: str) -> frozenset[str]:
    """The known key, and the former one while the consumer has its rights under both."""
    known = await known_key(client, namespace, cluster_id)
    tenant = await find_tenant(client, cluster_id) if known else None
    former = "" if tenant is None else former_of(tenant.annotations)
    return frozenset(filter(None, (known, former)))


async def _of_cluster(
    client: Client, namespace: str, cluster_id: str, *, cached: bool = False
) -> list[IncomingPeering]:
    """The entries of all clusters that claim an id."""
    label = f"{labels.REMOTE_CLUSTER_ID}={cluster_id}"
    mine = Selection(namespace, labels=label, cached=cached)
    return await client.list(INCOMING_PEERINGS, mine, decode=IncomingPeering)


def is_replaced(entry: IncomingPeering) -> bool:
    """True if the operator has confirmed that the cluster of an entry has another key now."""
    return entry.spec.replace and entry.spec.decision == ACCEPT


def is_barred(entry: IncomingPeering) -> bool:
    """True if the operator has denied an entry for ever, even against an invitation or a policy."""
    return entry.spec.always and entry.spec.decision == DENY


async def put_in_place(client: Client, namespace: str, entry: IncomingPeering) -> None:
    """Make the key of an entry the only known one of its cluster.

    Requests of holders of other keys end; a record that one was denied for ever stays.
    """
    who = entry.spec.cluster_id
    tenant = await find_tenant(client, who)
    if tenant is not None:
        marks = {labels.ACCEPTED_KEY: key_of(entry), labels.FORMER_KEY: None}
        mark = {"metadata": {"annotations": marks}}
        await client.patch(NAMESPACES, tenant.name, mark)
    for each in await _of_cluster(client, namespace, who):
        if each.name != entry.name and not is_barred(each):
            await client.delete(INCOMING_PEERINGS, each.name, namespace, uid=each.metadata.uid)


async def key_here(client: Client, namespace: str, cluster_id: str, *, cached: bool = False) -> str:
    """The known key of a cluster: as a consumer, or else as a provider from the request agreed with
    its daemon; empty for none.

    Args:
        client: of this cluster.
        namespace: liqod's own.
        cluster_id: the other one's.
        cached: as of :func:`known_key`.
    """
    known = await known_key(client, namespace, cluster_id, cached=cached)
    if known:
        return known
    mine = Selection(namespace, cached=cached)
    asked = await client.list(OUTGOING_PEERINGS, mine, decode=OutgoingPeering)
    agreed = (each.status for each in asked if each.status.phase in ("Accepted", "Done"))
    key = next((each.key for each in agreed if each.cluster_id == cluster_id), "")
    find = look_up_tenant if cached else find_tenant
    tenant = await find(client, cluster_id) if key else None
    noted = None if tenant is None else tenant.annotations.get(labels.PROVIDER_KEYS)
    return providerkeys.follow(noted, key)


def key_problem(name: str, cluster_id: str, known: str, shown: str) -> str:
    """The reason to refuse a cluster that shows another key than its known one; empty for none.

    Args:
        name: of its entry.
        cluster_id: its own.
        known: SHA-256 of its known key, hexadecimal; empty for none.
        shown: of the one that it shows.
    """
    if known in ("", shown):
        return ""
    return (
        f"{cluster_id} is known here by another key ({known[:16]}…) than the one that was"
        f" shown ({shown[:16]}…): if it was made anew, the operator here says so by"
        f" `liqod inbox accept {name} --replace`"
    )


def acceptance(
    entry: IncomingPeering, less: dict[str, str], *, always: bool = False, replace: bool = False
) -> Decision:
    """The decision that accepts a cluster.

    Args:
        entry: its request.
        less: the grant, by resource name, where that is less than requested.
        always: also for its later requests.
        replace: although it had another known key.

    Raises:
        Misuse: more is granted than requested.
        ConfigError: a quantity is malformed.
    """
    for name, text in less.items():
        asked = entry.spec.resources.get(name)
        if asked is not None and quantities.parse(text) > quantities.parse(asked):
            who = entry.spec.cluster_id
            raise Misuse(f"{who} asks for {name} {asked}: no more than that can be granted")
    decision = {"decision": ACCEPT, "granted": less or None, "always": always or None}
    return {**decision, "replace": True} if replace else decision


def denial(*, always: bool = False) -> Decision:
    """The decision that denies a cluster; ``always``: also its later requests."""
    return {"decision": DENY, "always": always or None}


def problem(entry: IncomingPeering, decision: Decision) -> str:
    """The reason why a decision comes too late for an entry, with the remedy; empty for none. Pure.

    A decision for ever is also possible for a request that is over: it is about later ones.
    """
    who, phase, name = entry.spec.cluster_id, entry.status.phase, entry.name
    is_new = entry.spec.request != entry.status.request  # and its phase is of the one before
    if is_new or phase in ("", "Waiting"):
        return ""
    accepts = decision["decision"] == ACCEPT
    if phase in STANDING:
        if not accepts:
            return f"{who} was let in already: `liqod revoke {who}` takes that back"
        if not decision.get("granted"):
            return ""
        granted = ", ".join(f"{each} {n}" for each, n in entry.status.granted.items())
        return (
            f"{who} was let in already, with {granted}: to grant something else, revoke it"
            f" (`liqod revoke {who}`), and have it ask again"
        )
    over = f"{who} does not wait for an answer: its request is over ({phase})"
    again = f"`liqod peer` there asks again, and `liqod inbox accept {name}` then lets it in"
    for_ever = is_barred(entry)
    if accepts:
        lifted = f"it is denied for ever: `liqod inbox deny {name}` without --always lifts that; "
        return f"{over}; {lifted if for_ever else ''}{again}"
    if bool(decision.get("always")) != entry.spec.always:
        return ""
    if for_ever:
        return f"{over}; it is denied for ever already"
    return f"{over}: there is nothing to deny; --always denies what it asks later"


async def decide(
    client: Client, namespace: str, entry: IncomingPeering, decision: Decision
) -> None:
    """Write a decision into exactly the entry that was read: another request needs another one.

    Raises:
        ConfigError: it no longer waits for that decision; or it is accepted, has another known key,
            and no confirmation of this one.
        Conflict: the entry has changed since.
    """
    why = problem(entry, decision)
    if why:
        raise ConfigError(why)
    replace = decision.get("replace") or entry.spec.replace
    if decision["decision"] == ACCEPT and not replace:
        who = entry.spec.cluster_id
        known = await key_here(client, namespace, who)
        why = key_problem(entry.name, who, known, key_of(entry))
        if why:
            raise ConfigError(why)
    patch = {"metadata": {"resourceVersion": entry.metadata.resource_version}, "spec": decision}
    await client.patch(INCOMING_PEERINGS, entry.name, patch, namespace)


async def taken_up(
    client: Client, namespace: str, name: str, *, within: float = float("inf")
) -> IncomingPeering:
    """The entry after the daemon has acted on a decision.

    Raises:
        TransientError: it has not in that many seconds.
    """

    async def look() -> IncomingPeering | None:
        found = await client.get(INCOMING_PEERINGS, name, namespace, decode=IncomingPeering)
        return found if found.status.phase != "Waiting" else None

    return await poll_until(look, within=within)


def outcome(entry: IncomingPeering) -> str:
    """The result of an acceptance, in one sentence.

    Raises:
        ConfigError: the cluster is not accepted, with the reason.
    """
    granted = ", ".join(f"{name} {n}" for name, n in entry.status.granted.items())
    if entry.status.phase in STANDING:
        return f"{entry.spec.cluster_id} is accepted: {granted}"
    why = entry.status.reason or "its request is over"
    raise ConfigError(f"{entry.spec.cluster_id} is not let in ({entry.status.phase}): {why}")


def denied(entry: IncomingPeering, *, always: bool) -> str:
    """The result of a denial of an entry, as it was read before, in one sentence."""
    who = entry.spec.cluster_id
    if always:
        return f"{who} is denied, and so is what it asks later with this key"
    if entry.spec.always:
        return f"{who} is denied; what it asks later waits here for an answer"
    return f"{who} is denied"
