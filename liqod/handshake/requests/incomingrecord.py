"""An entry of the inbox as values: its name, its time, its place, its spec and status."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.handshake.protocol.messages import Ask
from liqod.handshake.protocol.outputs import VerifiedPeer
from liqod.kube import times
from liqod.model.objects.conditions import set_condition
from liqod.procedures import answering
from liqod.resources import IncomingPeering
from liqod.runtime.connectionlimit import networks_of, source_of

Json = dict[str, Any]

MOST: Final = 256
"""Entries of the inbox that are no peers yet."""
MOST_OF_ONE: Final = 16
"""Of these, from one place, and ..."""
MOST_OF_NETWORK: Final = 64
"""... from one network, in which somebody may have many: 24 bits of IPv4, 48 of IPv6."""


def is_full(places: Iterable[str], place: str, most: int = MOST) -> str:
    """Why there is no room for one more entry from a place; empty where there is.

    Args:
        places: of the entries that there are.
        place: of the one that would come.
        most: entries that there may be.
    """
    known = list(places)
    if sum(each == place for each in known) >= MOST_OF_ONE:
        return f"{MOST_OF_ONE} requests from this address wait here already"
    mine = networks_of(place)[0]
    if sum(networks_of(each)[0] == mine for each in known) >= MOST_OF_NETWORK:
        return f"{MOST_OF_NETWORK} requests from this network wait here already"
    if len(known) >= most:
        return f"{most} requests wait here already"
    return ""


def left(entry: IncomingPeering, now: str) -> int:
    """Seconds until an entry is over, by this cluster's clock; 0 where it is."""
    try:
        return max(int(times.seconds(entry.status.expires) - times.seconds(now)), 0)
    except ValueError:
        return 0


def spec_of(peer: VerifiedPeer, source: str, ask: Ask, before: IncomingPeering | None) -> Json:
    """The spec of a request's entry; a decision that is good for ever stays, any other goes."""
    kept = before is not None and before.spec.always
    replace = before is not None and before.spec.replace
    return {
        "clusterID": peer.cluster_id,
        "publicKey": peer.public_key,
        "request": ask.request,
        "resources": dict(ask.resources) or None,
        "labels": dict(ask.labels) or None,
        "source": source_of(source),
        "networking": ask.networking or None,
        "invitation": ask.invitation.id if ask.invitation is not None else None,
        **({} if kept else {"decision": None, "granted": None}),
        **({} if kept or replace else {"replace": None}),
    }


def made(peer: VerifiedPeer, spec: Json) -> Json:
    """A new entry."""
    marks = {labels.MANAGED: labels.TRUE, labels.REMOTE_CLUSTER_ID: peer.cluster_id}
    filled = {key: value for key, value in spec.items() if value is not None}
    return {
        "metadata": {"name": answering.name_of(peer.cluster_id, peer.key), "labels": marks},
        "spec": filled,
    }


def renewed(before: IncomingPeering, peer: VerifiedPeer, spec: Json) -> Json:
    """A merge patch that has an entry hold another request, over the very version that was read."""
    metadata = {
        "resourceVersion": before.metadata.resource_version,
        # By it those of a cluster are found; one that was written beforehand has none.
        "labels": {labels.REMOTE_CLUSTER_ID: peer.cluster_id},
    }
    return {"metadata": metadata, "spec": spec}


def status_patch(
    entry: IncomingPeering, changes: Mapping[str, Any], steps: Mapping[str, tuple[str, str]]
) -> Json:
    """A merge patch of an entry's status, over the very version that was read.

    Args:
        entry: as it was read.
        changes: fields of the status; None takes one away.
        steps: status and message of conditions, by type.
    """
    conditions = msgspec.to_builtins(entry.status.conditions)
    for step, (status, message) in steps.items():
        conditions = set_condition(
            conditions, step, status, now=times.now(), reason=_reason(step, status), message=message
        )
    return {
        "metadata": {"resourceVersion": entry.metadata.resource_version},
        "status": {**changes, "conditions": conditions},
    }


def _reason(step: str, status: str) -> str:
    return step if status == "True" else f"Not{step}"


def is_of(entry: IncomingPeering, peer: VerifiedPeer) -> bool:
    """True if an entry is that of a peer: its name holds only the beginning of the key."""
    return (entry.spec.cluster_id, answering.key_of(entry)) == (peer.cluster_id, peer.key)


def is_about(entry: IncomingPeering, peer: VerifiedPeer, ask: Ask) -> bool:
    """True if an entry is of this very request of a peer, and was written whole."""
    known = {entry.spec.request, entry.status.request} == {ask.request}
    return known and entry.status.phase != "" and is_of(entry, peer)


def at_in(seconds: int) -> str:
    """A time so many seconds from now, by this cluster's clock."""
    return times.of(times.seconds(times.now()) + seconds)
