"""Selects the sightings that are kept, and merges those of one cluster. Pure: times are given.

A sighting is a hint. Any host in the same network can make any number of them, so the number kept
is bounded, by cluster and in all, and the many of one plugin do not displace the few of another:
when all places are taken, a plugin with fewer places gets one of a plugin with more. When there is
no place, the rank decides: a cluster named by the operator first, then one with a valid advert.

The key of a cluster is that of its advert. When adverts of one id are signed by different keys,
one of them is false: all are shown, and none is used without knowledge of the right key.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from liqod.plugins.providers import Sighting

MOST_SEEN = 1024
"""Most sightings kept."""
MOST_SOURCES = 8
"""Most sightings of one plugin and cluster."""
MOST_ADDRESSES = 8
"""Most addresses of one cluster that are tried."""
MOST_SIGNED = MOST_ADDRESSES // 2
"""Most addresses of its newest advert, before those of other sources."""

SightingKey = tuple[str, str, str]
"""Plugin, cluster and source."""


class SightingRank(IntEnum):
    """The rank of a sighting when not all can be kept."""

    CLAIMED = 0
    VERIFIED = 1
    NAMED = 2
    """The operator has named the cluster."""


class AdvertContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an advert with a valid signature.

    Attributes:
        cluster_id: id of its cluster.
        key: SHA-256 of the public key that has signed it, in hex.
        serial: of two adverts of a key, the larger one counts; compared with no clock.
        addresses: ``HOST:PORT`` of the cluster, by its own account.
        capabilities: its capabilities, by name.
        free: resources that it could lend now, as quantities; empty if not given.
    """

    cluster_id: str
    key: str
    serial: int = 0
    addresses: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    free: Mapping[str, str] = {}


class KeptSighting(msgspec.Struct, frozen=True, kw_only=True):
    """A kept sighting.

    Attributes:
        seen: the sighting as reported by the plugin.
        since: Unix time since which this source shows this cluster.
        until: its end, by the clock that :class:`SightingStore` is given.
        verified: content of its advert; None without one, or if it is invalid.
        problem: reason that the advert is invalid, in a clause.
        worth: its rank when not all can be kept.
    """

    seen: Sighting
    since: float
    until: float = math.inf
    verified: AdvertContent | None = None
    problem: str = ""
    worth: SightingRank = SightingRank.CLAIMED

    @property
    def key(self) -> SightingKey:
        """The key under which it is kept."""
        return key_of(self.seen)


def key_of(seen: Sighting) -> SightingKey:
    """The key under which a sighting is kept."""
    return (seen.plugin, seen.cluster_id, seen.where)


class SeenCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster with all its sightings.

    Attributes:
        cluster_id: its id.
        entries: one for each source, the oldest first.
    """

    cluster_id: str
    entries: tuple[KeptSighting, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that sign adverts of this id: more than one is a conflict."""
        found = (each.verified.key for each in self.entries if each.verified is not None)
        return tuple(dict.fromkeys(found))

    @property
    def key(self) -> str:
        """The only key; empty if none is known, or several are."""
        keys = self.keys
        return keys[0] if len(keys) == 1 else ""

    def plugins(self, key: str) -> frozenset[str]:
        """The plugins that have seen it with an advert signed by this key."""
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
        """Path of a peering user's kubeconfig, if a source has one; else empty."""
        return next((each.seen.kubeconfig for each in self.entries if each.seen.kubeconfig), "")

    def newest(self, key: str = "") -> AdvertContent | None:
        """The newest advert of that key (of the only key, if none is given); None without one."""
        wanted = key or self.key
        told = [each.verified for each in self.entries if each.verified is not None]
        return max(
            (each for each in told if each.key == wanted),
            key=lambda each: each.serial,
            default=None,
        )

    def addresses(self, key: str = "") -> tuple[str, ...]:
        """Addresses to try, the best first; at most :data:`MOST_ADDRESSES`.

        First those of its newest advert, up to :data:`MOST_SIGNED`, then those of other present
        sources under the same key, of which one may be the only right one (DNS beside mDNS), then
        those seen without an advert. The server at each of them must prove the key in any case.

        Args:
            key: the expected key. Without one there are none in a conflict.
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
    """The first address of each list, then the second of each: a long list hides no other."""
    longest = max(map(len, lists), default=0)
    return [each[at] for at in range(longest) for each in lists if at < len(each)]


class SightingStore:
    """The kept sightings, bounded in number.

    Args:
        most: most sightings kept.

    Attributes:
        entries: by plugin, cluster and source; read it, do not write it.
        counts: their number by plugin; likewise.
    """

    def __init__(self, most: int = MOST_SEEN) -> None:
        self._most = most
        self.entries: dict[SightingKey, KeptSighting] = {}
        self._clusters: dict[str, list[SightingKey]] = {}
        self.counts: Counter[str] = Counter()

    def seen(self, cluster_id: str) -> SeenCluster | None:
        """All sightings of one cluster; None without any."""
        keys = self._clusters.get(cluster_id)
        if not keys:
            return None
        return SeenCluster(cluster_id=cluster_id, entries=tuple(self.entries[key] for key in keys))

    def clusters(self) -> tuple[str, ...]:
        """The ids of all clusters seen, the oldest first."""
        return tuple(self._clusters)

    def take(self, entry: KeptSighting) -> tuple[KeptSighting, ...] | None:
        """Keep an entry.

        Returns:
            The entries removed for it; None if there is no place for it.
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
        """Remove an entry; the removed one, or None if there was none."""
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
        """Drop the entries that have expired; returns them."""
        over = [key for key, entry in self.entries.items() if entry.until <= now]
        return tuple(entry for key in over if (entry := self.drop(key)) is not None)

    @property
    def fullest(self) -> str:
        """The plugin with the most places, if all are taken; empty while some are free."""
        if len(self.entries) < self._most:
            return ""
        return self.counts.most_common(1)[0][0]

    @property
    def ends(self) -> bool:
        """True if any entry ends by itself."""
        return any(entry.until < math.inf for entry in self.entries.values())

    def _crowded(self, entry: KeptSighting) -> tuple[list[SightingKey], bool]:
        """Entries that may be removed for a new one, newest first; True if its plugin is due one.

        With an empty list nothing has to go.
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
