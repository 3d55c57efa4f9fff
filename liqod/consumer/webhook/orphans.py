"""Pods of offloaded namespaces that the webhook did not see, or could do nothing for.

A toleration may still be added to a pod that waits for a node; an affinity only while it is gated.
A pod that is kept off virtual nodes is told why by a condition of its own. Pods are watched
only while some namespace is offloaded.
"""

import contextlib
import logging
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.consumer.namespaces import offloadplan
from liqod.consumer.slices.borrowed import rules_of
from liqod.context import ClusterContext
from liqod.errors import Conflict, Invalid, NotFound
from liqod.inspect.events import StrayPod
from liqod.kube import times
from liqod.kube.cache.store import Change, Key, Store
from liqod.kube.kinds import PODS
from liqod.kube.queue import KeyedQueue
from liqod.model import labels
from liqod.model.crossing.crossing import namespace_stays
from liqod.model.objects import conditions, scheduling
from liqod.model.objects.scheduling import Placement, Verdict
from liqod.reflection.placement import node_of
from liqod.resources import NAMESPACE_OFFLOADINGS, RESOURCE_SLICES, NamespaceOffloading

log = logging.getLogger(__name__)

CONDITION: Final = labels.OFFLOADED
"""On pods that are bound to a virtual node their reflector writes it."""
CONFLICT_PAUSE = 0.2
SCHEDULING = 0.3
"""Seconds in which nearly every pod that has a place gets it; none of those is looked at."""

Json = dict[str, Any]


class Strays:
    """Looks after the unscheduled pods of offloaded namespaces."""

    def __init__(self, home: ClusterContext) -> None:
        self._home = home
        self._queue: KeyedQueue[Key] = KeyedQueue(name="unscheduled pods")
        self._placements: dict[str, Placement] = {}
        self._changed = trio.Event()

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled."""
        share = self._home.informers.share
        async with (
            share(NAMESPACE_OFFLOADINGS) as offloadings,
            share(RESOURCE_SLICES) as slices,
        ):
            self._slices = slices.store
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

    async def _wait(self) -> None:
        self._changed = trio.Event()
        await self._changed.wait()

    async def _while_offloaded(self) -> None:
        """Watch pods until no namespace is offloaded any more."""
        async with (
            self._home.informers.share(PODS, self._home.own_pods.selection) as pods,
            trio.open_nursery() as nursery,
        ):
            store = pods.store

            async def work(key: Key) -> float | None:
                return await self._look(key, store)

            async def tend() -> None:
                await self._queue.run(work, on_error=self._failed)

            stop = pods.subscribe(self._on_pod)
            try:
                nursery.start_soon(tend)
                while self._placements:
                    for namespace in self._placements:
                        for key in store.indexed("namespace", namespace):
                            self._on_pod(Change(key, None, store.get(key)))
                    await self._wait()
            finally:
                stop()
                nursery.cancel_scope.cancel()

    def _on_offloading(self, change: Change) -> None:
        namespace, name = change.key
        if name != labels.NAMESPACE_OFFLOADING_NAME:
            return
        before = self._placements.pop(namespace, None)
        if change.new is not None:
            offloading = msgspec.json.decode(change.new, type=NamespaceOffloading)
            if not (offloading.leaving or namespace_stays(namespace, {}, self._home.namespace)):
                self._placements[namespace] = offloadplan.placement(offloading)
        if self._placements.get(namespace) != before:
            self._changed.set()

    def _on_pod(self, change: Change) -> None:
        if change.key[0] not in self._placements:
            return
        if change.new is None or node_of(change.new):
            self._queue.discard(change.key)
        else:
            self._queue.add(change.key, after=SCHEDULING)

    def _failed(self, key: Key, error: Exception) -> None:
        self._home.hub.publish(StrayPod(pod="/".join(key), failed=str(error)))
        log.warning("stray pod", extra={"pod": "/".join(key), "reason": str(error)})

    async def _look(self, key: Key, store: Store) -> float | None:
        """Give one pod what it may still get, and say why where it gets nothing."""
        pod = store.decode(key, dict[str, Any])
        placement = self._placements.get(key[0])
        if pod is None or placement is None or pod["metadata"].get("deletionTimestamp"):
            return None
        placement = msgspec.structs.replace(placement, providers=rules_of(self._slices))
        try:
            patch = scheduling.stray_patch(pod, placement)
            if patch is not None:
                await self._home.client.patch(PODS, key[1], patch, key[0])
                self._home.hub.publish(StrayPod(pod="/".join(key), tolerates=True))
                return None
            verdict = scheduling.stray_verdict(pod, placement)
            if verdict is not None or not pod["spec"].get("nodeName"):
                await self._explain(key, pod, verdict)
        except Conflict:
            return CONFLICT_PAUSE
        except Invalid as error:
            # A gated pod whose affinity admits no more: trying again would change nothing.
            await self._explain(key, pod, Verdict("Refused", str(error)))
        return None

    async def _explain(self, key: Key, pod: Json, verdict: Verdict | None) -> None:
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
            await self._home.client.patch(PODS, key[1], patch, key[0], subresource="status")
