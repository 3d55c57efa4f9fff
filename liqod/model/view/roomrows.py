"""Rows of the viewers' page on room: of nodes, of pods that wait, of peers that are avoided. Pure.

Nothing is decided here. The allocatable resources are the scheduler's numbers, and the free ones
the provider's word. All that others write is bounded.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import capacity, freecapacity
from liqod.model.peering.freecapacity import FreeCapacity, NodeGroup
from liqod.model.view.requests import unix
from liqod.model.view.rows import NodeRow, Row

HOME: Final = ""
"""The key of this cluster's own nodes."""
MOST_NODES: Final = 600
BYTES: Final = 1 << 22
"""Of the groups of all virtual nodes; beyond, they are left out."""
MOST_GROUPS: Final = 8
"""Groups of one virtual node, those with the most free first."""
MOST_SIZES: Final = 3
"""Sizes of the largest pods."""
MOST_RESOURCES: Final = 6
MOST_WAITS: Final = 200
"""Groups of pods that wait, the largest first."""
MOST_MARKS: Final = 200
MESSAGE: Final = 400
"""Characters of a reason."""
WORD: Final = 100
"""Characters of labels, of taints, and of a name."""
_FIRST: Final = {"cpu": 0, "memory": 1}
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,100}", re.ASCII)
_encode = msgspec.json.Encoder().encode


class FreeGroup(Row, frozen=True):
    """Alike nodes of a provider.

    Attributes:
        nodes: their number.
        labels: those that they have, in a line.
        taints: likewise.
        free: resources in all.
        largest: sizes of the largest pods that fit.
    """

    nodes: int = 1
    labels: str = ""
    taints: str = ""
    free: dict[str, str] = msgspec.field(default_factory=dict)
    largest: tuple[dict[str, str], ...] = ()


class NodeRoom(Row, frozen=True):
    """The room of one virtual node, or of this cluster's own nodes.

    Attributes:
        peer: the provider; empty for this cluster.
        message: the reason why it is not Ready; empty where it is.
        allocatable: of its Node; empty where that is not known.
        told: whether its provider tells what is free.
        free: in all, by the provider's word.
        largest: sizes of the largest pods that fit.
        groups: the provider's nodes.
        more: number of groups that are left out.
        autoscales: whether the provider adds nodes where pods wait.
        not_told_since: time since when the provider tells nothing of this part any more.
        at: time when the word was first seen as it is.
        older: whether it may be older than that.
    """

    peer: str = HOME
    message: str = ""
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)
    told: bool = False
    free: dict[str, str] = msgspec.field(default_factory=dict)
    largest: tuple[dict[str, str], ...] = ()
    groups: tuple[FreeGroup, ...] = ()
    more: int = 0
    autoscales: bool = False
    not_told_since: float = 0.0
    at: float = 0.0
    older: bool = False


class WaitGroup(Row, frozen=True):
    """Pods of one owner that wait at one place for one cause.

    Attributes:
        namespace: theirs.
        name: of one of them.
        owner: kind and name of their controller; empty for a pod without one.
        pods: their number.
        node: the virtual node; empty for pods that have no node yet.
        peer: that node's.
        cause: in one word, by who decided.
        message: the reason in the words of the same.
        step: the status of the condition ``liqod.io/Returning``: ``Unknown`` while the time runs
            after which they return, ``False`` while they are ended there, ``True`` once they are;
            empty where they do not return.
        since: time since when the first of them waits.
    """

    namespace: str
    name: str
    owner: str = ""
    pods: int = 1
    node: str = ""
    peer: str = ""
    cause: str = ""
    message: str = ""
    step: str = ""
    since: float = 0.0


class MarkRow(Row, frozen=True):
    """A peer that pods of one controller avoid, since it could not start others of them.

    Attributes:
        namespace: the controller's.
        owner: its kind and name.
        peer: the peer.
        cause: why the pods could not start there, in one word.
        message: the peer's words.
        since: time of the return.
        until: time until which they avoid it.
        times: returns in a row.
        asked: requests with which it ends before, where the peer has room for them.
    """

    namespace: str
    owner: str
    peer: str
    cause: str = ""
    message: str = ""
    since: float = 0.0
    until: float = 0.0
    times: int = 1
    asked: dict[str, str] = msgspec.field(default_factory=dict)


class RoomSums(Row, frozen=True):
    """The numbers of all rows, also of those that are left out.

    Attributes:
        nodes: virtual nodes.
        here: pods that wait in this cluster.
        there: pods that wait at peers.
        waits: groups of pods that wait.
        marks: peers that controllers avoid.
    """

    nodes: int = 0
    here: int = 0
    there: int = 0
    waits: int = 0
    marks: int = 0


class ToldRoom(Row, frozen=True):
    """A provider's word on what is free; fields as of :class:`NodeRoom`."""

    free: dict[str, str] = msgspec.field(default_factory=dict)
    largest: tuple[dict[str, str], ...] = ()
    groups: tuple[FreeGroup, ...] = ()
    more: int = 0
    autoscales: bool = False


class SeenWord(NamedTuple):
    """A provider's word by its hash, when it was first seen, and whether another was before."""

    digest: int
    at: float
    changed: bool = False


def seen_words(
    before: Mapping[str, SeenWord], words: Mapping[str, int], now: float
) -> dict[str, SeenWord]:
    """The age of each word: an unchanged one keeps its time.

    Args:
        before: those of the last look, by virtual node.
        words: hashes of those that there are now.
        now: Unix time.
    """
    return {
        node: known
        if (known := before.get(node)) is not None and known.digest == digest
        else SeenWord(digest, now, known is not None)
        for node, digest in words.items()
    }


@lru_cache(maxsize=1024)
def told_room(text: str) -> ToldRoom | None:
    """The word in a provider's annotation; None for one that cannot be believed."""
    found = freecapacity.read(text)
    if found is None:
        return None
    free = [(read_amounts(each.free), each) for each in found.groups]
    free.sort(key=lambda pair: -pair[0].get("cpu", 0))
    sizes = capacity.fewer(capacity.largest_machines(_sizes(found)), MOST_SIZES)
    return ToldRoom(
        shown_amounts(quantities.total(amounts for amounts, _ in free)),
        tuple(map(shown_amounts, sizes)),
        tuple(_group(amounts, each) for amounts, each in free[:MOST_GROUPS]),
        max(0, len(free) - MOST_GROUPS),
        found.autoscales,
    )


def rooms(
    nodes: Iterable[NodeRow],
    notes: Mapping[str, Mapping[str, str]],
    words: Mapping[str, SeenWord],
) -> dict[str, NodeRoom]:
    """The room of virtual nodes.

    Args:
        nodes: their rows, by name.
        notes: the annotations of each VirtualNode, by its name.
        words: the age of each provider's word, likewise.
    """
    found, left = {}, BYTES
    for row in islice(nodes, MOST_NODES):
        known = notes.get(row.name, {})
        made = _room(known.get(labels.FREE_CAPACITY, ""), row.resources, words.get(row.name))
        made = msgspec.structs.replace(
            made,
            peer=row.peer,
            message=clipped(row.message, MESSAGE),
            not_told_since=written_time(known.get(labels.NOT_TOLD_SINCE)),
        )
        left -= len(_encode(made.groups))
        if left < 0:
            made = msgspec.structs.replace(made, groups=(), more=len(made.groups) + made.more)
        found[row.name] = made
    return found


def home_room(own: Mapping[str, int], text: str) -> NodeRoom:
    """The room of this cluster's own nodes.

    Args:
        own: their allocatable resources, in billionths; empty where they are not known.
        text: what consumers are told of them; empty where that is not known.
    """
    return msgspec.structs.replace(_room(text, quantities.render_all(own), None), older=False)


def written_time(stamp: str | None) -> float:
    """Unix seconds of a time that anybody may have written; of nonsense a time long ago."""
    try:
        return unix(stamp)
    except (ValueError, OverflowError):
        return 1.0


def _room(text: str, allocatable: Mapping[str, int | str], word: SeenWord | None) -> NodeRoom:
    made = NodeRoom(allocatable=shown_amounts(read_amounts(allocatable)))
    told = told_room(text) if text else None
    if told is None:
        return made
    return msgspec.structs.replace(
        made,
        told=True,
        **msgspec.structs.asdict(told),
        at=word.at if word is not None else 0.0,
        older=word is None or not word.changed,
    )


def clipped(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _sizes(found: FreeCapacity) -> Iterable[Amounts]:
    """The sizes of what fits on one node; a machine that is told by itself has all that is free."""
    for each in found.groups:
        for size in (each.free,) if each.key else each.largest:
            yield read_amounts(size)


def _group(free: Amounts, found: NodeGroup) -> FreeGroup:
    sizes = (found.free,) if found.key else found.largest[:MOST_SIZES]
    marks = " ".join(f"{key}={value}" for key, value in sorted(found.labels.items()))
    return FreeGroup(
        found.nodes,
        clipped(marks, WORD),
        clipped(" ".join(found.taints), WORD),
        shown_amounts(free),
        tuple(shown_amounts(read_amounts(each)) for each in sizes),
    )


def read_amounts(found: Mapping[str, int | str]) -> Amounts:
    """Billionths; nonsense counts as nothing known."""
    try:
        return quantities.parse_all(found)
    except ConfigError:
        return {}


def shown_amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Some of the resources, CPU and memory first."""
    names = sorted(filter(_NAME.fullmatch, amounts), key=_order)
    return quantities.render_all({name: amounts[name] for name in names[:MOST_RESOURCES]})


def _order(name: str) -> tuple[int, str]:
    return _FIRST.get(name, 2), name
