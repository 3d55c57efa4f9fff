"""Takes down the networks of whole clusters on a machine that liqod leaves, without a daemon."""

from liqod.errors import LiqodError
from liqod.network.backends import Backend
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
    found = loaded_backends(PluginHost(loader.load()))
    return {each.provider.name: each.tunnels(services) for each in found}
