"""The pages of a virtual node are those of a kubelet."""

from typing import Any

import msgspec
import pytest

from liqod.consumer.nodes import nodepages
from liqod.errors import ProtocolError
from liqod.model.crossing.usage import NodeReading, Reading, RunningPod

NOW = 1_700_000_000.5
MAIN = Reading(12.5, 0.25, 1 << 20, NOW)
SIDE = Reading(0.5, 0.05, 1 << 10, NOW)
POD = RunningPod("shop", "web", "u1", NOW - 60, {"main": NOW - 60, "side": 0.0})
READING = NodeReading(
    "milan", NOW - 3600, Reading(99.0, 0.3, 2 << 20, NOW), ((POD, {"main": MAIN, "side": SIDE}),)
)


def test_resource_metrics_are_prometheus_text() -> None:
    lines = nodepages.resource_metrics(READING, complete=False).decode().splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    of_main = '{container="main",namespace="shop",pod="web"}'
    of_side = of_main.replace("main", "side")
    of_pod = '{namespace="shop",pod="web"}'
    assert samples == [
        f"container_cpu_usage_seconds_total{of_main} 12.5 1700000000500",
        f"container_cpu_usage_seconds_total{of_side} 0.5 1700000000500",
        f"container_memory_working_set_bytes{of_main} 1048576 1700000000500",
        f"container_memory_working_set_bytes{of_side} 1024 1700000000500",
        f"container_start_time_seconds{of_main} 1699999940.5",
        "node_cpu_usage_seconds_total 99.0 1700000000500",
        "node_memory_working_set_bytes 2097152 1700000000500",
        f"pod_cpu_usage_seconds_total{of_pod} 13.0 1700000000500",
        f"pod_memory_working_set_bytes{of_pod} 1049600 1700000000500",
        "resource_scrape_error 1",
    ]
    assert "# TYPE container_cpu_usage_seconds_total counter" in lines
    whole = nodepages.resource_metrics(READING, complete=True)
    assert whole.endswith(b"resource_scrape_error 0\n")


def test_stats_have_a_kubelets_fields() -> None:
    stats: dict[str, Any] = msgspec.json.decode(nodepages.stats_summary(READING))
    assert stats["node"]["nodeName"] == "milan"
    assert stats["node"]["cpu"]["usageCoreNanoSeconds"] == 99 * 10**9
    assert stats["node"]["memory"]["workingSetBytes"] == 2 << 20
    [pod] = stats["pods"]
    assert pod["podRef"] == {"name": "web", "namespace": "shop", "uid": "u1"}
    assert pod["cpu"]["usageNanoCores"] == 300_000_000
    assert [each["name"] for each in pod["containers"]] == ["main", "side"]
    assert pod["containers"][0]["startTime"] == "2023-11-14T22:12:20Z"


def test_what_runs_is_read_from_the_pod_here() -> None:
    running = {"running": {"startedAt": "2023-11-14T22:12:20Z"}}
    statuses = [
        {"name": "main", "state": running},
        {"name": "waits", "state": {"waiting": {}}},
        {"name": "injected", "state": running},
    ]
    pod = {
        "metadata": {"namespace": "shop", "name": "web", "uid": "u1"},
        "spec": {
            "containers": [{"name": "main"}, {"name": "waits"}],
            "initContainers": [{"name": "side"}],
        },
        "status": {
            "containerStatuses": statuses,
            "initContainerStatuses": [
                {"name": "side", "state": {"running": {"startedAt": "never"}}}
            ],
        },
    }
    assert nodepages.running(msgspec.json.encode(pod)) == RunningPod(
        "shop", "web", "u1", 0.0, {"side": 0.0, "main": 1_700_000_000.0 - 60}
    )
    del pod["status"]
    assert nodepages.running(msgspec.json.encode(pod)) is None
    with pytest.raises(ProtocolError):
        nodepages.running(b"[]")


def test_times_that_an_api_server_writes_as_null_hide_no_pod() -> None:
    pod = {
        "metadata": {"namespace": "shop", "name": "web", "uid": "u1", "creationTimestamp": None},
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "startTime": None,
            "conditions": [{"type": "Ready", "lastProbeTime": None, "lastTransitionTime": None}],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": None}}}],
        },
    }
    found = nodepages.running(msgspec.json.encode(pod))
    assert found == RunningPod("shop", "web", "u1", 0.0, {"main": 0.0})


def test_a_list_of_pods_is_one() -> None:
    bodies = [b'{"metadata":{"name":"a"}}', b'{"metadata":{"name":"b"}}']
    for count in range(3):
        found = msgspec.json.decode(b"".join(nodepages.pod_list(bodies[:count])))
        assert (found["kind"], len(found["items"])) == ("PodList", count)
