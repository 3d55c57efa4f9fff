"""NamespaceMaps: the namespaces that a consumer has in this cluster.

Each entry of a map gets a namespace with the consumer's role in it, a Pod Security level and a
bound on the number of objects. A namespace removed by hand is made again; one that the map no
longer names is deleted, and so is one that it names for another namespace of the consumer's than
before. Maps that are gone altogether are :mod:`liqod.provider.garbagecollector`'s business.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.cluster.memorylimits import KeptMap
from liqod.cluster.tenancy import is_from
from liqod.errors import AlreadyExists, NotFound
from liqod.kube import recorder
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all, set_finalizers
from liqod.kube.selection import Selection
from liqod.kube.watched import RESYNC, Watched, by_name
from liqod.model import finalizers, ids
from liqod.model.crossing import namespaceuids, refusednames
from liqod.model.objects.patches import exact_patch
from liqod.peers.peer import Peer
from liqod.plugins import declared
from liqod.provider.namespaces import mapping
from liqod.provider.policies import guestkeys
from liqod.provider.slices.objectquotas import ObjectQuotas
from liqod.provider.tenants import bindings, usernames
from liqod.provider.tenants.bindings import RoleGrant
from liqod.provider.tenants.tenants import accepted_tenant
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.resources import NAMESPACE_MAPS, TENANTS, NamespaceMap, Tenant
from liqod.resources.authentication import DRAINED
from liqod.resources.base import MAX_MAPPED
from liqod.resources.offloading import MAPPING_ACCEPTED
from liqod.telemetry.events import NamespaceMapped

AGAIN = 0.2
"""Seconds until another check, where the store does not show yet what the API server has."""


class Extra(NamedTuple):
    """A right in a consumer's namespaces that goes beyond Liqo's.

    Attributes:
        mark: annotation of the namespaces where it was given, so that it is taken back there.
        grant: makes the grant, for a peer, its tenant namespace, the namespace and the groups.
        on: whether the settings give it.
        made: kinds of the objects made by it, which do not outlast it.
    """

    mark: str
    grant: Callable[[str, str, str, tuple[str, ...]], RoleGrant]
    on: bool
    made: tuple[Kind, ...] = ()


class NamespaceMaps(Controller[str]):
    """Keeps the namespaces that the maps of one peer request.

    Args:
        peer: the consumer.

    Attributes:
        shared: the shares that the namespaces have of its bounds on objects.
    """

    def __init__(
        self, peer: Peer, guest_policies: GuestPolicies, timings: ProviderTimings = ORDINARY
    ) -> None:
        self._peer = peer
        self._guest_policies = guest_policies
        self._timings = timings
        self._client = peer.context.client
        self._read: dict[str, tuple[bytes | None, frozenset[str]]] = {}
        """Of each map the JSON that was read, and the namespaces that it names."""
        self._provisioned: dict[str, tuple[tuple[str, tuple[str, ...]], float]] = {}
        """Of each namespace its UID, its subjects, and the time of the next check."""
        self._notes = guestkeys.notes(peer.context.config.guests, peer.id)
        on = peer.context.config.guests.opt_ins
        self._extras = tuple(
            Extra(each.mark, partial(bindings.opted, each), each.setting in on, made)
            for each, made in declared.opt_ins()
        )
        self._notes |= {extra.mark: labels.TRUE for extra in self._extras if extra.on}
        self._fenced = any(extra.on for extra in self._extras)
        hard = peer.context.config.provider.object_quota
        self._quotas = ObjectQuotas(
            self._client, peer.id, hard, granted=lambda: guest_policies.bounds, shared=True
        )
        assert self._quotas.shared is not None
        self.shared = self._quotas.shared
        within = (peer.tenant_namespace,)
        self._maps = Watched(NAMESPACE_MAPS, self._one_map, within=within)
        self._namespaces = Watched(NAMESPACES, self._maps_of_namespace)
        self._tenants = Watched(TENANTS, self._every_map, within=within)
        watches = (self._maps, self._namespaces, self._tenants)
        super().__init__(peer, "namespacemap", *watches, name="namespace maps", budget=peer.work)

    def _one_map(self, change: StoreChange) -> tuple[str]:
        if change.new is None:
            self._read.pop(change.key[1], None)
        return by_name(change)

    def _every_map(self, change: StoreChange) -> Iterator[str]:
        for _, name in self._maps.store.indexed("namespace", self._peer.tenant_namespace):
            yield name

    def _maps_of_namespace(self, change: StoreChange) -> Iterator[str]:
        """A namespace of ours changed, or one that a map wants came or went."""
        is_own = change.key[1] == self._peer.tenant_namespace
        if is_own and usernames.former_names(change.new) != usernames.former_names(change.old):
            yield from self._every_map(change)
        if change.new is None:
            self._provisioned.pop(change.key[1], None)
            self._quotas.forget(change.key[1])
        for key in self._maps.store.indexed("namespace", self._peer.tenant_namespace):
            if change.key[1] in self._concerned(key):
                yield key[1]

    def _concerned(self, key: Key) -> frozenset[str]:
        """The namespaces that a map names; read once for each version of it."""
        body = self._maps.store.get(key)
        known = self._read.get(key[1])
        if known is not None and known[0] is body:
            return known[1]
        found = self._maps.store.decode(key, NamespaceMap)
        names: frozenset[str] = frozenset()
        if found is not None and is_from(found.metadata.labels, self._peer.id):
            reported = (each.remote_namespace for each in found.status.current_mapping.values())
            names = frozenset((*found.spec.desired_mapping.values(), *reported))
        self._read[key[1]] = (body, names)
        return names

    async def reconcile(self, name: str) -> float | None:
        """Make the namespaces of a map as it requests; seconds until their bounds are checked."""
        found = self._maps.store.decode((self._peer.tenant_namespace, name), KeptMap)
        if found is None or not is_from(found.metadata.labels, self._peer.id):
            return None
        if found.leaving:
            # One that Liqo left behind would keep the map for ever.
            left = (finalizers.NAMESPACE_MAP,)
            await set_finalizers(self._client, NAMESPACE_MAPS, found.metadata, remove=left)
            return None
        tenant = accepted_tenant(self._tenants.store, self._peer)
        if tenant is None or tenant.spec.tenant_condition == DRAINED:
            return None
        if found.too_large:
            await self._refuse(found)
            return None
        desired = found.spec.desired_mapping
        uids = namespaceuids.parse(found.metadata.annotations.get(labels.NAMESPACE_UIDS))
        owner = ids.managed_by_map(self._peer.tenant_namespace, name)
        steps = mapping.plan(
            desired,
            self._live(desired),
            owner,
            self._peer.id,
            self._peer.context.namespace,
            self._peer.context.config.guests,
            others=self._others(owner),
            uids=uids,
        )
        lagging = False
        who = self._names(tenant)
        for step in steps:
            lagging |= not await self._provision(step, owner, who)
        leaving = mapping.orphans(
            desired, self._namespaces.store.values(Partial), owner, self._peer.id, uids
        )
        await delete_all(self._client, NAMESPACES, leaving)
        if lagging:
            return AGAIN
        await self._report(found, steps, leaving)
        looks = (self._provisioned.get(step.remote) for step in steps if step.make or step.keep)
        due = [look[1] - trio.current_time() for look in looks if look is not None]
        if not steps:
            return None
        # The end of a policy is not notified: the rights that it holds have to go soon after it.
        return min(
            max(AGAIN, min(due, default=RESYNC)),
            self._timings.policies_missing if self._fenced else RESYNC,
        )

    async def _refuse(self, found: KeptMap) -> None:
        """Report to the consumer that its map has too many entries; existing namespaces stay."""
        why = f"the map has {found.too_large} entries, and {MAX_MAPPED} are read at most"
        self._peer.report(NamespaceMapped(name=found.name, reason=why))
        await recorder.record(self._client, NAMESPACE_MAPS, found.metadata, "TooLarge", why)

    def _live(self, desired: dict[str, str]) -> dict[str, Partial]:
        there = (name for name in desired.values() if ("", name) in self._namespaces.store)
        found = {name: self._namespaces.store.decode(("", name), Partial) for name in there}
        return {name: each for name, each in found.items() if each is not None}

    def _others(self, owner: str) -> int:
        """The number of namespaces that the peer has by other maps than this one."""
        peer, tenant = self._peer.id, self._peer.tenant_namespace
        return sum(
            1
            for each in self._namespaces.store.values(Partial)
            if each.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == peer
            and each.metadata.name != tenant
            and not mapping.is_of(each, owner, peer)
        )

    def _names(self, tenant: Tenant) -> tuple[str, ...]:
        """The groups to which the consumer's rights are bound."""
        found = self._namespaces.store.decode(("", self._peer.tenant_namespace), Partial)
        marks = found.metadata.annotations if found is not None else {}
        return usernames.subjects(tenant, marks, keyed=usernames.has_keyed(tenant))

    async def _provision(self, step: mapping.MappingStep, owner: str, who: tuple[str, ...]) -> bool:
        """Make the namespace and its objects; False if it must be reconciled again."""
        peer = self._peer.id
        settings = self._peer.context.config.provider
        uid = ""
        if step.make and self._guest_policies.problem:
            return False
        if step.make:
            notes = self._notes
            wanted = mapping.manifest(step, owner, peer, settings.pod_security, notes)
            try:
                uid = (await self._client.create(NAMESPACES, wanted)).metadata.uid
            except AlreadyExists:
                return False
        elif step.keep:
            live = self._namespaces.store.decode(("", step.remote), Partial)
            if live is None:
                return False
            uid = live.metadata.uid
            await self._keep_marks(live, settings.pod_security, mapping.marks(step))
        else:
            return True
        known, until = self._provisioned.get(step.remote, (("", ()), 0.0))
        unfenced = self._fenced and bool(self._guest_policies.problem)
        if known == (uid, who) and trio.current_time() < until and not unfenced:
            return True
        # The bounds first: once it is bound, the consumer makes objects freely within them.
        until_look = min(RESYNC, await self._quotas.keep(step.remote))
        await self._quotas.forbid_affinity(step.remote)
        grant = bindings.mapped(peer, self._peer.tenant_namespace, step.remote, who)
        await bindings.bind(self._client, grant)
        for extra in self._extras:
            until_look = min(until_look, await self._lend(extra, step.remote, who))
        self._provisioned[step.remote] = ((uid, who), trio.current_time() + until_look)
        return True

    async def _lend(self, extra: Extra, namespace: str, who: tuple[str, ...]) -> float:
        """Give an extra right where the settings do, and take it back where they do no more.

        None has it while a policy is missing that would restrict its use. Objects that were made by
        it and would block others go with it. Returns the seconds until the next check.
        """
        grant = extra.grant(self._peer.id, self._peer.tenant_namespace, namespace, who)
        policies = self._guest_policies
        if extra.on and policies.known and not policies.problem:
            await bindings.bind(self._client, grant)
            return RESYNC
        live = self._namespaces.store.decode(("", namespace), Partial)
        marked = live is not None and extra.mark in live.metadata.annotations
        if extra.on or marked:
            await bindings.unbind(self._client, grant.name, namespace, self._peer.id)
        if extra.on:
            return self._timings.policies_missing
        if marked:
            for made in extra.made:
                left = await self._client.list(made, Selection(namespace), decode=Partial)
                await delete_all(self._client, made, left)
            patch = {"metadata": {"annotations": {extra.mark: None}}}
            await self._client.patch(NAMESPACES, namespace, patch)
        return RESYNC

    async def _keep_marks(self, live: Partial, level: str, whose: Mapping[str, str]) -> None:
        """Put a missing Pod Security label back; one that an administrator changed stays.

        The lists for guests are the configuration's; for which namespace of the
        consumer's it was made (``whose``) is noted where an older daemon, or Liqo, has not.
        """
        metadata: dict[str, Any] = {}
        key = f"{labels.POD_SECURITY_PREFIX}enforce"
        if key not in live.metadata.labels:
            metadata["labels"] = {key: level}
        known = live.metadata.annotations
        notes = {key: text for key, text in self._notes.items() if known.get(key) != text}
        notes |= {key: text for key, text in whose.items() if key not in known}
        if notes:
            metadata["annotations"] = notes
        if metadata:
            await self._client.patch(NAMESPACES, live.metadata.name, {"metadata": metadata})

    async def _report(
        self, found: NamespaceMap, steps: list[mapping.MappingStep], leaving: list[Partial]
    ) -> None:
        told = refusednames.render({step.local: step.reason for step in steps})
        if found.metadata.annotations.get(labels.REFUSED_NAMES) != told:
            note = {"metadata": {"annotations": {labels.REFUSED_NAMES: told}}}
            with suppress(NotFound):
                await self._client.patch(NAMESPACE_MAPS, found.name, note, found.namespace)
        wanted = mapping.status_of(steps, leaving)
        patch = exact_patch(msgspec.to_builtins(found.status.current_mapping), wanted)
        if not patch:
            return
        try:
            await self._client.patch(
                NAMESPACE_MAPS,
                found.name,
                {"status": {"currentMapping": patch}},
                found.namespace,
                subresource="status",
            )
        except NotFound:
            return  # deleted meanwhile; the watch shows it
        for step in steps:
            if step.phase != MAPPING_ACCEPTED:
                self._peer.report(
                    NamespaceMapped(namespace=step.remote, phase=step.phase, reason=step.reason)
                )
