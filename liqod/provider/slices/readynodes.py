"""Follows the readiness and the capacity of the nodes that this cluster lends.

Consumers learn of nodes that are not Ready, and of a grant that is more than all of them have.
"""

from typing import Final
from weakref import WeakKeyDictionary

import msgspec
import trio

from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.model.objects import conditions
from liqod.model.objects.partial import Node
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import capacity, nodesready
from liqod.runtime.observable import Observable

SHRINKS: Final = 600.0
"""Seconds for which a machine that became smaller counts as before, at the least."""

_node = msgspec.json.Decoder(Node)


class ReadyNodes:
    """Follows the readiness of this cluster's own nodes, as reported to consumers.

    Args:
        informer: follows all Nodes.

    Attributes:
        word: as :func:`liqod.model.peering.nodesready.word`.
        cordoned: whether all nodes that are Ready are cordoned.
        scaled: whether any is as :func:`liqod.model.peering.nodesready.is_scaled`.
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
        self._amounts: dict[str, Amounts] = {}
        self._before: list[tuple[float, Amounts]] = []
        """Machines that became smaller, or went, and until when they count (Trio time)."""
        informer.subscribe(self._on_node)

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
        self.scaled.set(bool(self._scaled))
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
