"""Follows what is free on the nodes of this cluster, for consumers that may know it.

All pods of the cluster are watched for it, with no more of each than its requests and its node:
only where ``provider.show_free`` is set. One sum for each node is kept, by differences; the text
for consumers is made at most once in some seconds.
"""

from contextlib import suppress
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
import trio

from liqod.apimachinery.rawobjects import UNREADABLE
from liqod.config import ProviderSettings
from liqod.errors import ConfigError
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import freecapacity
from liqod.model.peering.quota import pod_cost
from liqod.runtime.observable import Observable

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


class _Meta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


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
        pods: follows the pods that :data:`PLACED` selects.
        settings: the labels to show.

    Attributes:
        text: as :func:`liqod.model.peering.freecapacity.tell`.
    """

    def __init__(
        self, nodes: SharedInformer, pods: SharedInformer, settings: ProviderSettings
    ) -> None:
        self.text = Observable("")
        self._settings = settings
        self._nodes: dict[str, dict[str, Any]] = {}
        self._pods: dict[Key, tuple[str, Amounts]] = {}
        self._used: dict[str, Amounts] = {}
        self._changed = False
        self._next = float("-inf")
        nodes.subscribe(self._on_node)
        pods.subscribe(self._on_pod)

    def refresh(self, pause: float) -> None:
        """Make the text anew, where something has changed and the last one is old enough.

        Args:
            pause: seconds that it stays at least.
        """
        now = trio.current_time()
        if not self._changed or now < self._next:
            return
        self._changed, self._next = False, now + pause
        found = []
        for name, node in self._nodes.items():
            with suppress(ConfigError):
                free = freecapacity.free_node(node, self._used.get(name, {}))
                if free is not None:
                    found.append(free)
        settings = self._settings
        text = freecapacity.tell(found, settings.show_labels, autoscales=settings.autoscales)
        self.text.set(text)

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
                self._add(*found, sign)

    def _add(self, node: str, cost: Amounts, sign: int) -> None:
        used = self._used.setdefault(node, {})
        sums = quantities.total([used, {name: sign * amount for name, amount in cost.items()}])
        self._used[node] = {name: amount for name, amount in sums.items() if amount}
        if not self._used[node]:
            del self._used[node]


def _placed(body: bytes) -> tuple[str, Amounts] | None:
    """The node and the requests of a pod; None for one without."""
    with suppress(ConfigError, msgspec.DecodeError):
        pod: dict[str, Any] = msgspec.json.decode(body)
        spec = pod.get("spec") or {}
        if spec.get("nodeName"):
            return spec["nodeName"], pod_cost(spec)
    return None


_known: WeakKeyDictionary[SharedInformer, FreeNodes] = WeakKeyDictionary()


def free_nodes(
    nodes: SharedInformer, pods: SharedInformer, settings: ProviderSettings
) -> FreeNodes:
    """The one of an informer of pods; it lives as long as that."""
    found = _known.get(pods)
    if found is None:
        found = _known[pods] = FreeNodes(nodes, pods, settings)
    return found
