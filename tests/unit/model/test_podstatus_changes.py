"""The returned status of a pod that is changed while it runs: resizes, debuggers, generations."""

from typing import Any

from liqod.model.objects import conditions, podstatus
from liqod.model.objects.patches import merged
from tests.unit.model.pods import NODE, NOW, after, condition, local, remote_pod, running


def ephemeral(state: str, name: str = "debugger") -> dict[str, Any]:
    return {"name": name, "image": "busybox", "state": {state: {}}}


def test_ephemeral_containers_come_back_and_one_that_ended_stays_so():
    pod = local()
    pod["spec"]["ephemeralContainers"] = [{"name": "debugger"}]
    other = remote_pod(running())
    assert "ephemeralContainerStatuses" not in after(local(), other)
    other["status"]["ephemeralContainerStatuses"] = [
        ephemeral("running"),
        ephemeral("running", "x"),
    ]
    status = after(pod, other)
    assert status["ephemeralContainerStatuses"] == [ephemeral("running")]
    pod["status"] = {**status, "ephemeralContainerStatuses": [ephemeral("terminated")]}
    assert after(pod, other)["ephemeralContainerStatuses"] == [ephemeral("terminated")]
    del other["status"]["ephemeralContainerStatuses"]
    assert after(pod, other)["ephemeralContainerStatuses"] == [ephemeral("terminated")]


def test_how_a_resize_fares_comes_back():
    container = {**running(), "resources": {"limits": {"cpu": "2"}}}
    container["allocatedResources"] = {"cpu": "2"}
    other = remote_pod(container)
    deferred = {**condition("PodResizePending"), "reason": "Deferred", "message": "no room"}
    other["status"]["conditions"].append(deferred)
    status = after(local(), other)
    [shown] = status["containerStatuses"]
    assert shown["resources"] == {"limits": {"cpu": "2"}}
    assert shown["allocatedResources"] == {"cpu": "2"}
    found = conditions.find(status["conditions"], "PodResizePending")
    assert found is not None
    assert (found["reason"], found["message"]) == ("Deferred", "no room")
    other["status"]["conditions"].remove(deferred)
    over = after({**local(), "status": status}, other)
    assert conditions.find(over["conditions"], "PodResizePending") is None


def observed(pod: dict[str, Any], other: dict[str, Any], *, current: bool = True) -> int | None:
    done = podstatus.merge(pod, other, node_address=NODE, now=NOW, current=current)
    found = merged(pod["status"], done.status or {}).get("observedGeneration")
    return found if isinstance(found, int) else None


def test_a_generation_is_observed_once_the_pod_there_is_as_it_says():
    pod, other = local(), remote_pod(running())
    pod["metadata"]["generation"] = 3
    assert observed(pod, other) is None  # a kubelet that tells nothing of it
    other["metadata"]["generation"] = other["status"]["observedGeneration"] = 2
    assert observed(pod, other) == 3
    assert observed(pod, other, current=False) is None
    other["metadata"]["generation"] = 4
    assert observed(pod, other) is None


def test_a_generation_that_an_api_server_drops_is_not_written_again():
    pod, other = local(), remote_pod(running())
    pod["metadata"]["generation"] = 1
    other["metadata"]["generation"] = other["status"]["observedGeneration"] = 1
    done = podstatus.merge(pod, other, node_address=NODE, now=NOW, current=True)
    kept = merged(pod["status"], done.status)
    pod["status"] = {key: each for key, each in kept.items() if key != "observedGeneration"}
    again = podstatus.merge(pod, other, node_address=NODE, now=NOW, current=True)
    assert again.status is None
    pod["status"], pod["metadata"]["generation"] = kept, 2
    again = podstatus.merge(pod, other, node_address=NODE, now=NOW, current=True)
    assert again.status == {"observedGeneration": 2}
