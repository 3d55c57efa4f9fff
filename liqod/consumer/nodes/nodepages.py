"""The pages of a virtual node, in the words of a kubelet. Pure.

``/metrics/resource`` is Prometheus' text format with a kubelet's names; ``/stats/summary`` is its
JSON (``k8s.io/kubelet/pkg/apis/stats/v1alpha1``), with the known usage of processor and memory.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from liqod.apimachinery.rawobjects import UNREADABLE
from liqod.errors import ProtocolError
from liqod.kube import times
from liqod.model.crossing.usage import NodeReading, Reading, RunningPod
from liqod.model.objects.partial import Pod
from liqod.model.objects.quantities import NANO

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_HELP: Final = {
    "container_cpu_usage_seconds_total": ("counter", "Processor time of the container"),
    "container_memory_working_set_bytes": ("gauge", "Working set of the container"),
    "container_start_time_seconds": ("gauge", "Since when the container runs"),
    "node_cpu_usage_seconds_total": ("counter", "Processor time of all pods of the virtual node"),
    "node_memory_working_set_bytes": ("gauge", "Working set of all pods of the virtual node"),
    "pod_cpu_usage_seconds_total": ("counter", "Processor time of the pod"),
    "pod_memory_working_set_bytes": ("gauge", "Working set of the pod"),
    "resource_scrape_error": ("gauge", "1 where the peer did not tell everything, else 0"),
}


_pod = msgspec.json.Decoder(Pod)


def running(body: bytes) -> RunningPod | None:
    """The running part of a pod, given as JSON; None where nothing runs.

    Raises:
        ProtocolError: it is no pod.
    """
    try:
        pod = _pod.decode(body)
    except UNREADABLE as error:
        raise ProtocolError(f"this is no pod: {error}") from error
    status, meta = pod.status, pod.metadata
    ours = {each.name for each in (*pod.spec.containers, *pod.spec.init_containers)}
    containers = {
        each.name: _seconds(each.state.running.started_at)
        for each in (*status.init_container_statuses, *status.container_statuses)
        if each.state.running is not None and each.name in ours
    }
    if not containers:
        return None
    return RunningPod(meta.namespace, meta.name, meta.uid, _seconds(status.start_time), containers)


def _seconds(stamp: str | None) -> float:
    try:
        return times.seconds(stamp) if stamp else 0.0
    except (ValueError, OverflowError):
        return 0.0


def pod_list(bodies: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces of a PodList of pods that are JSON already."""
    yield b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":['
    for number, body in enumerate(bodies):
        yield (b"," if number else b"") + body
    yield b"]}"


def resource_metrics(reading: NodeReading, *, complete: bool) -> bytes:
    """The text of ``/metrics/resource``.

    Args:
        reading: the reported usage.
        complete: whether the peer reported everything that was requested.
    """
    families: dict[str, list[str]] = {name: [] for name in _HELP}

    def add(name: str, labels: str, value: float, at: float) -> None:
        families[name].append(f"{name}{labels} {value!r} {int(at * 1000)}")

    for pod, containers in reading.pods:
        where = f'namespace="{pod.namespace}",pod="{pod.name}"'
        for container, each in containers.items():
            one = f'{{container="{container}",{where}}}'
            add("container_cpu_usage_seconds_total", one, each.total, each.at)
            add("container_memory_working_set_bytes", one, each.memory, each.at)
            if started := pod.containers[container]:
                # Without a time, as a kubelet has it: it is no sample.
                name = "container_start_time_seconds"
                families[name].append(f"{name}{one} {started!r}")
        both = _together(containers.values())
        add("pod_cpu_usage_seconds_total", f"{{{where}}}", both.total, both.at)
        add("pod_memory_working_set_bytes", f"{{{where}}}", both.memory, both.at)
    whole = reading.whole
    add("node_cpu_usage_seconds_total", "", whole.total, whole.at)
    add("node_memory_working_set_bytes", "", whole.memory, whole.at)
    families["resource_scrape_error"].append(f"resource_scrape_error {0 if complete else 1}")
    lines: list[str] = []
    for name, found in families.items():
        if found:
            kind, text = _HELP[name]
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *found]
    return "\n".join((*lines, "")).encode()


def stats_summary(reading: NodeReading) -> bytes:
    """The JSON of ``/stats/summary``."""
    node: dict[str, Any] = {"nodeName": reading.name, "startTime": times.of(reading.since)}
    pods = []
    for pod, containers in reading.pods:
        reference = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        told = [
            {"name": name, "startTime": times.of(pod.containers[name]), **_stats(each)}
            for name, each in containers.items()
        ]
        whole = _stats(_together(containers.values()))
        started = times.of(pod.since)
        pods.append({"podRef": reference, "startTime": started, "containers": told, **whole})
    return msgspec.json.encode({"node": {**node, **_stats(reading.whole)}, "pods": pods})


def _together(containers: Iterable[Reading]) -> Reading:
    every = list(containers)
    return Reading(
        sum(each.total for each in every),
        sum(each.cores for each in every),
        sum(each.memory for each in every),
        max(each.at for each in every),
    )


def _stats(reading: Reading) -> dict[str, Any]:
    at = times.of(reading.at)
    return {
        "cpu": {
            "time": at,
            "usageNanoCores": int(reading.cores * NANO),
            "usageCoreNanoSeconds": int(reading.total * NANO),
        },
        "memory": {"time": at, "workingSetBytes": reading.memory},
    }
