"""One request of this cluster's, pursued until it is a peering or an end of another kind."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NoReturn

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import ConfigError, LiqodError, NotFound, Overloaded, Unreachable
from liqod.handshake.protocol.messages import Accepted, Cancel, Denied, Done
from liqod.handshake.protocol.outputs import ExpectedPeer
from liqod.handshake.requests import outgoingrecord
from liqod.handshake.requests.outgoingrequest import YES, OutgoingRequest, is_over
from liqod.handshake.transport.interfaces import SessionOver
from liqod.handshake.transport.peersession import DialPeer, PeerSession
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http import proxies
from liqod.kube.selection import Selection
from liqod.model.text import printable
from liqod.procedures import kubeconfigpeering, networkobjects
from liqod.procedures.inbandpeering import InBandOptions
from liqod.procedures.networkjoin import Joining
from liqod.procedures.peeringrequest import other_key, remembered, shown_words
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.resources import OUTGOING_PEERINGS, TENANTS, OutgoingPeering
from liqod.resources.peering import (
    ACCEPTED,
    ASKED,
    EXCHANGED,
    IDENTIFIED,
    JOINED,
    NOT_SEEN,
    NOTED,
    PEERED,
    REACHED,
)
from liqod.runtime.backoff import Backoff
from liqod.runtime.supervise import leaves
from liqod.telemetry.events import PeeringStep

LOOK_EVERY: Final = 0.3
"""Seconds between looks whether a person has confirmed the words."""
DIRECT_WITHIN: Final = 1.5
"""Seconds for an answer of the provider's API server; beyond, it is reached by the channel."""
MOST: Final = 16
"""Addresses that a way by the channel names."""
TOLD_AFTER: Final = 1.0
"""Seconds for which a step has to last to be written down."""
PAUSES: Final = Backoff(first=0.5, last=60.0)
"""Seconds between tries to reach, or to be peered with, a cluster that does not answer."""
GOODBYE: Final = 3.0
"""Seconds for telling that a request is taken back."""

Where = Callable[[str, str], tuple[str, ...]]
"""Addresses, as ``HOST:PORT``, at which a cluster id was seen with a key, or with any."""

LetIn = Callable[[str], None]
"""Is called with the SHA-256 of a key, hexadecimal."""

log = logging.getLogger(__name__)


def ignore(key: str) -> None:
    """Notify nobody."""


def no_addresses(cluster_id: str, key: str) -> tuple[str, ...]:
    """Nothing is seen."""
    return ()


def key_problem(
    request: OutgoingPeering, peer: str, key: str, every: Iterable[OutgoingPeering]
) -> str:
    """Why a cluster that shows another key than before gets no request; empty where it may.

    Args:
        request: that is to be made.
        peer: the cluster's id.
        key: that it shows.
        every: this cluster's own requests, by which peers are known.
    """
    if request.spec.replace:
        return ""
    for each in every:
        known = each.status
        # Whoever only answered first, and was confirmed by nobody, is not known by that.
        agreed = known.phase in ("Accepted", "Done")
        if agreed and known.cluster_id == peer and known.key not in ("", key):
            return (
                f"{peer} is known here by another key ({known.key[:16]}…) than the one that it"
                f" shows ({key[:16]}…): if it was made anew, and you know that this is it, say"
                f" `liqod peer {request.name} --replace`"
            )
    return ""


class BorrowRequest(OutgoingRequest):
    """Pursues one request; each :meth:`run` is one try.

    Args:
        name: of the OutgoingPeering.
        dialling: meets the one that is asked.
        where: what discovery knows of a cluster's addresses.
        let_in: is told the key of whoever has let this cluster in.
    """

    def __init__(
        self,
        context: ClusterContext,
        name: str,
        dialling: DialPeer,
        where: Where = no_addresses,
        let_in: LetIn = ignore,
    ) -> None:
        super().__init__(context, name)
        self.pauses = PAUSES
        self._dialling, self._where, self._let_in = dialling, where, let_in
        self._step = ""
        self._meeting: PeerSession | None = None

    async def run(self) -> bool:
        """One try: whether all is done and reported.

        Raises:
            LiqodError: it is to be tried again, and why.
        """
        request = await self._read()
        if request is None or is_over(request):
            return True
        if request.status.phase in ("", "Waiting") and not outgoingrecord.left(request):
            await self._write("expired", {"message": "nobody answered in time"})
            return True
        spec, known = request.spec, request.status
        told = known.key if known.phase == "Done" else ""
        expected = ExpectedPeer(cluster_id=spec.cluster_id, key=told or spec.key)
        seen = self._where(spec.cluster_id, spec.key) if spec.cluster_id else ()
        addresses = [each for each in (known.address, *spec.addresses, *seen) if each]
        if not addresses and not spec.awaited:
            why = (
                f"no cluster {spec.cluster_id} is seen here (`liqod discover`), and nobody says"
                " where it is: bring an invitation (`liqod invite` there), or name its addresses"
                " and its key in [[peers]]"
            )
            await self._write(None, {}, {REACHED: ("False", why, NOT_SEEN)})
            raise ConfigError(why)
        try:
            async with self._dialling(tuple(dict.fromkeys(addresses)), expected) as self._meeting:
                try:
                    return await self._negotiate(self._meeting)
                except Exception as error:
                    # Who deletes the request may be seen here first, by a write that finds nothing.
                    gone = any(isinstance(each, NotFound) for each in leaves(error))
                    if not gone or await self._read() is not None:
                        raise
                    await self.withdraw(request.metadata.uid)
                    return True
        except Exception as error:
            for leaf in leaves(error):
                if isinstance(leaf, SessionOver) and await self._refused(leaf):
                    return True
                if isinstance(leaf, Unreachable) and self._meeting is None:
                    await self._write(None, {}, {REACHED: ("False", str(leaf))})
            raise
        finally:
            self._meeting = None

    async def withdraw(self, uid: str) -> None:
        """Notify the other side that a request is withdrawn, if it is there."""
        if self._meeting is not None:
            with trio.move_on_after(GOODBYE), suppress(LiqodError):
                await self._meeting.report(Cancel(request=uid))

    async def _negotiate(self, meeting: PeerSession) -> bool:
        peer = meeting.peer
        request = await self._read()
        if request is None or is_over(request):
            return True
        if request.status.phase == "Done":
            await self._report_done(meeting, request)
            return True
        status: dict[str, Any] = {
            "clusterID": peer.cluster_id,
            "key": peer.key,
            "address": meeting.address,
            "nextTry": None,
        }
        mine = Selection(self._context.namespace)
        every = await self._client.list(OUTGOING_PEERINGS, mine, decode=OutgoingPeering)
        changed = key_problem(request, peer.cluster_id, peer.key, every)
        if changed:
            await self._write(None, {"message": changed}, {IDENTIFIED: ("False", changed)})
            raise ConfigError(changed)
        # Those of each meeting anew, on both sides.
        if request.status.words not in ("", peer.words):
            await self._remember(request)
        status["words"] = peer.words
        request = await self._write(None, status, {REACHED: YES, IDENTIFIED: YES})
        confirmed = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_confirmed, request, confirmed)
            answer = await self._ask(meeting, request)
            if isinstance(answer, Denied):
                nursery.cancel_scope.cancel()
            elif not confirmed.is_set():
                words = request.status.words or peer.words
                await self._set_message(
                    f"{peer.cluster_id} agrees; compare the words with its operator: {words}. If "
                    f"they are the same, say so: `liqod peer {self._name} --words {words}`"
                )
            if isinstance(answer, Accepted):
                await confirmed.wait()
        if isinstance(answer, Denied):
            reason = printable(answer.reason) or "its operator says no"
            await self._write("denied", {"message": reason}, {ACCEPTED: ("False", reason)})
            await self._forget_invitation(request)
            return True
        granted = answer.granted
        request = await self._write(
            "accepted", {"granted": dict(granted), "message": None}, {ACCEPTED: YES, ASKED: YES}
        )
        self._let_in(peer.key)
        await self._exchange(meeting, request, answer)
        request = await self._write("done", {"message": None}, {EXCHANGED: YES, PEERED: YES})
        await self._forget_invitation(request)
        await self._report_done(meeting, request)
        return True

    async def _remember(self, request: OutgoingPeering) -> None:
        """Keep the words of the meeting before: who still reads them out is no alarm."""
        patch = {"metadata": {"annotations": remembered(shown_words(request))}}
        await self._client.patch(OUTGOING_PEERINGS, self._name, patch, self._context.namespace)

    async def _ask(self, meeting: PeerSession, request: OutgoingPeering) -> Accepted | Denied:
        """The answer; what is waited for meanwhile is reported in the resource."""
        peer, invited = meeting.peer, await self._invited(request)
        if not request.status.phase:
            request = await self._write("asked", {}, {ASKED: YES})
        waiting = trio.Event()

        async def tell() -> None:
            await waiting.wait()
            words = request.status.words or peer.words
            await self._set_message(
                f"{peer.cluster_id} has to agree: its operator says `liqod inbox accept "
                f"{self._context.cluster_id}` there, if the words are the same: {words}"
            )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tell)
            ask = outgoingrecord.ask_of(request, self._context.config.handshake.labels, invited)
            answer = await meeting.ask(ask, lambda lifetime: waiting.set())
            nursery.cancel_scope.cancel()
        return answer

    async def _exchange(
        self, meeting: PeerSession, request: OutgoingPeering, accepted: Accepted
    ) -> None:
        """Peers by the kubeconfig that was given, as ``liqod peer`` does by one."""
        peer, spec = meeting.peer, request.spec
        found = credentials.given(accepted.kubeconfig.encode(), f"what {peer.cluster_id} gives")
        wanted = {name: accepted.granted[name] for name in accepted.granted}
        joining = None
        if accepted.networking and spec.networking:
            # Who is dialled here can be dialled there: its gateway is the one that listens.
            server_at: networkobjects.Where = "Consumer" if spec.awaited else "Provider"
            joining = Joining(networkobjects.NetworkOptions(server_at=server_at), self._progress)
        async with (
            trio.open_nursery() as nursery,
            Client(found, user_agent="liqod", dial=meeting.dial) as remote,
        ):
            nursery.start_soon(self._write_progress)
            nursery.start_soon(_until_over, meeting)
            await kubeconfigpeering.peer(
                self._client,
                remote,
                ResourceRequest(
                    name=spec.slice,
                    resources=wanted,
                    virtual_nodes=request.metadata.annotations.get(labels.VIRTUAL_NODES, ""),
                ),
                progress=self._progress,
                liqo=self._context.namespace,
                expected=peer.cluster_id,
                replace=spec.replace,
                joining=joining,
                in_band=await self._in_band(meeting, request, found),
            )
            nursery.cancel_scope.cancel()
        if joining is None:
            return
        if joining.without:
            log.warning("peered without a network", extra={"reason": joining.without})
        joined = ("False", joining.without) if joining.without else YES
        await self._write(None, {}, {JOINED: joined})

    async def _in_band(
        self, meeting: PeerSession, request: OutgoingPeering, found: Credentials
    ) -> InBandOptions | None:
        """By the channel, where the provider's API server does not answer directly."""
        direct = Client(
            found, user_agent="liqod", deadline=DIRECT_WITHIN, dial=self._context.client.dial
        )
        async with direct:
            with trio.move_on_after(DIRECT_WITHIN):
                try:
                    await direct.list(TENANTS, Selection(found.namespace), decode=Partial)
                    return None
                except (Unreachable, Overloaded):
                    pass
                except LiqodError:
                    return None  # it answers, whatever it says
        addresses = tuple(dict.fromkeys((meeting.address, *request.spec.addresses)))
        if request.spec.awaited:
            addresses = ()
        return InBandOptions(proxy_url=proxies.listener_url(meeting.peer.key, addresses[:MOST]))

    async def _until_confirmed(self, request: OutgoingPeering, confirmed: trio.Event) -> None:
        """Set where it is certain who answers: the operator gave the key, or compared the words.

        Raises:
            ConfigError: the operator has meanwhile named the key of somebody else.
        """
        while True:
            now = await self._read()
            if now is not None and now.spec.key:
                if now.spec.key != now.status.key:
                    raise ConfigError(other_key(now))
                confirmed.set()
                return
            await trio.sleep(LOOK_EVERY)

    async def _report_done(self, meeting: PeerSession, request: OutgoingPeering) -> None:
        """Say that it is a peering, and write that this is known there. Raises LiqodError."""
        await meeting.report(Done(request=request.metadata.uid))
        await self._write(None, {"message": None, "nextTry": None}, {NOTED: YES})

    def _progress(self, step: str) -> None:
        self._step = str(step)  # a Step could not be written
        self._context.hub.publish(PeeringStep(step=str(step)), self._name)

    async def _write_progress(self) -> None:
        """Write each step that lasts into the resource, for commands that wait elsewhere."""
        told = ""
        while True:
            await trio.sleep(TOLD_AFTER)
            if self._step != told:
                told = self._step
                with suppress(LiqodError):
                    await self._set_message(told)


async def _until_over(meeting: PeerSession) -> NoReturn:
    """Raises SessionOver when a meeting ends, so that its users wait for no more answers."""
    raise SessionOver(await meeting.wait_over())
