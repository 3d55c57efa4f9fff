"""Receives requests: answers the clusters that ask, and writes their requests into the inbox.

A request becomes an entry of the inbox (:mod:`liqod.handshake.requests.incomingcontroller`),
decided at once where a policy or an invitation says so; its answer is the entry's status.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import ensure_tenant_namespace, look_up_tenant
from liqod.errors import AlreadyExists, ConfigError, Conflict, NotFound
from liqod.handshake.protocol.encoding import unpack
from liqod.handshake.protocol.messages import (
    Accepted,
    Ask,
    Cancel,
    Denied,
    Done,
    Failed,
    Refused,
    Report,
)
from liqod.handshake.protocol.outputs import VerifiedPeer
from liqod.handshake.protocol.requestphase import RequestPhase, next_phase
from liqod.handshake.requests import incomingrecord, policies
from liqod.handshake.requests.incomingcontroller import ENDED, IncomingController
from liqod.handshake.requests.invitations import Bearer, mark_entered, redeem
from liqod.handshake.requests.policies import PolicyDecision, PolicySubject
from liqod.handshake.transport.interfaces import OnPending
from liqod.kube import times
from liqod.model import ids
from liqod.model.objects.conditions import holds
from liqod.procedures import answering, peeringusers
from liqod.resources import IDENTITIES, INCOMING_PEERINGS, IncomingPeering
from liqod.resources.peering import APPROVED, EXCHANGED, IDENTIFIED, PEERED
from liqod.runtime.connectionlimit import source_of

TAKEN: Final = "another cluster's request has the name that this one would have here"
"""Why a request is not taken whose key begins as that of another cluster of the same id."""
LENDS: Final = "something is borrowed here from a cluster of that id, whose key is not known"
"""Why a person is asked: who takes the id of a lender would share its tenant namespace."""
BARRED: Final = "its operator has denied this cluster for ever"
WAITS: Final = 7 * 24 * 3600
"""Seconds for which a request waits for a person at the most."""
BACK: Final = 60
"""Seconds after which a cluster that is refused for now may come back."""
WRITES: Final = 10
"""How often an entry is written where somebody else writes it at the same time."""
_YES: Final = ("True", "")
_CANCELLED: Final = Refused(code="cancelled", reason="the request was taken out of the inbox")

SeenBy = Callable[[str, str], frozenset[str]]
"""The discovery plugins that have seen a cluster id with a key (SHA-256, hexadecimal)."""

log = logging.getLogger(__name__)


def seen_by_none(cluster_id: str, key: str) -> frozenset[str]:
    """No discovery has seen anybody."""
    return frozenset()


class IncomingServer:
    """Answers those who ask: a :class:`~liqod.handshake.transport.interfaces.BorrowRequestHandler`.

    Args:
        inbox: where requests are kept.
        seen: what discovery knows of who asks.
    """

    def __init__(self, inbox: IncomingController, seen: SeenBy = seen_by_none) -> None:
        self._inbox = inbox
        self._client = inbox.context.client
        self._seen = seen
        self._adding = trio.Lock()
        self._letting = trio.Lock()

    async def on_ask(
        self, peer: VerifiedPeer, source: str, ask: Ask, pending: OnPending
    ) -> Accepted | Denied | Refused:
        """The answer to a request, as soon as there is one."""
        name = answering.name_of(peer.cluster_id, peer.key)
        entry = await self._inbox.find(name)
        if entry is not None and incomingrecord.is_of(entry, peer) and answering.is_barred(entry):
            return Denied(reason=BARRED)
        if self._inbox.is_barred(peer.key):  # by another id: an id is what one calls oneself
            return Denied(reason=BARRED)
        if entry is None or not incomingrecord.is_about(entry, peer, ask):
            answer = await self._take_in(peer, source, ask)
            if answer is not None:
                return answer
        elif entry.status.words != peer.words and entry.status.phase == "Waiting":
            await self._rename(entry, peer.words)
        told = ""
        while True:
            changed = self._inbox.changed(name)
            entry = await self._inbox.find(name)
            if entry is None or not incomingrecord.is_about(entry, peer, ask):
                self._inbox.forget(name)
                return _CANCELLED
            match entry.status.phase:
                case "Accepted" | "Done":
                    return await self._let_in(entry, peer, ask)
                case "Denied":
                    return Denied(reason=entry.status.reason)
                case "Expired" | "Cancelled" | "Failed":
                    return Refused(code="expired", reason=entry.status.reason)
            if told != entry.status.expires:
                told = entry.status.expires
                pending(incomingrecord.left(entry, times.now()))
            await changed.wait()

    async def _rename(self, entry: IncomingPeering, words: str) -> None:
        """Show the words of this meeting, as the other side does."""
        patch = incomingrecord.status_patch(entry, {"words": words}, {})
        name, place = entry.name, self._inbox.context.namespace
        with suppress(Conflict):
            await self._client.patch(INCOMING_PEERINGS, name, patch, place, subresource="status")

    async def on_attach(self, peer: VerifiedPeer) -> Refused | None:
        """Why this is no tenant with exactly this key; None where it is one."""
        if peer.key in await self._inbox.known_keys(peer.cluster_id):
            return None
        return Refused(code="unknown", reason=f"{peer.cluster_id} is no consumer here", again=BACK)

    async def until_untrusted(self, peer: VerifiedPeer) -> str:
        """Wait until a tenant is none any more, and say why."""
        while True:
            moved = self._inbox.moved(peer.cluster_id)
            if peer.key not in await self._inbox.known_keys(peer.cluster_id):
                return f"{peer.cluster_id} is no consumer here any more"
            await moved.wait()

    async def on_report(self, peer: VerifiedPeer, report: Report) -> None:
        """Keep a consumer's report on its request."""
        name = answering.name_of(peer.cluster_id, peer.key)
        for _ in range(WRITES):
            entry = await self._inbox.find(name)
            if entry is None or not incomingrecord.is_of(entry, peer):
                return
            # One that is taken back while it is written has its request in one place only.
            if report.request not in (entry.status.request, entry.spec.request):
                return
            if report.request != entry.status.request and not isinstance(report, Cancel):
                return
            try:
                await self._report(entry, report)
            except Conflict:
                continue
            return

    async def _report(self, entry: IncomingPeering, report: Report) -> None:
        peer = entry.spec.cluster_id
        phase: RequestPhase = entry.status.phase  # type: ignore[assignment]
        # Anybody may call itself by that id: only who was let in had a way in, which ends here.
        was_let_in = holds(entry.status.conditions, APPROVED)
        if not (was_let_in or isinstance(report, Cancel)):
            return
        match report:
            case Done() if phase != "Done" and next_phase("provider", phase, "done") == "Done":
                steps = {APPROVED: _YES, EXCHANGED: _YES, PEERED: _YES}
                await self._inbox.move(entry, "done", steps=steps)
                await self._inbox.used(entry)
                await peeringusers.revoke(self._client, peer, answering.key_of(entry))
            case Failed() if (
                phase != "Failed" and next_phase("provider", phase, "failed") == "Failed"
            ):
                steps = {PEERED: ("False", report.reason)}
                await self._inbox.move(entry, "failed", report.reason, steps=steps)
                await self._inbox.close(entry)
            case Cancel() if phase != "Cancelled" and (
                next_phase("provider", phase, "cancelled") == "Cancelled"
            ):
                await self._inbox.move(entry, "cancelled", "its operator took the request back")
                if not entry.spec.always:
                    await self._inbox.remove(entry)
                if was_let_in:
                    await self._inbox.close(entry)

    async def _take_in(self, peer: VerifiedPeer, source: str, ask: Ask) -> Denied | Refused | None:
        """Write a request that is new into the inbox, or say why it is not taken."""
        # Nothing is given by this: whoever is let in is looked at again before it is.
        problem = await self._key_problem(peer, cached=True)
        asker = await self._asker(peer, ask)
        verdict = await self._verdict(asker, ask)
        if isinstance(verdict, Refused):
            return verdict
        if verdict.action == "deny":
            log.info("refused by a policy", extra={"cluster": peer.cluster_id, "from": source})
            return Denied(reason="the policies of that cluster do not let this one in")
        if problem:
            verdict = PolicyDecision("ask", reason=problem)
        refused = await self._write(peer, source, ask, verdict)
        if refused is not None:
            return refused
        if verdict.action == "auto" and ask.invitation is not None:
            await mark_entered(self._client, self._inbox.context.namespace, _bearer(asker, ask))
        return Refused(code="key-changed", reason=problem, again=BACK) if problem else None

    async def _marks(self, cluster_id: str) -> Mapping[str, str]:
        """The annotations of a consumer's tenant namespace."""
        found = await look_up_tenant(self._client, cluster_id)
        return found.annotations if found is not None else {}

    async def _asker(self, peer: VerifiedPeer, ask: Ask) -> PolicySubject:
        marks = await self._marks(peer.cluster_id)
        return PolicySubject(
            peer.cluster_id,
            peer.key,
            self._seen(peer.cluster_id, peer.key),
            ask.labels,
            revoked=labels.REVOKED_TENANT in marks or self._inbox.was_revoked(peer.key),
        )

    async def _verdict(self, asker: PolicySubject, ask: Ask) -> PolicyDecision | Refused:
        config = self._inbox.context.config
        defaults = config.provider.default_resources
        if ask.invitation is None:
            verdict = policies.judge(config.policies, asker, ask.resources, defaults)
        else:  # asked before it is used: whoever is refused anyhow uses none
            verdict = policies.judge_invited(config.policies, asker, ask.resources, {}, defaults)
        if verdict.action != "auto" or await self._is_another(asker, cached=True):
            return verdict
        if await self._lends_by_no_key(asker.cluster_id):
            return PolicyDecision("ask", reason=LENDS)
        if ask.invitation is None:
            return verdict
        bearer = _bearer(asker, ask)
        offered = await redeem(self._client, self._inbox.context.namespace, bearer)
        if isinstance(offered, Refused):
            return offered
        return policies.judge_invited(config.policies, asker, ask.resources, offered, defaults)

    async def _lends_by_no_key(self, cluster_id: str) -> bool:
        """True if this cluster borrows from a cluster of that id whose key is not known."""
        if await self._inbox.key_here(cluster_id, cached=True):
            return False
        tenant = await look_up_tenant(self._client, cluster_id)
        if tenant is None:
            return False
        identity = ids.control_plane_identity(cluster_id)
        return (
            await self._client.find(IDENTITIES, identity, tenant.name, decode=Partial) is not None
        )

    async def _is_another(
        self, asker: PolicySubject | VerifiedPeer, *, cached: bool = False
    ) -> bool:
        return await self._inbox.key_here(asker.cluster_id, cached=cached) not in ("", asker.key)

    async def _key_problem(self, peer: VerifiedPeer, *, cached: bool = False) -> str:
        """Why a cluster that shows another key than it had is not let in; empty where it may be."""
        known = await self._inbox.key_here(peer.cluster_id, cached=cached)
        name = answering.name_of(peer.cluster_id, peer.key)
        before = await self._inbox.find(name)
        if (
            before is not None
            and incomingrecord.is_of(before, peer)
            and answering.is_replaced(before)
        ):
            return ""
        return answering.key_problem(name, peer.cluster_id, known, peer.key)

    async def _write(
        self, peer: VerifiedPeer, source: str, ask: Ask, verdict: PolicyDecision
    ) -> Refused | None:
        """Have the request in the inbox, decided where no person has to decide."""
        name = answering.name_of(peer.cluster_id, peer.key)
        async with self._adding:
            # The lock is held until it is written: who comes next sees that somebody was let in,
            # and has the API server asked for what is so now.
            if verdict.action == "auto" and await self._is_another(peer, cached=True):
                # Another one of that id was let in meanwhile.
                return Refused(code="busy", reason="somebody else is being let in", again=1)
            for _ in range(WRITES):
                before = await self._inbox.find(name)
                if before is not None and not incomingrecord.is_of(before, peer):
                    return Refused(code="busy", reason=TAKEN, again=BACK)
                if before is None and not (verdict.action == "auto" and ask.invitation is not None):
                    full = self._inbox.is_full(source_of(source))
                    if full:
                        return Refused(code="busy", reason=full, again=BACK)
                try:
                    with self._inbox.writing(name, source_of(source)):
                        await self._enter(peer, source, ask, verdict, before)
                except (AlreadyExists, Conflict, NotFound):
                    continue
                return None
        return Refused(code="busy", reason="the inbox is being written", again=1)

    async def _enter(
        self,
        peer: VerifiedPeer,
        source: str,
        ask: Ask,
        verdict: PolicyDecision,
        before: IncomingPeering | None,
    ) -> None:
        name, namespace = (
            answering.name_of(peer.cluster_id, peer.key),
            self._inbox.context.namespace,
        )
        spec = incomingrecord.spec_of(peer, source, ask, before)
        if before is None:
            await self._client.create(INCOMING_PEERINGS, incomingrecord.made(peer, spec), namespace)
        else:
            patch = incomingrecord.renewed(before, peer, spec)
            await self._client.patch(INCOMING_PEERINGS, name, patch, namespace)
        entry = await self._client.get(INCOMING_PEERINGS, name, namespace, decode=IncomingPeering)
        wait = min(ask.lifetime, WAITS)
        status: dict[str, Any] = {
            "phase": "Waiting",
            "request": ask.request,
            "words": peer.words,
            "reason": verdict.reason,
            "expires": incomingrecord.at_in(wait),
        }
        steps = {IDENTIFIED: _YES, APPROVED: ("Unknown", verdict.reason), PEERED: ("False", "")}
        if not (entry.spec.always and entry.status.granted):
            status["granted"] = None
        if verdict.action == "auto":
            self._inbox.record_admission(peer.cluster_id)
            status |= {
                "phase": "Accepted",
                "granted": verdict.granted,
                "expires": incomingrecord.at_in(ENDED),
            }
            steps[APPROVED] = ("True", verdict.reason)
        patch = incomingrecord.status_patch(entry, status, steps)
        await self._client.patch(INCOMING_PEERINGS, name, patch, namespace, subresource="status")

    async def _let_in(
        self, entry: IncomingPeering, peer: VerifiedPeer, ask: Ask
    ) -> Accepted | Refused:
        """Lets an accepted consumer in, and returns what it needs to do its part."""
        context, granted = self._inbox.context, entry.status.granted
        problem = await self._key_problem(peer)
        if problem:  # another one has taken its place since
            return Refused(code="key-changed", reason=problem, again=BACK)
        async with self._letting:
            # Whoever revokes takes the entry out before it marks the namespace: a mark that was
            # there before an entry that still stands is older than the decision to let it in.
            marks = await self._marks(peer.cluster_id)
            if not await self._still_accepted(entry.name, peer, ask):
                return _CANCELLED
            try:
                namespace = await ensure_tenant_namespace(self._client, peer.cluster_id)
                note = {labels.GRANTED: msgspec.json.encode(granted).decode()}
                patch = {"metadata": {"annotations": note}}
                await self._client.patch(NAMESPACES, namespace, patch)
                given = await peeringusers.generate(
                    self._client,
                    peer.cluster_id,
                    here=context.cluster_id,
                    server=context.endpoint.server,
                    ca=context.endpoint.ca,
                    namespace=context.namespace,
                    key=peer.key,
                    anew=answering.is_replaced(entry),
                    lifts=marks.get(labels.REVOKED_TENANT, ""),
                )
            except (ConfigError, NotFound) as error:  # not found: it was revoked meanwhile
                return Refused(code="busy", reason=str(error), again=5)
            if not await self._still_accepted(entry.name, peer, ask):
                await self._inbox.close(entry)
                return _CANCELLED
        return Accepted(
            granted={name: str(amount) for name, amount in granted.items()},
            kubeconfig=given.decode(),
            networking=ask.networking and context.config.network.enabled,
            namespace=namespace,
        )

    async def _still_accepted(self, name: str, peer: VerifiedPeer, ask: Ask) -> bool:
        """True if a request that was accepted still is."""
        entry = await self._inbox.find(name)
        if entry is None or not incomingrecord.is_about(entry, peer, ask):
            return False
        return entry.status.phase in ("Accepted", "Done") and not answering.is_barred(entry)


def _bearer(asker: PolicySubject, ask: Ask) -> Bearer:
    """The bearer of the invitation of a request."""
    assert ask.invitation is not None
    return Bearer(
        name=ask.invitation.id,
        secret=unpack(ask.invitation.secret),
        cluster_id=asker.cluster_id,
        key=asker.key,
        request=ask.request,
    )
