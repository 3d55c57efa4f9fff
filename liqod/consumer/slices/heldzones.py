"""Holds back the zones and regions of virtual nodes by which pods of this cluster would wait.

A scheduler counts a virtual node's zone also for pods that may not run there
(:mod:`liqod.model.objects.spreading`). So while there is such a pod the Node does not have the
label of its zone; so it is with its region, unless a node of this cluster is in that region too:
then it is no further one. The VirtualNode has both all the same: cluster selectors go by that, and
nothing that is offloaded by a zone ends. Pods are followed only where a peer's zone or region may
be shown at all.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import chain
from math import inf
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.config import PeerSettings
from liqod.consumer.nodes.nodeplan import USUAL_LABELS
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.selection import Selection
from liqod.model.crossing.allowedkeys import key_allowed
from liqod.model.objects import spreading

Json = dict[str, Any]

PODS_HERE: Final = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
"""The pods for which a scheduler looks for a node, or has."""
MOST_SPECS: Final = 1000
"""Pods that differ in how they are spread; of more none is read, and zones are held back."""
_CONSTRAINTS: Final = "topologySpreadConstraints"
_READ: Final = (_CONSTRAINTS, "nodeSelector", "affinity", "tolerations")
_META: Final = ("name", "namespace", "uid", "resourceVersion")


def may_show(settings: PeerSettings) -> bool:
    """True if a virtual node of a peer may have a zone or a region by its settings."""
    return any(
        key in settings.node_labels or key_allowed(key, settings.believed_labels)
        for key in labels.HELD
    )


def counts_zones(body: bytes) -> bool:
    """True if a pod may be spread by zones or regions, as JSON."""
    return _CONSTRAINTS.encode() in body and any(key.encode() in body for key in labels.HELD)


def trim_spread(body: bytes) -> bytes:
    """Trim a pod to what decides which nodes count for its spread."""
    with suppress(msgspec.DecodeError, AttributeError):
        pod: Json = msgspec.json.decode(body)
        meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        return msgspec.json.encode({"metadata": _part(meta, _META), "spec": _part(spec, _READ)})
    return body


def _part(of: Mapping[str, Any], names: tuple[str, ...]) -> Json:
    return {name: of[name] for name in names if name in of}


class HeldZones:
    """Decides which virtual nodes do not show their zones or regions.

    Args:
        kept: seconds for which one stays held back once no pod would wait for it any more: labels
            that come and go with a CronJob would help nobody.
    """

    def __init__(self, kept: float) -> None:
        self._kept = kept
        self._specs: dict[Key, bytes] = {}
        self._count: Counter[bytes] = Counter()
        """The pods of each spec: those of one template have the same."""
        self._broken: dict[frozenset[tuple[str, str]], frozenset[str]] = {}
        """The keys that pods count, by the labels of a virtual node, as long as no spec changes."""
        self._until: dict[tuple[str, str], float] = {}
        """Until when a label of each node that is held back stays so, by the node's name and the
        label's key: without end while pods wait."""

    def note(self, change: StoreChange) -> bool:
        """Note a pod, as trimmed; True if other specs are known than before."""
        before, after = self._specs.pop(change.key, None), None
        if change.new is not None:
            spec: Json = msgspec.json.decode(change.new).get("spec") or {}
            after = self._specs[change.key] = msgspec.json.encode(spec)
        if before == after:
            return False
        known = self._count.keys() & {after}
        if after is not None:
            self._count[after] += 1
        if before is not None:
            self._count[before] -= 1
        gone = before is not None and not self._count[before]
        if before is not None and gone:
            del self._count[before]
        other = gone or (after is not None and not known)
        if other:
            self._broken.clear()
        return other

    def hold(self, node: Json, here: Collection[tuple[str, str]] = ()) -> float | None:
        """Mark a VirtualNode that is to be made, where its Node must not show its zone or region.

        Args:
            node: the VirtualNode.
            here: keys and values of such labels of this cluster's own nodes: by one of these the
                Node makes no further domain.

        Returns:
            Seconds until it may; None: when something changes.
        """
        marks = node["spec"]["labels"]
        keys = [key for key in labels.HELD if key in marks and (key, marks[key]) not in here]
        broken = self._hurts(marks) if keys else frozenset()
        return min(filter(None, (self._hold(node, key, broken) for key in keys)), default=None)

    def _hold(self, node: Json, key: str, broken: Collection[str]) -> float | None:
        of, now = (node["metadata"]["name"], key), trio.current_time()
        until = self._until.get(of, 0.0)
        if key in broken:
            until = inf
        elif until == inf:
            until = now + self._kept
        if until <= now:
            self._until.pop(of, None)
            return None
        self._until[of] = until
        node["spec"].setdefault("annotations", {})[labels.HELD[key]] = node["spec"]["labels"][key]
        return None if until == inf else until - now

    def forget(self, name: str) -> None:
        """Forget a VirtualNode that goes."""
        for key in labels.HELD:
            self._until.pop((name, key), None)

    def _hurts(self, marks: Mapping[str, str]) -> frozenset[str]:
        """The keys of a virtual node's labels by which pods would count it."""
        if len(self._count) > MOST_SPECS:
            return frozenset(labels.HELD)
        shown = {**USUAL_LABELS, labels.TYPE: labels.VIRTUAL_NODE_TYPE, **marks}
        of = frozenset(shown.items())
        if of not in self._broken:
            specs = ({"spec": msgspec.json.decode(each)} for each in self._count)
            found = (spreading.broken_keys(each, shown) for each in specs)
            self._broken[of] = frozenset(chain.from_iterable(found))
        return self._broken[of]
