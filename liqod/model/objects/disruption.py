"""Selects the pods that may leave a node now, while their controllers' other pods run on.

Pure. The API server enforces a PodDisruptionBudget, at each eviction. Without one, pods that move
are replaced in steps all the same: of one controller, at most a quarter of the pods are missing at
a time (the ``maxUnavailable`` that a Deployment has by default), and one at the least. There is no
wait for a replacement that fits on no node: it would never come.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from liqod.model.objects import conditions, partial

SETTLED = 30.0
"""Seconds after which a controller that has fewer pods than before is taken to want no more."""
PART = 4
"""One of so many pods of a controller may be missing, apps/v1 ``rollingUpdate.maxUnavailable``."""


class EvictablePod(partial.Pod, frozen=True):
    """A pod that is to leave, with the fields that count then."""

    @property
    def controller(self) -> str:
        """The UID of the controller that replaces it; empty where there is none."""
        owners = self.metadata.owner_references
        return next((owner.uid for owner in owners if owner.controller), "")

    @property
    def named(self) -> bool:
        """True if the pod's controller replaces it under its name, and so only when it has gone."""
        owners = self.metadata.owner_references
        return any(owner.kind == "StatefulSet" and owner.controller for owner in owners)

    @property
    def stays(self) -> bool:
        """True if a drain ignores the pod: of a DaemonSet, of the node itself, or finished."""
        owners = self.metadata.owner_references
        return (
            any(owner.kind == "DaemonSet" and owner.controller for owner in owners)
            or "kubernetes.io/config.mirror" in self.metadata.annotations
            or self.finished
        )

    @property
    def finished(self) -> bool:
        """True if the pod's containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def ending(self) -> bool:
        """True if the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        """True if the pod is Ready."""
        return conditions.holds(self.status.conditions, "Ready")

    @property
    def homeless(self) -> bool:
        """True if the scheduler has found no node for the pod."""
        scheduled = conditions.of_type(self.status.conditions, "PodScheduled")
        return scheduled is not None and scheduled.reason == "Unschedulable"

    @property
    def key(self) -> str:
        """Namespace and name, for people."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class Size(NamedTuple):
    """The number of pods that a controller wants, as far as can be seen.

    Attributes:
        pods: the most that it lately had.
        seen: time when it last had that many, in seconds of any clock.
    """

    pods: int
    seen: float


Sizes = Mapping[str, Size]
"""By the UID of the controller."""


class DrainStep(NamedTuple):
    """The next step of a move.

    Attributes:
        go: the pods that may leave now.
        held: those that wait for others to be ready.
        sizes: how many pods each controller wants, for the next step.
    """

    go: list[EvictablePod]
    held: list[EvictablePod]
    sizes: Sizes


def drain_step(
    pods: Iterable[EvictablePod], leaving: Container[str], before: Sizes, now: float
) -> DrainStep:
    """The next step of a move, from the pods and the step before.

    Args:
        pods: those that are to leave, and all others of their controllers.
        leaving: the names of the nodes that are left.
        before: :attr:`DrainStep.sizes` of the step before: a pod that has gone counts as missing
            until its controller has made another.
        now: seconds, of the same clock as ``before``.
    """
    go: list[EvictablePod] = []
    held: list[EvictablePod] = []
    groups: dict[str, list[EvictablePod]] = {}
    awaited: Counter[str] = Counter()
    for pod in pods:
        if pod.stays:
            continue
        if pod.ending:
            awaited[pod.controller] += pod.named
        elif pod.controller:
            groups.setdefault(pod.controller, []).append(pod)
        elif pod.spec.node_name in leaving:
            go.append(pod)
    sizes: dict[str, Size] = {}
    for controller, group in groups.items():
        size = _size(len(group) + awaited[controller], before.get(controller), now)
        sizes[controller] = size
        here = [pod for pod in group if pod.spec.node_name in leaving]
        there = [pod for pod in group if pod.spec.node_name not in leaving]
        go += [pod for pod in here if not pod.ready]
        serving = [pod for pod in here if pod.ready]
        coming = sum(not pod.ready and not pod.homeless for pod in there)
        free = max(1, size.pods // PART) - coming - (size.pods - len(group))
        go += serving[: max(0, free)]
        held += serving[max(0, free) :]
    return DrainStep(go, held, sizes)


def _size(count: int, known: Size | None, now: float) -> Size:
    """The size of a controller that has so many pods now."""
    if known is None or count >= known.pods or now - known.seen >= SETTLED:
        return Size(count, now)
    return known
