"""Slices that this cluster requests from a peer: request, identity, virtual node.

The request for the slice's own user goes into ``spec`` and from there to the provider; the verdict
comes back in ``status`` (:mod:`liqod.consumer.replication` carries both).
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.consumer.identities.clusterkeys import CurrentKeys
from liqod.consumer.link import ProviderPeer
from liqod.consumer.slices.heldzones import (
    PODS_HERE,
    HeldZones,
    counts_zones,
    may_show,
    trim_spread,
)
from liqod.consumer.slices.nodeparts import NodeParts
from liqod.consumer.slices.sliceobjects import (
    denied_here,
    group_of,
    identity_of,
    is_source,
    request_of,
    virtual_node_of,
)
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import Conflict, ProtocolError
from liqod.identity import certificaterequests
from liqod.kube import times
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.controller import Controller
from liqod.kube.definitions import is_defined
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import Written, ensure, stamped
from liqod.kube.watched import DOUBT, Watched, by_name
from liqod.model import ids
from liqod.model.objects.conditions import of_type
from liqod.model.objects.partial import Node
from liqod.resources import IDENTITIES, RESOURCE_SLICES, VIRTUAL_NODES, Identity, ResourceSlice
from liqod.resources.authentication import AUTHENTICATION, DENIED
from liqod.runtime.gather import gather
from liqod.telemetry.events import Borrowed


async def deny(client: Client, found: ResourceSlice, reason: str, message: str) -> None:
    """Report on a slice that it cannot be requested; it is not sent to the provider."""
    known = of_type(found.status.conditions, AUTHENTICATION)
    if known is not None and (known.status, known.message) == (DENIED, message):
        return
    status = denied_here(message, reason, times.now())
    await client.patch(
        RESOURCE_SLICES, found.name, {"status": status}, found.namespace, subresource="status"
    )


class Slices(Controller[str]):
    """Reconciles the slices requested from one peer.

    Args:
        peer: the provider.
    """

    def __init__(self, peer: ProviderPeer, timings: ConsumerTimings = ORDINARY) -> None:
        self._peer = peer
        self._parts = NodeParts(peer.context, timings, lambda: peer.link.daemon.heard)
        self._client = peer.context.client
        self._own = CurrentKeys(peer.context)
        within = (peer.tenant_namespace,)
        self._slices = Watched(RESOURCE_SLICES, by_name, within=within)
        self._identities = Watched(IDENTITIES, self._on_identity, within=within)
        self._nodes = Watched(VIRTUAL_NODES, _of_slice, within=within)
        self._own_nodes = Watched(NODES, self._on_own_node)
        self._domains: dict[str, tuple[tuple[str, str], ...]] = {}
        """The labels of zone and region of each node of this cluster that has any, by name."""
        self._declaring: set[str] = set()
        """The nodes of this cluster that declare features."""
        self._held_zones = HeldZones(timings.zone_held)
        self._made: set[str] = set()
        """The slices for which an Identity or a VirtualNode was made."""
        watches: tuple[Watched[str], ...] = (
            *(self._own.watched, self._slices, self._identities, self._nodes),
            self._own_nodes,
        )
        if may_show(peer.settings):
            how: dict[str, Any] = {"keep": counts_zones, "trim": trim_spread}
            watches = (*watches, Watched(PODS, self._on_spread_pod, PODS_HERE, **how))
        super().__init__(peer, "borrowed", *watches, name="borrowed slices")

    def _on_identity(self, change: StoreChange) -> Iterator[str]:
        """Yield the slice of a changed Identity; all slices for that of the control plane."""
        yield from _of_slice(change)
        if change.key[1] == ids.control_plane_identity(self._peer.id):
            yield from self._every_slice()

    def _on_own_node(self, change: StoreChange) -> Iterator[str]:
        """Note zone and region of a node of this cluster, and that it declares features; yield all
        slices where there are others, or the first or last such node."""
        before, name = (self._here(), bool(self._declaring)), change.key[1]
        self._domains.pop(name, None)
        self._declaring.discard(name)
        if change.new is not None:
            node = msgspec.json.decode(change.new, type=Node)
            marks = node.metadata.labels
            real = marks.get(labels.TYPE) != labels.VIRTUAL_NODE_TYPE
            found = tuple((key, marks[key]) for key in labels.HELD if key in marks)
            if found and real:
                self._domains[name] = found
            if node.status.declared_features and real:
                self._declaring.add(name)
        if (self._here(), bool(self._declaring)) != before:
            yield from self._every_slice()

    def _here(self) -> set[tuple[str, str]]:
        """Keys and values of the labels of zone and region of this cluster's nodes."""
        return set(chain.from_iterable(self._domains.values()))

    def _on_spread_pod(self, change: StoreChange) -> Iterator[str]:
        """Note how a pod of this cluster is spread; yield all slices where that is new."""
        if self._held_zones.note(change):
            yield from self._every_slice()

    def _every_slice(self) -> Iterator[str]:
        for _, name in self._slices.store.indexed("namespace", self._peer.tenant_namespace):
            yield name

    async def reconcile(self, name: str) -> float | None:
        """Request one slice, and keep its Identity and its VirtualNode by the answer."""
        found = self._slices.store.decode((self._peer.tenant_namespace, name), ResourceSlice)
        if found is None:
            self._made.discard(name)
            self._parts.forget(name)
        if found is None or found.leaving or not is_source(found.metadata.labels, self._peer.id):
            return None
        problem = ids.slice_name_problem(name)
        if problem is not None:
            await deny(self._client, found, "SliceNameRefused", problem)
            return None
        await self._keep_request(found)
        identity, settings = identity_of(found, self._peer.id), self._peer.settings
        believe, given = settings.believed_labels, settings.node_labels
        live = self._nodes_of(found)
        division = self._parts.divide(found, live)
        domains = self._here()
        here: dict[str, Any] = {
            "zones": {value for key, value in domains if key == labels.ZONE},
            "declares": bool(self._declaring),
        }
        make = partial(virtual_node_of, found, self._peer.id, believe=believe, given=given, **here)
        wanted = [make(part=part) for part in division.parts or (None,)]
        nodes = [each for each in wanted if each is not None]
        holds = [self._held_zones.hold(each, domains) for each in nodes]
        if name in self._made and not await self._would_last(identity, nodes):
            return DOUBT
        if identity is not None or nodes:
            self._made.add(name)
        await gather(
            partial(self._keep, IDENTITIES, self._identities, identity),
            *(partial(self._keep, VIRTUAL_NODES, self._nodes, each) for each in nodes),
        )
        if identity is None and found.verdict(AUTHENTICATION) == DENIED:
            await self._drop(IDENTITIES, self._identities, ids.slice_identity(name))
        elif not nodes:
            return None  # what there is stays until it is known what is to be
        kept = {each["metadata"]["name"] for each in nodes}
        for each in live.values():
            if each.name not in kept and not each.deletion_timestamp:
                await self._drop(VIRTUAL_NODES, self._nodes, each.name)
                self._held_zones.forget(each.name)
        return min((each for each in (division.again, *holds) if each is not None), default=None)

    def _nodes_of(self, found: ResourceSlice) -> dict[str, ObjectMeta]:
        """The VirtualNodes of a slice, by name: the one as a whole, and those of parts."""
        nodes: dict[str, ObjectMeta] = {}
        for key in self._nodes.store.indexed("namespace", self._peer.tenant_namespace):
            known = self._nodes.store.decode(key, Partial)
            marks = {} if known is None else known.metadata.labels
            mine = marks.get(labels.RESOURCE_SLICE_NAME) == found.name
            if known is not None and mine and (key[1] == found.name or labels.PART in marks):
                nodes[key[1]] = known.metadata
        return nodes

    async def _would_last(
        self, identity: dict[str, Any] | None, nodes: list[dict[str, Any]]
    ) -> bool:
        """True if the missing objects may be made again.

        Not while slices are not defined: without their owner the garbage collector takes each at
        once, and the store still shows the slice.
        """
        wanted = [(self._nodes, each) for each in nodes]
        if identity is not None:
            wanted.append((self._identities, identity))
        for watched, each in wanted:
            if (each["metadata"]["namespace"], each["metadata"]["name"]) not in watched.store:
                return await is_defined(self._client, RESOURCE_SLICES)
        return True

    async def _keep_request(self, found: ResourceSlice) -> None:
        """Ids and request in ``spec``; a request of another key than ours is replaced."""
        context = self._peer.context
        own = await self._own.now()
        wanted = {"consumerClusterID": context.cluster_id, "providerClusterID": self._peer.id}
        live = {
            "consumerClusterID": found.spec.consumer_cluster_id,
            "providerClusterID": found.spec.provider_cluster_id,
        }
        place = (found.namespace, ids.control_plane_identity(self._peer.id))
        identity = self._identities.store.decode(place, Identity)
        # By the key that the provider has: it follows another one in the control plane first.
        if identity is None:
            own = own.requested_with(found.spec.csr)
        else:
            own = own.of(identity.spec.auth_params.signed_crt)
        group = group_of(identity, context.cluster_id, own.public)
        try:
            if identity is None:  # and the names signed there are unknown: it stays
                group = certificaterequests.inspect(found.spec.csr).organization
            certificaterequests.check(
                found.spec.csr,
                common_name=ids.slice_user(found.name, context.cluster_id),
                organization=group,
                public_key=own.public,
            )
        except ProtocolError:
            wanted = request_of(found.name, context.cluster_id, self._peer.id, own.private, group)
        patch = {key: value for key, value in wanted.items() if live.get(key) != value}
        if patch:
            await self._client.patch(RESOURCE_SLICES, found.name, {"spec": patch}, found.namespace)

    async def _keep(self, kind: Kind, watched: Watched[str], wanted: dict[str, Any] | None) -> None:
        if wanted is None:
            return
        meta = wanted["metadata"]
        live = watched.store.get((meta["namespace"], meta["name"]))
        if live is not None and _of_somebody_else(live):
            return  # made by the user; it is used as it is
        if live is None and kind is VIRTUAL_NODES:
            # Held from the first moment, as its Node comes at once; holds of others stay theirs.
            body = stamped(kind, wanted)
            body["metadata"]["finalizers"] = [labels.HOLD_VIRTUAL_NODE]
            written = Written("created", await self._client.create(kind, body))
        else:
            written = await ensure(self._client, kind, wanted, live=live, adopt=True)
        if written.wrote:
            self._peer.report(Borrowed(kind=kind.name, name=meta["name"], did=written.outcome))

    async def _drop(self, kind: Kind, watched: Watched[str], name: str) -> None:
        """Without the provider's consent there is no identity and no node; a user's own stays."""
        namespace = self._peer.tenant_namespace
        live = watched.store.decode((namespace, name), Partial)
        if live is None or live.metadata.labels.get(labels.MANAGED) != labels.TRUE:
            return
        with suppress(Conflict):  # it was changed: that causes another turn
            for _ in await delete_all(self._client, kind, [live]):
                self._peer.report(Borrowed(kind=kind.name, name=name, did="deleted"))


def _of_slice(change: StoreChange) -> Iterator[str]:
    """The slice for which an object was made: it is made again if it went."""
    body = change.new or change.old
    assert body is not None
    meta = msgspec.json.decode(body, type=Partial).metadata
    if name := meta.labels.get(labels.RESOURCE_SLICE_NAME):
        yield name


def _of_somebody_else(body: bytes) -> bool:
    found = msgspec.json.decode(body, type=Partial).metadata.labels
    return found.get(labels.MANAGED) != labels.TRUE
