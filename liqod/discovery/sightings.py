"""Selects the sightings that are kept, and merges those of one cluster. Pure: times are given.

A sighting is a hint. Anybody in the same network may make any number of them, so what is kept is
bounded, by cluster and in all, and of one plugin's many no other plugin's few are lost: where all
places are taken, one that has fewer than another gets one of that one's. Where there is no place,
what is worth more goes first: a cluster that the operator named, then one whose advert holds.

The key of a cluster is that of its advert. Where adverts of one id are signed by different keys,
somebody is not who he says: all are shown, and none is used but by who knows the right key.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from liqod.plugins.providers import Sighting

MOST_SEEN = 1024
"""Sightings that are kept."""
MOST_SOURCES = 8
"""Of one plugin and cluster."""
MOST_ADDRESSES = 8
"""Of one cluster, that are tried."""
MOST_SIGNED = MOST_ADDRESSES // 2
"""Of its newest advert, before those of other sources."""

SightingKey = tuple[str, str, str]
"""Plugin, cluster and source."""


class SightingRank(IntEnum):
    """The rank of a sighting where not all can be kept."""

    CLAIMED = 0
    VERIFIED = 1
    NAMED = 2
    """The operator has named the cluster."""


class AdvertContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an advert with a valid signature.

    Attributes:
        cluster_id: whose it is.
        key: SHA-256 of the public key that has signed it, in hex.
        serial: of two adverts of a key, the larger one counts; compared with no clock.
        addresses: ``HOST:PORT`` at which the cluster says that it is reached.
        capabilities: what it can do, by name.
        free: what it could lend now, as quantities by resource; empty where it does not say.
    """

    cluster_id: str
    key: str
    serial: int = 0
    addresses: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    free: Mapping[str, str] = {}


class KeptSighting(msgspec.Struct, frozen=True, kw_only=True):
    """A sighting that is kept.

    Attributes:
        seen: as the plugin reports it.
        since: unix time since when this source shows this cluster.
        until: when it ends, by the clock that :class:`SightingStore` is given.
        verified: what its advert says; None where there is none, or it does not hold.
        problem: why the advert does not hold, in a clause.
        worth: what it is worth where not all can be kept.
    """

    seen: Sighting
    since: float
    until: float = math.inf
    verified: AdvertContent | None = None
    problem: str = ""
    worth: SightingRank = SightingRank.CLAIMED

    @property
    def key(self) -> SightingKey:
        """The key by which it is kept."""
        return key_of(self.seen)


def key_of(seen: Sighting) -> SightingKey:
    """The key by which a sighting is kept."""
    return (seen.plugin, seen.cluster_id, seen.where)


class SeenCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster: all that is seen of it.

    Attributes:
        cluster_id: its id.
        entries: one for each source, the oldest first.
    """

    cluster_id: str
    entries: tuple[KeptSighting, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that adverts of this id are signed by: more than one is a conflict."""
        found = (each.verified.key for each in self.entries if each.verified is not None)
        return tuple(dict.fromkeys(found))

    @property
    def key(self) -> str:
        """The one key; empty where none is known, or several are."""
        keys = self.keys
        return keys[0] if len(keys) == 1 else ""

    def plugins(self, key: str) -> frozenset[str]:
        """The plugins that have seen it by an advert which this key has signed."""
        return frozenset(
            each.seen.plugin
            for each in self.entries
            if each.verified is not None and each.verified.key == key
        )

    @property
    def conflict(self) -> bool:
        """True if adverts of different keys claim to be this cluster."""
        return len(self.keys) > 1

    @property
    def kubeconfig(self) -> str:
        """Path of a peering user's kubeconfig, where a source brings one; else empty."""
        return next((each.seen.kubeconfig for each in self.entries if each.seen.kubeconfig), "")

    def newest(self, key: str = "") -> AdvertContent | None:
        """The newest advert of that key (of the one key, if none is given); None without one."""
        wanted = key or self.key
        told = [each.verified for each in self.entries if each.verified is not None]
        return max(
            (each for each in told if each.key == wanted),
            key=lambda each: each.serial,
            default=None,
        )

    def addresses(self, key: str = "") -> tuple[str, ...]:
        """Addresses to try, the best first; at most :data:`MOST_ADDRESSES`.

        First what its newest advert says, up to :data:`MOST_SIGNED`, then what other sources that
        are still there show under the same key, which may be the only one that is right (DNS
        beside mDNS), then where the cluster is seen without an advert. The server at any of them
        has to show the key all the same.

        Args:
            key: the key that is expected. Without one there are none in a conflict.
        """
        if not key and self.conflict:
            return ()
        wanted = key or self.key
        newest = self.newest(wanted)
        signed = newest.addresses if newest is not None else ()
        fresh, older = list[Sequence[str]](), list[Sequence[str]]()
        for each in self.entries:
            if each.verified is None or each.verified.key != wanted:
                continue
            if each.verified == newest:
                fresh.append(each.seen.addresses)
            else:
                older.append((*each.verified.addresses, *each.seen.addresses))
        claimed = [
            each.seen.addresses
            for each in self.entries
            if each.verified is None and not each.problem
        ]
        found = (
            *signed[:MOST_SIGNED],
            *_in_turn([*fresh, *older]),
            *signed[MOST_SIGNED:],
            *_in_turn(claimed),
        )
        return tuple(dict.fromkeys(found))[:MOST_ADDRESSES]


def _in_turn(lists: Sequence[Sequence[str]]) -> list[str]:
    """The first address of each, then the second of each: none with many hides the others'."""
    longest = max(map(len, lists), default=0)
    return [each[at] for at in range(longest) for each in lists if at < len(each)]


class SightingStore:
    """The sightings that are kept.

    Args:
        most: how many.

    Attributes:
        entries: by plugin, cluster and source; read it, do not write it.
        counts: how many of them are of each plugin; likewise.
    """

    def __init__(self, most: int = MOST_SEEN) -> None:
        self._most = most
        self.entries: dict[SightingKey, KeptSighting] = {}
        self._clusters: dict[str, list[SightingKey]] = {}
        self.counts: Counter[str] = Counter()

    def seen(self, cluster_id: str) -> SeenCluster | None:
        """All that is seen of one cluster; None where that is nothing."""
        keys = self._clusters.get(cluster_id)
        if not keys:
            return None
        return SeenCluster(cluster_id=cluster_id, entries=tuple(self.entries[key] for key in keys))

    def clusters(self) -> tuple[str, ...]:
        """The ids of all clusters that are seen, in the order in which they came."""
        return tuple(self._clusters)

    def take(self, entry: KeptSighting) -> tuple[KeptSighting, ...] | None:
        """Keep an entry.

        Returns:
            Those that had to go for it; None where there is no place for it.
        """
        key = entry.key
        before = self.entries.get(key)
        if before is not None:
            self.entries[key] = msgspec.structs.replace(entry, since=before.since)
            return ()
        gone: tuple[KeptSighting, ...] = ()
        pool, fair = self._crowded(entry)
        if pool:
            weakest = self.entries[min(pool, key=lambda each: self.entries[each].worth)]
            if not (weakest.worth < entry.worth or (fair and weakest.worth < SightingRank.NAMED)):
                return None
            self.drop(weakest.key)
            gone = (weakest,)
        self.entries[key] = entry
        self._clusters.setdefault(entry.seen.cluster_id, []).append(key)
        self.counts[entry.seen.plugin] += 1
        return gone

    def drop(self, key: SightingKey) -> KeptSighting | None:
        """Remove an entry; the removed one, or None where there was none."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        self.counts[entry.seen.plugin] -= 1
        of_it = self._clusters[entry.seen.cluster_id]
        of_it.remove(key)
        if not of_it:
            del self._clusters[entry.seen.cluster_id]
        return entry

    def expired(self, now: float) -> tuple[KeptSighting, ...]:
        """Drop what has ended by now, and say what."""
        over = [key for key, entry in self.entries.items() if entry.until <= now]
        return tuple(entry for key in over if (entry := self.drop(key)) is not None)

    @property
    def fullest(self) -> str:
        """The plugin that has the most places, where all are taken; empty while some are free."""
        if len(self.entries) < self._most:
            return ""
        return self.counts.most_common(1)[0][0]

    @property
    def ends(self) -> bool:
        """True if anything that is kept ends by itself."""
        return any(entry.until < math.inf for entry in self.entries.values())

    def _crowded(self, entry: KeptSighting) -> tuple[list[SightingKey], bool]:
        """From what one has to go for a new entry, newest first, and whether it is its fair share.

        Nothing has to go where the list is empty.
        """
        plugin, cluster, _ = entry.key
        same = [key for key in self._clusters.get(cluster, ()) if key[0] == plugin]
        if len(same) >= MOST_SOURCES:
            return same[::-1], False
        if len(self.entries) < self._most:
            return [], False
        fullest = self.fullest
        count = self.counts[fullest]
        pool = [key for key in self.entries if key[0] == fullest]
        return pool[::-1], self.counts[plugin] + 1 < count
