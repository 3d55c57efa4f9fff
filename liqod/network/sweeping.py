"""Takes down on this machine the garbage of peers that are gone, by their names alone.

A peer's own task takes its network down while the peer is there. Where the tenant namespace went
first, or while no daemon ran, the private key of its tunnel shows that there may be something
(:class:`NetworkGarbageCollector`).

Garbage that has no key either is swept once, when a daemon leads (:func:`sweep`): objects that were
restored from an older copy, a namespace that was deleted by hand. It is found by this cluster's
mark. Nothing is taken away on one look: what is unknown has to be so twice, a minute apart, by the
API server's own answer, in a list that is not empty by mistake.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import LiqodError
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.model import ids
from liqod.network.backends import Backend, backend
from liqod.network.dataplane.datapath import KernelDatapath, owners
from liqod.network.dataplane.names import PeerNames
from liqod.network.failover.fence import Fence, remove_fences
from liqod.network.gateway import keysecrets
from liqod.network.gatewayhost import GatewayHost, take_down
from liqod.network.hostcapabilities import FOLDER
from liqod.network.overlay.kernel import NodeKernel
from liqod.plugins import loader
from liqod.plugins.callguard import CallGuards
from liqod.plugins.providers import TunnelServices
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster
from liqod.telemetry.events import NetworkSwept

SETTLE: Final = 2.0
"""Seconds that a peer's own task has to do it."""
MANY: Final = 10
"""Of more than these nothing is swept where no peer is known at all: rather the list is wrong."""
TENANTS: Final = f"{labels.TENANT_NAMESPACE}={labels.TRUE}"
"""Labels of the tenant namespaces of peers."""
KEYS: Final = f"{labels.TUNNEL}={labels.TRUE}"
"""Labels of the Secrets that keep tunnels' private keys."""

log = logging.getLogger(__name__)


class NetworkGarbageCollector(Controller[str]):
    """Takes down the networks of peers that have no tenant namespace any more; keys are their ids.

    Args:
        machine: this machine.
    """

    def __init__(self, context: ClusterContext, machine: GatewayHost) -> None:
        self._context = context
        self._machine = machine
        ours = Selection(context.namespace, labels=KEYS)
        self._keys = Watched(SECRETS, self._peers, ours, debounce=SETTLE)
        self._namespaces = Watched(NAMESPACES, self._left, debounce=SETTLE)
        super().__init__(
            context, "network", self._keys, self._namespaces, name="leftovers of networks"
        )

    def _peers(self, change: StoreChange) -> Iterator[str]:
        if change.new is not None:
            yield from _peer_of(change.new)

    def _left(self, change: StoreChange) -> Iterator[str]:
        if change.new is None and change.old is not None:
            yield from _peer_of(change.old)

    async def reconcile(self, peer: str) -> float | None:
        """Take down the rest of a peer that surely is gone."""
        client, own = self._context.client, self._context.namespace
        name = ids.gateway_resource(peer)
        if (own, name) not in self._keys.store:
            return None
        if self._namespaces.doubtful:
            return DOUBT
        selector = f"{TENANTS},{labels.REMOTE_CLUSTER_ID}={peer}"
        if await client.list(NAMESPACES, Selection(labels=selector), decode=Partial):
            return None
        await take_down(self._machine, PeerNames(self._context.cluster_id, peer))
        await keysecrets.forget(client, peer, own)
        self._context.hub.publish(NetworkSwept(peer=peer, did="taken down"))
        return None


def _peer_of(body: bytes) -> Iterator[str]:
    peer = msgspec.json.decode(body, type=Partial).metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
    if peer:
        yield peer


async def sweep(
    context: ClusterContext,
    machine: GatewayHost,
    kernel: KernelDatapath,
    working: Collection[str] = (),
) -> list[str]:
    """Take down the rest of peers that have been unknown for a minute; their marks.

    Args:
        machine: this machine.
        kernel: what there is in its kernel.
        working: the ids of the peers whose tasks run, as a view.

    Raises:
        LiqodError: it cannot be queried, or a part cannot be removed; it may be called again.
    """
    first = {names.hash for names in await kernel.leftovers(await known_peers(context, working))}
    if not first:
        return []
    await trio.sleep(machine.timings.unknown_for)
    peers = await known_peers(context, working)
    left = [names for names in await kernel.leftovers(peers) if names.hash in first]
    if len(left) > MANY and not peers:
        log.warning("%d networks are left on this machine, and no peer is known", len(left))
        return []
    swept = []
    for names in left:
        await take_down(machine, names)
        log.info("swept what was left of %s", names.mark)
        _, _, peer = names.mark.partition("/")
        context.hub.publish(NetworkSwept(peer=peer, did="swept"))
        swept.append(names.mark)
    return swept


async def known_peers(context: ClusterContext, working: Collection[str]) -> list[PeerNames]:
    """All peers of which anything exists: a tenant namespace, a tunnel's key, a ForeignCluster,
    a task that runs.
    """
    client, own = context.client, context.namespace
    found = [
        *await client.list(NAMESPACES, Selection(labels=TENANTS), decode=Partial),
        *await client.list(SECRETS, Selection(own, labels=KEYS), decode=Partial),
    ]
    ids = {each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "") for each in found}
    clusters = await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
    ids |= {each.spec.cluster_id for each in clusters} | set(working)
    return [PeerNames(context.cluster_id, each) for each in sorted(ids) if each]


async def sweep_once(
    context: ClusterContext, machine: GatewayHost, kernel: KernelDatapath, working: Collection[str]
) -> None:
    """As :func:`sweep`, until it was done."""
    while True:
        try:
            await sweep(context, machine, kernel, working)
            return
        except LiqodError as error:
            log.warning("what may be left of forgotten peers is not swept yet: %s", error)
            await trio.sleep(machine.timings.unknown_for)


async def sweep_all(own_id: str) -> list[str]:
    """Take down everything of a cluster's networks on this machine; the removed parts.

    For an installation that ends: there is no peer any more, and no daemon that knows which
    backends there were.

    Raises:
        LiqodError: something does not go; what did is gone.
    """
    kernel = KernelDatapath(own_id)
    if not own_id or await kernel.problem() is not None:
        return []
    machine = GatewayHost(tunnels=_all_backends(own_id, kernel))
    changes: list[str] = []
    failed: list[LiqodError] = []
    for names in await kernel.leftovers([]):
        try:
            await take_down(machine, names)
        except LiqodError as error:
            failed.append(error)
        changes += await kernel.remove(names)
    changes += await Fence(own_id).remove()
    changes += await NodeKernel().remove(own_id)
    if failed:
        raise failed[0]
    return changes


async def sweep_machine() -> list[str]:
    """Take down the networks of all clusters on this machine; the removed parts.

    For a machine that liqod leaves, by whose marks alone it is known which clusters there were.

    Raises:
        LiqodError: something does not go; what did is gone.
    """
    changes: list[str] = []
    for own_id in await owners():
        changes += await sweep_all(own_id)
    changes += await remove_fences()
    return changes + await NodeKernel().remove()


def _all_backends(own_id: str, kernel: KernelDatapath) -> dict[str, Backend]:
    """How a tunnel is had of each backend that is installed."""
    services = TunnelServices(cluster_id=own_id, host=kernel, folder=FOLDER)
    plugins, calls = loader.load(), CallGuards()
    found = {}
    for each in plugins.network:
        gauge = calls.of("network", each.name, own=("network", each.name) in plugins.own)
        found[each.name] = backend(each, msgspec.convert({}, each.config_type), services, gauge)
    return found
