"""Follows the readiness and the capacity of the nodes that this cluster lends.

Consumers learn of nodes that are not Ready, of a grant that is more than all of them have, and that
an autoscaler adds more.
"""

from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import LiqodError
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.model.objects import conditions
from liqod.model.objects.partial import Node
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import capacity, nodesready
from liqod.runtime.observable import Observable

SHRINKS: Final = 600.0
"""Seconds for which a machine that became smaller counts as before, at the least."""

STATUS: Final = "cluster-autoscaler-status"
"""The ConfigMap that the cluster autoscaler writes every few seconds, where it is told to as by
default."""
SYSTEM: Final = "kube-system"
LOOKS_EVERY: Final = 120.0
"""Seconds between looks at it. One that has not changed meanwhile is left from an autoscaler that
does not run any more."""

_node = msgspec.json.Decoder(Node)


class _Status(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class ReadyNodes:
    """Follows the readiness of this cluster's own nodes, as reported to consumers.

    Args:
        informer: follows all Nodes.

    Attributes:
        word: as :func:`liqod.model.peering.nodesready.word`.
        cordoned: whether all nodes that are Ready are cordoned.
        scaled: whether any is as :func:`liqod.model.peering.nodesready.is_scaled`, or the cluster
            autoscaler says that it may add more.
        has: as :func:`liqod.model.peering.capacity.of_nodes`.
        machines: as :func:`liqod.model.peering.capacity.largest_machines`.
    """

    def __init__(self, informer: SharedInformer) -> None:
        self.word = Observable("")
        self.cordoned = Observable(False)
        self.scaled = Observable(False)
        self.has: Observable[Amounts] = Observable({})
        self.machines: Observable[tuple[Amounts, ...]] = Observable(())
        self._ready: dict[str, bool] = {}
        self._schedulable: dict[str, bool] = {}
        """Of each node that is Ready, whether it takes pods."""
        self._scaled: set[str] = set()
        self._may_grow = False
        self._status_version = ""
        self._look_due = float("-inf")
        self._amounts: dict[str, Amounts] = {}
        self._before: list[tuple[float, Amounts]] = []
        """Machines that became smaller, or went, and until when they count (Trio time)."""
        informer.subscribe(self._on_node)

    async def look(self, client: Client) -> None:
        """Read the status of the cluster autoscaler, where that is due; of one that cannot be read
        nothing new is known."""
        now = trio.current_time()
        if now < self._look_due:
            return
        self._look_due = now + LOOKS_EVERY
        with suppress(LiqodError):
            found = await client.find(CONFIG_MAPS, STATUS, SYSTEM, decode=_Status)
            version = "" if found is None else found.metadata.resource_version
            before, self._status_version = self._status_version, version
            grows = found is not None and nodesready.may_grow(found.data.get("status", ""))
            self._may_grow = grows and version != before
            self.scaled.set(bool(self._scaled) or self._may_grow)

    def _on_node(self, change: StoreChange) -> None:
        name = change.key[1]
        self._ready.pop(name, None)
        self._schedulable.pop(name, None)
        self._scaled.discard(name)
        had = self._amounts.pop(name, {})
        amounts: Amounts = {}
        node = None if change.new is None else _read(change.new)
        if node is not None and not capacity.is_virtual(node):
            if nodesready.is_scaled(node.metadata.labels):
                self._scaled.add(name)
            self._ready[name] = conditions.holds(node.status.conditions, "Ready")
            if self._ready[name]:
                self._schedulable[name] = not node.spec.unschedulable
            amounts = self._amounts[name] = capacity.of_nodes([node])
        self.word.set(nodesready.word(self._ready.values()))
        self.cordoned.set(nodesready.all_cordoned(self._schedulable.values()))
        self.scaled.set(bool(self._scaled) or self._may_grow)
        if amounts != had:
            # By the difference: all nodes together are many, and come one by one.
            self.has.set(_changed(self.has.now, had, amounts))
            self.machines.set(self._largest(had, amounts))

    def _largest(self, had: Amounts, amounts: Amounts) -> tuple[Amounts, ...]:
        """The largest machines after a change of one; a smaller one counts as before for a while.

        A node that starts anew has no devices for a moment, and consumers go by these for good.
        """
        if not had:
            return capacity.largest_machines((*self.machines.now, amounts))
        now = trio.current_time()
        self._before = [each for each in self._before if each[0] > now]
        self._before.append((now + SHRINKS, had))
        shrunk = (each for _, each in self._before)
        return capacity.largest_machines((*self._amounts.values(), *shrunk))


def _changed(has: Amounts, less: Amounts, more: Amounts) -> Amounts:
    """A sum in which a node changed; without resources of which nothing is left."""
    names = (*has, *(name for name in more if name not in has))
    sums = {name: has.get(name, 0) - less.get(name, 0) + more.get(name, 0) for name in names}
    return {name: amount for name, amount in sums.items() if amount}


def _read(body: bytes) -> Node | None:
    try:
        return _node.decode(body)
    except msgspec.DecodeError:
        return None


_known: WeakKeyDictionary[SharedInformer, ReadyNodes] = WeakKeyDictionary()


def ready_nodes(informer: SharedInformer) -> ReadyNodes:
    """The one of an informer; it lives as long as that."""
    found = _known.get(informer)
    if found is None:
        found = _known[informer] = ReadyNodes(informer)
    return found
