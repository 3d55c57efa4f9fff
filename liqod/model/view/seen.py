"""The clusters that are seen, as in `liqod discover`: one for each id, with the next step."""

from collections.abc import Iterable

import msgspec

from liqod.model.view.daemonfacts import SightingFacts


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One source that shows a cluster.

    Fields as of :class:`liqod.model.view.daemonfacts.SightingFacts`.
    """

    plugin: str
    where: str
    since: float
    addresses: tuple[str, ...]
    key: str
    unverified: str
    proof: str


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that is seen.

    Attributes:
        id: its id, as it is announced.
        verified: ``signed``, ``unsigned``, ``forged`` or ``conflict``.
        key: SHA-256 of the one key that has signed its adverts, in hex; empty without one.
        peer: whether it is a peer already.
        since: unix time since when it is seen.
        offers: the resources that it could lend, as quantities, where it announces them.
        capabilities: the functions of its daemon, by name.
        next: the next step with it, in a sentence; empty for none.
        sources: the sources that show it, the oldest first.
    """

    id: str
    verified: str
    key: str
    peer: bool
    since: float
    offers: dict[str, str]
    capabilities: tuple[str, ...]
    next: str
    sources: tuple[Source, ...]


def clusters(rows: Iterable[SightingFacts]) -> tuple[Cluster, ...]:
    """The clusters that the rows show, by id."""
    by_id: dict[str, list[SightingFacts]] = {}
    for row in rows:
        by_id.setdefault(row.cluster_id, []).append(row)
    return tuple(_cluster(name, by_id[name]) for name in sorted(by_id))


def _cluster(name: str, rows: list[SightingFacts]) -> Cluster:
    rows.sort(key=lambda row: (row.seen, row.plugin, row.where))
    keys = tuple(dict.fromkeys(row.key for row in rows if row.key))
    told = next((row for row in rows if row.free or row.capabilities), rows[0])
    return Cluster(
        id=name,
        verified=verified(rows),
        key=keys[0] if len(keys) == 1 else "",
        peer=any(row.peered for row in rows),
        since=rows[0].seen,
        offers=told.free,
        capabilities=told.capabilities,
        next=next_step(name, rows),
        sources=tuple(
            Source(
                plugin=row.plugin,
                where=row.where,
                since=row.seen,
                addresses=row.addresses,
                key=row.key,
                unverified=row.unverified,
                proof=row.proof,
            )
            for row in rows
        ),
    )


def verified(rows: list[SightingFacts]) -> str:
    """The verification of a cluster's identity, in a word."""
    if any(row.conflict for row in rows):
        return "conflict"
    if any(row.key for row in rows):
        return "signed"
    return "forged" if any(row.unverified for row in rows) else "unsigned"


def next_step(name: str, rows: list[SightingFacts]) -> str:
    """The next step for one cluster, as a sentence; empty for none."""
    first = rows[0]
    if first.own:
        return "it has this cluster's id: no two that meet may have the same"
    if any(row.conflict for row in rows):
        return (
            "two clusters have this id: ask its operator for its key, and name that in a"
            f" [[peers]] entry with id = '{name}': then `liqod peer {name}` asks that one"
        )
    if first.peered:
        return ""
    if first.problem:
        return f"peering with it fails: {first.problem}"
    if first.step:
        return f"being peered with: {first.step}"
    if first.waits:
        return f"a [[peers]] entry with id = '{name}' has it peered with"
    reached = any(row.addresses and not row.unverified for row in rows)
    if reached and any(row.key or row.named for row in rows):
        return f"`liqod peer {name}` asks it"
    if reached:
        return f"`liqod peer {name}` asks it; compare the words with its operator"
    if all(row.unverified for row in rows):
        return "leave it: what it says of itself does not hold"
    return "ask its operator for an invitation (`liqod invite`)"
