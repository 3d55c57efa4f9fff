"""Finds the Configurations of the peers whose networks are joined with this cluster's."""

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched
from liqod.resources import CONFIGURATIONS, Configuration


class JoinedPeers:
    """The Configurations of peers, from the stores of a controller.

    Args:
        client: of this cluster.
        namespaces: follows tenant namespaces.
        configurations: follows Configurations.
    """

    def __init__(
        self, client: Client, namespaces: Watched[str], configurations: Watched[str]
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._configurations = configurations

    def find(self, peer: str) -> Configuration | None:
        """The Configuration of a peer, in the namespace that is the peer's."""
        return self._configurations.store.decode((self._place_of(peer), peer), Configuration)

    async def is_there(self, peer: str) -> bool:
        """True if a Configuration exists after all, as the API server itself answers."""
        place = self._place_of(peer)
        if not place:
            return False
        found = await self._client.list(CONFIGURATIONS, Selection(place), decode=Partial)
        return any(each.metadata.name == peer for each in found)

    def _place_of(self, peer: str) -> str:
        """The peer's tenant namespace; empty where it has none."""
        for key in self._namespaces.store:
            found = self._namespaces.store.decode(key, Partial)
            if found is not None and found.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == peer:
                return found.metadata.name
        return ""
