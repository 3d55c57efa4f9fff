"""Brings a consumer's changes of a ShadowPod to the Pod that was made from it.

The fields that Kubernetes lets one change of a running pod follow
(:mod:`liqod.model.objects.podchanges`); all else of a ShadowPod's spec counts when a pod is made,
and not before. A change is held to the rules of creation: the same checks, Pod Security at the
API server, and the books, where a pod that grows requests the addition. A refusal is noted on the
Pod, where its consumer reads it, and the pod runs on as it was.
"""

import contextlib
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.errors import Conflict, Forbidden, Invalid, NotFound
from liqod.kube.cache.store import Key
from liqod.model.objects import podchanges
from liqod.model.objects.podchanges import EPHEMERAL, RESIZE, PodChange, PodChangeProblem
from liqod.peers.peer import Peer
from liqod.provider.policies.podrestrictions import NOT_ALLOWED, NotAllowed, remedy
from liqod.provider.slices.ledger import QuotaLedger
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads.podshape import pod_spec, requested_spec
from liqod.provider.workloads.shadow import POLICIES_MISSING, REFUSED, GuestPod, Shadow

UNSUPPORTED: Final = "Unsupported"
"""Reason of a change for which this cluster's API server has no subresource."""
MOST_EPHEMERAL: Final = 32
"""Ephemeral containers of one pod: they request no resources, and are never taken away."""
LAG: Final = 1.0
"""Seconds until another try where the pod has changed in between."""

Json = dict[str, Any]


class _Refused(msgspec.Struct):
    """A refused change: the pod's UID and the ShadowPod's generation, and the next try."""

    asked: str
    tries: int = 0
    due: float = float("inf")


class _Tried(msgspec.Struct):
    """The result of the writes of one pod so far.

    Attributes:
        version: of the pod, after them.
        first: the first refusal.
        passing: whether one was refused for a reason that may pass.
    """

    version: str
    first: PodChangeProblem | None = None
    passing: bool = False


class PodUpdates:
    """Brings changes of ShadowPods to running Pods, and remembers those that were refused.

    Args:
        peer: the consumer.
        books: its ledger.
    """

    def __init__(
        self,
        peer: Peer,
        guest_policies: GuestPolicies,
        books: QuotaLedger,
        timings: ProviderTimings = ORDINARY,
    ) -> None:
        self._pauses = timings.refused_update
        self._client = peer.context.client
        self._guests = peer.context.config.guests
        self._guest_policies = guest_policies
        self._books = books
        self._refused: dict[Key, _Refused] = {}
        self._resized: dict[Key, tuple[str, int]] = {}
        """Pods that were resized: their UID and generation, until the store shows that."""

    @property
    def remembered(self) -> set[Key]:
        """The keys of which a record is kept."""
        return {*self._refused, *self._resized}

    def forget(self, key: Key) -> None:
        """Drop the records of a pod that is gone."""
        self._refused.pop(key, None)
        self._resized.pop(key, None)

    def is_shown(self, key: Key, pod: GuestPod) -> bool:
        """True if a pod is seen as it was resized last: until then it is booked as it will be."""
        uid, generation = self._resized.get(key, ("", 0))
        if uid == pod.metadata.uid and pod.metadata.generation < generation:
            return False
        self._resized.pop(key, None)
        return True

    async def follow(self, key: Key, shadow: Shadow, pod: GuestPod) -> float | None:
        """Have a running Pod follow its ShadowPod; the seconds until another try."""
        try:
            spec = requested_spec(shadow)
        except Invalid:
            return None  # no object: nothing of it can follow
        state = podchanges.state(spec)
        brought, problem = podchanges.noted(pod.metadata.annotations.get(labels.CHANGES, ""))
        if brought == state and problem is None:
            self._refused.pop(key, None)
            return None
        refused = self._refused.get(key)
        asked = f"{pod.metadata.uid}/{shadow.metadata.generation}"
        if refused is not None and refused.asked == asked and refused.due > trio.current_time():
            pause = refused.due - trio.current_time()
            return None if pause == float("inf") else pause
        live = await self._client.find(PODS, key[1], key[0])
        if live is None or live["metadata"]["uid"] != pod.metadata.uid:
            return None
        try:
            problem, passing = await self._bring(key, spec, live)
        except Conflict:
            return LAG
        with contextlib.suppress(Conflict, NotFound):  # the pod is gone, or another
            await self._note(key, live, podchanges.note(state, problem))
        if problem is None:
            self._refused.pop(key, None)
            return None
        tries = refused.tries + 1 if refused is not None and refused.asked == asked else 1
        after = _Refused(asked, tries)
        if passing:
            after.due = trio.current_time() + self._pauses.delay(tries)
        self._refused[key] = after
        return self._pauses.delay(tries) if passing else None

    async def _bring(
        self, key: Key, asked: Json, live: Json
    ) -> tuple[PodChangeProblem | None, bool]:
        """Make each write; the result has the first refusal, and whether it may pass."""
        if self._guest_policies.problem:
            return PodChangeProblem(POLICIES_MISSING, self._guest_policies.problem), True
        try:
            wanted = pod_spec(asked, self._guests)
        except Invalid as error:
            reason = NOT_ALLOWED if isinstance(error, NotAllowed) else REFUSED
            return PodChangeProblem(reason, str(error)), False
        tried = _Tried(live["metadata"]["resourceVersion"])
        for change in podchanges.changes(live["spec"], wanted):
            write = self._one_by_one if change.subresource == EPHEMERAL else self._try
            problem = await write(key, live, change, tried)
            tried.first = tried.first or problem
        return tried.first, tried.passing

    async def _one_by_one(
        self, key: Key, live: Json, change: PodChange, tried: _Tried
    ) -> PodChangeProblem | None:
        """Add ephemeral containers each by itself: one that was requested can never be taken back,
        so one that is refused must not keep the next ones away. The first refusal."""
        first: PodChangeProblem | None = None
        taken, added = podchanges.additions(live["spec"], change)
        for one in added:
            patch = {"ephemeralContainers": [*taken, one]}
            problem = await self._try(key, live, change._replace(patch=patch), tried)
            if problem is None:
                taken.append(one)
            first = first or problem
        return first

    async def _try(
        self, key: Key, live: Json, change: PodChange, tried: _Tried
    ) -> PodChangeProblem | None:
        """Make one write; the reason if it was refused."""
        try:
            self._check(live, change)
            problem = await self._write(key, live, change, tried)
            tried.passing |= problem is not None
        except NotAllowed as error:
            return PodChangeProblem(NOT_ALLOWED, f"{change.what}: {error}")
        except Invalid as error:
            return PodChangeProblem(REFUSED, f"{change.what}: {error}")
        except NotFound as error:
            if not change.subresource:
                raise Conflict(str(error)) from error  # the pod is gone
            message = f"this cluster's API server knows no pods/{change.subresource}"
            return PodChangeProblem(UNSUPPORTED, message)
        return problem

    def _check(self, live: Json, change: PodChange) -> None:
        """Check that a pod does not grow without end: what is added stays.

        Raises:
            NotAllowed: it would.
        """
        size = len(msgspec.json.encode({**live["spec"], **change.patch}))
        if size > self._guests.max_pod_bytes:
            raise NotAllowed(f"the pod would have {size} bytes: {remedy('max_pod_bytes')}")
        if len(change.patch.get("ephemeralContainers", ())) > MOST_EPHEMERAL:
            raise NotAllowed(f"a pod has {MOST_EPHEMERAL} of them at most")

    async def _write(
        self, key: Key, live: Json, change: PodChange, tried: _Tried
    ) -> PodChangeProblem | None:
        """One write over the version that the last one left, or the reason to wait."""
        if change.subresource == RESIZE:
            # What the pod itself will be counts, regardless of its ShadowPod by now.
            verdict = self._books.grow(key, {**live["spec"], **change.patch})
            if not verdict.admitted:
                return PodChangeProblem(verdict.reason, verdict.message)
        patch = {"metadata": {"resourceVersion": tried.version}, "spec": change.patch}
        name, subresource = key[1], change.subresource
        try:
            written = await self._client.patch(PODS, name, patch, key[0], subresource=subresource)
        except Forbidden as error:
            return PodChangeProblem(REFUSED, f"{change.what}: {error}")
        if subresource == RESIZE:
            self._resized[key] = (written.metadata.uid, written.metadata.generation)
        tried.version = written.metadata.resource_version
        return None

    async def _note(self, key: Key, live: Json, note: str) -> None:
        """Record on the Pod the state that it was brought to."""
        meta = live["metadata"]
        if (meta.get("annotations") or {}).get(labels.CHANGES) == note:
            return
        noted = {"annotations": {labels.CHANGES: note}, "uid": meta["uid"]}
        await self._client.patch(PODS, key[1], {"metadata": noted}, key[0])
