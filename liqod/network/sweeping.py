"""Sweeps the garbage of unknown peers from this machine, once, when a daemon leads.

A peer's own task takes its network down, and :mod:`.networkgc` what it could not, as long as the
tunnel's key shows it. This is for what has no key either: objects that were restored from an
older copy, a namespace that was deleted by hand. It is found by this cluster's mark. Nothing is
taken away on one look: what is unknown has to be so twice, a minute apart, by the API server's own
word, in a list that is not empty by mistake.
"""

import logging
from collections.abc import Collection
from typing import Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import LiqodError
from liqod.kube.selection import Selection
from liqod.network.backends import Backend, backend
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from liqod.network.failover.fence import Fence
from liqod.network.gatewayhost import GatewayHost, take_down
from liqod.network.hostcapabilities import FOLDER
from liqod.network.overlay.kernel import NodeKernel
from liqod.plugins import loader
from liqod.plugins.callguard import CallGuards
from liqod.plugins.providers import TunnelServices
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster
from liqod.telemetry.events import NetworkSwept

MANY: Final = 10
"""Of more than these nothing is swept where no peer is known at all: rather the list is wrong."""

log = logging.getLogger(__name__)


async def sweep(
    context: ClusterContext,
    machine: GatewayHost,
    kernel: KernelDatapath,
    working: Collection[str] = (),
) -> list[str]:
    """Take down what is here of peers that have been unknown for a minute; their marks.

    Args:
        context: this cluster.
        machine: this machine.
        kernel: what there is in its kernel.
        working: the ids of the peers whose tasks run, as a view.

    Raises:
        LiqodError: it cannot be asked, or something does not go; it may be called again.
    """
    first = {names.hash for names in await kernel.leftovers(await known(context, working))}
    if not first:
        return []
    await trio.sleep(machine.timings.unknown_for)
    peers = await known(context, working)
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


async def known(context: ClusterContext, working: Collection[str]) -> list[PeerNames]:
    """All peers of which anything exists: a tenant namespace, a tunnel's key, a ForeignCluster,
    a task that runs.

    Raises:
        LiqodError: as the client raises.
    """
    client, own = context.client, context.namespace
    tenants = Selection(labels=f"{labels.TENANT_NAMESPACE}={labels.TRUE}")
    keys = Selection(own, labels=f"{labels.TUNNEL}={labels.TRUE}")
    found = [
        *await client.list(NAMESPACES, tenants, decode=Partial),
        *await client.list(SECRETS, keys, decode=Partial),
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
    """Take down everything of a cluster's networks on this machine; what was removed.

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


def _all_backends(own_id: str, kernel: KernelDatapath) -> dict[str, Backend]:
    """How a tunnel is had of each backend that is installed."""
    services = TunnelServices(cluster_id=own_id, host=kernel, folder=FOLDER)
    plugins, calls = loader.load(), CallGuards()
    found = {}
    for each in plugins.network:
        gauge = calls.of("network", each.name, own=("network", each.name) in plugins.own)
        found[each.name] = backend(each, msgspec.convert({}, each.config_type), services, gauge)
    return found
