"""Sums the requests of the pods on a virtual node: of those that wait there, and of the others.

A scheduler counts every pod that is bound to a node, and so those that only wait at the peer, since
no node there has room for them. The
virtual node's allocatable is raised by their sum, so that smaller pods come all the same: where the
peer has such pods give way (:mod:`liqod.provider.slices.quotas`), which it says in its rules.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
import trio

from liqod.errors import ConfigError
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.cache.store import Key
from liqod.model.objects import quantities
from liqod.model.objects.podsight import waits_there
from liqod.model.objects.podstatus import TERMINAL
from liqod.model.objects.quantities import Amounts
from liqod.model.peering.quota import pod_cost


# Read at each change of a pod that may start, so this is no Pod.
class _Status(msgspec.Struct):
    phase: str = ""
    reason: str = ""


class _Waiting(msgspec.Struct):
    spec: dict[str, Any] = {}
    status: _Status = msgspec.field(default_factory=_Status)


_waiting = msgspec.json.Decoder(_Waiting)


SETTLES: Final = 30.0
"""Seconds until a pod that was sent is taken to be in what the peer says is free: it says so every
few seconds, and would be believed never again where it does not count such a pod at all."""


class PendingPods:
    """Sums the requests of the pods on one virtual node that wait at the peer.

    Args:
        node: its name.

    Attributes:
        waiting: the sum of those.
        settled: the sum of those that do not wait, and were sent :data:`SETTLES` ago.
        running: the sum of those that run.
        stay: whether there are any that do not wait.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._informer: SharedInformer | None = None
        self._end: Callable[[], None] | None = None
        self._changed: set[Key] = set()
        self._sent: dict[Key, float] = {}
        """The pods that are not settled, and when each was first seen on the node."""
        self._costs: dict[Key, tuple[Amounts, _Status]] = {}
        """The requests of each pod, and its status."""
        self.waiting: Amounts = {}
        self.settled: Amounts = {}
        self.running: Amounts = {}
        self.stay = False

    def follow(self, informer: SharedInformer | None) -> None:
        """Follow the pods of an informer; None for none."""
        if informer is self._informer:
            return
        if self._end is not None:
            self._end()
        self._informer, self._end = informer, None
        self._changed.update(self._costs)
        self._sent = {}
        if informer is not None:
            self._end = node_index(informer).follow(self._node, self._note)
            self._sent = {}  # what is there now was sent before anybody counted

    def refresh(self) -> None:
        """Compute the sums anew; only pods that have changed since the last time are read."""
        changed, self._changed = self._changed, set()
        now = trio.current_time()
        settled = [key for key, sent in self._sent.items() if now - sent >= SETTLES]
        for key in settled:
            del self._sent[key]
        if not changed and not settled:
            return
        for key in changed:
            self._costs.pop(key, None)
            cost = self._cost(key)
            if cost is not None:
                self._costs[key] = cost
            else:
                self._sent.pop(key, None)
        costs = self._costs.values()
        self.waiting = quantities.total(
            cost for cost, now in costs if waits_there(now.phase, now.reason)
        )
        self.stay = any(not waits_there(now.phase, now.reason) for _, now in costs)
        self.running = quantities.total(cost for cost, now in costs if now.phase == "Running")
        self.settled = quantities.total(
            cost
            for key, (cost, now) in self._costs.items()
            if key not in self._sent and not waits_there(now.phase, now.reason)
        )

    def _note(self, key: Key) -> None:
        known = key in self._costs or key in self._changed
        self._changed.add(key)
        if not known and self._informer is not None and self._informer.store.synced:
            self._sent[key] = trio.current_time()

    def _cost(self, key: Key) -> tuple[Amounts, _Status] | None:
        """The requests of a pod, and its status; None for one that is not there, or ended."""
        informer = self._informer
        if informer is None or not node_index(informer).holds(self._node, key):
            return None
        with suppress(msgspec.DecodeError, ConfigError):
            pod = _waiting.decode(informer.store.get(key) or b"{}")
            if pod.status.phase not in TERMINAL:
                return pod_cost(pod.spec), pod.status
        return None
