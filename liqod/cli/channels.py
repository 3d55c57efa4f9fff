"""Goes to a peer's API server as the daemon does, where it is reached by a channel alone.

A command that meets such a peer has an administrator's kubeconfig of its own cluster, and so that
cluster's key; what meets others is loaded when it is needed, which is seldom.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import trio

from liqod.kube.client import Client
from liqod.kube.http.wire import Wire

if TYPE_CHECKING:
    from liqod.handshake.transport.channelmanager import ChannelManager


class Channels:
    """Makes connections by channels (:data:`liqod.kube.http.proxies.CHANNELS`).

    Args:
        client: makes a client for the command's own cluster.
        nursery: in which channels are kept while the command works.
    """

    def __init__(
        self, client: Callable[[], AbstractAsyncContextManager[Client]], nursery: trio.Nursery
    ) -> None:
        self._client, self._nursery = client, nursery
        self._channel_manager: ChannelManager | None = None

    async def __call__(self, url: str) -> Wire:
        """A connection to the API server behind a listener. Raises Unconnected."""
        if self._channel_manager is None:
            self._channel_manager = await self._start()
        return await self._channel_manager(url)

    async def _start(self) -> "ChannelManager":
        from liqod.apimachinery import labels
        from liqod.cluster.ownid import own_cluster_id
        from liqod.consumer.identities.clusterkeys import cluster_keys
        from liqod.handshake.protocol.outputs import ExpectedPeer, LocalIdentity
        from liqod.handshake.transport.channelmanager import ChannelManager, by_own_key
        from liqod.handshake.transport.localidentity import present_key
        from liqod.ownkeycontroller import own_side

        async def own(expected: ExpectedPeer) -> LocalIdentity:
            async with self._client() as client:
                pair = await cluster_keys(client)
                here = await own_cluster_id(client, labels.LIQO_NAMESPACE)
                return await own_side(client, here, pair).towards(expected)

        async def present(key: str) -> str:
            async with self._client() as client:
                return await present_key(client, key)

        ways = ChannelManager(by_own_key(own), present=present)
        await self._nursery.start(ways.run)
        return ways
