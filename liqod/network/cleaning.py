"""Takes down the networks of whole clusters on a machine that liqod leaves, without a daemon."""

from collections.abc import Sequence

from liqod.errors import LiqodError
from liqod.network.backends import LoadedBackend
from liqod.network.dataplane.datapath import KernelDatapath, owners
from liqod.network.failover.fence import Fence, remove_fences
from liqod.network.gatewayhost import GatewayHost, take_down
from liqod.network.hostcapabilities import FOLDER
from liqod.network.loadedbackends import loaded_backends
from liqod.network.overlay.kernel import NodeKernel
from liqod.plugins import loader
from liqod.plugins.host import PluginHost
from liqod.plugins.providers import TunnelServices


async def sweep_all(own_id: str) -> list[str]:
    """Take down everything of a cluster's networks on this machine; the removed parts.

    For an installation that ends: there is no peer any more, and no daemon that knows which
    backends there were.

    Raises:
        LiqodError: something does not go; what did is gone.
    """
    if not own_id or await KernelDatapath(own_id).problem() is not None:
        return []
    try:
        changes = await end_tunnels(own_id, loaded_backends(PluginHost(loader.load())))
    finally:
        overlay = await NodeKernel().remove(own_id)
    return changes + overlay


async def end_tunnels(
    own_id: str, backends: Sequence[LoadedBackend], node: str | None = None
) -> list[str]:
    """Take down the tunnels of all peers of a cluster on this machine; the removed parts.

    Args:
        own_id: the cluster's.
        backends: all by which there may be a tunnel.
        node: name of the node's network namespace; None for the one that this process is in.

    Raises:
        LiqodError: something does not go; what did is gone.
    """
    kernel = KernelDatapath(own_id, node)
    services = TunnelServices(cluster_id=own_id, host=kernel, folder=FOLDER)
    tunnels = {each.provider.name: each.tunnels(services, node or "") for each in backends}
    machine = GatewayHost(tunnels=tunnels)
    changes: list[str] = []
    failed: list[LiqodError] = []
    for names in await kernel.leftovers([]):
        try:
            await take_down(machine, names)
        except LiqodError as error:
            failed.append(error)
        changes += await kernel.remove(names)
    changes += await Fence(own_id, node).remove()
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
