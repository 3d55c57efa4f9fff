"""Services and EndpointSlices."""

from liqod.apimachinery.kinds import DEPLOYMENTS, ENDPOINT_SLICES, PODS, SERVICES
from liqod.kube.selection import Selection
from tests.contract.api import MERGE, eventually
from tests.contract.workloads import deployment, settled


async def slices(api):
    return await api.client.list(
        ENDPOINT_SLICES, Selection(api.namespace, labels="kubernetes.io/service-name=web")
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
    pods = {
        pod["metadata"]["name"]: pod
        for pod in await api.client.list(PODS, Selection(api.namespace))
    }
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
    second = {"spec": {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}}
    answer = await api.call("PATCH", api.path(SERVICES, "s"), second, content=MERGE)
    assert answer.status == 422
    assert "not configured on this cluster" in answer.message
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


async def test_two_ports_of_a_service_have_two_names(api):
    ports = [{"name": "http", "port": 80}, {"name": "http", "port": 81}]
    answer = await api.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": ports}})
    assert answer.status == 422
    assert 'spec.ports[1].name: Duplicate value: "http"' in answer.message


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
