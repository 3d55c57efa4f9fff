"""Finds the path to a provider's API server through the tunnel (``liqod peer --in-band``).

The provider shows it by an IP, as Liqo does. To a provider that runs liqod the consumer's daemon
finds the path itself, where the direct one does not answer. One that runs Liqo is reached by its
proxy alone, which then is a part of the consumer's kubeconfig.
"""

from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ConfigError, Misuse
from liqod.kube.http import proxies
from liqod.kube.selection import Selection
from liqod.model.network.ranges import ClusterCidrs, server_in, translate
from liqod.network.dataplane.names import PROXY_PORT
from liqod.procedures.networksites import Site
from liqod.resources import CONFIGURATIONS, IP, IPS, Configuration
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

ANSWERS_WITHIN: Final = 15.0
"""Seconds that the provider's daemon may take to give the address."""


class InBandOptions(msgspec.Struct, frozen=True):
    """The path by which this cluster is to reach the provider.

    Attributes:
        requested: through the tunnel.
        proxy_url: by this HTTP proxy, which goes before that.
    """

    requested: bool = False
    proxy_url: str = ""

    def __post_init__(self) -> None:
        """Raises Misuse where the proxy's URL is malformed."""
        if self.proxy_url:
            try:
                proxies.check(self.proxy_url, "--proxy-url", channels=True)
            except ConfigError as error:
                raise Misuse(str(error)) from None

    async def proxy(self, here: Site, there: Site, progress: Progress) -> str:
        """The URL of the proxy to use; empty for none.

        Raises:
            ConfigError: the provider accepts no connection through the tunnel, or there is none.
        """
        if self.proxy_url or not self.requested:
            return self.proxy_url
        progress(f"find the API server of {there.id} behind the tunnel")
        found = await _address(there)
        alias, first = await _seen(here, found.status.ip)
        if labels.API_SERVER in found.metadata.annotations and alias == first:
            return ""
        host = f"[{alias}]" if ":" in alias else alias
        return f"http://{host}:{PROXY_PORT}"


async def _address(there: Site) -> IP:
    async def look() -> IP | None:
        found = await there.client.find(IPS, labels.API_SERVER_PROXY, there.liqo, decode=IP)
        if found is None:
            raise ConfigError(
                f"{there.id} lets nobody reach its API server through the tunnel: [network] "
                f"in_band of its daemon must name {there.peer}; where it runs Liqo, proxy.enabled"
            )
        return found if found.status.ip else None

    return await poll_until(
        look,
        within=ANSWERS_WITHIN,
        failing=lambda: ConfigError(
            f"the daemon of {there.id} gives the IP {labels.API_SERVER_PROXY} no address"
        ),
    )


async def _seen(here: Site, address: str) -> tuple[str, str]:
    """The local alias of an address, and the address of the API server by default."""
    selection = Selection(here.namespace, labels=f"{labels.REMOTE_CLUSTER_ID}={here.peer}")
    for found in await here.client.list(CONFIGURATIONS, selection, decode=Configuration):
        if found.status.remote is None:
            continue
        theirs, seen = found.spec.remote.cidr, found.status.remote.cidr
        alias = translate(
            address,
            ClusterCidrs(theirs.pod, theirs.external),
            ClusterCidrs(seen.pod, seen.external),
        )
        if alias is not None:
            return alias, server_in(seen.external)
    raise ConfigError(
        f"--in-band needs joined networks: {here.id} has no alias for {address} of {here.peer}"
    )
