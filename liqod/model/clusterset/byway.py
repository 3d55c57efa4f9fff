"""Exports that a cluster shares on: from one of its peers to another, which do not peer. Pure.

Three have to agree. Each of the two names the other in the namespace's annotation
(:data:`liqod.apimachinery.labels.SHARE_SERVICES_BY_WAY`), with the key that the other has, and the
cluster between allows transit for the two. The exporter signs each export, without its endpoints,
for the key of the one that may have it, for a week: the cluster between can invent no export,
change none, hand none on to somebody else, and go on with none for long that has ended. The
endpoints are told as addresses of the cluster between, which opens them by transit.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.model import ids
from liqod.model.clusterset.admission import Admitted, Relay, Scope, admit
from liqod.model.clusterset.exports import Consent, Endpoint, Export, Key, Slice, marked
from liqod.resources.exchanges import LONGEST, MOST_EXPORTS

MOST_OTHERS: Final = 8
"""Clusters that a namespace names as those by way of one peer."""
LEFT_OUT: Final = "no room"
"""The word of the cluster between, in place of a mark, on an export that it has no room for."""
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_TITLE: Final = "liqod export by way of a third cluster, 1"
DAY: Final = 86_400
"""Seconds after which consents are signed anew."""
ENDED: Final = "its signature has ended, and no later one has come"
_DAYS: Final = 8
"""Days that a consent counts, the one on which it is signed among them."""


def told_name(name: str, cluster: str) -> str:
    """The name of an export of a third cluster's in a ServiceExchange, or of its confirmation by
    one. No Service has a dot in its name."""
    return f"{name}.{cluster}"


def of_told(name: str) -> tuple[str, str]:
    """The Service of a name in a ServiceExchange, and the third cluster; empty for neither."""
    service, _, cluster = name.partition(".")
    return service, cluster


class Entry(NamedTuple):
    """One entry of the annotation.

    Attributes:
        text: as it stands there.
        hub: id of the peer by way of which the other cluster is.
        cluster: id of the other one.
        key: SHA-256 of the other one's key.
        problem: the reason why it counts for nothing, a clause; empty if it counts.
    """

    text: str
    hub: str
    cluster: str
    key: str
    problem: str = ""


def entries(annotations: Mapping[str, str]) -> Iterator[Entry]:
    """The entries of a namespace's annotation, those that count for nothing too."""
    seen: dict[str, set[str]] = {}
    known: dict[str, str] = {}
    texts = annotations.get(labels.SHARE_SERVICES_BY_WAY, "").split(",")
    for text in filter(None, map(str.strip, texts)):
        way, _, key = text.partition("=")
        hub, _, cluster = way.partition("/")
        entry, others = Entry(text, hub, cluster, key), seen.setdefault(hub, set())
        if not (ids.is_dns_label(hub) and ids.is_dns_label(cluster) and _KEY.fullmatch(key)):
            yield entry._replace(problem="it is not as `rome/turin=` and the SHA-256 of a key")
        elif cluster in others:
            yield entry._replace(problem=f"{cluster} is named by way of {hub} already")
        elif len(others) == MOST_OTHERS:
            yield entry._replace(problem=f"{MOST_OTHERS} are named by way of {hub} already")
        elif known.setdefault(cluster, key) != key:  # each hub has given the id to one of its own
            yield entry._replace(problem=f"{cluster} is named with another key already")
        else:
            others.add(cluster)
            yield entry


def agreed(annotations: Mapping[str, str], hub: str) -> dict[str, str]:
    """The clusters with which a namespace is shared by way of a peer, with the keys of them.

    Args:
        annotations: of the namespace.
        hub: id of the peer.
    """
    return {
        each.cluster: each.key
        for each in entries(annotations)
        if each.hub == hub and not each.problem
    }


def end_of(now: float) -> int:
    """The Unix time until which a consent counts that is signed now: the same for a whole day."""
    return (int(now) // DAY + _DAYS) * DAY


def statement(export: str | bytes, hub: str, reader: str, until: int) -> bytes:
    """The words that an exporter signs.

    Args:
        export: the export as JSON, which has its cluster, namespace and name in it.
        hub: id of the cluster between.
        reader: SHA-256 of the key of the cluster that may have it.
        until: the Unix time from which they count no more.

    Raises:
        msgspec.DecodeError: it is no export.
    """
    return msgspec.json.encode([_TITLE, hub, reader, until, marked(export)])


class _Fields(msgspec.Struct):
    by_way: dict[str, Consent] = msgspec.field(name="byWay", default={})


class _Endpoints(msgspec.Struct):
    slices: tuple[Slice, ...] = ()


def consents(told: str) -> dict[str, Consent]:
    """The clusters that may have an export on from the one that it is told; none if unreadable."""
    try:
        return msgspec.json.decode(told, type=_Fields).by_way
    except (msgspec.DecodeError, RecursionError):
        return {}


def admit_by_way(told: str, wanted: Key, origin: str, scope: Scope) -> Admitted:
    """An export of a third cluster as it is used, of what a peer tells.

    Args:
        told: the export, as JSON.
        wanted: the namespace and name under which it is told.
        origin: id of the third cluster.
        scope: what the peer may say.
    """
    relay = scope.relay
    problem = ""
    if wanted[0] in scope.namespaces:
        problem = problem_of(told, origin, scope.cluster, relay)
    if relay is None or problem:
        said = "{}/{}".format(*wanted)
        by = f"{origin[:63]!r} by way of {scope.cluster}"
        why = f"the export {said} of {by} is left out: {problem or 'the namespace is not shared'}"
        return Admitted(refused=(why,), refusals=1)
    return admit(told, wanted, Scope(origin, scope.namespaces, relay.lent))


def problem_of(told: str, origin: str, hub: str, relay: Relay | None) -> str:
    """The reason why an export is not taken for a third cluster's, a clause; empty if it is."""
    expected = relay.others.get(origin) if relay is not None else None
    if relay is None or expected is None:
        return f"{labels.SHARE_SERVICES_BY_WAY} of the namespace does not name it so"
    found = [each for each in consents(told).values() if len(each.signature) <= LONGEST]
    if len(found) != 1:
        return "it has not the one signature that it needs"
    try:
        message = statement(told, hub, relay.own, found[0].until)
        key = relay.signer(found[0].key.encode(), message, bytes.fromhex(found[0].signature))
    except (ValueError, msgspec.DecodeError, RecursionError):
        key = ""
    if not key:
        return f"as it is, it is not signed for this cluster's key {relay.own[:16]}… and {hub}"
    if key != expected:
        return f"it is signed with the key {key[:16]}…, and the namespace names {expected[:16]}…"
    if found[0].until <= relay.now:
        return ENDED
    # A day more, for clocks that differ.
    if found[0].until > relay.now + (_DAYS + 1) * DAY:
        return f"its signature is for more than {_DAYS} days: see the clocks of both clusters"
    return ""


def passed(told: str, reader: str, export: Export, cross: Callable[[str], str | None]) -> str:
    """An export of one peer as another peer is told it: all as it came, but for the endpoints.

    Args:
        told: the export as JSON, which has a consent for the reader.
        reader: id of the one that is told.
        export: the same, with endpoints as this cluster reaches them.
        cross: the address of this cluster's by which the reader reaches an endpoint; None for none.
    """
    slices = [
        msgspec.structs.replace(each, endpoints=tuple(_passed(each.endpoints, cross)))
        for each in export.slices
    ]
    fields = msgspec.json.decode(told, type=dict[str, msgspec.Raw])
    consent = {reader: consents(told)[reader]}
    made = {**fields, "slices": slices, "byWay": consent}
    return msgspec.json.encode(made).decode()


def _passed(found: Iterable[Endpoint], cross: Callable[[str], str | None]) -> Iterator[Endpoint]:
    for each in found:
        # One address for each: kube-proxy uses the first, and each takes a place of transit.
        address = cross(each.addresses[0])
        if address is not None:
            yield msgspec.structs.replace(each, addresses=(address,))


def unreached(export: Export) -> Export:
    """An export of a cluster to which nothing gets through: none of its endpoints is ready."""
    return msgspec.structs.replace(export, slices=_unready(export.slices))


def unready(told: str) -> str:
    """The same, of an export as JSON that this cluster has told."""
    fields = msgspec.json.decode(told, type=dict[str, msgspec.Raw])
    slices = msgspec.json.decode(fields.get("slices", b"[]"), type=tuple[Slice, ...])
    return msgspec.json.encode({**fields, "slices": _unready(slices)}).decode()


def has_ready(told: str) -> bool:
    """True if an export as JSON has a ready endpoint: one that cannot be read has none."""
    try:
        slices = msgspec.json.decode(told, type=_Endpoints).slices
    except (msgspec.DecodeError, RecursionError):
        return False
    return any(one.ready for each in slices for one in each.endpoints)


def _unready(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    return tuple(
        msgspec.structs.replace(
            each,
            endpoints=tuple(
                msgspec.structs.replace(one, ready=False, serving=False) for one in each.endpoints
            ),
        )
        for each in slices
    )


def fitting(more: Mapping[str, str], count: int, room: int) -> dict[str, str]:
    """Those exports of other clusters for which there is room beside this cluster's own.

    Args:
        more: the exports by their names in the ServiceExchange.
        count: the number of this cluster's own.
        room: characters that are left.
    """
    found: dict[str, str] = {}
    for name, text in sorted(more.items()):
        if count + len(found) < MOST_EXPORTS and len(text) <= min(room, LONGEST):
            found[name] = text
            room -= len(text)
    return found


def read(annotations: Mapping[str, str]) -> dict[str, str]:
    """The peers by way of which an import has exports, by the exporters, of its annotations."""
    pairs = (each.partition("=") for each in annotations.get(labels.BY_WAY, "").split(","))
    return {cluster: hub for cluster, _, hub in pairs if hub}


def render(ways: Mapping[str, str]) -> str:
    """The same, as an annotation has them."""
    return ",".join(f"{cluster}={hub}" for cluster, hub in sorted(ways.items()))
