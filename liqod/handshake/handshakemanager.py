"""Runs all of the handshake, while this daemon leads: requests in and out, and channels.

A port that is taken is said, and everything else goes on without; it is tried again now and then.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.cluster.context import ClusterContext
from liqod.errors import LiqodError
from liqod.handshake.protocol.requestphase import RequestPhase
from liqod.handshake.requests.borrowrequest import BorrowRequest
from liqod.handshake.requests.discoverylookup import DiscoveryLookup, FindSeenCluster, never_seen
from liqod.handshake.requests.incomingcontroller import IncomingController
from liqod.handshake.requests.incomingserver import IncomingServer
from liqod.handshake.requests.invitations import Invitations
from liqod.handshake.requests.lendoffer import LendOffer
from liqod.handshake.requests.outgoingcontroller import OutgoingController
from liqod.handshake.requests.outgoingrequest import OutgoingRequest
from liqod.handshake.requests.policyrequests import ListSeenClusters, PolicyRequests, none_seen
from liqod.handshake.requests.reverseconnections import ReverseConnections
from liqod.handshake.transport.channel import StreamBackend, StreamLimits
from liqod.handshake.transport.channelmanager import ChannelManager
from liqod.handshake.transport.localidentity import KnowsFormerKey, LocalIdentities, present_key
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.handshake.transport.peerlistener import PeerListener
from liqod.handshake.transport.peersession import API
from liqod.handshake.transport.sessioncounters import SessionCounters
from liqod.kube.http import proxies
from liqod.kube.http.wire import Wire
from liqod.resources import OutgoingPeering
from liqod.runtime.account import STREAMS, Account
from liqod.sharedport import SHARED

AGAIN: Final = 30.0
"""Seconds after which a port that was taken is tried again."""

log = logging.getLogger(__name__)


class HandshakeManager:
    """Runs the handshake. Tasks that its creator starts afterwards use its channels, too.

    Args:
        context: this cluster.
        private: its key, PEM.
        callers: what callers may take.
        look: into what discovery has seen.
        list_seen: all that it has seen.
        shared: folder of root's alone by which programs share :data:`SHARED`; None: nobody does.

    Attributes:
        channels: the channels that are kept.
        reverse_connections: the lenders that dial this cluster.
        counters: what all meetings have come to.
        port: that is listened on; 0 where none is.
        problem: why none is; empty where one is, or where none is to be.
    """

    def __init__(
        self,
        context: ClusterContext,
        private: bytes,
        callers: Account,
        look: FindSeenCluster = never_seen,
        list_seen: ListSeenClusters = none_seen,
        shared: Path | None = None,
    ) -> None:
        self._context, self._sighted, self._list_seen = context, DiscoveryLookup(look), list_seen
        self._callers = callers
        self._own = LocalIdentities(context.cluster_id, private)
        self._listener: PeerListener | None = None
        self.counters = SessionCounters()
        proxy = context.config.handshake.proxy
        bounds = StreamLimits(callers[STREAMS], context.config.handshake.stream_idle)
        self._dialler = PeerDialler(
            self._own.towards, proxy=proxy, counters=self.counters, bounds=bounds
        )
        self._shared = shared
        self.reverse_connections = ReverseConnections(context)
        present = partial(present_key, context.client)
        self.channels = ChannelManager(self._dialler.meet, self.reverse_connections.dial, present)
        # The tasks that begin from here inherit it: those of peers, above all.
        proxies.CHANNELS.set(self.channels)
        self._incoming: IncomingController | None = None
        self._outgoing: OutgoingController | None = None
        self._policy_requests: PolicyRequests | None = None
        self._published: tuple[str | None] | None = None
        """The address of the listener that was last written; None for nothing yet."""
        self.port = 0
        self.problem = ""

    def reload(self, context: ClusterContext) -> None:
        """Go by another configuration from now on; what is listened on stays as it is."""
        self._context = context
        self.reverse_connections.reload(context)
        if self._incoming is not None:
            self._incoming.reload(context)
        if self._outgoing is not None:
            self._outgoing.reload(context)
        if self._policy_requests is not None:
            self._policy_requests.reload(context)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Runs all of the handshake, until cancelled."""
        context = self._context
        async with trio.open_nursery() as nursery:
            await nursery.start(self.channels.run)
            self._incoming = inbox = IncomingController(context)
            await nursery.start(inbox.run)
            await nursery.start(Invitations(context).run)
            reception = IncomingServer(inbox, self._sighted.by)
            door = partial(_own_server, context)
            asking = OutgoingController(
                context, partial(self._make_request, reception, door), self.reverse_connections.drop
            )
            await nursery.start(asking.run)
            self._policy_requests = PolicyRequests(context, self._list_seen, asking.requests)
            nursery.start_soon(self._policy_requests.run)
            self._outgoing = asking
            try:
                if not context.config.handshake.enabled:
                    nursery.start_soon(self._withdraw_until_done)
                else:
                    # Where it listens, what the last run noted is overwritten, or taken back there:
                    # somebody beside it who takes it back could come after.
                    self._listener = listener = PeerListener(
                        *(
                            self._own.present,
                            reception,
                            {API: door},
                            self.reverse_connections,
                            self.counters,
                        ),
                        account=self._callers,
                        idle=context.config.handshake.stream_idle,
                    )
                    listener.take(self._own.present, self._own.former)
                    await nursery.start(self._listen, listener)
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._outgoing = self._policy_requests = self._incoming = None
                self.problem = ""
        raise AssertionError("sleeping for ever has ended")

    def take(self, private: bytes, former: bytes, knowing: KnowsFormerKey) -> None:
        """Go by these keys from now on: see :meth:`.localidentity.LocalIdentities.take`."""
        self._own.take(private, former, knowing)
        if self._listener is not None:
            self._listener.take(self._own.present, self._own.former)

    @property
    def met_at(self) -> str:
        """Where it says that it is met, as ``HOST:PORT`` with commas between; empty for nowhere."""
        return "" if self._published is None else self._published[0] or ""

    def requests(self) -> dict[str, Counter[RequestPhase]]:
        """How many requests there are in each phase: of others (``in``), and this cluster's."""
        components = {"in": self._incoming, "out": self._outgoing}
        return {way: room.phases() for way, room in components.items() if room is not None}

    def _make_request(
        self,
        reception: IncomingServer,
        door: StreamBackend,
        context: ClusterContext,
        request: OutgoingPeering,
    ) -> OutgoingRequest:
        """Makes the task that pursues a request of this cluster's."""
        if request.spec.lend:
            return LendOffer(context, request.name, self._dialler, reception, door)
        dialling = self.reverse_connections.meet if request.spec.awaited else self._dialler.meet
        return BorrowRequest(
            context, request.name, dialling, self._sighted.where, self.channels.renew
        )

    async def _listen(
        self,
        listener: PeerListener,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        settings = self._context.config.handshake
        while True:
            try:
                if self._shared is not None and settings.port == SHARED and not settings.host:
                    await self._share(self._shared, listener, task_status)
                sockets = await trio.open_tcp_listeners(settings.port, host=settings.host or None)
            except OSError as error:
                why = error.strerror or str(error)
                self.problem = f"port {settings.port} cannot be listened on: {why}"
                log.warning("no other cluster can ask this one: %s", self.problem)
                await self._withdraw_addresses()
                task_status.started()
                await trio.sleep(AGAIN)
                task_status = trio.TASK_STATUS_IGNORED
                continue
            try:
                with self._listening_at(sockets[0].socket.getsockname()[1]):
                    await self._publish_addresses()
                    task_status.started()
                    await listener.run(sockets)
            finally:
                for each in sockets:  # else the port is taken for as long as nobody collects them
                    each.socket.close()

    async def _share(
        self, folder: Path, listener: PeerListener, task_status: trio.TaskStatus[None]
    ) -> NoReturn:
        """Listen where the servers of tunnels do. Raises OSError where another program does."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        failed: OSError | None = None
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(listener.share, SHARED, folder)
            except OSError as error:
                failed = error
            else:
                with self._listening_at(SHARED):
                    await self._publish_addresses()
                    task_status.started()
                    await trio.sleep_forever()
        assert failed is not None
        raise failed

    @contextmanager
    def _listening_at(self, port: int) -> Iterator[None]:
        """Shows a port as the one where daemons are met, while the block lasts."""
        self.port, self.problem = port, ""
        log.info("other clusters' daemons are met at port %d", port)
        try:
            yield
        finally:
            self.port = 0

    def _host(self) -> str:
        address = self._context.config.handshake.host or self._context.node_address
        return f"[{address}]" if ":" in address else address

    async def _publish_addresses(self) -> None:
        """Publishes the addresses of this daemon, for makers of invitations."""
        addresses = self._context.config.handshake.advertise or (f"{self._host()}:{self.port}",)
        await self._annotate(",".join(addresses))

    async def _withdraw_addresses(self) -> bool:
        """Removes the addresses of the last run: they lead nowhere, or to somebody else.

        Returns whether that is done; where it is not, it is said why.
        """
        try:
            await self._annotate(None)
        except LiqodError as error:
            log.warning("it still says where this daemon was met, which leads nowhere: %s", error)
            return False
        return True

    async def _withdraw_until_done(self) -> None:
        """The same until it is done, for a daemon that is met nowhere."""
        while True:
            if await self._withdraw_addresses():
                return
            await trio.sleep(AGAIN)

    async def _annotate(self, met_at: str | None) -> None:
        if (met_at,) == self._published:
            return  # a port that is taken is tried again and again
        note = {"metadata": {"annotations": {labels.MET_AT: met_at}}}
        context = self._context
        await context.client.patch(SECRETS, labels.KEYS_SECRET, note, context.namespace)
        self._published = (met_at,)


async def _own_server(context: ClusterContext) -> Wire:
    parts = urlsplit(context.client.server)
    return await context.client.dial(parts.hostname or "", parts.port or 443)
