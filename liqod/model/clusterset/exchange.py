"""The exports of this cluster as one peer is told them, and those of a peer as they are read. Pure.

Both clusters have to share a namespace, each by its own word: the name is the same in both.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.clusterset.admission import Scope, is_admitted
from liqod.model.clusterset.byway import admit_by_way, of_told
from liqod.model.clusterset.exports import Consent, Endpoint, Export, mark_of, sent
from liqod.model.crossing.exclusions import RESERVED
from liqod.model.network.remapping import Remapped
from liqod.resources.exchanges import LONGEST, MOST_EXPORTS, MOST_NAMESPACES

MOST_TOLD: Final = 512 << 10
"""Characters of all exports of one namespace: the object has both clusters' and must fit etcd."""
TOO_LONG: Final = (
    f"it takes more than {LONGEST:,} characters, those of some 600 endpoints: spread them over "
    "several Services"
)
TOO_MANY: Final = (
    f"{MOST_EXPORTS} exports of its namespace are told, in the order of their names: have some in "
    "another namespace"
)
TOO_MUCH: Final = (
    f"the exports of its namespace take {MOST_TOLD:,} characters, those told first by the order of "
    "their names: have some in another namespace"
)
NO_ROOM: Final = (
    f"exports of {MOST_NAMESPACES} namespaces are exchanged with that cluster, and no more: share "
    "fewer with it"
)
_EVERY: Final = "*"
_NEVER: Final = ("default",)


class Told(msgspec.Struct, frozen=True):
    """The exports of one namespace as a peer is told them.

    Attributes:
        texts: the exports, by the name of the Service.
        left_out: the bound that keeps others from being told, by the same.
    """

    texts: dict[str, str] = {}
    left_out: dict[str, str] = {}


def exchange_name(namespace: str, provider: str) -> str:
    """The name of a ServiceExchange: two clusters that borrow from each other have one each."""
    return f"{namespace}.{provider}"


def exchange_namespace(name: str) -> str:
    """The namespace that a ServiceExchange of that name speaks of."""
    return name.rpartition(".")[0]


def is_shared(
    namespace: ObjectMeta, peer: str, offloaded: Mapping[str, str], own: Collection[str] = ()
) -> bool:
    """True if exports of a namespace of this cluster cross to a peer, and its exports to here.

    Args:
        namespace: its metadata.
        peer: the id of the peer.
        offloaded: the names that namespaces of this cluster have at the peer.
        own: the namespaces of liqod itself.
    """
    name, marks = namespace.name, namespace.annotations
    kept = name.startswith(tuple(RESERVED)) or name in (*_NEVER, *own)
    if kept or labels.TENANT_NAMESPACE in namespace.labels or namespace.deletion_timestamp:
        return False
    guest = labels.MANAGED_BY_NAMESPACE_MAP in marks
    if guest and namespace.labels.get(labels.REMOTE_CLUSTER_ID) == peer:
        return True
    if offloaded.get(name) == name:
        return True
    named = {each.strip() for each in marks.get(labels.SHARE_SERVICES, "").split(",")}
    return peer in named or _EVERY in named


def mark(export: Export) -> str:
    """The mark by which a peer confirms an export.

    Endpoints do not count: they change all the time, and no condition would keep still.
    """
    return mark_of(msgspec.json.encode(export))


def confirmed(told: str, namespace: str, name: str, scope: Scope) -> str:
    """The mark of a peer's export that is taken; empty for one that is not.

    Addresses do not count.

    Args:
        told: the export as the peer tells it.
        namespace: the one that it is of.
        name: its name in the ServiceExchange.
        scope: what the peer may say.
    """
    service, origin = of_told(name)
    if origin:
        taken = admit_by_way(told, (namespace, service), origin, scope).export is not None
    else:
        taken = is_admitted(told, (namespace, name), scope)
    return mark_of(told) if taken else ""


def tell(names: Iterable[str], text_of: Callable[[str], str]) -> Told:
    """The exports as a peer is told them; those beyond the bounds are not read.

    Args:
        names: of the ServiceExports of one namespace.
        text_of: the export of a name as it is told (:func:`text`); empty where it is none.
    """
    texts: dict[str, str] = {}
    left_out: dict[str, str] = {}
    length, full = 0, ""
    for name in sorted(names):
        full = full or (TOO_MANY if len(texts) >= MOST_EXPORTS else "")
        found = text_of(name) if not full else ""
        if len(found) > LONGEST:
            left_out[name] = TOO_LONG
            continue
        full = full or (TOO_MUCH if length + len(found) > MOST_TOLD else "")
        if full:
            left_out[name] = full
        elif found:
            texts[name] = found
            length += len(found)
    return Told(texts, left_out)


def text(
    export: Export,
    cross: Callable[[str], Remapped],
    virtual: Collection[str] = frozenset(),
    by_way: dict[str, Consent] | None = None,
) -> str:
    """An export as a peer is told it.

    Args:
        export: the export.
        cross: the form in which an address is sent to the peer. One that is no pod's of this
            cluster is left out: an endpoint is told by the cluster that has it.
        virtual: the names of this cluster's virtual nodes, whose pods run at peers.
        by_way: the consents that the peer tells other clusters of it.
    """
    found = _crossing(sent(export, virtual), cross)
    return msgspec.json.encode(msgspec.structs.replace(found, by_way=by_way or {})).decode()


def _crossing(export: Export, cross: Callable[[str], Remapped]) -> Export:
    slices = (
        msgspec.structs.replace(each, endpoints=tuple(_endpoints(each.endpoints, cross)))
        for each in export.slices
    )
    return msgspec.structs.replace(export, slices=tuple(slices))


def _endpoints(found: Iterable[Endpoint], cross: Callable[[str], Remapped]) -> Iterable[Endpoint]:
    for each in found:
        crossed = [cross(address) for address in each.addresses]
        addresses = tuple(one.address for one in crossed if not one.problem)
        if addresses:
            yield msgspec.structs.replace(each, addresses=addresses)
