"""Embedded clusters whose API server is reached by nobody but through its daemon's listener."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import trio

from liqod.consumer.identities.clusterkeys import cluster_keys
from liqod.handshake.protocol.messages import Accepted, Ask, Denied, Refused, Report
from liqod.handshake.protocol.outputs import LocalIdentity, VerifiedPeer
from liqod.handshake.transport.channelmanager import ChannelManager
from liqod.handshake.transport.interfaces import OnPending
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.handshake.transport.peerlistener import PeerListener
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.http import proxies
from liqod.kube.http.wire import Wire, connect
from liqod.kube.selection import Selection
from liqod.procedures import kubeconfigpeering
from liqod.procedures.inbandpeering import InBandOptions
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.resources import TENANTS, Tenant
from tests.simulated.members import Member, members

Front = Callable[[int], Awaitable[int]]

DEAD = "https://127.0.0.1:1"
"""Where a provider says that its API server is, and nothing listens."""


class TenantsOf:
    """Keeps channels for a cluster's tenants, and grants nothing
    (:class:`.interfaces.BorrowRequestHandler`)."""

    def __init__(self, member: Member) -> None:
        self._member = member

    async def on_ask(
        self, peer: VerifiedPeer, source: str, ask: Ask, pending: OnPending
    ) -> Accepted | Denied | Refused:
        """Nothing is decided here."""
        return Denied(reason="nobody decides here")

    async def on_attach(self, peer: VerifiedPeer) -> Refused | None:
        """None where a Tenant has exactly this key."""
        for tenant in await self._member.admin.list(TENANTS, Selection(), decode=Tenant):
            if keys.print_of(tenant.spec.public_key) == peer.key:
                return None
        return Refused(code="unknown", reason="this is no tenant here")

    async def until_untrusted(self, peer: VerifiedPeer) -> str:
        """It looks now and then."""
        while await self.on_attach(peer) is None:  # noqa: ASYNC110
            await trio.sleep(0.05)
        return "it is no tenant any more"

    async def on_report(self, peer: VerifiedPeer, report: Report) -> None:
        """Nothing is kept."""


class Apart:
    """Rome, and milan which it reaches by the listener alone.

    Attributes:
        url: of milan's listener.
        listener: milan's.
        ways: rome's channels.
    """

    def __init__(self, rome: Member, milan: Member) -> None:
        self.rome, self.milan = rome, milan
        self.url = ""
        self.listener: PeerListener
        self.ways: ChannelManager

    async def peer(self) -> None:
        """Rome becomes milan's consumer, as it does after an agreement."""
        user = await self.milan.peering_user(self.rome)
        wanted = ResourceRequest(resources={"cpu": "2", "memory": "4Gi", "pods": "20"})
        async with Client(from_kubeconfig(user)) as remote:
            with trio.fail_after(60):
                await kubeconfigpeering.peer(
                    self.rome.admin,
                    remote,
                    wanted,
                    progress=self.rome.progress,
                    in_band=InBandOptions(proxy_url=self.url),
                )


async def own_of(member: Member) -> LocalIdentity:
    """A cluster with its key."""
    pair = await cluster_keys(member.admin)
    return LocalIdentity(cluster_id=member.id, private=pair.private)


async def server_of(member: Member) -> Wire:
    """A connection to a cluster's API server, as its own daemon makes one."""
    parts = urlsplit(member.cluster.server)
    return await connect(parts.hostname or "", parts.port or 443)


@asynccontextmanager
async def apart(front: Front | None = None, **more: Any) -> AsyncIterator[Apart]:
    """Both, not peered yet.

    Args:
        front: gives the port by which a port of this machine is reached.
        more: of :func:`members`.
    """
    here: list[Apart] = []

    async def by_channel(url: str) -> Wire:
        return await here[0].ways(url)

    proxies.CHANNELS.set(by_channel)
    async with (
        members("rome", "milan", advertise=DEAD, **more) as [rome, milan],
        trio.open_nursery() as nursery,
    ):
        made = Apart(rome, milan)
        own = await own_of(milan)
        made.listener = PeerListener(own, TenantsOf(milan), {"api": partial(server_of, milan)})
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(made.listener.run, listeners)
        key = keys.print_of(keys.public_pem(own.private))
        port = listeners[0].socket.getsockname()[1]
        port = port if front is None else await front(port)
        made.url = proxies.listener_url(key, [f"127.0.0.1:{port}"])
        made.ways = ChannelManager(PeerDialler(await own_of(rome), environ={}).meet)
        await nursery.start(made.ways.run)
        here.append(made)
        yield made
        nursery.cancel_scope.cancel()
