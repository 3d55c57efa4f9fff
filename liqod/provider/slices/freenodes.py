"""Follows what is free on the nodes of this cluster, for consumers that may know it.

Where ``provider.show_free`` is set, all pods of the cluster that are no guests are watched for it,
with no more of each than its requests and its node; the guests are followed anyway. One sum for
each node is kept, by differences; the text for consumers is made at most once in some seconds.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS as POD_KIND
from liqod.apimachinery.rawobjects import UNREADABLE
from liqod.cluster.context import ClusterContext
from liqod.config import ProviderSettings
from liqod.errors import ConfigError
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects import quantities
from liqod.model.objects.podstatus import TERMINAL
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import freecapacity, nodesready, parts
from liqod.model.peering.quota import PODS, pod_cost
from liqod.provider.slices.readynodes import ready_nodes
from liqod.runtime.observable import Observable

K = TypeVar("K")

PLACED: Final = Selection(
    labels=labels.NO_GUEST_PODS,
    fields="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
)
"""The pods that use resources of a node, without guests: these are watched once, for all."""


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


class _Meta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class _Labels(msgspec.Struct, frozen=True):
    origin: str = msgspec.field(default="", name=labels.ORIGIN)
    node: str = msgspec.field(default="", name=labels.NODE_NAME)


class _Marks(msgspec.Struct, frozen=True):
    labels: _Labels = _Labels()


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Kept(msgspec.Struct, frozen=True):
    """A pod as an informer keeps it; its spec is read only where it is another."""

    metadata: _Marks = _Marks()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _Status = _Status()


_kept = msgspec.json.Decoder(_Kept)


class _Placed(NamedTuple):
    """A pod on a node: its requests, and the consumer and virtual node that it comes from."""

    node: str
    cost: Amounts
    guest: tuple[str, str] | None


def trim_placed(body: bytes) -> bytes:
    """Trim a pod to its requests and its node."""
    try:
        return msgspec.json.encode(msgspec.json.decode(body, type=_Pod))
    except (*UNREADABLE, msgspec.ValidationError):
        return body


class FreeNodes:
    """Follows what is free on each node.

    Args:
        nodes: follows all Nodes.
        own: follows the pods that :data:`PLACED` selects.
        guests: follows the pods that run here for consumers.
        settings: the labels to show.

    Attributes:
        text: as :func:`liqod.model.peering.freecapacity.tell`.
        each: as :func:`liqod.model.peering.freecapacity.tell_each`.
        known: whether they are made; before, nothing is known of what is free.
        users: how many have it from :func:`free_nodes`.
    """

    def __init__(
        self,
        nodes: SharedInformer,
        own: SharedInformer,
        guests: SharedInformer,
        settings: ProviderSettings,
    ) -> None:
        self.text, self.each = Observable(""), Observable("")
        self._settings = settings
        self._nodes: dict[str, dict[str, Any]] = {}
        self._used: dict[str, Amounts] = {}
        self._guests: dict[tuple[str, str], Amounts] = {}
        self._counted: dict[str, dict[str, Amounts]] = {}
        """By consumer, as of :meth:`counted`."""
        self.known = False
        self._changed, self._autoscales = True, False
        self._next = float("-inf")
        self._ready = ready_nodes(nodes)
        self._ends = [nodes.subscribe(self._on_node)]
        # A pod that becomes a guest goes from one and comes to the other, in any order.
        self._pods = own, guests
        self._ends += [each.subscribe(partial(self._on_pod, {})) for each in self._pods]
        self.users = 0

    @property
    def synced(self) -> bool:
        """True if all pods have been read."""
        return all(each.store.synced for each in self._pods)

    def close(self) -> None:
        """Follow nothing any more."""
        for end in self._ends:
            end()

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

    def _on_pod(self, known: dict[Key, _Placed], change: StoreChange) -> None:
        before = known.pop(change.key, None)
        after = _placed(change, before)
        if after is not None:
            known[change.key] = after
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


def _placed(change: StoreChange, before: _Placed | None) -> _Placed | None:
    """The pod, where it uses resources of a node; None for one that does not.

    Args:
        before: the same of what it was.
    """
    if change.new is None:
        return None
    with suppress(ConfigError, msgspec.DecodeError):
        pod = _kept.decode(change.new)
        if pod.status.phase in TERMINAL:
            return None
        if before is not None and change.old and _kept.decode(change.old).spec == pod.spec:
            node, cost = before.node, before.cost  # most changes are of the status
        else:
            spec: dict[str, Any] = msgspec.json.decode(pod.spec)
            node = spec.get("nodeName") or ""
            cost = pod_cost(spec) if node else {}
        marks = pod.metadata.labels
        guest = marks.origin, marks.node
        return _Placed(node, cost, guest if all(guest) else None) if node else None
    return None


_known: WeakKeyDictionary[SharedInformer, FreeNodes] = WeakKeyDictionary()


def followed(pods: SharedInformer) -> FreeNodes | None:
    """The one of an informer of pods, where it was made."""
    return _known.get(pods)


@asynccontextmanager
async def free_nodes(
    context: ClusterContext, nodes: SharedInformer, guests: SharedInformer
) -> AsyncIterator[FreeNodes]:
    """The one of this cluster; it ends with its last user."""
    share = context.informers.share(POD_KIND, PLACED, trim=trim_placed, wait=False)
    async with share as own:
        found = _known.get(own)
        if found is None:
            found = _known[own] = FreeNodes(nodes, own, guests, context.config.provider)
        found.users += 1
        try:
            yield found
        finally:
            found.users -= 1
            if not found.users:
                del _known[own]
                found.close()
