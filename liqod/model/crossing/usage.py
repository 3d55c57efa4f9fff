"""Resource usage that a peer reports for guests: its checks, and the counters made from it.

A peer's ``metrics.k8s.io`` reports rates: cores over its last window. A kubelet reports a counter
of processor time, from which a scraper computes rates by two readings. So rates are added up: with
each new sample a counter grows by the rate times the seconds since the one before, by our own
clock. Of the peer's clock nothing is taken but that a sample is another one. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import ConfigError
from liqod.model.objects import quantities
from liqod.model.objects.quantities import NANO

MOST_CPU: Final = 4096 * NANO
"""Billionths of a core of one container; no machine has more."""
MOST_MEMORY: Final = 1 << 46
"""Bytes of one container: 64 TiB; no machine has more."""
MOST_CONTAINERS: Final = 128
"""Containers of one pod that are looked at."""
STALE: Final = 300.0
"""Seconds after which an unchanged sample is no longer valid, and after which a counter that was
not read begins anew."""
FIRST: Final = 15.0
"""Seconds that a first sample covers: the usual window of a metrics-server. More would be invented,
and less would show a pod that has just begun as idle."""
BEGUN: Final = 0.001
"""Seconds of processor time that a counter begins with: a container that was started has used some,
and metrics-server takes none for a mistake."""

ContainerKey = tuple[str, str]
"""UID of the pod, and name of the container."""


class _MeteredContainer(msgspec.Struct, frozen=True):
    name: str = ""
    usage: dict[str, str | int] = {}


class PodMetrics(msgspec.Struct, frozen=True):
    """A pod of the peer's ``metrics.k8s.io/v1beta1``."""

    metadata: ObjectMeta = ObjectMeta()
    timestamp: str = ""
    containers: tuple[_MeteredContainer, ...] = ()


class Sample(msgspec.Struct, frozen=True):
    """The usage of one pod, checked.

    Attributes:
        stamp: identifies the sample.
        containers: cores and bytes by container.
    """

    stamp: str
    containers: dict[str, tuple[float, int]]


class RunningPod(msgspec.Struct, frozen=True):
    """A pod of this cluster that has a running container, by its local names.

    Attributes:
        namespace, name, uid: of the pod.
        since: epoch seconds of its start, 0 where it is unknown.
        containers: start of each, in epoch seconds.
    """

    namespace: str
    name: str
    uid: str
    since: float
    containers: dict[str, float]


class Reading(msgspec.Struct, frozen=True):
    """The metrics of a container, or of a whole node, as they are served to a scraper.

    Attributes:
        total: seconds of processor time.
        cores: the rate of now.
        memory: bytes.
        at: epoch seconds.
    """

    total: float
    cores: float
    memory: int
    at: float


class NodeReading(msgspec.Struct, frozen=True):
    """The metrics of a virtual node, as they are served to a scraper.

    Attributes:
        name: of the node.
        since: epoch seconds of the start of counting.
        whole: of all its pods together.
        pods: each pod with its containers; those without a sample are left out.
    """

    name: str
    since: float
    whole: Reading
    pods: tuple[tuple[RunningPod, dict[str, Reading]], ...]


def samples(found: Sequence[PodMetrics]) -> dict[str, Sample]:
    """The samples of a list by the pod's name; values that no container can use are left out."""
    known: dict[str, Sample] = {}
    for each in found:
        containers = {}
        for container in each.containers[:MOST_CONTAINERS]:
            cpu = _amount(container.usage.get("cpu"), MOST_CPU)
            memory = _amount(container.usage.get("memory"), MOST_MEMORY * NANO)
            if cpu is not None and memory is not None:
                containers[container.name] = (cpu / NANO, memory // NANO)
        if containers:
            known[each.metadata.name] = Sample(each.timestamp[:64], containers)
    return known


def _amount(value: str | int | None, most: int) -> int | None:
    """Billionths; None for an amount that no container can use."""
    if value is None:
        return None
    try:
        found = quantities.parse(value)
    except ConfigError:
        return None
    return found if 0 <= found <= most else None


class _Counter(msgspec.Struct):
    started: float
    stamp: str
    reading: Reading


class Counters:
    """The counters of one virtual node: of each container that is scraped, and of all together.

    That of the node does not shrink when a pod ends, as a machine's does not.

    Args:
        now: epoch seconds.
    """

    def __init__(self, now: float) -> None:
        self.read = self._since = now
        self._total = BEGUN
        self._counters: dict[ContainerKey, _Counter] = {}

    def take(
        self,
        node: str,
        pods: Sequence[RunningPod],
        known: Mapping[tuple[str, str], Sample],
        now: float,
    ) -> NodeReading:
        """Take in the newest samples, and return the node's metrics.

        Args:
            pods: those that run on it; the counters of others are dropped.
            known: samples by namespace and name in this cluster.
            now: epoch seconds.
        """
        self.read = now
        kept: dict[ContainerKey, _Counter] = {}
        told = []
        for pod in pods:
            sample = known.get((pod.namespace, pod.name))
            readings = {}
            for container, started in pod.containers.items():
                key = (pod.uid, container)
                counter = self._counters.get(key)
                if sample is not None and container in sample.containers:
                    counter = self._grown(counter, sample, container, started, now)
                    if now - counter.reading.at <= STALE:
                        readings[container] = counter.reading
                if counter is not None:
                    kept[key] = counter
            if readings:
                told.append((pod, readings))
        self._counters = kept
        every = [reading for _, readings in told for reading in readings.values()]
        cores, memory = sum(each.cores for each in every), sum(each.memory for each in every)
        whole = Reading(self._total, cores, memory, now)
        return NodeReading(node, self._since, whole, tuple(told))

    def _grown(
        self, counter: _Counter | None, sample: Sample, container: str, started: float, now: float
    ) -> _Counter:
        cores, memory = sample.containers[container]
        if counter is not None and counter.started == started:
            if counter.stamp == sample.stamp:
                return counter
            passed = now - counter.reading.at
            if 0 <= passed <= STALE:
                grown = cores * passed
                self._total += grown
                reading = Reading(counter.reading.total + grown, cores, memory, now)
                return _Counter(started, sample.stamp, reading)
        grown = cores * min(FIRST, max(0.0, now - started))
        self._total += grown
        return _Counter(started, sample.stamp, Reading(BEGUN + grown, cores, memory, now))
