"""Lenders that dial this cluster: who may, and the one connection that is kept of each.

A provider behind a NAT offers to lend. It is taken up where it brings an invitation of this
cluster's to do so, or where something is borrowed of it by such a connection already; of what it
lends it decides for itself, as any provider does. An OutgoingPeering that is awaited says what is
asked of it. Everything that goes to its API server goes by the connection that it has opened, and
leads there alone: a connection is found by the key that was proved in it.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from liqod.apimachinery import labels
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import find_tenant
from liqod.errors import LiqodError, Unconnected
from liqod.handshake.protocol.encoding import unpack
from liqod.handshake.protocol.messages import Offer, Refused
from liqod.handshake.protocol.outputs import ExpectedPeer, VerifiedPeer
from liqod.handshake.protocol.requestphase import FINAL_PHASES
from liqod.handshake.requests.invitations import Bearer, mark_entered, redeem
from liqod.handshake.transport.localidentity import present_key
from liqod.handshake.transport.peersession import PeerSession
from liqod.kube.http import proxies
from liqod.kube.http.wire import Wire
from liqod.model import ids
from liqod.model.text import printable
from liqod.procedures import answering, peeringrequest
from liqod.procedures.peeringrequest import PeeringRequest
from liqod.resources import (
    IDENTITIES,
    INVITATIONS,
    OUTGOING_PEERINGS,
    Identity,
    Invitation,
    OutgoingPeering,
)
from liqod.runtime.supervise import explain

BACK: Final = 10
"""Seconds after which a lender whose offer is not taken up may come back."""
SOON: Final = 2
"""Likewise one whose peering failed half-way."""
GOODBYE: Final = 1.0
"""Seconds for telling it so."""
COMES_WITHIN: Final = 1.0
"""Seconds for which a client that wants a connection waits for a lender that is not there."""

log = logging.getLogger(__name__)


class _ReverseConnection:
    """A meeting that is kept.

    Attributes:
        ready: whether it may be used: attached, or waited for by who asks.
        left: set when it is over, or is to be.
    """

    def __init__(self, meeting: PeerSession) -> None:
        self.meeting = meeting
        self.ready = False
        self.left = trio.Event()


class ReverseConnections:
    """Decides about offers, and keeps the connections.

    As :class:`liqod.handshake.transport.peerlistener.LendOfferHandler`.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._context, self._client = context, context.client
        self._connections: dict[str, _ReverseConnection] = {}
        self._connected = trio.Event()

    def reload(self, context: ClusterContext) -> None:
        """Go by another configuration from now on."""
        self._context = context

    def __len__(self) -> int:
        return len(self._connections)

    # --- who may -------------------------------------------------------------------------------

    async def on_offer(self, peer: VerifiedPeer, offer: Offer) -> Refused | None:
        """Why nothing is borrowed of it; None where something is, or is to be."""
        if await self._is_asked(peer) or await self._is_borrowed(peer):
            return None
        if offer.invitation is None:
            why = f"nothing is to be borrowed from {peer.cluster_id} here, or not any more"
            return Refused(code="unknown", reason=why, again=BACK)
        bearer = Bearer(
            name=offer.invitation.id,
            secret=unpack(offer.invitation.secret),
            cluster_id=peer.cluster_id,
            key=peer.key,
            request=offer.request,
            lends=True,
        )
        if await self._is_revoked(peer, bearer.name):
            why = f"{peer.cluster_id} was revoked here: only an invitation for its key lets it back"
            return Refused(code="invitation-other", reason=why)
        wanted = await redeem(self._client, self._context.namespace, bearer)
        if isinstance(wanted, Refused):
            return wanted
        request = PeeringRequest(
            name=answering.name_of(peer.cluster_id, peer.key),
            cluster_id=peer.cluster_id,
            key=peer.key,
            resources={name: str(amount) for name, amount in wanted.items()},
            networking=self._context.config.network.enabled,
            awaited=True,
        )
        await peeringrequest.ensure_request(self._client, self._context.namespace, request)
        await mark_entered(self._client, self._context.namespace, bearer)
        log.info("%s lends, by invitation", peer.cluster_id)
        return None

    async def _is_revoked(self, peer: VerifiedPeer, invitation: str) -> bool:
        """True if a lender was revoked, and brings an invitation that is not for it alone."""
        tenant = await find_tenant(self._client, peer.cluster_id)
        if tenant is None or labels.REVOKED_PROVIDER not in tenant.annotations:
            return False
        namespace = self._context.namespace
        found = await self._client.find(INVITATIONS, invitation, namespace, decode=Invitation)
        return found is not None and found.spec.key != peer.key

    async def _is_asked(self, peer: VerifiedPeer) -> bool:
        """True if a request waits for this very lender."""
        name = answering.name_of(peer.cluster_id, peer.key)
        found = await self._client.find(
            OUTGOING_PEERINGS, name, self._context.namespace, decode=OutgoingPeering
        )
        if found is None or found.leaving or found.status.phase in FINAL_PHASES:
            return False
        spec = found.spec
        return spec.awaited and (spec.cluster_id, spec.key) == (peer.cluster_id, peer.key)

    async def _is_borrowed(self, peer: VerifiedPeer) -> bool:
        """True if this cluster is its consumer, and reaches it by its connection."""
        tenant = await find_tenant(self._client, peer.cluster_id)
        if tenant is None:
            return False
        name = ids.control_plane_identity(peer.cluster_id)
        found = await self._client.find(IDENTITIES, name, tenant.name, decode=Identity)
        if found is None or found.leaving:
            return False
        url = found.spec.auth_params.proxy_url
        if not proxies.dials_here(url):
            return False
        return await self._present(proxies.listener_of(url)[0]) == peer.key

    async def _present(self, key: str) -> str:
        """The present key of the lender that had that key."""
        return await present_key(self._client, key)

    # --- the connections -----------------------------------------------------------------------

    async def hold(self, meeting: PeerSession) -> Refused:
        """Keep a meeting for all that use that lender; returns why it is to end, once it is."""
        peer = meeting.peer
        before, mine = self._connections.get(peer.key), _ReverseConnection(meeting)
        self._connections[peer.key] = mine
        try:
            if before is not None:
                why = "another connection of this cluster has taken its place"
                await before.meeting.refuse(Refused(code="gone", reason=why, again=BACK))
            if not await self._is_asked(peer):
                await meeting.attach()
            log.info("%s has dialled, and lends", peer.cluster_id)
            mine.ready = True
            came, self._connected = self._connected, trio.Event()
            came.set()
            async with trio.open_nursery() as nursery:

                async def until_over() -> None:
                    await meeting.wait_over()
                    mine.left.set()

                nursery.start_soon(until_over)
                await mine.left.wait()
                nursery.cancel_scope.cancel()
            why = f"nothing is borrowed from {peer.cluster_id} here any more"
            return Refused(code="unknown", reason=why, again=BACK)
        except LiqodError as error:
            return Refused(code="gone", reason=printable(str(error)), again=SOON)
        finally:
            if self._connections.get(peer.key) is mine:
                del self._connections[peer.key]

    def drop(self, cluster_id: str) -> None:
        """Ends the connection of a cluster from which nothing is borrowed any more."""
        for kept in self._connections.values():
            if kept.meeting.peer.cluster_id == cluster_id:
                kept.left.set()

    @asynccontextmanager
    async def meet(
        self, addresses: Sequence[str], expected: ExpectedPeer
    ) -> AsyncIterator[PeerSession]:
        """The meeting with a lender, as soon as it dials.

        As :data:`liqod.handshake.transport.peersession.DialPeer`. It stays where this ends well,
        for the channel that is then kept. Otherwise it ends, and the lender comes again.

        Args:
            addresses: none.
            expected: who it has to be.
        """
        while True:
            meeting = self._found(expected.key)
            if meeting is not None and meeting.peer.cluster_id == expected.cluster_id:
                break
            await self._connected.wait()
        why = "the peering did not come about"
        try:
            yield meeting
            why = ""
        except Exception as error:
            why = explain(error)
            raise
        finally:
            if why:
                with trio.move_on_after(GOODBYE, shield=True):
                    await meeting.refuse(Refused(code="gone", reason=why, again=SOON))

    def _found(self, key: str) -> PeerSession | None:
        kept = self._connections.get(key)
        return kept.meeting if kept is not None and kept.ready else None

    async def dial(self, key: str) -> Wire:
        """A connection to a lender's API server.

        Args:
            key: SHA-256 of its public key, hexadecimal.

        Raises:
            Unconnected: it has not dialled, or does not let this cluster in.
        """
        meeting = self._found(key)
        if meeting is None:
            present = await self._present(key)
            with trio.move_on_after(COMES_WITHIN):
                while (meeting := self._found(present)) is None:
                    await self._connected.wait()
        if meeting is None:
            raise Unconnected(
                f"the cluster with the key {key[: proxies.SHOWN]}… dials this one, and has no"
                " connection here: does its daemon run, and reach this one?"
            )
        return await meeting.dial("", 0)
