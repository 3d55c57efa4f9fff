"""Networks: each has in its status the range that it got.

This cluster's own ranges, and those that are not to be used, get what they want: they are as they
are. So does the first Network that wants a range of the pools which is free. Others get the first
that is as large and free.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.cluster.context import ClusterContext
from liqod.cluster.ownnetworks import own_networks
from liqod.errors import ConfigError, NotFound
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.watched import Watched
from liqod.model.network import rangechecks
from liqod.network.ipam.book import KEPT, Book
from liqod.resources import NETWORKS, Network

TOPIC: Final = "addresses"

log = logging.getLogger(__name__)


class Networks(Controller[Key]):
    """Gives each Network its range; a key is its namespace and name.

    Args:
        book: the ranges in use; it is kept here.
    """

    def __init__(self, context: ClusterContext, book: Book) -> None:
        self._context = context
        self._client = context.client
        self._book = book
        self._networks = Watched(NETWORKS, self._on_network)
        self._nodes: Watched[Key] = Watched(NODES)
        follow = partial(self.whenever, self._nodes_change, tuple)
        super().__init__(
            context, TOPIC, self._nodes, self._networks, name="networks", tasks=(follow,)
        )

    async def prepare(self) -> None:
        """Takes the networks around the nodes, so that from the first one on no alias is there."""
        self._book.nodes(own_networks(self._nodes.informer).addresses)

    async def _nodes_change(self) -> None:
        own = own_networks(self._nodes.informer)
        await own.changed()
        self._book.nodes(own.addresses)

    def _on_network(self, change: StoreChange) -> Iterator[Key]:
        # A range given and not yet written stays taken: only the end of the object frees it.
        if change.new is None:
            self._book.ranges.take(change.key)
            self._book.full.pop(change.key, None)
            yield from tuple(self._book.full)  # there is space now
        else:
            given = msgspec.json.decode(change.new, type=Network).status.cidr
            if given and not rangechecks.malformed(given):
                self._book.ranges.take(change.key, given)
        yield change.key

    async def reconcile(self, key: Key) -> float | None:
        """Give a range, or another where two have the same."""
        found = self._networks.store.decode(key, Network)
        if found is None or found.leaving:
            return None
        problem = rangechecks.malformed(found.spec.cidr)
        if problem:
            raise ConfigError(f"Network {key[0]}/{key[1]}: {problem}")
        cidr = found.status.cidr
        if cidr and (self._is_fixed(found) or not self._collides(found)):
            return None
        # No checkpoint from here until it is in the book: two keys never get the same.
        try:
            given = self._given(found)
        except ConfigError as error:
            self._book.full[key] = str(error)
            raise
        self._book.full.pop(key, None)
        if given == cidr:
            return None
        if cidr:
            log.warning("a range is given anew", extra={"network": key, "from": cidr, "to": given})
        patch = {
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "status": {"cidr": given},
        }
        try:
            await self._client.patch(NETWORKS, key[1], patch, key[0], subresource="status")
        except NotFound:
            self._book.ranges.take(key)
        return None

    def _given(self, found: Network) -> str:
        key = (found.namespace, found.name)
        if self._is_fixed(found):
            self._book.ranges.take(key, found.spec.cidr)
            return found.spec.cidr
        return self._book.ranges.allocate(key, found.spec.cidr)

    def _is_fixed(self, found: Network) -> bool:
        """True if the range may not be remapped: only this cluster's administrator can set that."""
        told = found.metadata.labels.get(labels.NETWORK_NOT_REMAPPED) == labels.TRUE
        return told and found.namespace == self._context.namespace

    def _collides(self, found: Network) -> bool:
        """True if the range overlaps that of a Network with precedence: a fixed or an older one."""
        conflict = self._book.ranges.conflict(found.status.cidr, (found.namespace, found.name))
        if conflict is None or conflict[0] in KEPT:
            # A node that came later does not change the addresses of pods.
            return False
        other = self._networks.store.decode(conflict[0], Network)
        if other is None or self._is_fixed(other):
            return other is not None
        return _age(other) < _age(found)


def _age(found: Network) -> tuple[str, str, str]:
    return (found.metadata.creation_timestamp or "", found.namespace, found.name)
