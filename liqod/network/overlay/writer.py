"""The leader's part of the overlay: its members, its gateway, and the order to its own machine.

It is written only where a cluster has more than one node and its network is joined with a peer's;
what is left out of it, or taken away, is so by the API server's own answer and not by a store's.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import NetworkError
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import ensure, stamped
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched, always
from liqod.model.view.networkfacts import ways
from liqod.network.failover.role import Role
from liqod.network.orders.overlay import LeadOverlay, ReleaseOverlay, RemoveOverlay
from liqod.network.overlay import members
from liqod.network.overlay.members import Fabric, Member
from liqod.network.overlay.remoteoverlay import RemoteOverlay
from liqod.network.remotemachine import RemoteMachine
from liqod.resources import CONFIGURATIONS, NETWORKS, Configuration, Network
from liqod.resources.fabric import (
    FABRIC,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    InternalFabric,
    InternalNode,
)
from liqod.resources.networking import (
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    GatewayClient,
    GatewayServer,
)
from liqod.runtime.log import Seldom

OVERLAY: Final = "overlay"
"""The one key."""
TOGETHER: Final = 0.05
"""Seconds in which objects made together, such as a peer's, are taken together."""
OWNED: Final = {labels.MANAGED_BY_LIQOD: labels.TRUE}

log = logging.getLogger(__name__)


class OverlayWriter(Controller[str]):
    """Keeps the InternalNodes, the InternalFabric and this machine's part of the overlay.

    Args:
        machine: this machine, which is the gateway.
        role: of it, with the name of the gateway.
        own: its overlay.
        holder: the name of this daemon in the Lease.
    """

    def __init__(
        self,
        context: ClusterContext,
        machine: RemoteMachine,
        role: Role,
        own: RemoteOverlay,
        holder: str,
    ) -> None:
        self._context = context
        self._client = context.client
        self._machine = machine
        self._role = role
        self._own = own
        self._holder = holder
        self._members: dict[str, Member] = {}
        self._refused: Mapping[str, str] = {}
        self._seldom = Seldom()
        self._nodes = Watched(NODES, self._on_node, debounce=TOGETHER)
        self._internal = Watched(INTERNAL_NODES, self._on_internal, debounce=TOGETHER)
        self._fabrics = Watched(INTERNAL_FABRICS, self._on_fabric, Selection(context.namespace))
        self._networks = Watched(
            NETWORKS, always(OVERLAY), within=(context.namespace,), debounce=TOGETHER
        )
        self._configurations = Watched(CONFIGURATIONS, always(OVERLAY), debounce=TOGETHER)
        self._servers = Watched(GATEWAY_SERVERS, always(OVERLAY), debounce=TOGETHER)
        self._clients = Watched(GATEWAY_CLIENTS, always(OVERLAY), debounce=TOGETHER)
        told = (own.state.wait_changed, role.wait_changed)
        super().__init__(
            context,
            "network",
            *(self._nodes, self._internal, self._fabrics, self._networks),
            *(self._configurations, self._servers, self._clients),
            name=OVERLAY,
            first=(OVERLAY,),  # the rest of an earlier daemon, where nothing is to be reported
            tasks=[partial(self.whenever, wait, always(OVERLAY)) for wait in told],
        )

    def _on_node(self, change: StoreChange) -> Iterator[str]:
        """Kubelets write their Nodes often, and what counts here changes seldom."""
        name = change.key[1]
        found = self._member(change.new) if change.new is not None else None
        if found != self._members.get(name):
            if found is None:
                del self._members[name]
            else:
                self._members[name] = found
            yield OVERLAY

    def _member(self, body: bytes) -> Member | None:
        says = self._context.config.network.node_pods == "podCIDRs"
        return members.member(body, says_pods=says)

    def _on_internal(self, change: StoreChange) -> Iterator[str]:
        """Shows the status that a node reports; only another spec concerns the overlay."""
        self._look()
        if change.new is None or change.old is None or _spec(change.new) != _spec(change.old):
            yield OVERLAY

    def _on_fabric(self, change: StoreChange) -> Iterator[str]:
        self._look()
        yield OVERLAY

    def _look(self) -> None:
        every = self._internal.store.values(InternalNode)
        self._machine.nodes = ways(self._live(), every, self._refused)

    async def reconcile(self, key: str) -> float | None:
        """Write and order the desired state, or take it away."""
        mine = members.local(
            self._members.values(),
            self._context.config.network.node,
            (self._context.machine_address, *self._machine.facts.now.addresses),
        )
        wanted = await self._desired(mine, self._members.values(), *self._stored())
        if self._takes_away(wanted):
            if any(each.doubtful for each in self.watches):
                return DOUBT
            wanted = await self._desired(mine, *await self._asked())
        if wanted is None:
            await self._take_away()
            return None
        self._refused = wanted.refused
        self._complain(wanted)
        for node in wanted.nodes.values():
            await self._have_node(node.name, members.node_spec(node))
        await self._have_fabric(wanted)
        await self._drop_nodes(wanted)
        self._look()
        self._own.have(
            LeadOverlay(wanted.gateway, tuple(wanted.nodes.values()), wanted.overlay)
            if wanted.gateway.name == mine
            else ReleaseOverlay()
        )
        self._own.check()
        return None

    async def _desired(
        self,
        mine: str,
        found: Iterable[Member],
        configurations: Iterable[Configuration],
        gateways: Iterable[GatewayServer | GatewayClient],
    ) -> Fabric | None:
        found = tuple(found)
        reached = members.aliases(configurations, gateways)
        if not reached or not {each.name for each in found} - {mine}:
            return None
        if not mine and len(found) == 1:
            return None  # the machine beside the only node, through which its pods' packets go
        if not mine:
            raise NetworkError(
                f"this daemon runs on none of the cluster's {len(found)} nodes, so that their pods "
                "reach no peer: run it on one, or name that in [network] node"
            )
        try:
            mtu = await self._own.mtu(members.address(mine, found))
            gateway = self._role.gateway or mine
            return members.fabric(gateway, found, self._known(), reached, self._pods(), mtu)
        except ValueError as error:
            raise NetworkError(str(error)) from error

    def _known(self) -> dict[str, Any]:
        every = self._internal.store.values(InternalNode)
        return {each.name: each.spec for each in every if each.spec is not None}

    def _pods(self) -> tuple[str, ...]:
        """The ranges of pods that this cluster announces to its peers."""
        return tuple(
            each.status.cidr
            for each in self._networks.store.values(Network)
            if each.namespace == self._context.namespace
            and each.status.cidr
            and each.kind_of_range == labels.POD_CIDR
        )

    def _stored(
        self,
    ) -> tuple[list[Configuration], list[GatewayServer | GatewayClient]]:
        servers = self._servers.store.values(GatewayServer)
        clients = self._clients.store.values(GatewayClient)
        return list(self._configurations.store.values(Configuration)), [*servers, *clients]

    async def _asked(
        self,
    ) -> tuple[list[Member], list[Configuration], list[GatewayServer | GatewayClient]]:
        """The same by the API server's own answer."""
        list_ = self._client.list
        nodes = [self._member(msgspec.json.encode(each)) for each in await list_(NODES)]
        return (
            [each for each in nodes if each is not None],
            await list_(CONFIGURATIONS, decode=Configuration),
            [
                *await list_(GATEWAY_SERVERS, decode=GatewayServer),
                *await list_(GATEWAY_CLIENTS, decode=GatewayClient),
            ],
        )

    def _takes_away(self, wanted: Fabric | None) -> bool:
        """True if a node, or the path to a peer, would go."""
        live = self._live()
        if wanted is None:
            return live is not None or len(self._internal.store) > 0
        ways = {each.cidr for each in live.spec.aliases} if live and live.spec else set()
        return bool(ways - wanted.overlay.aliases.keys() or self._known().keys() - wanted.nodes)

    def _live(self) -> InternalFabric | None:
        return self._fabrics.store.decode((self._context.namespace, FABRIC), InternalFabric)

    async def _have_node(self, name: str, spec: dict[str, Any]) -> None:
        wanted = {"metadata": {"name": name, "labels": OWNED}, "spec": spec}
        live = self._internal.store.get(("", name))
        # Its name is the Node's: one that Liqo left is taken over.
        await ensure(self._client, INTERNAL_NODES, wanted, live=live, adopt=True)

    async def _have_fabric(self, wanted: Fabric) -> None:
        """Over the very version that was read: of two daemons one sees that it is not alone."""
        context, live = self._context, self._live()
        before = live.spec if live is not None else None
        spec = members.fabric_spec(context.cluster_id, wanted, self._holder, before)
        if live is None:
            metadata = {"name": FABRIC, "namespace": context.namespace, "labels": OWNED}
            body = stamped(INTERNAL_FABRICS, {"metadata": metadata, "spec": spec})
            await self._client.create(INTERNAL_FABRICS, body, context.namespace)
        elif before is None or msgspec.convert(spec, type(before)) != before:
            patch = {"metadata": {"resourceVersion": live.metadata.resource_version}, "spec": spec}
            await self._client.patch(INTERNAL_FABRICS, FABRIC, patch, context.namespace)

    async def _drop_nodes(self, wanted: Fabric) -> None:
        for each in list(self._internal.store.values(InternalNode)):
            if each.name not in wanted.nodes:
                await self._delete(INTERNAL_NODES, each)

    async def _take_away(self) -> None:
        """The nodes first: while there is a path they may use it."""
        live = self._live()
        if live is not None:
            await self._delete(INTERNAL_FABRICS, live)
        for each in list(self._internal.store.values(InternalNode)):
            await self._delete(INTERNAL_NODES, each)
        self._own.have(RemoveOverlay())
        self._own.check()

    async def _delete(self, kind: Kind, found: InternalNode | InternalFabric) -> None:
        await delete_all(self._client, kind, [Partial(metadata=found.metadata)])

    def _complain(self, wanted: Fabric) -> None:
        for name, why in sorted(wanted.refused.items()):
            if self._seldom.allows((name, why)):
                log.warning("the overlay leaves out of the node %s: %s", name, why)


def _spec(body: bytes) -> Any:
    return msgspec.json.decode(body, type=InternalNode).spec
