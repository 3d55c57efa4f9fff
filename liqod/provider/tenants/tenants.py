"""Tenants: admits the clusters that borrow from this one, gives them access, and ends that.

A Tenant is verified against our nonce, gets a certificate for its control plane, a role in its
tenant namespace, and in its status the access. Cordoned it keeps its resources; drained it is given
the time to move its pods, then loses its role and its objects here; gone, everything of it goes.
No finalizer: remains of a missed deletion are found by a check, at the next start.
"""

import logging
import random
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial, owner_reference
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.cluster.tenancy import former_of, is_from, replicas_of
from liqod.errors import NotFound, ProtocolError
from liqod.identity import certificates, keys
from liqod.kube import recorder, times
from liqod.kube.cache.store import IndexedStore, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all, set_finalizers
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, RESYNC, Watched, by_name
from liqod.model import finalizers, ids
from liqod.model.objects.patches import exact_patch
from liqod.peers.peer import Peer
from liqod.provider.slices.objectquotas import SETTLE, TENANT_QUOTA, ObjectQuotas, tenant_bounds
from liqod.provider.tenants import (
    bindings,
    keysuccession,
    nonces,
    peeringuserrbac,
    trust,
    usernames,
)
from liqod.provider.tenants.certificateissuer import CertificateIssuer, Order
from liqod.provider.tenants.draining import AGAIN, Draining
from liqod.provider.tenants.nonces import NonceSecret
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.resources import (
    NAMESPACE_MAPS,
    RENEWS,
    RESOURCE_SLICES,
    TENANTS,
    Renew,
    ResourceSlice,
    Tenant,
)
from liqod.resources.authentication import (
    DRAINED,
    TOLERATE_NO_HANDSHAKE,
    AuthParams,
    TenantStatus,
)
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.runtime.gather import gather
from liqod.runtime.log import Seldom
from liqod.telemetry.events import TenantChanged

FIRST_LOOK = 5.0
"""Seconds, up to twice as many, after the start until the check for Tenants that have gone
meanwhile: peerings that have just begun, perhaps a hundred at once, come first."""
ENDING = 2.0
"""Seconds between the end of a consumer's namespaces in its maps and that of its rights."""
REPLICATED: tuple[Kind, ...] = (RESOURCE_SLICES, NAMESPACE_MAPS, RENEWS)
"""The kinds of the objects that a consumer's control plane makes here."""


log = logging.getLogger(__name__)


def proven(tenant: Tenant) -> bool:
    """True if this very key was accepted before, by our status, which no consumer may write.

    So a Tenant stays accepted when its nonce is deleted, and no longer when its key changes, unless
    that one has followed by a statement of the key that was accepted.
    """
    given = tenant.status.auth_params
    if given is None or not given.signed_crt:
        return False
    try:
        issued_for = certificates.read(given.signed_crt).public_key
        if keys.same_public(issued_for, tenant.spec.public_key):
            return True
        return keysuccession.has_followed(tenant, keys.print_of(issued_for))
    except ProtocolError:
        return False


def accepted(tenant: Tenant, peer: str, here: str, tenant_namespace: str) -> bool:
    """True if the Tenant has passed every check, so that slices may be granted to it."""
    if tenant.leaving or trust.identity_problem(tenant, peer, here, tenant_namespace):
        return False
    if tenant.spec.authz_policy == TOLERATE_NO_HANDSHAKE:
        return bool(tenant.status.tenant_namespace)
    return proven(tenant)


def accepted_tenant(tenants: IndexedStore, peer: Peer) -> Tenant | None:
    """The Tenant of a peer, if it has passed every check; also one that is drained or cordoned."""
    namespace = peer.tenant_namespace
    tenant = tenants.decode((namespace, peer.id), Tenant)
    if tenant is None or not accepted(tenant, peer.id, peer.context.cluster_id, namespace):
        return None
    return tenant


def _revoked(namespace: bytes | None) -> tuple[bool, str]:
    """True if a consumer is revoked, and the time until which revoked certificates live."""
    marks = (
        {}
        if namespace is None
        else msgspec.json.decode(namespace, type=Partial).metadata.annotations
    )
    return labels.REVOKED_TENANT in marks, marks.get(labels.LIVING, "")


class _Signing(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an object's spec or status for signing."""

    csr: str = ""
    auth_params: Any = None


class _Asked(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Signing = _Signing()
    status: _Signing = _Signing()


def _signing(body: bytes | None) -> tuple[str, str, Any]:
    found = _Asked() if body is None else msgspec.json.decode(body, type=_Asked)
    told = found.metadata.annotations.get(labels.SUCCESSION, "")
    return found.spec.csr, told, found.status.auth_params


class Tenants(Controller[str]):
    """Accepts the Tenant of one peer, or refuses it, and sends it away.

    Args:
        peer: the consumer.
        issuer: issues its certificate.
    """

    def __init__(
        self,
        peer: Peer,
        issuer: CertificateIssuer,
        guest_policies: GuestPolicies,
        timings: ProviderTimings = ORDINARY,
    ) -> None:
        self._peer = peer
        self._guest_policies = guest_policies
        self._timings = timings
        self._client = peer.context.client
        self._issuer = issuer
        self._shares = peer.context.config.services.enabled
        hard = tenant_bounds(peer.context.config.guests.max_slices, shares=self._shares)
        self._bounds = ObjectQuotas(self._client, peer.id, hard, TENANT_QUOTA)
        self._bound_at = trio.current_time() + SETTLE
        timeout = peer.context.config.provider.drain_timeout
        self._draining = Draining(self._client, peer.id, timeout)
        self._seldom = Seldom()
        self._reported_at = float("-inf")
        self._moved_at: float | None = None
        """Since when all that the consumer has is signed for names with its key."""
        place = peer.tenant_namespace
        self._namespaces = Watched(NAMESPACES, self._on_namespace)
        self._tenants = Watched(TENANTS, by_name, within=(place,))
        self._secrets = Watched(SECRETS, self._on_secret, Selection(place))
        self._renews = Watched(RENEWS, self._on_request, within=(place,))
        self._slices = Watched(RESOURCE_SLICES, self._on_request, within=(place,))
        watches = (self._namespaces, self._tenants, self._secrets, self._renews, self._slices)
        super().__init__(peer, "tenant", *watches)

    async def prepare(self) -> None:
        """Enqueue one check even without a Tenant: one may have gone unseen."""
        self.queue.add(self._peer.id, after=FIRST_LOOK * (1 + random.random()))

    def _on_namespace(self, change: StoreChange) -> Iterator[str]:
        """Yield the keys for a mark of a revocation that came or went, or for its remains."""
        is_own = change.key[1] == self._peer.tenant_namespace
        if is_own and _revoked(change.new) != _revoked(change.old):
            yield self._peer.id

    def _on_request(self, change: StoreChange) -> Iterator[str]:
        """Have the Tenant reconciled when a request or a signed certificate has changed."""
        known = (self._peer.tenant_namespace, self._peer.id) in self._tenants.store
        if known and _signing(change.new) != _signing(change.old):
            yield self._peer.id

    def _on_secret(self, change: StoreChange) -> Iterator[str]:
        known = (self._peer.tenant_namespace, self._peer.id) in self._tenants.store
        if change.key[1] == labels.NONCE_SECRET and known:
            yield self._peer.id

    async def reconcile(self, name: str) -> float | None:
        """Admit a Tenant, refuse it, drain it, or clear its remains."""
        tenant = self._tenants.store.decode((self._peer.tenant_namespace, name), Tenant)
        if tenant is None or tenant.leaving:
            return await self._clean_up(name, tenant)
        if self._mark(labels.REVOKED_TENANT):
            await self._revoked(tenant)
            return None
        problem = trust.identity_problem(
            tenant, self._peer.id, self._peer.context.cluster_id, self._peer.tenant_namespace
        )
        if problem is None and tenant.spec.tenant_condition == DRAINED:
            return await self._drain()
        self._draining.over()
        if problem is None and tenant.spec.authz_policy == TOLERATE_NO_HANDSHAKE:
            await bindings.bind(self._client, bindings.cluster_wide(self._peer.id))
            await self._write(tenant, None)
            return await self._bound()
        if problem is None:
            problem = trust.request_problem(tenant)
        new = problem is None and not proven(tenant)
        context = self._peer.context
        closed = self._guest_policies.problem or context.endpoint.problem
        if new and closed:
            await self._refuse(tenant, closed)
            return self._timings.policies_missing
        if problem is None and not new and await self._follow(tenant):
            return None  # the change of the Tenant causes another turn
        csr = b"" if problem else usernames.request_of(tenant, self._renewals())
        keyed = csr != tenant.spec.csr
        if new:
            problem = trust.handshake_problem(tenant, await self._nonce())
            marks = await self._marks()
            problem = problem or trust.key_problem(tenant, marks.get(labels.ACCEPTED_KEY, ""))
            problem = problem or (None if keyed else usernames.living_problem(tenant, marks))
        if problem is not None:
            await self._refuse(tenant, problem)
            return None
        return await self._admit(tenant, csr, keyed=keyed)

    def _renewals(self) -> list[Renew]:
        """The consumer's Renews, by which it requests certificates beside its Tenant."""
        store, place = self._renews.store, self._peer.tenant_namespace
        found = (store.decode(key, Renew) for key in store.indexed("namespace", place))
        return [each for each in found if each and is_from(each.metadata.labels, self._peer.id)]

    async def _follow(self, tenant: Tenant) -> bool:
        """Follow a consumer's key to the next by its statement; True if it is another now.

        The namespace notes it first: from then on no other statement about that key is followed.
        """
        offer = keysuccession.next_key(tenant, self._renewals())
        if offer is None:
            return False
        why, peer, place = "", self._peer.id, self._peer.tenant_namespace
        if isinstance(offer, str):
            why = offer
        else:
            marks = await self._marks()
            if former_of(marks) not in ("", offer.what.former):
                return False  # one at a time: the names of the step before have rights still
            why = keysuccession.problem(offer, marks.get(labels.ACCEPTED_KEY, ""))
            keyed = ids.keyed(peer, offer.what.next)
            why = why or await bindings.name_problem(self._client, peer, place, keyed) or ""
        if why or isinstance(offer, str):
            await self._report(tenant, why)
            return False
        notes = {labels.ACCEPTED_KEY: offer.what.next, labels.FORMER_KEY: offer.what.former}
        await self._client.patch(NAMESPACES, place, {"metadata": {"annotations": notes}})
        told = {
            labels.SUCCESSION: offer.statement,
            labels.KEYED_REQUEST: b64encode(offer.keyed).decode(),
        }
        spec = {
            "publicKey": b64encode(offer.what.public).decode(),
            "csr": b64encode(offer.plain).decode(),
        }
        version = {"resourceVersion": tenant.metadata.resource_version, "annotations": told}
        await self._client.patch(TENANTS, tenant.name, {"metadata": version, "spec": spec}, place)
        self._peer.report(TenantChanged(state="follows", reason=offer.what.next[:16]))
        log.info("a consumer has another key", extra={"tenant": peer, "key": offer.what.next})
        return True

    async def _report(self, tenant: Tenant, why: str) -> None:
        """Report a next key that is not followed: the owner of the former may have stated it."""
        self._peer.report(TenantChanged(state="not followed", reason=why))
        if self._seldom.allows(why):
            log.warning("%s", why)
        await recorder.record(self._client, TENANTS, tenant.metadata, "KeyNotFollowed", why)

    async def _revoke_former(self, tenant: Tenant, marks: dict[str, str]) -> float:
        """Take the rights from the names with a consumer's former key, a minute after it has all
        that it needs for the other; seconds until the next check.

        The consumer shows that by a request in its Renew with its present key; a statement
        once made holds.
        """
        if not former_of(marks):
            return RESYNC
        ends, now = keysuccession.until(marks), times.seconds(times.now())
        if ends is None:
            if not any(usernames.is_keyed(each.spec.csr, tenant) for each in self._renewals()):
                return RESYNC
            ends = now + self._timings.moved
            marks[labels.FORMER_KEY] = f"{former_of(marks)} {times.of(ends)}"
            note: dict[str, str | None] = {labels.FORMER_KEY: marks[labels.FORMER_KEY]}
        elif now >= ends:
            # Certificates for the names without a key are of the former one, too.
            note = dict.fromkeys((labels.FORMER_KEY, labels.UNKEYED_NAMES))
            for each in note:
                marks.pop(each, None)
        else:
            return max(ends - now, AGAIN)
        patch = {"metadata": {"annotations": note}}
        await self._client.patch(NAMESPACES, self._peer.tenant_namespace, patch)
        return max(ends - now, AGAIN)

    async def _keep_unkeyed(self, tenant: Tenant) -> tuple[tuple[str, ...], float]:
        """Note that a consumer comes from the names without its key, or has left them.

        Returns:
            The names to bind, and the seconds until the next check.
        """
        store, place = self._slices.store, self._peer.tenant_namespace
        found = (store.decode(key, ResourceSlice) for key in store.indexed("namespace", place))
        slices = [each for each in found if each and is_from(each.metadata.labels, self._peer.id)]
        live = await self._marks()
        again = await self._revoke_former(tenant, live)
        keyed = usernames.keyed_names(tenant, live)
        moved = usernames.has_keyed(tenant) and all(
            usernames.is_moved(each, keyed) for each in slices
        )
        marked, now = labels.UNKEYED_NAMES in live, trio.current_time()
        if not moved:
            self._moved_at = None
            # A new one has nothing yet that is for its id alone.
            wanted = marked or (proven(tenant) and usernames.living_problem(tenant, live) is None)
        else:
            self._moved_at = now if self._moved_at is None else self._moved_at
            # Without a slice of the new name it is unknown if it has its new certificate.
            over = bool(slices) and now >= self._moved_at + self._timings.moved
            wanted = marked and not over
            again = min(
                again, max(self._moved_at + self._timings.moved - now, AGAIN) if wanted else RESYNC
            )
        if wanted != marked:
            note = {"metadata": {"annotations": {labels.UNKEYED_NAMES: "true" if wanted else None}}}
            await self._client.patch(NAMESPACES, place, note)
        marks = {labels.UNKEYED_NAMES: labels.TRUE} if wanted else {}
        if labels.FORMER_KEY in live:
            marks[labels.FORMER_KEY] = live[labels.FORMER_KEY]
        return usernames.subjects(tenant, marks, keyed=True), again

    async def _admit(self, tenant: Tenant, csr: bytes, *, keyed: bool) -> float:
        """Give a verified Tenant its certificate and its roles.

        Args:
            csr: the request that is signed.
            keyed: whether that is for the name with its key.
        """
        peer, namespace = self._peer.id, self._peer.tenant_namespace
        who, look = usernames.subjects(tenant, {}, keyed=False), RESYNC
        if keyed:
            who, look = await self._keep_unkeyed(tenant)
        if not proven(tenant):
            problem = await bindings.name_problem(self._client, peer, namespace, peer, *who)
            if problem is None and not keyed:
                problem = await bindings.slice_problem(self._client, peer, namespace)
            if problem is not None:
                await self._refuse(tenant, problem)
                return RESYNC
        owner = owner_reference(TENANTS, tenant.metadata)
        endpoint = self._peer.context.endpoint
        name = ids.certificate_secret()
        order = Order(peer, namespace, name, csr, owner, endpoint.ca)

        async def bind() -> None:
            for grant in (
                bindings.control_plane(peer, namespace, owner, who),
                bindings.cluster_wide(peer, who),
            ):
                await bindings.bind(self._client, grant)

        issued, _ = await gather(partial(self._issuer.issue, order), bind)
        given = AuthParams(
            ca=endpoint.ca,
            signed_crt=issued.certificate,
            api_server=endpoint.server,
            proxy_url=tenant.spec.proxy_url,
        )
        await self._remember_key(tenant)
        await self._write(tenant, given)
        await peeringuserrbac.restrict(self._client, peer, namespace, datetime.now(UTC))
        return min(issued.renew_in, look, await self._bound())

    def _mark(self, key: str) -> str:
        """An annotation of the tenant namespace, as far as the store has it; empty for none."""
        found = self._namespaces.store.decode(("", self._peer.tenant_namespace), Partial)
        return "" if found is None else found.metadata.annotations.get(key, "")

    async def _marks(self) -> dict[str, str]:
        """The annotations of the tenant namespace now, read from the API server."""
        name = self._peer.tenant_namespace
        live = await self._client.find(NAMESPACES, name, decode=Partial)
        return {} if live is None else live.metadata.annotations

    async def _remember_key(self, tenant: Tenant) -> None:
        """Record the consumer's key from now on, even when its Tenant is gone in between."""
        if self._mark(labels.ACCEPTED_KEY) or labels.ACCEPTED_KEY in await self._marks():
            return  # by this one, or by one that a user has set since to replace it
        shown = keys.print_of(tenant.spec.public_key)
        mark = {"metadata": {"annotations": {labels.ACCEPTED_KEY: shown}}}
        await self._client.patch(NAMESPACES, self._peer.tenant_namespace, mark)

    async def _revoked(self, tenant: Tenant) -> None:
        """Clear a consumer that was revoked: nothing of it comes back, whatever it requests."""
        await self._unbind()
        await self._clear(REPLICATED)
        await self._forget_certificates()
        await self._refuse(tenant, trust.revoked_problem(self._peer.id))

    async def _bound(self) -> float:
        """Bound the consumer's objects in its tenant namespace; seconds until the next check.

        Not in the first minute: until the quota controller has counted, a new bound refuses
        everything, which a handshake would have to wait for.
        """
        wait = self._bound_at - trio.current_time()
        if wait <= 0:
            wait = await self._bounds.keep(self._peer.tenant_namespace)
            self._bound_at = trio.current_time() + wait
        return min(wait, RESYNC)

    async def _write(self, tenant: Tenant, given: AuthParams | None) -> None:
        wanted = TenantStatus(self._peer.tenant_namespace, given)
        patch = exact_patch(msgspec.to_builtins(tenant.status), msgspec.to_builtins(wanted))
        if patch:
            await self._client.patch(
                TENANTS, tenant.name, {"status": patch}, tenant.namespace, subresource="status"
            )
            self._peer.report(TenantChanged(state="accepted"))
            log.info("accepted as a tenant", extra={"tenant": tenant.name})

    async def _refuse(self, tenant: Tenant, problem: str) -> None:
        self._peer.report(TenantChanged(state="refused", reason=problem))
        if self._seldom.allows(problem):
            log.warning("refused as a tenant: %s", problem)
        await recorder.record(self._client, TENANTS, tenant.metadata, "TenantRefused", problem)

    async def _nonce(self) -> bytes:
        """The nonce that was made here; empty while there is none."""
        key = (self._peer.tenant_namespace, labels.NONCE_SECRET)
        secret = self._secrets.store.decode(key, NonceSecret)
        if secret is None or secret.metadata.labels.get(labels.NONCE) != labels.TRUE:
            return b""
        ours = await nonces.is_ours(self._client, self._peer.tenant_namespace, secret.nonce)
        return secret.nonce if ours else b""

    async def _drain(self) -> float | None:
        """Take the consumer's roles and its objects here, once it has moved; it stays our Tenant.

        Returns:
            The seconds until the next check, while its pods leave.
        """
        waits = await self._draining.waits()
        if waits:
            self._peer.report(TenantChanged(state="draining", waits=waits))
            return AGAIN
        pause = await self._announce_end()
        if pause > 0:
            return pause
        await self._unbind()
        await self._clear((RESOURCE_SLICES, NAMESPACE_MAPS))
        self._peer.report(TenantChanged(state="drained"))
        return None

    async def _clean_up(self, name: str, tenant: Tenant | None) -> float | None:
        """Clear the remains of a Tenant that is gone; a Liqo finalizer on it is taken off."""
        if tenant is not None:
            left = (finalizers.TENANT,)
            await set_finalizers(self._client, TENANTS, tenant.metadata, remove=left)
        if name != self._peer.id:
            return None
        # The store may lag behind, and a list may lie.
        if not await self._tenants.surely_gone((self._peer.tenant_namespace, name)):
            return DOUBT
        pause = await self._announce_end()
        if pause > 0:
            return pause
        await self._unbind()
        await self._clear(REPLICATED)
        await self._forget_certificates()
        return await peeringuserrbac.expire(
            self._client, name, datetime.now(UTC), self._timings.peering_user_life
        )

    async def _announce_end(self) -> float:
        """Report to the consumer that its namespaces end; the seconds that it has to act on that.

        A Liqo consumer follows its maps' status: refused before that is empty, it would show its
        pods as running for ever.
        """
        namespace, told = self._peer.tenant_namespace, False
        selector = replicas_of(self._peer.id)
        for each in await self._client.list(NAMESPACE_MAPS, Selection(namespace, labels=selector)):
            if not (each.get("status") or {}).get("currentMapping"):
                continue
            name, nothing = each["metadata"]["name"], {"status": {"currentMapping": None}}
            await self._client.patch(NAMESPACE_MAPS, name, nothing, namespace, subresource="status")
            told = True
        if told:
            self._reported_at = trio.current_time()
        return self._reported_at + ENDING - trio.current_time()

    async def _unbind(self) -> None:
        """Take the consumer's roles; those in mapped namespaces go with the namespaces."""
        peer, namespace = self._peer.id, self._peer.tenant_namespace
        await bindings.unbind(self._client, labels.CONTROL_PLANE_BINDING, namespace, peer)
        await bindings.unbind(self._client, ids.cluster_wide_binding(peer), None, peer)

    async def _clear(self, kinds: tuple[Kind, ...]) -> None:
        """Delete the replicas that the consumer made here."""
        selector = replicas_of(self._peer.id)
        namespace = self._peer.tenant_namespace
        for kind in kinds:
            await self._client.delete_selected(kind, Selection(namespace, labels=selector))
        if self._shares:
            with suppress(NotFound):  # the kind is not installed
                exchanged = Selection(namespace, labels=selector)
                await self._client.delete_selected(SERVICE_EXCHANGES, exchanged)

    async def _forget_certificates(self) -> None:
        prefix, store = ids.certificate_secret(), self._secrets.store
        keys = store.indexed("namespace", self._peer.tenant_namespace)
        found = (store.decode(key, Partial) for key in keys if key[1].startswith(prefix))
        mine = [
            each
            for each in found
            if each is not None
            and each.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == self._peer.id
        ]
        await delete_all(self._client, SECRETS, mine)
