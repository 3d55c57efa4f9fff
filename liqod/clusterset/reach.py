"""Decides for each exporter of an import whether its endpoints may be ready here."""

from collections.abc import Collection, Iterator, Mapping

from liqod.apimachinery.meta import Partial
from liqod.clusterset.ownexports import OwnExports
from liqod.clusterset.sharing import Sharing
from liqod.kube.cache.store import Key
from liqod.kube.watched import Watched
from liqod.model.clusterset.exports import Export
from liqod.model.clusterset.keeping import Json, condition, keeping, kept
from liqod.model.objects.partial import EndpointSlice
from liqod.resources.multicluster import SERVICE_NAME, SOURCE_CLUSTER

BY_IMPORT = "import"


def import_of(found: Partial) -> Iterator[str]:
    """The import that an EndpointSlice belongs to, for an index of these."""
    meta = found.metadata
    yield f"{meta.namespace}/{meta.labels.get(SERVICE_NAME, '')}"


def source_of(found: Partial) -> str:
    """The cluster that the endpoints of an import's EndpointSlice are in."""
    return found.metadata.labels.get(SOURCE_CLUSTER, "")


class Reach:
    """The reach of the clusters that export to this one.

    Args:
        cluster: this cluster's id.
        sharing: the peers.
        own: this cluster's Services.
        made: the EndpointSlices of imports, by :data:`BY_IMPORT`.
    """

    def __init__(
        self, cluster: str, sharing: Sharing, own: OwnExports[Key], made: Watched[Key]
    ) -> None:
        self._cluster = cluster
        self._sharing = sharing
        self._own = own
        self._made = made

    def of(
        self,
        key: Key,
        exports: Collection[Export],
        stays: Collection[str],
        ways: Mapping[str, str],
    ) -> tuple[dict[str, bool | None], Json | None]:
        """The exporters whose endpoints may be ready, and the condition that says more.

        None stands for one whose endpoints stay as they are. Where a Service keeps the last ones,
        all that are silent stay so until it is known which are.

        Args:
            key: of the import.
            exports: of all clusters, as they are published here.
            stays: the clusters whose slices stay as they are anyway.
            ways: the peers by way of which clusters are reached that are no peers, by these.
        """
        wish = keeping(self._own.annotations(key))
        found = {each.cluster: self.reached(each.cluster, ways) for each in exports}
        told = {reached for cluster, reached in found.items() if cluster not in stays}
        if wish.last and None in told:
            return {cluster: reached or None for cluster, reached in found.items()}, None
        # Few Services ask for it: the slices of all others are not read for this.
        others = self._ready(key, stays) if wish.last else 0
        last = kept(wish, exports, found, others)
        return found | dict.fromkeys(last, True), condition(wish, last)

    def slices(self, key: Key) -> dict[str, Partial]:
        """The EndpointSlices of an import that are there, by name."""
        store = self._made.store
        found = [store.decode(each, Partial) for each in store.indexed(BY_IMPORT, "/".join(key))]
        return {each.metadata.name: each for each in found if each is not None}

    def reached(self, cluster: str, ways: Mapping[str, str]) -> bool | None:
        """True if anything gets through to a cluster's pods; None while that is not known."""
        if cluster == self._cluster:
            return True
        sharing = self._sharing.peers.get(ways.get(cluster, cluster))
        return sharing.reached() if sharing is not None else None

    def _ready(self, key: Key, clusters: Collection[str]) -> int:
        """The number of ready endpoints in the present slices of some clusters."""
        names = [name for name, each in self.slices(key).items() if source_of(each) in clusters]
        slices = (self._made.store.decode((key[0], name), EndpointSlice) for name in names)
        ready = (one.conditions.ready for each in slices if each for one in each.endpoints or ())
        return sum(each is not False for each in ready)
