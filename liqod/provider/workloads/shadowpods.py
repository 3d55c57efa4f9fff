"""Makes the pods that a peer's ShadowPods request, and keeps them while they are not terminal.

Per pod up to Ready it writes once, the Pod, and reads nothing: all it decides on is in stores that
are shared by all peers (:mod:`liqod.provider.workloads.shadow` decides). Of a pod that runs only
once, and to Liqo, it writes the phase Running too. Quotas are checked here and nowhere else
(:mod:`liqod.provider.slices.quotas`): the reason that a pod waits is in its ShadowPod's status, and
it is tried again when something is freed. Refusals of the API server are reported the same way and
tried again with growing pauses.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES, PODS
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.cluster.memorylimits import GUEST_PODS, stub_over_limit, trim_to
from liqod.errors import AlreadyExists, Conflict, Forbidden, Invalid, LiqodError, NotFound
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.watched import Watched
from liqod.peers.peer import Peer
from liqod.provider.namespaces.mappings import NamespaceMappings, note_end
from liqod.provider.policies.guestkeys import brought, check_labels
from liqod.provider.policies.podrestrictions import NOT_ALLOWED, NotAllowed
from liqod.provider.slices.ledger import QuotaLedger
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads import shadow as rules
from liqod.provider.workloads.editlimiter import EditLimiter, is_edit
from liqod.provider.workloads.graceperiods import GracePeriods
from liqod.provider.workloads.keymemories import KeyMemories
from liqod.provider.workloads.machinenames import MachineNames
from liqod.provider.workloads.podshape import awaits_way, pod_manifest
from liqod.provider.workloads.podupdates import PodUpdates
from liqod.provider.workloads.shadow import GuestPod, Shadow
from liqod.provider.workloads.shadowstatus import LAG, ShadowStatusWriter
from liqod.resources import QUOTAS, SHADOW_PODS

WORKERS: Final = 8
WAKE: Final[Key] = ("", "wake")
"""The key that stands for "something was freed"."""
UNSEEN: Final[Key] = ("", "unseen")
"""The key that stands for "a pod that was made should have been seen by now"."""
NEXT_TURN: Final = 1.0
"""Seconds until the rest of a great many pods, that wait or are not seen, is looked at."""

logger = logging.getLogger(__name__)


class ShadowPods(Controller[Key]):
    """The pods of one peer; a key is a ShadowPod's, and its Pod's.

    Args:
        peer: the consumer.

    Attributes:
        memories: of ShadowPods and of their pods, which go with the namespace.
    """

    def __init__(
        self, peer: Peer, guest_policies: GuestPolicies, timings: ProviderTimings = ORDINARY
    ) -> None:
        self._peer = peer
        self._guest_policies = guest_policies
        self._timings = timings
        self._client = peer.context.client
        self._guests = peer.context.config.guests
        self._ledger = QuotaLedger(peer.id)
        self._grace_periods = GracePeriods(self._guests.max_grace_seconds)
        self._pod_updates = PodUpdates(peer, guest_policies, self._ledger, timings)
        self.memories = KeyMemories()
        self.memories.add(self._grace_periods.requested)
        self._made: dict[Key, tuple[str, float]] = self.memories.add({})
        """Pods that were made and are not seen yet: the ShadowPod's UID, and when to doubt it."""
        self._patched: dict[Key, str] = self.memories.add({})
        """Pods whose metadata was written: the resourceVersion it was written over."""
        self._refusals: dict[Key, int] = self.memories.add({})
        self._ended: set[Key] = self.memories.add(set())
        """ShadowPods whose deletion a watch has reported; for others the API server is read."""
        self._lost: set[Key] = self.memories.add(set())
        """Pods that went; one is made anew only for a ShadowPod that still exists."""
        quotas = Watched(QUOTAS, self._on_quota, within=(peer.tenant_namespace,))
        namespaces = Watched(NAMESPACES, self._on_namespace)
        trim = trim_to(self._guests.max_pod_bytes)
        self._shadows = Watched(
            SHADOW_PODS, self._on_shadow, within=(), trim=trim, counted=stub_over_limit
        )
        self._pods = Watched(PODS, self._on_pod, within=(), **GUEST_PODS)
        self._machines = MachineNames()
        self._nodes: Watched[Key] = Watched(NODES)
        tells = (self._nodes,) if peer.context.config.provider.show_free else ()
        watches = (self._shadows, self._pods)
        self._mapped = NamespaceMappings(peer.id, peer.tenant_namespace, *watches)
        super().__init__(
            peer,
            "shadowpods",
            quotas,
            namespaces,
            *watches,
            *tells,
            name="shadow pods",
            tasks=(self._give_turns,),
            concurrency=WORKERS,
        )
        self._edit_limiter = EditLimiter(peer, self.queue)
        self._status = ShadowStatusWriter(peer, self.queue)
        self._written = self.memories.add(self._status.written)

    async def _give_turns(self) -> NoReturn:
        await self._edit_limiter.run()

    async def prepare(self) -> None:
        """Book existing pods before any new request, so that a restart admits no pod twice."""
        if self._nodes.opened:
            self._machines.follow(self._nodes.informer)
        for namespace in self._mapped:
            shadows, pods = self._shadows.store, self._pods.store
            await self._ledger.hold_existing(namespace, shadows, pods)

    # --- changes --------------------------------------------------------------------------------

    def _on_namespace(self, change: StoreChange) -> Iterator[Key]:
        closed = self._mapped.take_in(change)
        if closed:
            changed = self._pod_updates.remembered
            yield from self._ledger.within(closed)
            yield from self.memories.within(closed)
            yield from (key for key in changed if key[0] == closed)

    def _on_shadow(self, change: StoreChange) -> Iterator[Key]:
        note_end(self._ended, change)
        self._grace_periods.update(change)
        if not self._status.shows_own_write(change):
            yield from self._at_once(change, edit=is_edit(change))

    def _on_pod(self, change: StoreChange) -> Iterator[Key]:
        if change.new is None:
            self._lost.add(change.key)
        else:
            self._made.pop(change.key, None)
            self._lost.discard(change.key)
        if not rules.alike(change.old, change.new):
            yield from self._at_once(change, edit=is_edit(change, status=False))

    def _at_once(self, change: StoreChange, *, edit: bool) -> tuple[Key, ...]:
        """The key of a change, unless it is an edit: that has to wait for its turn."""
        if edit:
            self._edit_limiter.queue.add(change.key)
            return ()
        return (change.key,)

    def _on_quota(self, change: StoreChange) -> list[Key]:
        self._ledger.quota_changed(change)
        return self._ledger.waiting()

    def failed(self, key: Key, error: Exception) -> None:
        """Log the pod that failed."""
        if isinstance(error, LiqodError):
            logger.warning("shadow pod %s/%s: %s", *key, error)
        else:
            logger.error("shadow pod %s/%s", *key, exc_info=error)

    # --- reconciling ----------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> float | None:
        """Make the Pod of a ShadowPod as it requests, and keep its status true."""
        if key == WAKE:
            for ready in self._ledger.ready():
                self.queue.add(ready)
            return NEXT_TURN if self._ledger.unfinished else None
        if key == UNSEEN:
            return self._doubt_made()
        return await self._edit_limiter.meter(key, self._follow_shadow(key))

    def _doubt_made(self) -> float | None:
        """Look again at pods that should have been seen: no watch reports one that went before."""
        now = trio.current_time()
        for key in [key for key, (_, doubt) in self._made.items() if doubt <= now]:
            del self._made[key]
            if key not in self._pods.store:
                self.queue.add(key)
        next_doubt = min((doubt for _, doubt in self._made.values()), default=None)
        return None if next_doubt is None else max(NEXT_TURN, next_doubt - now)

    async def _follow_shadow(self, key: Key) -> float | None:
        shadow = self._shadows.store.decode(key, Shadow)
        pod = self._pods.store.decode(key, GuestPod)
        if shadow is None or key[0] not in self._mapped:
            return await self._gone(key, pod)
        asked = self._status.with_written(key, shadow)
        shadow = msgspec.structs.replace(asked, metadata=brought(asked.metadata, self._guests))
        plan = rules.decide(shadow, pod, self._peer.id)
        if plan.make:
            return await self._make(key, shadow, asked)
        if pod is not None and self._grace_periods.exceeds(key, pod):
            await self._remove(key, pod)
        if plan.holds and pod is not None:
            self._hold(key, pod, again=plan.changed and self._pod_updates.is_shown(key, pod))
        else:
            self._release(key)
        if plan.remove and pod is not None:
            await self._remove(key, pod)
        if plan.metadata is not None and pod is not None:
            await self._follow(key, pod, plan.metadata)
        if plan.doubtful:
            return await self._report_if_true(key, shadow, plan)
        if plan.status is not None:
            await self._status.write(key, shadow, plan.status)
        if plan.changed and pod is not None:
            return await self._pod_updates.follow(key, shadow, pod)
        return await self._recheck_capacity(key, shadow) if shadow.too_much else None

    async def _recheck_capacity(self, key: Key, shadow: Shadow) -> float | None:
        """Read a ShadowPod anew once there is room for it."""
        part, size = self._shadows.store.part, shadow.too_large
        if size > self._guests.max_pod_bytes or shadow.metadata.deletion_timestamp is not None:
            return None
        if part is None or not part.fits(key, self._shadows.store.get(key), size):
            return self._timings.room_again
        await self._shadows.informer.refresh(key)
        return None

    async def _report_if_true(
        self, key: Key, shadow: Shadow, plan: rules.ShadowPlan
    ) -> float | None:
        """Write a state that contradicts an earlier report, if the API server confirms it."""
        live = await self._client.find(PODS, key[1], key[0], decode=GuestPod)
        if rules.decide(shadow, live, self._peer.id) != plan or plan.status is None:
            return LAG
        await self._status.write(key, shadow, plan.status, only_this=True)
        return None

    async def _gone(self, key: Key, pod: GuestPod | None) -> float | None:
        """Delete the Pod of a ShadowPod that is gone; it is on the books until it has gone."""
        for memory in (self._made, self._written, self._patched):
            memory.pop(key, None)
        self._pod_updates.forget(key)
        if pod is None or key[0] not in self._mapped:
            self.memories.forget(key)
            self._release(key)
            return None
        plan = rules.orphaned(pod)
        if plan.holds:
            self._ledger.hold(key, pod, again=False)
        else:
            self._release(key)
        if self._grace_periods.exceeds(key, pod):
            await self._remove(key, pod)
        if not plan.remove:
            return None
        if key not in self._ended and not await self._shadows.surely_gone(key, ending=False):
            return self._pause(key)  # a list may lie, and its pod runs
        await self._remove(key, pod)
        return None

    async def _lasts(self, key: Key, shadow: Shadow) -> bool:
        """True if a ShadowPod whose pod went still exists: a broken watch reports no deletion."""
        live = await self._client.find(SHADOW_PODS, key[1], key[0], decode=Partial)
        meta = ObjectMeta() if live is None else live.metadata
        return meta.uid == shadow.metadata.uid and not rules.is_going(meta)

    def _hold(self, key: Key, pod: GuestPod, *, again: bool) -> None:
        more = self._ledger.hold(key, pod, again=again)
        gives_way = rules.is_unplaced(pod) and not rules.is_going(pod.metadata)
        if self._ledger.mark_unplaced(key, unplaced=gives_way) or more:
            self.queue.add(WAKE)

    def _release(self, key: Key) -> None:
        if self._ledger.release(key):
            self.queue.add(WAKE)

    async def _make(self, key: Key, shadow: Shadow, asked: Shadow) -> float | None:
        if key[0] in self._mapped.leaving:
            return None
        expected = self._made.get(key)
        if expected is not None and expected[0] == shadow.metadata.uid:
            remaining = expected[1] - trio.current_time()
            if remaining > 0:
                return remaining
        if key in self._lost and not await self._lasts(key, shadow):
            return LAG
        joined = self._peer.pod_network == "tunnel"
        ranges = self._peer.network.ranges if joined else None
        if joined and ranges is None and awaits_way(shadow):
            return LAG
        fenced = self._guest_policies.problem
        if fenced:
            await self._refuse(key, shadow, rules.POLICIES_MISSING, fenced)
            return self._pause(key)
        if self._ledger.holds(key):
            self.queue.add(WAKE)  # a new pod may take less than the pod before it
        verdict = self._ledger.book(key, shadow)
        if not verdict.admitted and await self._make_room(key):
            verdict = self._ledger.book(key, shadow)
        if not verdict.admitted:
            await self._refuse(key, shadow, verdict.reason, verdict.message)
            return None
        try:
            check_labels(asked.metadata, self._guests)
            pod = pod_manifest(shadow, self._guests, ranges, self._machines.by_key)
            await self._client.create(PODS, pod, key[0])
        except AlreadyExists:
            return await self._occupied(key, shadow)
        except NotAllowed as error:
            self._release(key)
            await self._refuse(key, shadow, NOT_ALLOWED, str(error))
            return None
        except (Forbidden, Invalid) as error:
            self._release(key)
            if key[0] in self._mapped.leaving:
                return None
            await self._refuse(key, shadow, rules.REFUSED, str(error))
            return self._pause(key)
        self._made[key] = (shadow.metadata.uid, trio.current_time() + self._timings.expectation)
        self.queue.add(UNSEEN, after=self._timings.expectation)
        self._refusals.pop(key, None)
        return None

    async def _make_room(self, key: Key) -> bool:
        """Delete pods that no node has room for, for a smaller one; True if any gave way.

        None, unless all that have to are without a node still: fewer would not be enough. Of the
        version that has none: one that the scheduler has just placed stays. Its ShadowPod stays,
        too, and waits for the quota.
        """
        gave_way = False
        displaced = self._ledger.displaced(key)
        pods = [self._pods.store.decode(each, GuestPod) for each in displaced]
        found = [pod for pod in pods if pod is not None and rules.is_unplaced(pod)]
        if len(found) < len(displaced):
            return False
        for each, pod in zip(displaced, found, strict=True):
            meta = pod.metadata
            with contextlib.suppress(Conflict):
                await self._client.delete(
                    PODS, each[1], each[0], uid=meta.uid, version=meta.resource_version
                )
                gave_way = self._ledger.release(each) or gave_way
        return gave_way

    async def _occupied(self, key: Key, shadow: Shadow) -> float:
        """Handle a pod of that name that the store does not show: not marked, or not yet seen."""
        found = await self._client.find(PODS, key[1], key[0], decode=Partial)
        if found is None:
            return LAG
        there = GuestPod(metadata=found.metadata)
        if rules.owned(there, shadow):
            patch = rules.follow(shadow.metadata, found.metadata)
            if patch is not None:
                await self._client.patch(PODS, key[1], {"metadata": patch}, key[0])
            return self._timings.expectation
        if not rules.made_for(there, key[1]):
            message = f"a pod named {key[1]} exists here and is not this ShadowPod's"
            self._release(key)
            await self._refuse(key, shadow, rules.NAME_TAKEN, message)
        return self._pause(key)

    def _pause(self, key: Key) -> float:
        count = self._refusals[key] = self._refusals.get(key, 0) + 1
        return self._timings.pauses.delay(count)

    # --- writes ---------------------------------------------------------------------------------

    async def _refuse(self, key: Key, shadow: Shadow, reason: str, message: str) -> None:
        patch = rules.refusal(shadow.status, reason, message)
        if patch is not None:
            await self._status.write(key, shadow, patch)

    async def _follow(self, key: Key, pod: GuestPod, patch: dict[str, Any]) -> None:
        version = pod.metadata.resource_version
        if self._patched.get(key) == version:
            return
        try:
            await self._client.patch(PODS, key[1], {"metadata": patch}, key[0])
        except NotFound:
            return  # its deletion has yet to reach the store
        self._patched[key] = version

    async def _remove(self, key: Key, pod: GuestPod) -> None:
        """Delete a pod whose ShadowPod is gone, unless that is in doubt."""
        if self._shadows.doubtful or key[0] in self._mapped.leaving:
            return
        with contextlib.suppress(Conflict):  # the pod was replaced
            grace = self._grace_periods.grace(key, pod)
            await self._client.delete(PODS, key[1], key[0], uid=pod.metadata.uid, grace=grace)
