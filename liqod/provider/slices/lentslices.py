"""Slices: a consumer's requests to this cluster, judged, certified and written into a Quota.

The consumer's replicator writes ``spec``; this controller writes ``status``, again whenever it
differs from the verdict, and the Quota that pods are held to. A slice's certificate is issued anew
in place when it is due.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES, PODS, SECRETS
from liqod.apimachinery.meta import ObjectMeta, Partial, owner_reference
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.cluster.memorylimits import GUEST_PODS, KeptSlice
from liqod.cluster.tenancy import is_from
from liqod.config import ProviderSettings
from liqod.errors import ConfigError, Conflict
from liqod.kube import times
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.watched import DOUBT, Watched
from liqod.model import ids
from liqod.model.crossing import guestrules
from liqod.model.crossing.guestrules import Rules
from liqod.model.objects import quantities
from liqod.model.objects.patches import digest, exact_patch
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import capacity, nodesready, parts
from liqod.peers.peer import Peer
from liqod.plugins import declared
from liqod.provider.policies.podrestrictions import remedy
from liqod.provider.slices.allocation import (
    Allocation,
    SliceRequest,
    allocate,
    within_number,
    without_growth,
)
from liqod.provider.slices.cordons import Cordons
from liqod.provider.slices.freenodes import FreeNodes, free_nodes
from liqod.provider.slices.granting import (
    class_of,
    granted_in,
    is_default,
    judge,
    requested_resources,
    status_of,
)
from liqod.provider.slices.readynodes import ready_nodes
from liqod.provider.tenants import bindings, trust, usernames
from liqod.provider.tenants.certificateissuer import CertificateIssuer, Order
from liqod.provider.tenants.keysuccession import former_in
from liqod.provider.tenants.tenants import accepted_tenant
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.resources import (
    QUOTAS,
    RESOURCE_SLICES,
    TENANTS,
    AuthParams,
    Quota,
    ResourceSlice,
    Tenant,
)
from liqod.resources.authentication import ACTIVE, CORDONED, TOLERATE_NO_HANDSHAKE
from liqod.resources.base import MAX_QUANTITIES
from liqod.telemetry.events import SliceLent

Read = tuple[bytes, bytes | None]
"""A slice and its Quota, as JSON."""
CONSIDERED = 4
"""Multiple of the slices that a consumer may have that are considered; the others get nothing."""


def approved_in(namespace: bytes | None) -> dict[str, int | str] | None:
    """The handshake's grant to the consumer of a tenant namespace; None for no bound.

    A grant that cannot be read bounds everything: a user has edited it, with some intent.
    """
    if namespace is None:
        return None
    text = msgspec.json.decode(namespace, type=Partial).metadata.annotations.get(labels.GRANTED)
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=dict[str, int | str])
        quantities.parse_all(found)
    except (msgspec.MsgspecError, ConfigError):
        return {}
    return found


def _cordoned(tenant: Tenant | None) -> bool:
    return tenant is not None and tenant.spec.tenant_condition == CORDONED


def _version(metadata: ObjectMeta) -> dict[str, Any]:
    return {"resourceVersion": metadata.resource_version}


def _too_many(wanted: KeptSlice) -> str:
    """The reason why a slice that names too many resources is granted none; empty for others."""
    if not wanted.too_large:
        return ""
    return f"the slice names {wanted.too_large} resources, and {MAX_QUANTITIES} are read at most"


def _is_by(quota: Quota, wanted: ResourceSlice) -> bool:
    """True if a slice's grant is by the class that it is of; older daemons noted none."""
    return quota.metadata.annotations.get(labels.GRANTED_BY, class_of(wanted)) == class_of(wanted)


class LentSlices(Controller[str]):
    """Grants the slices that one peer requests.

    Args:
        peer: the consumer.
        issuer: issues their certificates.
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
        self._recheck = timings.policies_missing
        self._client = peer.context.client
        self._guests = peer.context.config.guests
        self._issuer = issuer
        self._cordons = Cordons(peer)
        self._requested: dict[str, tuple[Read, SliceRequest | None]] = {}
        """The request of each slice, and the JSON that was read for it."""
        within = (peer.tenant_namespace,)
        self._slices = Watched(RESOURCE_SLICES, self._on_slice, within=within)
        self._tenants = Watched(TENANTS, self._every_slice, within=within)
        self._quotas = Watched(QUOTAS, self._on_quota, within=within)
        self._namespaces = Watched(NAMESPACES, self._on_namespace)
        self._nodes: Watched[str] = Watched(NODES)
        watches: list[Watched[str]] = [self._slices, self._tenants, self._quotas, self._namespaces]
        tasks: list[Callable[[], Awaitable[object]]] = [self._follow_nodes, self._follow_amounts]
        tasks += [self._follow_cordons, self._follow_scaled]
        self._free: FreeNodes | None = None
        self._lends = trio.Event()
        self._free_every = timings.free_every
        self._guest_pods: Watched[str] = Watched(PODS, wait=False, **GUEST_PODS)
        if peer.context.config.provider.show_free:
            tasks.append(self._follow_free)
            watches.append(self._guest_pods)
        super().__init__(
            peer,
            "lent",
            *watches,
            self._nodes,
            name="lent slices",
            tasks=(*tasks, self._follow_machines),
            budget=peer.work,
        )

    async def prepare(self) -> None:
        """Read the readiness and the capacity of this cluster's nodes."""
        self._ready = ready_nodes(self._nodes.informer)

    async def _follow_nodes(self) -> NoReturn:
        await self.whenever(self._ready.word.wait_changed, self._known_names)

    async def _follow_cordons(self) -> NoReturn:
        await self.whenever(self._ready.cordoned.wait_changed, self._known_names)

    async def _follow_scaled(self) -> NoReturn:
        await self.whenever(self._ready.scaled.wait_changed, self._known_names)

    async def _follow_amounts(self) -> NoReturn:
        await self.whenever(self._ready.has.wait_changed, self._known_names)

    async def _follow_machines(self) -> NoReturn:
        await self.whenever(self._ready.machines.wait_changed, self._known_names)

    async def _follow_free(self) -> NoReturn:
        """Follow all pods of this cluster from the first slice of the peer on, and tell what is
        free anew, now and then, while it changes. Of a peer that only lends it is for nobody."""
        context = self._peer.context
        told: tuple[str, str, dict[str, Amounts]] | None = None
        await self._lends.wait()
        guests = self._guest_pods.informer
        async with free_nodes(context, self._nodes.informer, guests) as free:
            self._free = free
            while True:
                await trio.sleep(self._free_every)
                if context.config.provider.autoscales is None:
                    await self._ready.look(self._client)
                if free.synced:
                    free.refresh(self._free_every)
                now = free.text.now, free.each.now, free.counted(self._peer.id)
                if free.known and now != told:
                    told = now
                    for name in self._known_names():
                        self.queue.add(name)
        raise AssertionError("it is followed for as long as the controller runs")

    def _on_slice(self, change: StoreChange) -> Iterator[str]:
        yield change.key[1]
        if change.new is None:
            # Resources that one slice gives back may go to another.
            yield from self._known_names()

    def _every_slice(self, change: StoreChange) -> Iterator[str]:
        for _, name in self._slices.store.indexed("namespace", self._peer.tenant_namespace):
            yield name

    def _on_quota(self, change: StoreChange) -> Iterator[str]:
        if change.new is None or change.old is not None:
            yield from self._every_slice(change)

    def _on_namespace(self, change: StoreChange) -> Iterator[str]:
        """Have every slice decided anew when the handshake's grant has changed."""
        if change.key[1] == self._peer.tenant_namespace and (
            change.old is None or approved_in(change.new) != approved_in(change.old)
        ):
            yield from self._every_slice(change)

    def _known_names(self) -> list[str]:
        """The peer's slices, as many as are considered: no more are granted anything.

        Those that have something come first: regardless of names, existing grants count.
        """
        place = self._peer.tenant_namespace
        found = sorted(name for _, name in self._slices.store.indexed("namespace", place))
        found.sort(key=lambda name: not self._has_quota(name))
        return found[: CONSIDERED * self._guests.max_slices]

    def _has_quota(self, name: str) -> bool:
        user = ids.slice_user(name, self._peer.id)
        return (self._peer.tenant_namespace, user) in self._quotas.store

    async def reconcile(self, name: str) -> float | None:
        """Judge a slice, and write the verdict, its certificate and its Quota."""
        namespace = self._peer.tenant_namespace
        wanted = self._slices.store.decode((namespace, name), KeptSlice)
        if wanted is None or not is_from(wanted.metadata.labels, self._peer.id):
            return None
        self._lends.set()
        if wanted.leaving:
            await self._withdraw(wanted)
            return None
        if not wanted.spec.csr:
            return None
        if self.queue.failures(name):
            # One that has gone unseen, as its definition has, would be given everything again as
            # soon as the garbage collector has taken it: ask before, and fail, which waits.
            await self._client.get(RESOURCE_SLICES, name, namespace, decode=Partial)
        # Without its Tenant every slice is denied, and the consumer ends all that it runs here.
        whose = (namespace, self._peer.id)
        if whose not in self._tenants.store and not await self._tenants.surely_gone(whose):
            return DOUBT
        tenant = accepted_tenant(self._tenants.store, self._peer)
        settings = self._peer.context.config.provider
        requests = self._requests(settings)
        served = await self._is_served(wanted, tenant)
        problem = await self._problem(wanted, tenant, requests, served=served)
        approved = approved_in(self._namespaces.store.get(("", namespace)))
        allocation = allocate(requests, self._guests, approved).get(name, Allocation())
        fenced = self._guest_policies.problem
        if fenced:
            request = self._requested[name][1] if name in self._requested else None
            allocation = without_growth(request, allocation, fenced)
        if wanted.too_large:
            allocation = Allocation(_too_many(wanted), allocation.kept)
        verdict = judge(wanted, tenant, problem, settings, served=served, allocation=allocation)
        given, renew_in = None, None
        if not verdict.refusal:
            given, renew_in = await self._certify(wanted, barren=not served and _cordoned(tenant))
        live = msgspec.json.decode(msgspec.json.encode(wanted.status), type=dict[str, Any])
        quota = self._quota_of(wanted)
        theirs = quota is None or _is_by(quota, wanted)
        status = status_of(live, verdict, given, settings, times.now(), theirs=theirs)
        cordoned = await self._cordons.keep(wanted)
        # The Quota names the granting class: it exists before the grant is published, and goes
        # after it was taken back.
        stays = theirs or granted_in(status) is not None
        if stays:
            await self._keep_quota(wanted, status, tenant, cordoned=cordoned)
        # Before the grant: a consumer that sees that has the rules already.
        try:
            fence = await self._annotate(wanted, tenant, granted_in(status))
            await self._write(wanted, live, status, fence)
        except Conflict:  # its class has written meanwhile: that causes another turn
            return min(renew_in or self._recheck, self._recheck)
        if not stays:
            await self._withdraw(wanted)
        return min(renew_in or self._recheck, self._recheck) if fenced else renew_in

    async def _problem(
        self,
        wanted: ResourceSlice,
        tenant: Tenant | None,
        requests: list[SliceRequest],
        *,
        served: bool,
    ) -> str | None:
        """The reason why a slice may have no certificate, or None; the dearest check comes last."""
        peer = self._peer
        former = former_in(self._namespaces.store.get(("", peer.tenant_namespace)))
        problem = trust.slice_problem(wanted, tenant, peer.id, peer.context.cluster_id, former)
        problem = problem or (None if served else self._guest_policies.problem or None)
        if problem is None and wanted.name not in within_number(requests, self._guests):
            most = self._guests.max_slices
            return f"one consumer may have {most} slices here: {remedy('max_slices')}"
        if problem is None and tenant is not None and not served:
            return await self._name_problem(wanted.name, tenant)
        return problem

    def _requests(self, settings: ProviderSettings) -> list[SliceRequest]:
        """The requests of all of the peer's slices."""
        known, self._requested = self._requested, {}
        for name in self._known_names():
            key = (self._peer.tenant_namespace, name)
            body = self._slices.store.get(key)
            if body is None:
                continue
            user = ids.slice_user(name, self._peer.id)
            read = (body, self._quotas.store.get((key[0], user)))
            before = known.get(name)
            if before is None or any(a is not b for a, b in zip(before[0], read, strict=True)):
                before = (read, self._request(key, settings))
            self._requested[name] = before
        return [request for _, request in self._requested.values() if request is not None]

    def _request(self, key: Key, settings: ProviderSettings) -> SliceRequest | None:
        """The request of a slice, if it is one of the peer's that stays."""
        each = self._slices.store.decode(key, KeptSlice)
        if each is None or each.leaving or not is_from(each.metadata.labels, self._peer.id):
            return None
        asked = requested_resources(each, settings) if is_default(each) else None
        if each.too_large and asked is not None:
            asked = {}
        since = each.metadata.creation_timestamp or ""
        quota = self._quota_of(each)
        if quota is not None and asked is not None and not _is_by(quota, each):
            quota = None
        had = None if quota is None else dict(quota.spec.resources)
        return SliceRequest(each.name, since, asked, had)

    def _quota_of(self, wanted: ResourceSlice) -> Quota | None:
        """The Quota of this very slice, which this side alone writes."""
        user = ids.slice_user(wanted.name, self._peer.id)
        quota = self._quotas.store.decode((wanted.namespace, user), Quota)
        owners = () if quota is None else quota.metadata.owner_references
        return quota if any(owner.uid == wanted.metadata.uid for owner in owners) else None

    async def _is_served(self, wanted: ResourceSlice, tenant: Tenant | None) -> bool:
        """True if something was given for this very slice before.

        Its Quota shows that; where that is missing and a cordon or missing policies would deny the
        slice for it, the Secret of its certificate does, unless that was issued under a cordon.
        """
        if self._has_quota(wanted.name):
            return True
        if tenant is None or not (_cordoned(tenant) or self._guest_policies.problem):
            return False
        secret = ids.certificate_secret(wanted.name)
        live = await self._client.find(SECRETS, secret, wanted.namespace, decode=Partial)
        if live is None or labels.BARREN in live.metadata.annotations:
            return False
        return any(owner.uid == wanted.metadata.uid for owner in live.metadata.owner_references)

    async def _name_problem(self, name: str, tenant: Tenant) -> str | None:
        """The reason why a name in the slice's certificate is taken here; None where none is.

        A consumer that the user trusts without a handshake is bound by hand, by its id.
        """
        taken = [ids.slice_user(name, self._peer.id)]
        if tenant.spec.authz_policy != TOLERATE_NO_HANDSHAKE:
            taken += [self._peer.id, usernames.keyed_of(tenant)]
        return await bindings.name_problem(
            self._client, self._peer.id, self._peer.tenant_namespace, *taken
        )

    async def _certify(self, wanted: ResourceSlice, *, barren: bool) -> tuple[AuthParams, float]:
        secret = ids.certificate_secret(wanted.name)
        owner = owner_reference(RESOURCE_SLICES, wanted.metadata)
        issued = await self._issuer.issue(
            Order(
                self._peer.id,
                wanted.namespace,
                secret,
                wanted.spec.csr,
                owner,
                self._peer.context.endpoint.ca,
                barren=barren,
            )
        )
        endpoint = self._peer.context.endpoint
        tenant = accepted_tenant(self._tenants.store, self._peer)
        given = AuthParams(
            ca=endpoint.ca,
            signed_crt=issued.certificate,
            api_server=endpoint.server,
            proxy_url=tenant.spec.proxy_url if tenant is not None else "",
        )
        return given, issued.renew_in

    async def _write(
        self,
        wanted: ResourceSlice,
        live: dict[str, Any],
        status: dict[str, Any],
        fence: dict[str, Any],
    ) -> None:
        patch = exact_patch(live, status)
        if patch:
            await self._client.patch(
                RESOURCE_SLICES,
                wanted.name,
                {"status": patch, **({"metadata": fence} if fence else {})},
                wanted.namespace,
                subresource="status",
            )
            if "resources" in patch:
                for name in self._known_names():  # what one slice gets, another may not
                    self.queue.add(name)
            verdicts = {c["type"]: c["status"] for c in status["conditions"]}
            self._peer.report(SliceLent(slice=wanted.name, conditions=verdicts))

    async def _annotate(
        self,
        wanted: ResourceSlice,
        tenant: Tenant | None,
        granted: dict[str, int | str] | None,
    ) -> dict[str, Any]:
        """Show on the slice that its tenant is cordoned, what no guest may have here, and what is
        granted that no nodes have.

        Returns:
            the metadata that fences the status: a class of its own writes into the same list of
            conditions, which a patch replaces whole. Empty for the default class, whose status is
            this side's alone.

        Raises:
            Conflict: that class has written since the slice was read.
        """
        cordoned = _cordoned(tenant)
        config, guests = self._peer.context.config, self._guests
        rules = Rules(
            config.provider.pod_security,
            guests.volumes,
            guests.service_accounts,
            guests.runtime_classes,
            self._machines(),
            waiting_gives_way=True,
            takes=frozenset(each.word for each in declared.opted(guests.opt_ins)),
        )
        told = {
            labels.CORDON_TENANT: labels.TRUE if cordoned else None,
            labels.GUEST_RULES: guestrules.render(rules),
            labels.NODES_READY: self._ready.word.now or None,
            # Where nodes are added for pods that wait, one that is not cordoned may come.
            labels.NODES_CORDONED: labels.TRUE
            if self._ready.cordoned.now and not self._adds_nodes()
            else None,
            labels.BEYOND_NODES: capacity.word(self._ready.has.now, granted) or None,
        }
        free = self._free
        if not config.provider.show_free or (free is not None and free.known):
            told[labels.FREE_CAPACITY] = self._told_free(wanted) or None  # until then it stays
        before = wanted.metadata.annotations
        changed = {key: value for key, value in told.items() if before.get(key) != value}
        version = {} if is_default(wanted) else _version(wanted.metadata)
        if not changed:
            return version
        patch = {"metadata": {"annotations": changed, **version}}
        written = await self._client.patch(RESOURCE_SLICES, wanted.name, patch, wanted.namespace)
        return version and _version(written.metadata)

    def _adds_nodes(self) -> bool:
        said = self._peer.context.config.provider.autoscales
        return nodesready.adds_nodes(said, scaled=self._ready.scaled.now)

    def _told_free(self, wanted: ResourceSlice) -> str:
        """The text on what is free, for a slice."""
        if self._free is None:
            return ""
        mode = parts.mode(wanted.metadata.annotations)
        return self._free.told(self._peer.id, wanted.name, mode)

    def _machines(self) -> tuple[dict[str, int | str], ...]:
        """The sizes of the largest machines, where consumers may know them."""
        if not self._peer.context.config.provider.show_machines:
            return ()
        return tuple({**quantities.render_all(each)} for each in self._ready.machines.now)

    async def _keep_quota(
        self,
        wanted: ResourceSlice,
        status: dict[str, Any],
        tenant: Tenant | None,
        *,
        cordoned: bool,
    ) -> None:
        user = ids.slice_user(wanted.name, self._peer.id)
        granted = granted_in(status)
        raw = self._quotas.store.get((wanted.namespace, user))
        live = msgspec.json.decode(raw, type=dict[str, Any]) if raw is not None else None
        if granted is None and live is None:
            return
        cordoned = (
            cordoned or granted is None or tenant is None or tenant.spec.tenant_condition != ACTIVE
        )
        spec: dict[str, Any] = {
            "user": user,
            "resources": granted if granted is not None else (live or {})["spec"]["resources"],
            "limitsEnforcement": self._peer.context.config.provider.enforcement,
        }
        await self._write_quota(wanted, user, spec, live, cordoned=cordoned)

    async def _withdraw(self, wanted: ResourceSlice) -> None:
        """Delete the Quota of a slice that is going, or of a class that has granted nothing.

        Only one that we made for it; the garbage collector would wait until the slice has gone.
        """
        user = ids.slice_user(wanted.name, self._peer.id)
        live = self._quotas.store.decode((wanted.namespace, user), Partial)
        if live is None or live.metadata.labels.get(labels.MANAGED) != labels.TRUE:
            return
        if any(owner.uid == wanted.metadata.uid for owner in live.metadata.owner_references):
            with suppress(Conflict):  # it was changed meanwhile
                await self._client.delete(QUOTAS, user, wanted.namespace, uid=live.metadata.uid)

    async def _write_quota(
        self,
        wanted: ResourceSlice,
        user: str,
        spec: dict[str, Any],
        live: dict[str, Any] | None,
        *,
        cordoned: bool,
    ) -> None:
        """Write the Quota where it is missing, and what has changed of our request where it is not.

        Numbers that an administrator wrote into it stay until the grant itself changes; one that
        was made by another is left alone.
        """
        recorded = digest(spec)
        noted = {labels.APPLIED_HASH: recorded, labels.GRANTED_BY: class_of(wanted)}
        if live is None:
            quota = {
                "metadata": {
                    "name": user,
                    "namespace": wanted.namespace,
                    "labels": {
                        labels.MANAGED: labels.TRUE,
                        labels.REMOTE_CLUSTER_ID: self._peer.id,
                    },
                    "annotations": noted,
                    "ownerReferences": [owner_reference(RESOURCE_SLICES, wanted.metadata)],
                },
                "spec": {**spec, "cordoned": True} if cordoned else spec,
            }
            await self._client.create(QUOTAS, quota, wanted.namespace)
            return
        meta = live["metadata"]
        if meta.get("labels", {}).get(labels.MANAGED) != labels.TRUE:
            return
        patch: dict[str, Any] = {}
        before = meta.get("annotations", {})
        if any(before.get(key) != value for key, value in noted.items()):
            patch = {"metadata": {"annotations": noted}}
        if before.get(labels.APPLIED_HASH) != recorded:
            numbers = {key: live["spec"].get(key) for key in spec}
            patch["spec"] = exact_patch(numbers, spec)
        if live["spec"].get("cordoned", False) != cordoned:
            patch.setdefault("spec", {})["cordoned"] = True if cordoned else None
        if patch:
            await self._client.patch(QUOTAS, user, patch, wanted.namespace)
