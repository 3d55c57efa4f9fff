"""Holds back the zones of virtual nodes by which pods of this cluster would wait.

A scheduler counts a virtual node's zone also for pods that may not run there
(:mod:`liqod.model.objects.spreading`). So while there is such a pod the Node does not have the
label of its zone. Its VirtualNode has it all the same: cluster selectors go by that, and nothing
that is offloaded by a zone ends. Pods are followed only where a peer's zone may be shown at all.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
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
    """True if a virtual node of a peer may have a zone by its settings."""
    return labels.ZONE in settings.node_labels or key_allowed(labels.ZONE, settings.believed_labels)


def counts_zones(body: bytes) -> bool:
    """True if a pod may be spread by zones, as JSON."""
    return _CONSTRAINTS.encode() in body and labels.ZONE.encode() in body


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
    """Decides which virtual nodes do not show their zones.

    Args:
        kept: seconds for which one stays held back once no pod would wait for it any more: labels
            that come and go with a CronJob would help nobody.
    """

    def __init__(self, kept: float) -> None:
        self._kept = kept
        self._specs: dict[Key, bytes] = {}
        self._count: Counter[bytes] = Counter()
        """The pods of each spec: those of one template have the same."""
        self._until: dict[str, float] = {}
        """Until when each node that is held back stays so, by name: without end while pods wait."""

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
        return gone or (after is not None and not known)

    def hold(self, node: Json) -> float | None:
        """Mark a VirtualNode that is to be made, where its Node must not show its zone.

        Returns:
            Seconds until it may; None: when something changes.
        """
        name, marks = node["metadata"]["name"], node["spec"]["labels"]
        if labels.ZONE not in marks:
            return None
        now, until = trio.current_time(), self._until.get(name, 0.0)
        if self._hurts(marks):
            until = inf
        elif until == inf:
            until = now + self._kept
        if until <= now:
            self.forget(name)
            return None
        self._until[name] = until
        node["spec"].setdefault("annotations", {})[labels.HELD_ZONE] = marks[labels.ZONE]
        return None if until == inf else until - now

    def forget(self, name: str) -> None:
        """Forget a VirtualNode that goes."""
        self._until.pop(name, None)

    def _hurts(self, marks: Mapping[str, str]) -> bool:
        """True if a pod would count the zone of a virtual node with these labels."""
        shown = {**USUAL_LABELS, labels.TYPE: labels.VIRTUAL_NODE_TYPE, **marks}
        specs = ({"spec": msgspec.json.decode(each)} for each in self._count)
        many = len(self._count) > MOST_SPECS
        return many or any(labels.ZONE in spreading.broken_keys(each, shown) for each in specs)
