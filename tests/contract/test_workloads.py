"""Services, EndpointSlices, Deployments, scheduling: on fake nodes, which serve both servers."""

import trio

from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
)
from liqod.kube.selection import Selection
from tests.contract.api import MERGE, eventually
from tests.contract.workloads import deployment, pod_spec, settled


async def test_pods_run(api, nodes):
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": pod_spec(nodes)})

    async def running():
        status = (await api.get(PODS, "p"))["status"]
        conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
        return status["phase"] == "Running" and conditions.get("Ready") == "True"

    await eventually(running)
    found = await api.get(PODS, "p")
    assert found["spec"]["nodeName"] in nodes
    assert found["status"]["podIP"].startswith("10.77.")
    assert found["status"]["podIPs"] == [{"ip": found["status"]["podIP"]}]
    assert found["status"]["containerStatuses"][0]["ready"] is True
    await api.client.delete(PODS, "p", api.namespace)
    await api.gone(PODS, "p")


async def test_pods_wait_for_what_they_mount(api, nodes):
    volume = {"name": "v", "configMap": {"name": "late"}}
    spec = pod_spec(nodes, volumes=[volume])
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": spec})

    async def bound():
        return (await api.get(PODS, "p"))["spec"].get("nodeName")

    await eventually(bound)
    await trio.sleep(0.3)
    assert (await api.get(PODS, "p"))["status"]["phase"] == "Pending"
    await api.made(CONFIG_MAPS, {"metadata": {"name": "late"}})

    async def running():
        return (await api.get(PODS, "p"))["status"]["phase"] == "Running"

    await eventually(running)


async def test_pods_complete(api, nodes):
    for name, code in (("good", "0"), ("bad", "3")):
        annotations = {
            "simulator.liqod.io/completes-after": "0.1",
            "simulator.liqod.io/exit-code": code,
        }
        spec = pod_spec(nodes, restartPolicy="Never")
        await api.made(PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})

    async def phases():
        return [(await api.get(PODS, name))["status"]["phase"] for name in ("good", "bad")]

    async def ended():
        return await phases() == ["Succeeded", "Failed"]

    await eventually(ended)


async def test_deployment(api, nodes):
    await api.made(DEPLOYMENTS, deployment(nodes))
    found = await settled(api, 3)
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert conditions["Available"] == conditions["Progressing"] == "True"
    sets = await api.client.list(REPLICA_SETS, Selection(api.namespace))
    assert len(sets) == 1
    label = sets[0]["metadata"]["labels"]["pod-template-hash"]
    assert sets[0]["metadata"]["name"] == f"web-{label}"
    pods = await api.client.list(PODS, Selection(api.namespace))
    assert {pod["spec"]["nodeName"] for pod in pods} == set(nodes)
    for pod in pods:
        assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": label}
        assert pod["metadata"]["generateName"] == f"web-{label}-"
        owner = pod["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)
    await api.client.patch(
        DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, api.namespace, subresource="scale"
    )
    await settled(api, 1)
    await api.client.delete(DEPLOYMENTS, "web", api.namespace)

    async def gone():
        return not await api.client.list(PODS, Selection(api.namespace))

    await eventually(gone)
    assert await api.client.list(REPLICA_SETS, Selection(api.namespace)) == []


async def test_rollout_and_replacement(api, nodes):
    await api.made(DEPLOYMENTS, deployment(nodes))
    await settled(api, 3)
    before = await api.client.list(PODS, Selection(api.namespace))
    await api.client.delete(PODS, before[0]["metadata"]["name"], api.namespace)

    async def replaced():
        pods = await api.client.list(PODS, Selection(api.namespace))
        return before[0]["metadata"]["uid"] not in [each["metadata"]["uid"] for each in pods]

    await eventually(replaced)
    await settled(api, 3)
    image = {"containers": [{"name": "c", "image": "i:2"}]}
    await api.client.patch(
        DEPLOYMENTS, "web", {"spec": {"template": {"spec": image}}}, api.namespace
    )

    async def rolled():
        pods = await api.client.list(PODS, Selection(api.namespace))
        return len(pods) == 3 and all(p["spec"]["containers"][0]["image"] == "i:2" for p in pods)

    await eventually(rolled)
    await settled(api, 3)
    counts = sorted(
        each["spec"]["replicas"]
        for each in await api.client.list(REPLICA_SETS, Selection(api.namespace))
    )
    assert counts == [0, 3]


async def test_deployment_is_checked(api, nodes):
    wrong = deployment(nodes)
    wrong["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    answer = await api.create(DEPLOYMENTS, wrong)
    assert answer.status == 422
    assert "`selector` does not match template `labels`" in answer.message
    made = await api.made(DEPLOYMENTS, deployment(nodes, 0))
    assert made["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert made["spec"]["revisionHistoryLimit"] == 10
    assert made["spec"]["progressDeadlineSeconds"] == 600
    other = {"spec": {"selector": {"matchLabels": {"app": "x"}}}}
    answer = await api.call("PATCH", api.path(DEPLOYMENTS, "web"), other, content=MERGE)
    assert answer.status == 422


async def unscheduled(api, name):
    async def told():
        for each in (await api.get(PODS, name))["status"].get("conditions", []):
            if each["type"] == "PodScheduled" and each["status"] == "False":
                return each
        return None

    return await eventually(told)


async def test_unschedulable(api, nodes):
    huge = {"resources": {"requests": {"cpu": "100"}}, "name": "c", "image": "i"}
    await api.made(PODS, {"metadata": {"name": "huge"}, "spec": pod_spec(nodes, containers=[huge])})
    found = await unscheduled(api, "huge")
    assert found["reason"] == "Unschedulable"
    assert "2 Insufficient cpu" in found["message"]
    await api.made(
        PODS,
        {"metadata": {"name": "odd"}, "spec": pod_spec(nodes, nodeSelector={"no": "where"})},
    )
    found = await unscheduled(api, "odd")
    assert "node(s) didn't match Pod's node affinity/selector" in found["message"]


async def test_taints_and_affinity(api, nodes):
    first, second = nodes
    taint = {"key": "mine", "value": "x", "effect": "NoExecute"}
    await api.client.patch(NODES, first, {"spec": {"taints": [taint]}})
    required = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [first]}
                ]
            }
        ]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    await api.made(PODS, {"metadata": {"name": "shy"}, "spec": pod_spec(nodes, affinity=affinity)})
    found = await unscheduled(api, "shy")
    assert "node(s) had untolerated taint" in found["message"]
    bold = pod_spec(nodes, affinity=affinity, tolerations=[{"key": "mine", "operator": "Exists"}])
    await api.made(PODS, {"metadata": {"name": "bold"}, "spec": bold})
    await api.made(PODS, {"metadata": {"name": "free"}, "spec": pod_spec(nodes)})

    async def placed():
        found = [(await api.get(PODS, name))["spec"].get("nodeName") for name in ("bold", "free")]
        return found == [first, second]

    await eventually(placed)
    await api.client.patch(NODES, first, {"spec": {"taints": None}})

    async def untied():
        return (await api.get(PODS, "shy"))["spec"].get("nodeName") == first

    await eventually(untied)


async def test_taints_drive_pods_away(api, nodes):
    spec = pod_spec(nodes, terminationGracePeriodSeconds=1)
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": spec})

    async def node():
        return (await api.get(PODS, "p"))["spec"].get("nodeName")

    taint = {"key": "mine", "value": "x", "effect": "NoExecute"}
    await api.client.patch(NODES, await eventually(node), {"spec": {"taints": [taint]}})
    await api.gone(PODS, "p")


async def test_rollout_keeps_what_it_must(api, nodes):
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    await api.made(DEPLOYMENTS, deployment(nodes, 4, strategy=rolling))
    await settled(api, 4)
    lowest = 4
    async with trio.open_nursery() as nursery:

        async def count():
            nonlocal lowest
            while True:
                status = (await api.get(DEPLOYMENTS, "web"))["status"]
                lowest = min(lowest, status.get("availableReplicas", 0))

        nursery.start_soon(count)
        image = {"containers": [{"name": "c", "image": "i:2"}]}
        patch = {"spec": {"template": {"spec": image}}}
        await api.client.patch(DEPLOYMENTS, "web", patch, api.namespace)

        async def rolled():
            found = await api.client.list(REPLICA_SETS, Selection(api.namespace))
            return sorted(each["spec"]["replicas"] for each in found) == [0, 4]

        await eventually(rolled)
        nursery.cancel_scope.cancel()
    await settled(api, 4)
    assert lowest >= 4
