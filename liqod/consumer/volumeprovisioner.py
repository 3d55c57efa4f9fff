"""Provisions the volumes of Liqo's virtual StorageClass, one component for the whole cluster.

The scheduler chooses a node for the first pod of a claim. On a virtual node the reflector of
claims sends a request to the peer, and gives the result in a condition; on a real node a claim of
this cluster's own class is made. Then the claim gets its local volume, which names the place of the
data, and only then is the pod bound. Without a volume the scheduler's choice is taken back,
with a reason, after a pause that doubles: it may choose the same node again.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CLAIMS, NODES, STORAGE_CLASSES, VOLUMES
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import AlreadyExists, Conflict, Invalid, NotFound, PermanentError
from liqod.kube import recorder
from liqod.kube.cache.memoryquota import drop_excess
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.watched import DOUBT, Watched
from liqod.model.objects import volumeclaims

FAILED: Final = "ProvisioningFailed"
GROWTH_FAILED: Final = "VolumeResizeFailed"
CONFLICT_PAUSE: Final = 0.2
KEPT: Final = 1024
"""Number of claims whose refusals are counted."""

Json = dict[str, Any]
Task = tuple[str, str, str]
"""``claim`` or ``volume``, then namespace and name."""
CLAIM, VOLUME = "claim", "volume"


class _Wait(msgspec.Struct):
    """A claim that waits for its volume: since when, for which node, and how often in vain."""

    node: str
    since: float
    refused: float | None = None
    times: int = 0


class VolumeProvisioner(Controller[Task]):
    """Makes the volumes of claims, lets them grow, and removes them; idle unless configured."""

    def __init__(self, context: ClusterContext, timings: ConsumerTimings = ORDINARY) -> None:
        self._client, self._timings = context.client, timings
        self._settings = context.config.storage
        self._claims = Watched(CLAIMS, _of_claim, keep=_concerns, counted=drop_excess)
        self._volumes = Watched(VOLUMES, _of_volume, keep=_concerns)
        self._waits: dict[str, _Wait] = {}
        super().__init__(context, "claims", self._claims, self._volumes)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Provision until cancelled; without ``[storage]`` nothing is watched."""
        if not self._settings.enabled:
            task_status.started()
            await trio.sleep_forever()
        await super().run(task_status=task_status)

    async def reconcile(self, task: Task) -> float | None:
        """Provision and grow the volume of one claim, or remove one volume with its claim."""
        what, namespace, name = task
        try:
            if what == VOLUME:
                volume = self._volumes.store.decode(("", name), Json)
                return None if volume is None else await self._release(volume)
            claim = self._claims.store.decode((namespace, name), Json)
            if claim is None:
                return await self._sweep(namespace, name, None)
            if claim["metadata"].get("deletionTimestamp"):
                return None
            if claim["spec"].get("volumeName"):
                await self._sweep(namespace, name, claim)
                self._waits.pop(claim["metadata"]["uid"], None)
                await self._grow(claim)
                return None
            if not volumeclaims.ours(claim) or not volumeclaims.selected(claim):
                return None
            return await self._provision(claim)
        except Conflict:
            return CONFLICT_PAUSE

    # A volume is made

    async def _provision(self, claim: Json) -> float | None:
        meta, node = claim["metadata"], volumeclaims.selected(claim)
        now, wait = trio.current_time(), self._waits.get(meta["uid"])
        if wait is None or wait.node != node:
            before = 0 if wait is None else wait.times
            wait = _Wait(node, now, times=before)
            while len(self._waits) >= KEPT:
                self._waits.pop(next(iter(self._waits)))
            self._waits[meta["uid"]] = wait
        wrong = volumeclaims.problem(claim)
        if wrong:
            await self._record_event(claim, FAILED, wrong)
            return None
        found = await self._client.find(NODES, node, decode=Partial)
        if found is None:
            return await self._refuse(claim, wait, f"the node {node} is not there")
        marks = found.metadata.labels
        if marks.get(labels.TYPE) != labels.VIRTUAL_NODE_TYPE:
            return await self._provision_here(claim, wait)
        peer = marks.get(labels.REMOTE_CLUSTER_ID, "")
        answer = volumeclaims.answer(claim, peer)
        if answer is None:
            left = wait.since + self._timings.volume_answer - now
            if left > 0:
                return left
            text = f"{peer} has not made a claim: it does not answer, or lends no such namespace"
            return await self._refuse(claim, wait, text)
        taken, message = answer
        if not taken:
            return await self._refuse(claim, wait, message)
        await self._make(volumeclaims.peer_volume(claim, peer, await self._reclaims(claim)))
        return None

    async def _provision_here(self, claim: Json, wait: _Wait) -> float | None:
        """Provision by a claim of this cluster's own class; its change causes another turn."""
        uid = claim["metadata"]["uid"]
        real = self._claims.store.decode((labels.STORAGE_NAMESPACE, uid), Json)
        if real is None:
            real_class = self._settings.local_class
            if not real_class:
                real_class = volumeclaims.default_class(await self._client.list(STORAGE_CLASSES))
            if not real_class:
                text = (
                    "this cluster has no default StorageClass for volumes on its own nodes: make "
                    "one, or name one in storage.local_class"
                )
                return await self._refuse(claim, wait, text)
            made = volumeclaims.real_claim(claim, wait.node, real_class)
            with suppress(AlreadyExists):
                await self._client.create(CLAIMS, made, labels.STORAGE_NAMESPACE)
            return None
        if (real["metadata"].get("annotations") or {}).get(volumeclaims.SELECTED_NODE) != wait.node:
            # The node of an earlier choice, where no volume was made.
            patch = {"metadata": {"annotations": {volumeclaims.SELECTED_NODE: wait.node}}}
            await self._client.patch(CLAIMS, uid, patch, labels.STORAGE_NAMESPACE)
            return None
        if (real.get("status") or {}).get("phase") != "Bound":
            return None
        volume: Json | None = await self._client.find(VOLUMES, real["spec"]["volumeName"])
        if volume is None:
            return DOUBT
        await self._make(volumeclaims.home_volume(claim, volume, await self._reclaims(claim)))
        return None

    async def _reclaims(self, claim: Json) -> str:
        """The reclaim policy of the claim's StorageClass."""
        name = claim["spec"].get("storageClassName") or self._settings.class_name
        found = await self._client.find(STORAGE_CLASSES, name)
        return str((found or {}).get("reclaimPolicy") or "Delete")

    async def _make(self, volume: Json) -> None:
        with suppress(AlreadyExists):
            await self._client.create(VOLUMES, volume)

    async def _refuse(self, claim: Json, wait: _Wait, why: str) -> float | None:
        """Report the reason, and let the scheduler choose again after a while."""
        now, meta = trio.current_time(), claim["metadata"]
        if wait.refused is None:
            wait.refused = now
        # A peer's statement may be the answer to an earlier choice, which it is about to change.
        pause = self._timings.volume_refused.delay(wait.times + 1, jitter=lambda: 1.0)
        left = pause - (now - wait.refused)
        if left > 0:
            return left
        await self._record_event(claim, FAILED, f"no volume on {wait.node}: {why}")
        wait.times, wait.node = min(wait.times + 1, 10), ""
        patch = {
            "metadata": {
                "annotations": {volumeclaims.SELECTED_NODE: None},
                "resourceVersion": meta["resourceVersion"],
            }
        }
        with suppress(NotFound):
            await self._client.patch(CLAIMS, meta["name"], patch, meta["namespace"])
        return None

    async def _record_event(self, claim: Json, reason: str, message: str) -> None:
        meta = msgspec.convert(claim["metadata"], ObjectMeta)
        await recorder.record(self._client, CLAIMS, meta, reason, message)

    # It grows

    async def _grow(self, claim: Json) -> None:
        """Pass the size that a claim requests on to the real claim, and show the result on it."""
        meta = claim["metadata"]
        volume = self._volumes.store.decode(("", claim["spec"]["volumeName"]), Json)
        if volume is None or volume["metadata"]["name"] != volumeclaims.volume_name(claim):
            return
        status = claim.get("status") or {}
        if not volumeclaims.lies_at(volume):
            real = self._claims.store.decode((labels.STORAGE_NAMESPACE, meta["uid"]), Json)
            if real is None:
                return
            await self._request_expansion(claim, real)
            status = real.get("status") or {}
            shown = (claim.get("status") or {}).get("capacity") or {}
            if volumeclaims.grown(status, shown.get("storage")):
                body = {"status": {"capacity": {"storage": status["capacity"]["storage"]}}}
                patch = self._client.patch
                await patch(CLAIMS, meta["name"], body, meta["namespace"], subresource="status")
        size = volumeclaims.grown(status, volume["spec"]["capacity"].get("storage"))
        if size:
            body = {"spec": {"capacity": {"storage": size}}}
            await self._client.patch(VOLUMES, volume["metadata"]["name"], body)

    async def _request_expansion(self, claim: Json, real: Json) -> None:
        wanted = volumeclaims.requested(claim)
        if not volumeclaims.grown({"capacity": {"storage": wanted}}, volumeclaims.requested(real)):
            return
        body = {"spec": {"resources": {"requests": {"storage": wanted}}}}
        try:
            name = real["metadata"]["name"]
            await self._client.patch(CLAIMS, name, body, labels.STORAGE_NAMESPACE)
        except (Invalid, PermanentError) as error:
            await self._record_event(claim, GROWTH_FAILED, f"its real claim cannot grow: {error}")

    # It goes

    async def _release(self, volume: Json) -> float | None:
        """Remove a volume whose claim is gone, if its policy requires that, with the real claim
        behind it. A claim at a peer is taken back by the reflector.
        """
        spec, meta = volume["spec"], volume["metadata"]
        released = (volume.get("status") or {}).get("phase") == "Released"
        if not released or meta.get("deletionTimestamp"):
            return None
        ref = spec.get("claimRef") or {}
        if (
            spec.get("persistentVolumeReclaimPolicy") != "Delete"
            or meta["name"] != f"pvc-{ref.get('uid')}"
        ):
            return None
        claim = await self._client.find(CLAIMS, ref["name"], ref["namespace"], decode=Partial)
        if claim is not None and claim.metadata.uid == ref["uid"]:
            return DOUBT
        if not volumeclaims.lies_at(volume):
            where = labels.STORAGE_NAMESPACE
            real = await self._client.find(CLAIMS, ref["uid"], where, decode=Partial)
            if real is not None and labels.CLAIM in real.metadata.annotations:
                await self._client.delete(CLAIMS, ref["uid"], where, uid=real.metadata.uid)
        await self._client.delete(VOLUMES, meta["name"], uid=meta["uid"])
        return None

    async def _sweep(self, namespace: str, name: str, claim: Json | None) -> float | None:
        """Remove real claims without a use: their claim is gone, or has its volume at a peer.

        One that has a local volume goes with that.
        """
        where = labels.STORAGE_NAMESPACE
        for key in list(self._claims.store.indexed("namespace", where)):
            real = self._claims.store.decode(key, Partial)
            if real is None or real.metadata.annotations.get(labels.CLAIM) != f"{namespace}/{name}":
                continue
            volume = await self._client.find(VOLUMES, f"pvc-{key[1]}")
            if volume is not None and not volumeclaims.lies_at(volume):
                continue
            own = claim is not None and claim["metadata"]["uid"] == key[1]
            if own and volume is None:
                continue
            if not own:
                live = await self._client.find(CLAIMS, name, namespace, decode=Partial)
                if live is not None and live.metadata.uid == key[1]:
                    return DOUBT
            await self._client.delete(CLAIMS, key[1], where, uid=real.metadata.uid)
        return None


def _concerns(body: bytes) -> bool:
    """True if an object names Liqo's provisioner, or is a real claim of ours."""
    return labels.STORAGE_PROVISIONER.encode() in body or labels.CLAIM.encode() in body


def _of_claim(change: StoreChange) -> Iterator[Task]:
    namespace, name = change.key
    if namespace != labels.STORAGE_NAMESPACE:
        yield (CLAIM, namespace, name)
        return
    for body in (change.old, change.new):
        noted = "" if body is None else _claim_of(body)
        if noted.count("/") == 1:
            where, _, which = noted.partition("/")
            yield (CLAIM, where, which)


def _claim_of(body: bytes) -> str:
    """The claim that a real claim names as its origin."""
    return msgspec.json.decode(body, type=Partial).metadata.annotations.get(labels.CLAIM, "")


def _of_volume(change: StoreChange) -> Iterator[Task]:
    yield (VOLUME, *change.key)
    if change.new is not None and change.old is None:
        ref = (msgspec.json.decode(change.new).get("spec") or {}).get("claimRef") or {}
        if ref.get("name"):
            yield (CLAIM, ref.get("namespace", ""), ref["name"])
