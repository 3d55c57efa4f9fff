"""The direct pods of one consumer: admitted while their creation waits, taken over when they go.

The API server asks before it stores one (:meth:`DirectPods.review`, by the webhook ``liqod-guests``
that fails closed): it is booked then, or refused, and its consumer falls back to a ShadowPod, which
says why it waits. Afterwards nothing is written for it here, unless somebody else than its consumer
ends it. A finalizer holds it then, for as long as nobody leads here, too, until the ShadowPod has
been made that its consumer would have written; the work goes on with that one, whether the consumer
is there or not.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, Protocol

import msgspec
import trio

from liqod.config import lends_direct
from liqod.context import GuestReview
from liqod.errors import AlreadyExists, ConfigError, Forbidden, Invalid
from liqod.inspect.events import DirectPod
from liqod.kube.cache.store import Change, Key
from liqod.kube.ending import set_finalizers
from liqod.kube.kinds import PODS
from liqod.kube.meta import Partial
from liqod.kube.queue import KeyedQueue
from liqod.kube.watched import Watched
from liqod.model import labels
from liqod.model.objects.quantities import Amounts
from liqod.model.peering.quota import pod_cost
from liqod.peer import Peer
from liqod.provider.slices.ledger import QuotaLedger
from liqod.provider.workloads import direct as rules
from liqod.provider.workloads.ending import Endings
from liqod.provider.workloads.shadow import TERMINAL, Made, is_direct
from liqod.resources import SHADOW_PODS

EXPECTATION: Final = 5.0
"""Seconds within which a pod that was admitted must be there, or it is off the books; the API
server waits for an answer for two (:data:`liqod.model.objects.webhook.TIMEOUT_SECONDS`)."""
LAPSES: Final = 3
"""How many pods may be admitted within :data:`PAUSE` and then not be stored."""
PAUSE: Final = 60.0
"""Seconds for which none is admitted after that: whoever reaches the webhook's port can ask as the
API server does, and would hold what another consumer was granted."""
ROOM: Final = 0.5
"""Seconds that a review waits for the pod of that name before to be gone from the store."""
POLL: Final = 0.02

logger = logging.getLogger(__name__)


class Mapped(Protocol):
    """The namespaces of the consumer."""

    leaving: set[str]

    def __contains__(self, name: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...


class DirectPods:
    """What is known of them beside the stores.

    Args:
        peer: the consumer.
        shadows: its ShadowPods.
        pods: the pods of guests.
        books: the consumer's ledger.
        endings: how long its pods may take to end.
        mapped: its namespaces.

    Attributes:
        queue: where a key goes that is to be reconciled.
        started: whether all that was there before has been booked.
    """

    def __init__(
        self,
        peer: Peer,
        shadows: Watched[Key],
        pods: Watched[Key],
        books: QuotaLedger,
        endings: Endings,
        mapped: Mapped,
    ) -> None:
        self._peer = peer
        self._client = peer.home.client
        self._guests = peer.home.config.guests
        self._lends = lends_direct(peer.home.config)
        self._most = rules.most_pods(peer.home.config.provider.object_quota)
        self._shadows, self._pods = shadows, pods
        self._books, self._endings = books, endings
        self._mapped = mapped
        self.queue: KeyedQueue[Key] = KeyedQueue()
        self._reviewed: set[str] = set()
        self._admitted: dict[Key, tuple[float, Amounts]] = {}
        """Until when a pod that was admitted is waited for, and what it was booked with."""
        self._fresh: set[Key] = set()
        """Pods that have not been booked as they were stored."""
        self._lapses: list[float] = []
        """When pods that were admitted have turned out not to be there."""
        self._seen: dict[Key, str] = {}
        """UIDs of pods of whose end no watch has told: a list may leave one out, and name it again
        later."""
        self._unasked: dict[Key, str] = {}
        """UIDs of pods that came without a review here: the webhook was taken away, or who led here
        a moment ago reviewed them."""
        self.started = False

    @property
    def remembered(self) -> set[Key]:
        """The keys of which something is known."""
        return {*self._admitted, *self._seen, *self._unasked}

    async def lend(self) -> NoReturn:
        """Be asked about new pods until cancelled."""
        try:
            await trio.sleep_forever()
        finally:
            for namespace in self._reviewed:
                self._peer.home.guest_reviewers.pop(namespace, None)
        raise AssertionError("it ends by cancellation only")

    def namespaces_changed(self) -> None:
        """Be asked about the consumer's namespaces, and about no others."""
        reviewers, now = self._peer.home.guest_reviewers, set(self._mapped)
        for namespace in self._reviewed - now:
            reviewers.pop(namespace, None)
        for namespace in now - self._reviewed:
            reviewers[namespace] = self.review
        self._reviewed = now

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """What is told meanwhile was there before: it is asked of nobody."""
        started, self.started = self.started, False
        try:
            yield
        finally:
            self.started = started

    def changed(self, change: Change) -> None:
        """Take in what happened to a pod of the consumer's namespaces."""
        body = change.new or change.old
        if body is None:
            return
        pod = msgspec.json.decode(body, type=Made)
        if not is_direct(pod):
            return
        key, uid = change.key, pod.metadata.uid
        if change.new is None:
            self._unasked.pop(key, None)
            if not change.listed:
                self._seen.pop(key, None)
        elif change.old is None:
            # What was there at the start was admitted by whoever worked before.
            asked = self._admitted.pop(key, None) is not None or self._seen.get(key) == uid
            if self.started and not asked:
                self._unasked[key] = uid
            self._seen[key] = uid
            self._fresh.add(key)

    async def review(self, asked: GuestReview) -> str:
        """Why a direct pod is not lent what it asks for; empty where it may be stored.

        It is booked at once, so that the next one asks for what is left.
        """
        key = (asked.namespace, asked.name)
        if not self._lends or not self.started or key[0] not in self._mapped:
            return "no pods are taken here without a ShadowPod"
        fence = self._peer.home.fence
        if fence.problem or not fence.known:
            return fence.problem or "it is not known whether the policies that hold guests are here"
        if self._is_paused():
            return "too many pods were let in of late and never stored"
        try:
            pod, cost = self._checked(asked.pod, asked.user)
        except (ConfigError, Invalid) as error:
            return str(error)
        if not await self._is_free(key):
            return "there is something of that name already"
        if asked.dry_run:
            return ""
        if key in self._admitted:
            # Asked again since another webhook changed it; or two of one name are on their way.
            same = self._admitted[key][1] == cost
            return "" if same else "another pod of that name is about to be stored"
        # No checkpoint from here on: what is asked meanwhile has to see what is booked.
        if self._is_full(key[0]):
            return (
                f"{key[0]} has {self._most} pods, and may have no more: see provider.object_quota"
            )
        refusal = self._book(key, pod)
        if refusal:
            return refusal
        self._admitted[key] = (trio.current_time() + EXPECTATION, cost)
        self.queue.add(key, after=EXPECTATION)
        return ""

    def _checked(self, body: bytes, user: str | None) -> tuple[Made, Amounts]:
        """A pod that may run here as it is, and what it costs.

        Args:
            body: the pod as JSON.
            user: who creates it; None where that is not known any more.

        Raises:
            ConfigError, Invalid: it may not.
        """
        try:
            pod = msgspec.json.decode(body, type=Made)
        except msgspec.ValidationError as error:
            raise Invalid(f"this is no pod: {error}") from error
        if user is None:
            user = pod.metadata.labels.get(labels.CREATOR_USER, "")
        spec = rules.read_spec(pod)
        rules.check(pod, spec, self._guests, self._peer.id, user, len(body))
        return pod, pod_cost(spec)

    def _book(self, key: Key, pod: Made) -> str:
        """Book a pod, or say why it is not lent what it asks for."""
        verdict = self._books.ask(key, rules.as_shadow(pod))
        if verdict.admitted:
            return ""
        self._books.release(key)
        return f"{verdict.reason}: {verdict.message}"

    def _is_full(self, namespace: str) -> bool:
        """Whether a namespace has as many pods as it may have ShadowPods, whatever is granted."""
        if self._most is None:
            return False
        stores = (self._shadows.store, self._pods.store)
        found = [each.indexed("namespace", namespace) for each in stores]
        if sum(map(len, found)) + len(self._admitted) < self._most:
            return False
        # A pod and its ShadowPod have one name.
        coming = (key for key in self._admitted if key[0] == namespace)
        return len(set().union(*found, coming)) >= self._most

    async def _is_free(self, key: Key) -> bool:
        """Whether nothing has that name: who replaces a pod may know of its end before we do."""
        deadline = trio.current_time() + ROOM
        while key not in self._shadows.store:
            booked = self._books.holds(key) and key not in self._admitted
            if key not in self._pods.store and not booked:
                return True
            if trio.current_time() >= deadline:
                return False
            await trio.sleep(POLL)
        return False

    def concerns(self, key: Key, pod: Made | None) -> bool:
        """Whether a key without a ShadowPod is a direct pod's."""
        return key in self._admitted if pod is None else is_direct(pod)

    async def reconcile(self, key: Key, pod: Made | None) -> float | None:
        """Reconcile a key that has no ShadowPod; the seconds until it is to be again."""
        admitted = self._admitted.get(key)
        if pod is None and admitted is not None:
            return await self._expected(key, *admitted)
        if pod is None or key[0] not in self._mapped:
            self._forget(key)
            return None
        going = pod.metadata.deletion_timestamp is not None
        unasked = self._unasked.get(key) == pod.metadata.uid and not going
        refusal = await self._review_late(key, pod) if unasked else ""
        if pod.status.phase not in TERMINAL:
            self._books.hold(key, pod, again=key in self._fresh)
            self._fresh.discard(key)
        else:
            self._release(key)
        if refusal:
            self._peer.report(DirectPod(namespace=key[0], pod=key[1], action="deleted"))
            logger.error("pod %s/%s came without a review, and goes: %s", *key, refusal)
            await self._client.delete(PODS, key[1], key[0], uid=pod.metadata.uid)
            return None
        if self._endings.lingers(key, pod):
            grace = self._endings.grace(key, pod)
            await self._client.delete(PODS, key[1], key[0], uid=pod.metadata.uid, grace=grace)
        ended = rules.parted(pod) or self._unasked.get(key) == pod.metadata.uid
        if going and (ended or key[0] in self._mapped.leaving):
            await self.let_go(pod)
        elif not ended and (rules.is_held(pod) or not (going or self._lends)):
            await self._take_over(key, pod)
        return None

    async def _review_late(self, key: Key, pod: Made) -> str:
        """Why a pod that came unreviewed may not stay; it is on the books otherwise.

        Whoever led here before may have admitted it a moment before it was stored.
        """
        live = await self._client.find(PODS, key[1], key[0])
        if live is None or live["metadata"]["uid"] != pod.metadata.uid:
            return ""
        try:
            whole, _ = self._checked(rules.as_written(live), None)
        except (ConfigError, Invalid) as error:
            return str(error)
        refusal = self._book(key, whole)
        if not refusal:
            self._unasked.pop(key, None)
        return refusal

    async def _expected(self, key: Key, until: float, cost: Amounts) -> float | None:
        """A pod that was admitted is not in the store yet, or was not stored after all."""
        remaining = until - trio.current_time()
        if remaining > 0:
            return remaining
        if await self._client.find(PODS, key[1], key[0], decode=Partial) is not None:
            self._admitted[key] = (trio.current_time() + EXPECTATION, cost)
            return EXPECTATION
        self._lapses = [*self._lapses[1 - LAPSES :], trio.current_time()]
        self._forget(key)
        return None

    def _is_paused(self) -> bool:
        """Whether so many were admitted and not stored that questions are not believed now."""
        latest = trio.current_time() - PAUSE
        return len(self._lapses) == LAPSES and self._lapses[0] > latest

    async def _take_over(self, key: Key, pod: Made) -> None:
        """Make the ShadowPod of a pod that its consumer did not end, before anybody lets go of it.

        Where it is refused, in a namespace that is about to go for one, the pod goes all the same.
        """
        live: dict[str, Any] | None = await self._client.find(PODS, key[1], key[0])
        if live is None or live["metadata"]["uid"] != pod.metadata.uid:
            return
        try:
            await self._client.create(SHADOW_PODS, rules.shadow_of(live), key[0])
        except AlreadyExists:
            return  # its consumer was faster; the watch tells
        except (Forbidden, Invalid) as error:
            logger.warning("pod %s/%s is not made again: %s", *key, error)
            await self.let_go(pod)
            return
        self._peer.report(DirectPod(namespace=key[0], pod=key[1], action="taken over"))

    async def let_go(self, pod: Made) -> None:
        """Take our finalizer off a pod that is going."""
        held = (labels.FINALIZER_DIRECT_POD,)
        await set_finalizers(self._client, PODS, pod.metadata, remove=held)

    def _release(self, key: Key) -> None:
        if self._books.release(key):
            for ready in self._books.ready():
                self.queue.add(ready)

    def _forget(self, key: Key) -> None:
        self._admitted.pop(key, None)
        self._seen.pop(key, None)
        self._fresh.discard(key)
        self._unasked.pop(key, None)
        self._endings.forget(key)
        self._release(key)
