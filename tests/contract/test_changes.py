"""Changes of a pod by sub-resources of its own: its size, and containers to debug it."""

from typing import Any

from liqod.apimachinery.kinds import PODS
from tests.contract.api import MERGE, Api
from tests.contract.test_pods import pod

SMALL = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
LARGE = {"requests": {"cpu": "150m"}, "limits": {"cpu": "300m"}}


async def change(api: Api, part: str, spec: dict[str, Any], **meta: Any) -> Any:
    body = {"spec": spec, "metadata": meta}
    return await api.call("PATCH", api.path(PODS, "p", part), body, content=MERGE)


async def test_a_resize_changes_resources_and_nothing_else(api: Api) -> None:
    made = await api.made(PODS, pod(containers=[{"name": "c", "image": "i:1", "resources": SMALL}]))
    [container] = made["spec"]["containers"]
    asked = [{**container, "resources": LARGE, "image": "i:2"}]
    assert (
        await change(api, "", {"containers": [{**container, "resources": LARGE}]})
    ).status == 422
    version = made["metadata"]["resourceVersion"]
    answer = await change(api, "resize", {"containers": asked}, resourceVersion=version)
    assert answer.status == 200
    after = await api.get(PODS, "p")
    assert after["spec"]["containers"] == [{**container, "resources": LARGE}]
    assert after["metadata"]["generation"] == made["metadata"]["generation"] + 1
    late = await change(api, "resize", {"containers": asked}, resourceVersion=version)
    assert late.status == 409


async def test_a_resize_keeps_the_class_of_the_pod(api: Api) -> None:
    await api.made(PODS, pod(containers=[{"name": "c", "image": "i:1", "resources": SMALL}]))
    [container] = (await api.get(PODS, "p"))["spec"]["containers"]
    amounts = {"cpu": "1", "memory": "1Gi"}
    guaranteed = {**container, "resources": {"requests": amounts, "limits": amounts}}
    answer = await change(api, "resize", {"containers": [guaranteed]})
    assert answer.status == 422
    assert "Pod QOS Class may not change" in answer.message


async def test_ephemeral_containers_are_added_and_stay_as_they_are(api: Api) -> None:
    refused = pod(name="q", ephemeralContainers=[{"name": "d", "image": "b"}])
    assert (await api.call("POST", api.path(PODS), refused)).status == 422
    await api.made(PODS, pod())
    debugger = {"name": "d", "image": "b", "targetContainerName": "c"}
    added = {"ephemeralContainers": [debugger]}
    assert (await change(api, "", added)).status == 422
    assert (await change(api, "ephemeralcontainers", added)).status == 200
    [found] = (await api.get(PODS, "p"))["spec"]["ephemeralContainers"]
    assert {key: found[key] for key in debugger} == debugger
    for other in ([], [{**found, "image": "other"}], [found, {"name": "e"}]):
        answer = await change(api, "ephemeralcontainers", {"ephemeralContainers": other})
        assert answer.status == 422, other
