"""Gives a peer's ranges in its Configuration their aliases, and adds this cluster's own ranges.

``spec.remote`` comes from the peer and is used only where it makes sense
(:mod:`liqod.model.network.rangechecks`); which aliases it gets is decided here, by a Network for
each of its ranges. None of it is used before the condition ``NetworkCIDRsConfigured`` is
so.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.apimachinery.meta import Partial, owner_reference
from liqod.cluster.context import ClusterContext
from liqod.cluster.ownnetworks import own_networks
from liqod.kube import times
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_key
from liqod.model.network import rangechecks
from liqod.model.network.apiaddress import place_of
from liqod.model.network.ranges import ClusterCidrs
from liqod.model.objects import conditions
from liqod.network.ipam.book import Book
from liqod.network.ipam.networks import TOPIC
from liqod.network.ipam.own import escaped
from liqod.resources import CONFIGURATIONS, NETWORKS, Configuration, Network
from liqod.resources.networking import RANGES_REFUSED, ClusterRanges

CONDITION: Final = "NetworkCIDRsConfigured"
"""It has the same reason where it is so."""
WAITING: Final = "WaitingForNetworks"
UNKNOWN: Final = "OwnRangesUnknown"
REFUSED: Final = RANGES_REFUSED
OTHER_NAMESPACE: Final = "OtherNamespace"
POD: Final = "pod"
EXTERNAL: Final = "external"
PATIENCE: Final = 2.0
"""Seconds until it is looked again why a range has no alias."""
TENANTS: Final = f"{labels.TENANT_NAMESPACE}={labels.TRUE}"


class Configurations(Controller[Key]):
    """Writes into each peer's Configuration the ranges by which both clusters see each other.

    A key is its namespace and name. Those outside of the tenant namespace of the peer that they
    are about are ignored: a peer may write only about itself.

    Args:
        book: why a range has no alias.
    """

    def __init__(self, context: ClusterContext, book: Book) -> None:
        self._context = context
        self._book = book
        self._client = context.client
        self._configurations = Watched(CONFIGURATIONS, by_key)
        self._networks = Watched(NETWORKS, self._on_network)
        self._namespaces = Watched(NAMESPACES, self._in_namespace, Selection(labels=TENANTS))
        self._nodes: Watched[Key] = Watched(NODES)
        super().__init__(
            context,
            TOPIC,
            self._nodes,
            self._namespaces,
            self._networks,
            self._configurations,
            name="configurations",
            tasks=(partial(self.whenever, self._nodes_change, self._all),),
        )

    async def _nodes_change(self) -> None:
        await own_networks(self._nodes.informer).changed()

    def _all(self) -> tuple[Key, ...]:
        return tuple(self._configurations.store)

    def _on_network(self, change: StoreChange) -> Iterator[Key]:
        body = change.new or change.old
        if body is None:
            return
        marks = msgspec.json.decode(body, type=Partial).metadata.labels
        if change.key[0] == self._context.namespace and not marks.keys().isdisjoint(
            (labels.NETWORK_TYPE, labels.SECOND_NETWORK_TYPE)
        ):
            yield from self._all()
        elif labels.REMOTE_CLUSTER_ID in marks:
            yield from self._configurations.store.indexed("namespace", change.key[0])

    def _in_namespace(self, change: StoreChange) -> Iterator[Key]:
        yield from self._configurations.store.indexed("namespace", change.key[1])

    async def reconcile(self, key: Key) -> float | None:
        """Write both sides' ranges, or why not."""
        found = self._configurations.store.decode(key, Configuration)
        if found is None or found.leaving:
            return None
        if not self._is_of_its_peer(found):
            await self._report_stray(found)
            return None
        own = self.own()
        if not own.pod:
            why = "this cluster's own pod ranges are not known: name them in [cluster] pod_cidrs"
            await self._write_status(found, None, UNKNOWN, why)
            return None
        if cidrs_of(found.spec.local) != own:
            patch = {"spec": {"local": {"cidr": msgspec.to_builtins(own)}}}
            await self._client.patch(CONFIGURATIONS, key[1], patch, key[0])
        claimed = cidrs_of(found.spec.remote)
        nodes = own_networks(self._nodes.informer).addresses
        server, _ = place_of(self._context.endpoint.server)
        problem = rangechecks.refuse_ranges(claimed, nodes, server)
        if problem or not claimed.pod:
            await self._write_status(
                found, None, REFUSED, problem or "spec.remote names no pod range"
            )
            return None
        seen = await self._aliases(found, claimed)
        waits = "" in (*seen.pod, *seen.external)
        if waits:
            full = (self._book.full.get(each) for each in self._networks_of(found))
            why = next(filter(None, full), "not every range has its alias yet")
            await self._write_status(found, None, WAITING, why)
            return PATIENCE  # of what hinders there is no change of an object
        await self._write_status(found, seen, CONDITION, "every range has its alias")
        return None

    def own(self) -> ClusterCidrs:
        """This cluster's own ranges, as its Networks say them."""
        by_kind: dict[str, list[str]] = {}
        for each in self._networks.store.values(Network):
            kind = each.kind_of_range
            if each.namespace == self._context.namespace and each.status.cidr and not each.leaving:
                by_kind.setdefault(kind, []).append(each.status.cidr)
        of = {kind: tuple(sorted(found)) for kind, found in by_kind.items()}
        return ClusterCidrs(of.get(labels.POD_CIDR, ()), of.get(labels.EXTERNAL_CIDR, ()))

    async def _aliases(self, found: Configuration, claimed: ClusterCidrs) -> ClusterCidrs:
        """The aliases in the order of the ranges, empty where there is none yet."""
        wanted = {
            (kind, prefix): alias_network(found, kind, prefix)
            for kind, prefixes in ((POD, claimed.pod), (EXTERNAL, claimed.external))
            for prefix in prefixes
        }
        names = {each["metadata"]["name"] for each in wanted.values()}
        store = self._networks.store
        old = [
            each
            for key in self._networks_of(found)
            if (each := store.decode(key, Partial)) is not None and each.metadata.name not in names
        ]
        await delete_all(self._client, NETWORKS, old)
        seen: dict[tuple[str, str], str] = {}
        for key, network in wanted.items():
            place = (found.namespace, network["metadata"]["name"])
            live = store.decode(place, Network)
            if live is None:
                await ensure(self._client, NETWORKS, network, live=None)
            seen[key] = live.status.cidr if live is not None and not live.leaving else ""
        return ClusterCidrs(
            tuple(seen[POD, each] for each in claimed.pod),
            tuple(seen[EXTERNAL, each] for each in claimed.external),
        )

    def _networks_of(self, found: Configuration) -> list[Key]:
        """The Networks that go with a Configuration."""
        store = self._networks.store
        return [
            key
            for key in sorted(store.indexed("namespace", found.namespace))
            if (each := store.decode(key, Partial)) is not None
            and any(owner.uid == found.metadata.uid for owner in each.metadata.owner_references)
        ]

    async def _write_status(
        self, found: Configuration, seen: ClusterCidrs | None, reason: str, message: str
    ) -> None:
        """Write the status, where it differs."""
        before = msgspec.to_builtins(found.status.conditions)
        condition = {
            "type": CONDITION,
            "status": "True" if seen is not None else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": found.metadata.generation,
        }
        dated = conditions.dated(condition, before, times.now())
        status: dict[str, Any] = {
            "conditions": [*(each for each in before if each["type"] != CONDITION), dated]
        }
        # A published alias is not taken back while the next is awaited: packets still use it.
        if seen is not None:
            status["remote"] = {"cidr": msgspec.to_builtins(seen)}
        had = found.status.remote
        if (seen is None or (had is not None and cidrs_of(had) == seen)) and dated in before:
            return
        patch = {"status": status}
        await self._client.patch(
            CONFIGURATIONS, found.name, patch, found.namespace, subresource="status"
        )

    def _is_of_its_peer(self, found: Configuration) -> bool:
        namespace = self._namespaces.store.decode(("", found.namespace), Partial)
        peer = found.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
        if namespace is None or not peer:
            return False
        return namespace.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == peer

    async def _report_stray(self, found: Configuration) -> None:
        """Report for a peer's Configuration in another namespace the one where it belongs.

        `liqoctl create` makes it in the namespace of the kubeconfig where no other is given.
        """
        if ("", found.namespace) in self._namespaces.store:
            return  # written by another peer, and ignored
        peer = found.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
        place = next(
            (
                each.metadata.name
                for each in self._namespaces.store.values(Partial)
                if peer and each.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == peer
            ),
            "",
        )
        if place:
            why = (
                f"the ranges of {peer} belong into the namespace {place}: delete this one, and "
                f"make it there (liqoctl create configuration … -n {place})"
            )
            await self._write_status(found, None, OTHER_NAMESPACE, why)


def alias_network(found: Configuration, kind: str, prefix: str) -> dict[str, Any]:
    """The Network of one of a peer's ranges; it goes with the Configuration.

    Args:
        found: the Configuration.
        kind: :data:`POD` or :data:`EXTERNAL`.
        prefix: the range.
    """
    return {
        "metadata": {
            "name": f"{found.name}-{kind}-{escaped(prefix)}",
            "namespace": found.namespace,
            "labels": {
                labels.REMOTE_CLUSTER_ID: found.metadata.labels[labels.REMOTE_CLUSTER_ID],
                labels.CIDR_TYPE: kind,
            },
            "ownerReferences": [owner_reference(CONFIGURATIONS, found.metadata)],
        },
        "spec": {"cidr": prefix},
    }


def cidrs_of(side: ClusterRanges | None) -> ClusterCidrs:
    """The ranges of one side, as a Configuration has them; none where it has none of that side."""
    return ClusterCidrs() if side is None else ClusterCidrs(side.cidr.pod, side.cidr.external)
