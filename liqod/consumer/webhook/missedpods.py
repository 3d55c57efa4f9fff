"""Pods of offloaded namespaces that the webhook did not see, or could do nothing for.

A toleration may still be added to a pod that waits for a node; an affinity only while it is gated.
So a pod whose namespace has it wait for a place in this cluster first gets its toleration here.
A pod that is kept off virtual nodes gets the reason in a condition of its own. Pods are watched
only while some namespace is offloaded.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.cluster.context import ClusterContext
from liqod.consumer.namespaces import offloadplan
from liqod.consumer.namespaces.overridepolicies import overrides_of
from liqod.consumer.slices.sliceobjects import providers_of
from liqod.consumer.webhook.pvclookup import claims_of
from liqod.consumer.webhook.timings import ORDINARY, WebhookTimings
from liqod.errors import Conflict, Invalid, NotFound
from liqod.kube import times
from liqod.kube.cache.nodeindex import node_of
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.watched import Watched
from liqod.model.crossing.exclusions import namespace_stays
from liqod.model.objects import conditions, eligibility, returnmarks, scheduling
from liqod.model.objects.eligibility import Placement, SchedulingVerdict, decide
from liqod.model.objects.scheduling import needs_toleration
from liqod.resources import (
    NAMESPACE_OFFLOADINGS,
    OVERRIDE_POLICIES,
    RESOURCE_SLICES,
    NamespaceOffloading,
)
from liqod.telemetry.events import MissedPod

CONDITION: Final = labels.OFFLOADED
"""The condition's type; on pods that are bound to a virtual node their reflector writes it."""
CONFLICT_PAUSE = 0.2
ANOTHER = 30.0
"""Seconds until a pod that avoids all peers is looked at again: another one may be there."""
SCHEDULING = 0.3
"""Seconds in which nearly every pod that has a place gets it; none of those is considered."""

_TAINT: Final = labels.VIRTUAL_NODE_TAINT.encode()

Json = dict[str, Any]


class MissedPods:
    """Takes care of the unscheduled pods of offloaded namespaces, while there are some.

    Args:
        doubt: has the path to the webhook proved again.
    """

    def __init__(
        self,
        context: ClusterContext,
        doubt: Callable[[], None],
        timings: WebhookTimings = ORDINARY,
    ) -> None:
        self._context, self._doubt, self._timings = context, doubt, timings
        self._placements: dict[str, Placement] = {}
        self._changed = trio.Event()

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled."""
        async with self._context.informers.share(NAMESPACE_OFFLOADINGS) as offloadings:
            stop = offloadings.subscribe(self._on_offloading)
            try:
                task_status.started()
                while True:
                    while not self._placements:
                        await self._wait()
                    await self._while_offloaded()
            finally:
                stop()
        raise AssertionError("it ends by cancellation only")

    async def _while_offloaded(self) -> None:
        """Follow pods until no namespace is offloaded any more."""
        pods = UnscheduledPods(self._context, self._doubt, self._timings)
        async with trio.open_nursery() as nursery:
            await nursery.start(pods.run)
            while self._placements:
                # No checkpoint from here to the wait: no change is missed.
                pods.follow(self._placements)
                await self._wait()
            nursery.cancel_scope.cancel()

    async def _wait(self) -> None:
        self._changed = trio.Event()
        await self._changed.wait()

    def _on_offloading(self, change: StoreChange) -> None:
        namespace, name = change.key
        if name != labels.NAMESPACE_OFFLOADING_NAME:
            return
        before = self._placements.pop(namespace, None)
        if change.new is not None:
            offloading = msgspec.json.decode(change.new, type=NamespaceOffloading)
            if not (offloading.leaving or namespace_stays(namespace, {}, self._context.namespace)):
                self._placements[namespace] = offloadplan.placement(offloading)
        if self._placements.get(namespace) != before:
            self._changed.set()


class UnscheduledPods(Controller[Key]):
    """Gives the unscheduled pods of some namespaces the fields that they may still get.

    Args:
        doubt: has the path to the webhook proved again.
    """

    def __init__(
        self,
        context: ClusterContext,
        doubt: Callable[[], None],
        timings: WebhookTimings = ORDINARY,
    ) -> None:
        self._context, self._doubt, self._timings = context, doubt, timings
        self._placements: dict[str, Placement] = {}
        self._pods = Watched(
            PODS, self._if_unscheduled, context.own_pods.selection, within=(), debounce=SCHEDULING
        )
        self._slices = Watched[Key](RESOURCE_SLICES)
        self._policies = Watched[Key](OVERRIDE_POLICIES)
        watched = (self._pods, self._slices, self._policies)
        super().__init__(context, "missed", *watched, name="unscheduled pods")

    def follow(self, placements: Mapping[str, Placement]) -> None:
        """Take care of the pods of these namespaces, and no others."""
        before, self._placements = self._placements, dict(placements)
        for namespace in before:
            if before[namespace] != placements.get(namespace):
                self._pods.unfollow(namespace)
        for namespace in placements:
            self._pods.follow(namespace)  # where it is new, or has just been left

    def _if_unscheduled(self, change: StoreChange) -> Iterable[Key]:
        if change.old is None and change.new is not None:
            self._see(change.key[0], change.new)
        if change.new is None or node_of(change.new):
            self.queue.discard(change.key)
            return ()
        return (change.key,)

    def _see(self, namespace: str, pod: bytes) -> None:
        """Have the webhook tried if a new pod lacks the webhook's changes.

        It may be on a node of this cluster in a moment, and is not seen any more then.
        """
        placement = self._placements.get(namespace)
        if placement is None or placement.strategy == "Local" or _TAINT in pod:
            return
        decoded = msgspec.json.decode(pod)
        if needs_toleration(decoded, placement, decide(decoded, placement)):
            self._doubt()

    async def reconcile(self, key: Key) -> float | None:
        """Give one pod the fields that it may still get, or report why it gets none."""
        pod = self._pods.store.decode(key, dict[str, Any])
        placement = self._placements.get(key[0])
        if pod is None or placement is None or pod["metadata"].get("deletionTimestamp"):
            return None
        now = times.now()
        providers = providers_of(self._slices.store)
        placement = msgspec.structs.replace(
            placement,
            providers=providers.rules,
            room_told=providers.room_told,
            overrides=overrides_of(self._policies.store, self._context.namespace, key[0]),
            returned=returnmarks.in_force(placement.returned, now),
        )
        placement = await claims_of(self._context, pod, key[0], placement)
        waits = placement.home_first
        left = _home_left(pod, placement, times.seconds(now))
        if not left:
            placement = msgspec.structs.replace(placement, home_first=0)
        try:
            patch = scheduling.late_patch(pod, placement)
            if patch is not None:
                await self._context.client.patch(PODS, key[1], patch, key[0])
                self._context.hub.publish(
                    MissedPod(pod="/".join(key), tolerates=True, waited=waits)
                )
                return None
            verdict = scheduling.late_verdict(pod, placement)
            if verdict is not None or not pod["spec"].get("nodeName"):
                await self._explain(key, pod, verdict)
            if verdict is not None and verdict.reason == eligibility.CLAIM_MISSING:
                return self._timings.claim_again
            if verdict is not None and verdict.reason == eligibility.HOME_FIRST:
                return left
            if verdict is not None and verdict.reason == eligibility.RETURNED:
                ends = (times.seconds(each.until) for each in placement.returned)
                return min(max(min(ends) - times.seconds(now), 1.0), ANOTHER)
        except Conflict:
            return CONFLICT_PAUSE
        except Invalid as error:
            # A gated pod whose affinity admits no more: trying again would change nothing.
            await self._explain(key, pod, SchedulingVerdict("Refused", str(error)))
        return None

    async def _explain(self, key: Key, pod: Json, verdict: SchedulingVerdict | None) -> None:
        """Write the pod's condition, where it differs."""
        status: Json = pod.get("status") or {}
        before = status.get("conditions") or []
        after = conditions.without(before, CONDITION)
        if verdict is not None:
            after = conditions.set_condition(
                before,
                CONDITION,
                "False",
                now=times.now(),
                reason=verdict.reason,
                message=verdict.message,
            )
        if after == before or status.get("phase", "Pending") != "Pending":
            return
        patch = {
            "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
            "status": {"conditions": after},
        }
        with contextlib.suppress(NotFound):
            await self._context.client.patch(PODS, key[1], patch, key[0], subresource="status")


def _home_left(pod: Json, placement: Placement, now: float) -> float:
    """The seconds for which a pod still waits for a place in this cluster: all of them where the
    scheduler has not looked for one yet, or no one has said that it waits.

    A scheduler keeps the time of its condition when a gate falls and it finds no place then, and
    that of a pod that was made with a gate has none; so the pod's own condition counts as well.

    Args:
        now: Unix time.
    """
    if eligibility.home_first(pod, placement) is None:
        return 0.0
    found = (pod.get("status") or {}).get("conditions")
    told = conditions.find(found, "PodScheduled") or {}
    said = conditions.find(found, CONDITION)
    if told.get("reason") != "Unschedulable" or said is None:
        return float(placement.home_first)
    stamps = [each.get("lastTransitionTime") for each in (told, said)]
    since = max((times.seconds(each) for each in stamps if each), default=now)
    return min(max(0.0, placement.home_first - (now - since)), float(placement.home_first))
