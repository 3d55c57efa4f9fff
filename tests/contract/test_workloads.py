"""Services, EndpointSlices, Deployments, scheduling: on fake nodes, which serve both servers."""

import secrets

import pytest
import trio

from liqod.kube.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
)
from liqod.simulator.agent import run_nodes
from tests.contract.api import MERGE, eventually


@pytest.fixture
async def nodes(api, nursery):
    """Two fake nodes that only this test's pods select."""
    mark = f"n{secrets.token_hex(4)}"
    names = [f"{mark}-1", f"{mark}-2"]
    small = {"cpu": "2", "memory": "4Gi", "pods": "10"}

    async def serve(*, task_status=trio.TASK_STATUS_IGNORED):
        await run_nodes(
            api.client,
            names,
            pod_cidr="10.77.0.0/16",
            capacity=small,
            labels={"set": mark},
            task_status=task_status,
        )

    await nursery.start(serve)

    async def untainted():
        found = [await api.client.get(NODES, name) for name in names]
        return not any(each["spec"].get("taints") for each in found)

    await eventually(untainted)
    yield names
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        for name in names:
            await api.client.delete(NODES, name)


def pod_spec(nodes, **more):
    mark = nodes[0].rpartition("-")[0]
    return {
        "nodeSelector": {"set": mark},
        "containers": [
            {"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}
        ],
        **more,
    }


def deployment(nodes, replicas=3, **more):
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": pod_spec(nodes, terminationGracePeriodSeconds=1),
            },
            **more,
        },
    }


async def settled(api, replicas):
    async def done():
        status = (await api.get(DEPLOYMENTS, "web")).get("status", {})
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        return all(status.get(count, 0) == replicas for count in counts)

    await eventually(done)
    return await api.get(DEPLOYMENTS, "web")


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
    sets = await api.client.list(REPLICA_SETS, api.namespace)
    assert len(sets) == 1
    label = sets[0]["metadata"]["labels"]["pod-template-hash"]
    assert sets[0]["metadata"]["name"] == f"web-{label}"
    pods = await api.client.list(PODS, api.namespace)
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
        return not await api.client.list(PODS, api.namespace)

    await eventually(gone)
    assert await api.client.list(REPLICA_SETS, api.namespace) == []


async def test_rollout_and_replacement(api, nodes):
    await api.made(DEPLOYMENTS, deployment(nodes))
    await settled(api, 3)
    before = await api.client.list(PODS, api.namespace)
    await api.client.delete(PODS, before[0]["metadata"]["name"], api.namespace)

    async def replaced():
        pods = await api.client.list(PODS, api.namespace)
        return before[0]["metadata"]["uid"] not in [each["metadata"]["uid"] for each in pods]

    await eventually(replaced)
    await settled(api, 3)
    image = {"containers": [{"name": "c", "image": "i:2"}]}
    await api.client.patch(
        DEPLOYMENTS, "web", {"spec": {"template": {"spec": image}}}, api.namespace
    )

    async def rolled():
        pods = await api.client.list(PODS, api.namespace)
        return len(pods) == 3 and all(p["spec"]["containers"][0]["image"] == "i:2" for p in pods)

    await eventually(rolled)
    await settled(api, 3)
    counts = sorted(
        each["spec"]["replicas"] for each in await api.client.list(REPLICA_SETS, api.namespace)
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


async def slices(api):
    return await api.client.list(
        ENDPOINT_SLICES, api.namespace, labels="kubernetes.io/service-name=web"
    )


async def test_endpoints_follow_pods(api, nodes):
    await api.made(DEPLOYMENTS, deployment(nodes, 2))
    service = {
        "metadata": {"name": "web", "labels": {"team": "x"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "web"}]},
    }
    await api.made(SERVICES, service)
    await settled(api, 2)

    async def complete():
        found = await slices(api)
        ends = [end for each in found for end in each["endpoints"] or []]
        return found if len(ends) == 2 and all(e["conditions"]["ready"] for e in ends) else None

    found = (await eventually(complete))[0]
    assert found["addressType"] == "IPv4"
    assert found["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    labels = found["metadata"]["labels"]
    assert labels["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
    assert labels["team"] == "x"
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Service"
    pods = {pod["metadata"]["name"]: pod for pod in await api.client.list(PODS, api.namespace)}
    for end in found["endpoints"]:
        pod = pods[end["targetRef"]["name"]]
        assert end["addresses"] == [pod["status"]["podIP"]]
        assert end["nodeName"] == pod["spec"]["nodeName"]
        assert end["conditions"] == {"ready": True, "serving": True, "terminating": False}
    await api.client.delete(SERVICES, "web", api.namespace)

    async def gone():
        return not await slices(api)

    await eventually(gone)


async def test_service(api):
    spec = {"ports": [{"port": 80}]}
    made = await api.made(SERVICES, {"metadata": {"name": "s"}, "spec": spec})
    address = made["spec"]["clusterIP"]
    assert made["spec"] == {
        "clusterIP": address,
        "clusterIPs": [address],
        "type": "ClusterIP",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    assert made["status"] == {"loadBalancer": {}}
    moved = {"spec": {"clusterIP": "10.96.200.200", "clusterIPs": ["10.96.200.200"]}}
    answer = await api.call("PATCH", api.path(SERVICES, "s"), moved, content=MERGE)
    assert answer.status == 422
    assert "may not change once set" in answer.message
    bare = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
    kept = await api.call("PUT", api.path(SERVICES, "s"), bare)
    assert kept.body["spec"]["clusterIP"] == address
    exposed = await api.call(
        "PATCH", api.path(SERVICES, "s"), {"spec": {"type": "NodePort"}}, content=MERGE
    )
    port = exposed.body["spec"]["ports"][0]["nodePort"]
    assert 30000 <= port < 32768
    assert exposed.body["spec"]["externalTrafficPolicy"] == "Cluster"
    taken = {
        "metadata": {"name": "t"},
        "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": port}]},
    }
    answer = await api.create(SERVICES, taken)
    assert answer.status == 422
    assert "provided port is already allocated" in answer.message
    inside = await api.call(
        "PATCH", api.path(SERVICES, "s"), {"spec": {"type": "ClusterIP"}}, content=MERGE
    )
    assert "nodePort" not in inside.body["spec"]["ports"][0]


async def test_headless_and_external_services(api):
    headless = await api.made(
        SERVICES,
        {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
    )
    assert headless["spec"]["clusterIPs"] == ["None"]
    external = await api.made(
        SERVICES,
        {"metadata": {"name": "e"}, "spec": {"type": "ExternalName", "externalName": "x.org"}},
    )
    assert "clusterIP" not in external["spec"]
    assert external["spec"] == {
        "type": "ExternalName",
        "externalName": "x.org",
        "sessionAffinity": "None",
    }
    nothing = await api.create(SERVICES, {"metadata": {"name": "n"}, "spec": {}})
    assert nothing.status == 422
    assert "spec.ports: Required value" in nothing.message


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
