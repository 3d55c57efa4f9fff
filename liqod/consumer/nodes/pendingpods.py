"""Sums the requests of the pods on a virtual node: of those that wait there, and of the others.

Sums are kept by differences, as thousands of pods may come at once.

A scheduler counts every pod that is bound to a node, and so those that only wait at the peer, since
no node there has room for them. The
virtual node's allocatable is raised by their sum, so that smaller pods come all the same: where the
peer has such pods give way (:mod:`liqod.provider.slices.quotas`), which it says in its rules.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn

import msgspec
import trio

from liqod.consumer.timings import ConsumerTimings
from liqod.errors import ConfigError
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.cache.store import Key
from liqod.model.objects import quantities
from liqod.model.objects.podsight import waits_there
from liqod.model.objects.podstatus import TERMINAL
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import freecapacity
from liqod.model.peering.quota import PODS, pod_cost


# Read at each change of a pod that may start, so this is no Pod.
class _Status(msgspec.Struct):
    phase: str = ""
    reason: str = ""


class _Waiting(msgspec.Struct):
    spec: dict[str, Any] = {}
    status: _Status = msgspec.field(default_factory=_Status)


_waiting = msgspec.json.Decoder(_Waiting)


SETTLES: Final = 30.0
"""Seconds of the peer's daemon until a pod that was sent is taken to be in what the peer says is
free: it says so every few seconds, and would be believed never again where it does not count such a
pod at all. While that daemon is not known to run, or counts fewer pods than run there, its last
word includes nothing more."""


def _always() -> tuple[float, float]:
    return float("-inf"), trio.current_time()


class _Counted(NamedTuple):
    """A pod on the node: its requests, those that a peer tells room for, and whether it waits at
    the peer, or runs."""

    cost: Amounts
    measured: Amounts
    waits: bool
    runs: bool


MOST_SENT: Final = 256
"""Rows of equal pods that are not settled and are told one by one."""


class PendingPods:
    """Sums the requests of the pods on one virtual node that wait at the peer.

    Args:
        node: its name.
        heard: Trio times from which and until which the peer's words surely came.
        counted: the number of pods that its last word includes, by itself; None if it tells none.

    Attributes:
        waiting: the sum of those.
        settled: the sum of those that do not wait, and were first seen :data:`SETTLES` ago.
        running: the sum of those that run.
        held: the sum of all that do not wait.
        placed: their number.
        sent: those of them that are not settled, the last one first: requests of CPU, memory and
            devices, and how many in a row are equal; none where nobody asks for any.
        came: is set when another pod has come; a new one is made by :meth:`refresh`.
    """

    def __init__(
        self,
        node: str,
        heard: Callable[[], tuple[float, float]] = _always,
        counted: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._node, self._heard, self._told = node, heard, counted
        self._informer: SharedInformer | None = None
        self._end: Callable[[], None] | None = None
        self._changed: set[Key] = set()
        self._sent: dict[Key, float] = {}
        """The pods that are not settled and when each was first seen here, in that order."""
        self._pods: dict[Key, _Counted] = {}
        self._forget()
        self.came = trio.Event()

    def _forget(self) -> None:
        self.waiting, self.settled = Amounts(), Amounts()
        self.running, self.held = Amounts(), Amounts()
        self.placed = 0
        self.sent: tuple[tuple[Amounts, int], ...] = ()

    @property
    def stay(self) -> bool:
        """True if there are any that do not wait."""
        return self.placed > 0

    async def keep(
        self,
        find: Callable[[], SharedInformer | None],
        places_told: Callable[[], bool],
        changed: Callable[[], None],
        timings: ConsumerTimings,
    ) -> NoReturn:
        """Follow the pods, and keep the sums.

        Args:
            find: the informer of the pods, where there is one now.
            places_told: whether the peer tells of places for pods, which what is sent takes at
                once.
            changed: called where the sums are others, or other pods are not settled.
            timings: how often that may be.
        """
        every = timings.waiting_every
        pace = min(timings.sent_pause, every)
        never, sent, due = trio.Event(), self.sent, trio.current_time()
        sums: tuple[Amounts, Amounts] = ({}, {})
        try:
            while True:
                self.follow(find())
                self.refresh()
                now = trio.current_time()
                if now >= due:  # sums change with each pod, and are not as urgent
                    due, before, sums = now + every, sums, (self.waiting, self.settled)
                    if sums != before:
                        changed()
                if self.sent != sent:
                    sent = self.sent
                    changed()
                await trio.sleep(pace)
                with trio.move_on_at(due):
                    await (self.came if places_told() else never).wait()
        finally:
            self.follow(None)

    def follow(self, informer: SharedInformer | None) -> None:
        """Follow the pods of an informer; None for none."""
        if informer is self._informer:
            return
        if self._end is not None:
            self._end()
        self._informer, self._end = informer, None
        self._changed, self._sent, self._pods = set(), {}, {}
        self._forget()
        if informer is not None:
            self._end = node_index(informer).follow(self._node, self._note)

    def refresh(self) -> None:
        """Compute the sums anew; only pods that have changed since the last time are read."""
        changed, self._changed = self._changed, set()
        if self.came.is_set():
            self.came = trio.Event()
        for key in changed:
            self._add(key, -1)
            self._pods.pop(key, None)
            pod = self._counted(key)
            if pod is not None:
                self._pods[key] = pod
                self._add(key, 1)
            else:
                self._sent.pop(key, None)
        settled = self._newly_settled()
        for key in settled:
            self._add(key, -1)
            del self._sent[key]
            self._add(key, 1)
        if changed or settled:
            self.sent = tuple(self._rows())

    def _newly_settled(self) -> list[Key]:
        (since, until), settled = self._heard(), []
        for key, sent in self._sent.items():
            if until - max(sent, since) < SETTLES:
                break  # they are in the order in which they came
            settled.append(key)
        return [] if settled and self._outruns(self._told()) else settled

    def _outruns(self, counted: int | None) -> bool:
        """True if more pods run at the peer than its word includes: so that is from before."""
        return counted is not None and counted < self.running.get(PODS, 0) // quantities.NANO

    def _add(self, key: Key, sign: int) -> None:
        """Add a pod to the sums, or take it off."""
        pod = self._pods.get(key)
        if pod is None:
            return
        if pod.waits:
            self.waiting = _changed(self.waiting, pod.cost, sign)
            return
        self.placed += sign
        self.held = _changed(self.held, pod.cost, sign)
        if pod.runs:
            self.running = _changed(self.running, pod.cost, sign)
        if key not in self._sent:
            self.settled = _changed(self.settled, pod.cost, sign)

    def _rows(self) -> list[tuple[Amounts, int]]:
        rows: list[tuple[Amounts, int]] = []
        for key in reversed(self._sent):
            pod = self._pods.get(key)
            if pod is None or pod.waits:
                continue
            if rows and rows[-1][0] == pod.measured:
                rows[-1] = pod.measured, rows[-1][1] + 1
            elif len(rows) == MOST_SENT:
                break
            else:
                rows.append((pod.measured, 1))
        return rows if any(any(cost.values()) for cost, _ in rows) else []

    def _note(self, key: Key) -> None:
        known = key in self._pods or key in self._changed
        self._changed.add(key)
        if not known:  # one that is there at the start may have been sent just before
            self._sent[key] = trio.current_time()
            self.came.set()

    def _counted(self, key: Key) -> _Counted | None:
        """A pod as it counts; None for one that is not there, or ended."""
        informer = self._informer
        if informer is None or not node_index(informer).holds(self._node, key):
            return None
        with suppress(msgspec.DecodeError, ConfigError):
            pod = _waiting.decode(informer.store.get(key) or b"{}")
            now = pod.status
            if now.phase not in TERMINAL:
                cost, waits = pod_cost(pod.spec), waits_there(now.phase, now.reason)
                measured = {name: cost[name] for name in freecapacity.measured(cost)}
                return _Counted(cost, measured, waits, now.phase == "Running")
        return None


def _changed(sums: Amounts, cost: Amounts, sign: int) -> Amounts:
    """Sums with a pod more, or less; what others have of them stays as it is."""
    changed = dict(sums)
    for name, amount in cost.items():
        changed[name] = changed.get(name, 0) + sign * amount
        if not changed[name]:
            del changed[name]
    return changed
