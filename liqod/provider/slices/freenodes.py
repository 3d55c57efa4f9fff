"""Follows what is free on the nodes of this cluster, for consumers that may know it.

All pods of the cluster are watched for it, with no more of each than its requests, its node and, of
a guest, the virtual node that it comes from:
only where ``provider.show_free`` is set. One sum for each node is kept, by differences; the text
for consumers is made at most once in some seconds.
"""

from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.rawobjects import UNREADABLE
from liqod.config import ProviderSettings
from liqod.errors import ConfigError
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import freecapacity, nodesready, parts
from liqod.model.peering.quota import PODS, pod_cost
from liqod.provider.slices.readynodes import ready_nodes
from liqod.runtime.observable import Observable

K = TypeVar("K")

PLACED: Final = Selection(
    fields="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
)
"""The pods that use resources of a node."""


class _Container(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    resources: dict[str, Any] | None = None
    restart_policy: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] | None = None
    overhead: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    node_name: str = ""


class _Labels(msgspec.Struct, frozen=True, omit_defaults=True):
    origin: str = msgspec.field(default="", name=labels.ORIGIN)
    node: str = msgspec.field(default="", name=labels.NODE_NAME)


class _Meta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: _Labels | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class _Placed(NamedTuple):
    """A pod on a node: its requests, and the consumer and virtual node that it comes from."""

    node: str
    cost: Amounts
    guest: tuple[str, str] | None


def trim_placed(body: bytes) -> bytes:
    """Trim a pod to its requests, its node, and the virtual node that it comes from."""
    try:
        pod = msgspec.json.decode(body, type=_Pod)
        if pod.metadata.labels == _Labels():
            meta = msgspec.structs.replace(pod.metadata, labels=None)
            pod = msgspec.structs.replace(pod, metadata=meta)
        return msgspec.json.encode(pod)
    except (*UNREADABLE, msgspec.ValidationError):
        return body


class FreeNodes:
    """Follows what is free on each node.

    Args:
        nodes: follows all Nodes.
        pods: follows the pods that :data:`PLACED` selects.
        settings: the labels to show.

    Attributes:
        text: as :func:`liqod.model.peering.freecapacity.tell`.
        each: as :func:`liqod.model.peering.freecapacity.tell_each`.
        known: whether they are made; before, nothing is known of what is free.
    """

    def __init__(
        self, nodes: SharedInformer, pods: SharedInformer, settings: ProviderSettings
    ) -> None:
        self.text, self.each = Observable(""), Observable("")
        self._settings = settings
        self._nodes: dict[str, dict[str, Any]] = {}
        self._pods: dict[Key, _Placed] = {}
        self._used: dict[str, Amounts] = {}
        self._guests: dict[tuple[str, str], Amounts] = {}
        self._counted: dict[str, dict[str, Amounts]] = {}
        """By consumer, as of :meth:`counted`."""
        self.known = False
        self._changed, self._autoscales = True, False
        self._next = float("-inf")
        self._ready = ready_nodes(nodes)
        nodes.subscribe(self._on_node)
        pods.subscribe(self._on_pod)

    def refresh(self, pause: float) -> None:
        """Make the text anew, where something has changed and the last one is old enough.

        Args:
            pause: seconds that it stays at least.
        """
        now, said = trio.current_time(), self._settings.autoscales
        autoscales = nodesready.adds_nodes(said, scaled=self._ready.scaled.now)
        changed = self._changed or autoscales is not self._autoscales
        if not changed or now < self._next:
            return
        self._changed, self._next, self.known = False, now + pause, True
        self._autoscales = autoscales
        found = []
        for name, node in self._nodes.items():
            with suppress(ConfigError):
                free = freecapacity.free_node(node, self._used.get(name, {}))
                if free is not None:
                    found.append(free)
        shown = self._settings.show_labels
        self._counted = {}
        for (consumer, virtual), amounts in self._guests.items():
            self._counted.setdefault(consumer, {})[virtual] = amounts
        self.text.set(freecapacity.tell(found, shown, autoscales=autoscales))
        self.each.set(freecapacity.tell_each(found, shown, autoscales=autoscales))

    def told(self, consumer: str, slice_name: str, mode: str = parts.WHOLE) -> str:
        """The text for one slice of a consumer's, with its own pods that are counted.

        Args:
            consumer: its id.
            slice_name: the name of the slice, and of the virtual node that stands for all of it.
            mode: the virtual nodes that it asks for.
        """
        mine = self.counted(consumer)
        own = mine.get(slice_name, {})
        if mode == parts.WHOLE:
            return freecapacity.for_slice(self.text.now, own)
        counted = {
            key: each.get(PODS, 0) // quantities.NANO
            for node, each in mine.items()
            if (key := parts.key_in(node, slice_name))
        }
        most = dict(sorted(counted.items())[: parts.MOST_PARTS[mode]])
        text = self.each.now if mode == parts.NODES else self.text.now
        return freecapacity.for_slice(text, own, most)

    def counted(self, consumer: str) -> dict[str, Amounts]:
        """The requests of a consumer's pods that the text is made of, by virtual node."""
        return self._counted.get(consumer, {})

    def _on_node(self, change: StoreChange) -> None:
        self._changed = True
        self._nodes.pop(change.key[1], None)
        if change.new is not None:
            self._nodes[change.key[1]] = msgspec.json.decode(change.new)

    def _on_pod(self, change: StoreChange) -> None:
        before = self._pods.pop(change.key, None)
        after = None if change.new is None else _placed(change.new)
        if after is not None:
            self._pods[change.key] = after
        if before == after:
            return
        self._changed = True
        for found, sign in ((before, -1), (after, 1)):
            if found is not None:
                _add(self._used, found.node, found.cost, sign)
                if found.guest is not None:
                    _add(self._guests, found.guest, found.cost, sign)


def _add(sums: dict[K, Amounts], key: K, cost: Amounts, sign: int) -> None:
    more = {name: sign * amount for name, amount in cost.items()}
    found = quantities.total([sums.pop(key, {}), more])
    if left := {name: amount for name, amount in found.items() if amount}:
        sums[key] = left


def _placed(body: bytes) -> _Placed | None:
    """The pod, where it has a node; None for one without."""
    with suppress(ConfigError, msgspec.DecodeError):
        pod: dict[str, Any] = msgspec.json.decode(body)
        spec = pod.get("spec") or {}
        if spec.get("nodeName"):
            marks = (pod.get("metadata") or {}).get("labels") or {}
            guest = marks.get(labels.ORIGIN, ""), marks.get(labels.NODE_NAME, "")
            return _Placed(spec["nodeName"], pod_cost(spec), guest if all(guest) else None)
    return None


_known: WeakKeyDictionary[SharedInformer, FreeNodes] = WeakKeyDictionary()


def followed(pods: SharedInformer) -> FreeNodes | None:
    """The one of an informer of pods, where it was made."""
    return _known.get(pods)


def free_nodes(
    nodes: SharedInformer, pods: SharedInformer, settings: ProviderSettings
) -> FreeNodes:
    """The one of an informer of pods; it lives as long as that."""
    found = _known.get(pods)
    if found is None:
        found = _known[pods] = FreeNodes(nodes, pods, settings)
    return found
