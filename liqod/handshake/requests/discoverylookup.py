"""Looks up what discovery knows of clusters that ask or are asked: hints, not proofs."""

from collections.abc import Callable

from liqod.discovery.sightings import SeenCluster

FindSeenCluster = Callable[[str], SeenCluster | None]
"""All that is seen of a cluster id; None for nothing."""


class DiscoveryLookup:
    """Answers the two questions of the handshake.

    Args:
        look: into what is seen.
    """

    def __init__(self, look: FindSeenCluster) -> None:
        self._look = look

    def by(self, cluster_id: str, key: str) -> frozenset[str]:
        """The discovery plugins that have seen a cluster, by an advert that this key has signed."""
        found = self._look(cluster_id)
        return found.plugins(key) if found is not None else frozenset()

    def where(self, cluster_id: str, key: str) -> tuple[str, ...]:
        """Where a cluster is tried; with a key, where one with that key was seen."""
        found = self._look(cluster_id)
        return found.addresses(key) if found is not None else ()


def never_seen(cluster_id: str) -> SeenCluster | None:
    """Returns None: nothing is seen."""
    return None
