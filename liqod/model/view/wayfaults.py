"""The faults of what namespaces share with other clusters by way of peers. Pure.

Each is one of a namespace's annotation (:data:`liqod.apimachinery.labels.SHARE_SERVICES_BY_WAY`),
or of what a peer makes of it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from liqod.apimachinery import labels
from liqod.model.clusterset import byway
from liqod.model.clusterset.admission import Relay
from liqod.model.network.remapping import Remapped
from liqod.model.view.servicefacts import READY, ExchangeFacts, SharedServices, WayFault

SHOWN = 80
"""Characters of an entry of the annotation."""
_WRITE = f"write {labels.SHARE_SERVICES_BY_WAY} of the namespace anew"


class Here(msgspec.Struct, frozen=True):
    """This cluster, as far as it shares by way of peers.

    Attributes:
        id: its id.
        key: SHA-256 of its key; empty where that may not be read.
        peers: the ids of its peers.
        annotations: of each namespace.
        signer, now: as a relay's (:class:`liqod.model.clusterset.admission.Relay`).
    """

    id: str
    key: str
    peers: Collection[str]
    annotations: Mapping[str, Mapping[str, str]]
    signer: Callable[[bytes, bytes, bytes], str]
    now: float


def way_faults(known: SharedServices, here: Here) -> tuple[WayFault, ...]:
    """All faults, by namespace.

    Args:
        known: the Services of the set.
        here: this cluster.
    """
    found: list[WayFault] = []
    exchanges: dict[str, dict[str, list[ExchangeFacts]]] = {}
    for each in known.exchanges:
        exchanges.setdefault(each.namespace, {}).setdefault(each.peer, []).append(each)
    ready = _ready(known)
    for namespace, notes in sorted(here.annotations.items()):
        found += _misread(namespace, notes, here)
        for hub, mine in sorted(exchanges.get(namespace, {}).items()):
            others = {
                other: key
                for other, key in byway.agreed(notes, hub).items()
                if other != here.id and other not in here.peers
            }
            found += _refused(namespace, hub, mine, others, here)
            found += _not_passed(namespace, hub, mine, others, ready.get(namespace, {}))
    return tuple(found)


def _misread(namespace: str, notes: Mapping[str, str], here: Here) -> Iterator[WayFault]:
    """The entries that count for nothing."""
    for each in byway.entries(notes):
        why = each.problem
        if not why and each.cluster == here.id:
            why = f"{each.cluster} is this cluster"
        elif not why and each.hub not in here.peers:
            why = f"{each.hub} is no peer of this cluster"
        elif not why and each.cluster in here.peers:
            why = f"{each.cluster} is a peer of this cluster, and shares with it directly"
        if why:
            what = f"{labels.SHARE_SERVICES_BY_WAY} of {namespace}: {each.text[:SHOWN]!r}: {why}"
            yield WayFault(namespace, what, "write it as `HUB/CLUSTER=SHA-256`, or take it out")


def _refused(
    namespace: str,
    hub: str,
    exchanges: Iterable[ExchangeFacts],
    others: Mapping[str, str],
    here: Here,
) -> Iterator[WayFault]:
    """The clusters whose exports are refused, since they are not signed as was agreed on."""
    relay = Relay(others, here.key, _nowhere, here.signer, here.now)
    said: set[str] = set()
    for each in exchanges:
        for name, text in sorted(each.relayed.items() if here.key else ()):
            service, other = byway.of_told(name)
            why = byway.problem_of(text, other, hub, relay) if other in others else ""
            if why and other not in said:
                said.add(other)
                what = f"{namespace}/{service} of {other} by way of {hub} is left out: {why}"
                again = f"{_WRITE}, here and at {other}: `liqod status` shows each cluster's key"
                if why == byway.ENDED:
                    again = f"see that liqod runs at {other} and at {hub}, which sign and hand on"
                yield WayFault(namespace, what, again, each.age)


def _not_passed(
    namespace: str,
    hub: str,
    exchanges: Iterable[ExchangeFacts],
    others: Mapping[str, str],
    ready: Mapping[str, float],
) -> Iterator[WayFault]:
    """The clusters that have not taken an export which the peer between has."""
    passed: dict[str, bool | None] = {}
    age = 0.0
    for each in exchanges:
        age = max(age, each.age)
        for name, taken in each.passed.items():
            passed[name] = taken or passed.get(name, taken)
    for other in sorted(others):
        lacking = [
            service
            for service, cluster in map(byway.of_told, sorted(passed))
            if cluster == other and not passed[byway.told_name(service, cluster)]
        ]
        late = [each for each in lacking if each in ready]
        if late:
            what = f"{namespace}/{late[0]} is not known to {other} by way of {hub}"
            remedy = (
                f"see that {other} names this cluster with its present key, and that [network]"
                f" transit of {hub} names the two"
            )
            if passed[byway.told_name(late[0], other)] is None:
                remedy = f"have {hub} share fewer exports with {other}: it has no room for this one"
            yield WayFault(namespace, what, remedy, min(age, ready[late[0]]))


def _ready(known: SharedServices) -> dict[str, dict[str, float]]:
    """The exports that peers know, by namespace and name, and since how many seconds."""
    found: dict[str, dict[str, float]] = {}
    for each in known.exports:
        said = each.conditions.get(READY)
        if said is not None and said.status == "True":
            found.setdefault(each.key[0], {})[each.key[1]] = said.lasts
    return found


def _nowhere(address: str) -> Remapped:
    return Remapped("", address)
