"""Runs all of the handshake, while this daemon leads: requests in and out, and channels.

A port that is taken is said, and everything else goes on without; it is tried again now and then.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NoReturn
from urllib.parse import urlsplit

import trio

from liqod.cluster.context import ClusterContext
from liqod.discovery.sightings import SeenCluster
from liqod.handshake.protocol.requestphase import RequestPhase
from liqod.handshake.requests.borrowrequest import BorrowRequest
from liqod.handshake.requests.incomingcontroller import IncomingController
from liqod.handshake.requests.incomingserver import IncomingServer
from liqod.handshake.requests.invitations import Invitations
from liqod.handshake.requests.lendoffer import LendOffer
from liqod.handshake.requests.outgoingcontroller import OutgoingController
from liqod.handshake.requests.outgoingrequest import OutgoingRequest
from liqod.handshake.requests.policyrequests import ListSeenClusters, PolicyRequests, none_seen
from liqod.handshake.requests.prunedpeerings import PrunedPeerings
from liqod.handshake.requests.reverseconnections import ReverseConnections
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.handshake.transport.advertisedlistener import AdvertisedListener
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
from liqod.sharedport import Connect

FindSeenCluster = Callable[[str], SeenCluster | None]
"""All that is seen of a cluster id; None for nothing."""


class DiscoveryLookup:
    """Answers the two questions of the handshake.

    Args:
        look: into what is seen.
    """

    def __init__(self, look: FindSeenCluster) -> None:
        self._look = look

    def by(self, cluster_id: str, key: str) -> frozenset[str]:
        """The discovery plugins that have seen a cluster, by an advert that this key has signed."""
        found = self._look(cluster_id)
        return found.plugins(key) if found is not None else frozenset()

    def where(self, cluster_id: str, key: str) -> tuple[str, ...]:
        """Where a cluster is tried; with a key, where one with that key was seen."""
        found = self._look(cluster_id)
        return found.addresses(key) if found is not None else ()


def never_seen(cluster_id: str) -> SeenCluster | None:
    """Returns None: nothing is seen."""
    return None


class HandshakeManager:
    """Runs the handshake. Tasks that its creator starts afterwards use its channels, too.

    Args:
        private: its key, PEM.
        look: into what discovery has seen.
        list_seen: all that it has seen.
        connect: as in :class:`.transport.advertisedlistener.AdvertisedListener`.

    Attributes:
        channels: the channels that are kept.
        reverse_connections: the lenders that dial this cluster.
        counters: what all meetings have come to.
    """

    def __init__(
        self,
        context: ClusterContext,
        private: bytes,
        callers: Account,
        look: FindSeenCluster = never_seen,
        list_seen: ListSeenClusters = none_seen,
        connect: Connect | None = None,
        timings: HandshakeTimings = ORDINARY,
    ) -> None:
        self._context, self._sighted, self._list_seen = context, DiscoveryLookup(look), list_seen
        self._callers, self._timings = callers, timings
        self._own = LocalIdentities(context.cluster_id, private)
        self._listener: PeerListener | None = None
        self.counters = SessionCounters()
        proxy = context.config.handshake.proxy
        bounds = StreamLimits(callers[STREAMS], context.config.handshake.stream_idle)
        self._dialler = PeerDialler(
            self._own.towards, proxy=proxy, counters=self.counters, bounds=bounds, timings=timings
        )
        self._advertised = AdvertisedListener(context, connect)
        self.reverse_connections = ReverseConnections(context)
        present = partial(present_key, context.client)
        self.channels = ChannelManager(
            self._dialler.meet, self.reverse_connections.dial, present, timings
        )
        # The tasks that begin from here inherit it: those of peers, above all.
        proxies.CHANNELS.set(self.channels)
        self._incoming: IncomingController | None = None
        self._outgoing: OutgoingController | None = None
        self._policy_requests: PolicyRequests | None = None

    def reload(self, context: ClusterContext) -> None:
        """Go by another configuration from now on; what is listened on stays as it is."""
        self._context = context
        self._advertised.reload(context)
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
            self._incoming = inbox = IncomingController(context, self._timings)
            await nursery.start(inbox.run)
            await nursery.start(Invitations(context).run)
            reception = IncomingServer(inbox, self._sighted.by)
            door = partial(_own_server, context)
            asking = OutgoingController(
                context, partial(self._make_request, reception, door), self.reverse_connections.drop
            )
            await nursery.start(asking.run)
            await nursery.start(PrunedPeerings(context, self._timings).run)
            self._policy_requests = PolicyRequests(
                context, self._list_seen, asking.requests, self._timings
            )
            nursery.start_soon(self._policy_requests.run)
            self._outgoing = asking
            try:
                if not context.config.handshake.enabled:
                    nursery.start_soon(self._advertised.withdraw)
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
                        timings=self._timings,
                    )
                    listener.take(self._own.present, self._own.former)
                    await nursery.start(self._advertised.run, listener)
                task_status.started()
                await trio.sleep_forever()
            finally:
                self._outgoing = self._policy_requests = self._incoming = None
        raise AssertionError("sleeping for ever has ended")

    def take(self, private: bytes, former: bytes, knowing: KnowsFormerKey) -> None:
        """Use these keys from now on, as :meth:`.transport.localidentity.LocalIdentities.take`."""
        self._own.take(private, former, knowing)
        if self._listener is not None:
            self._listener.take(self._own.present, self._own.former)

    @property
    def port(self) -> int:
        """The port that is listened on; 0 where none is."""
        return self._advertised.port

    @property
    def problem(self) -> str:
        """Why none is listened on; empty where one is, or where none is to be."""
        return self._advertised.problem

    @property
    def advertised_address(self) -> str:
        """Its advertised address, as ``HOST:PORT`` with commas between; empty for nowhere."""
        return self._advertised.advertised_address

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


async def _own_server(context: ClusterContext) -> Wire:
    parts = urlsplit(context.client.server)
    return await context.client.dial(parts.hostname or "", parts.port or 443)
