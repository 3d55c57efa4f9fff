"""Pods: what the server makes of them, what of them may change, binding, eviction, status."""

import pytest

from liqod.apimachinery.kinds import POD_DISRUPTION_BUDGETS, PODS, RUNTIME_CLASSES
from liqod.errors import Invalid
from tests.contract.api import MERGE, eventually

UNPLACED = {"schedulerName": "nobody"}


def pod(name="p", labels=None, **spec):
    base = {"containers": [{"name": "c", "image": "example.org/i:1"}], **UNPLACED}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {**base, **spec}}


async def test_defaults(api):
    made = await api.made(PODS, pod())
    spec = made["spec"]
    volume = spec["volumes"][0]
    assert volume["name"].startswith("kube-api-access-")
    sources = volume["projected"]["sources"]
    assert [next(iter(each)) for each in sources] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    assert sources[0] == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    assert sources[1]["configMap"]["name"] == "kube-root-ca.crt"
    assert spec["containers"] == [
        {
            "name": "c",
            "image": "example.org/i:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "volumeMounts": [
                {
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    "name": volume["name"],
                    "readOnly": True,
                }
            ],
        }
    ]
    rest = {key: value for key, value in spec.items() if key not in ("volumes", "containers")}
    waited = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    assert rest == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "nobody",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", **waited},
            {"key": "node.kubernetes.io/unreachable", **waited},
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1


RICH = {
    "automountServiceAccountToken": False,
    "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
    "containers": [
        {
            "name": "c",
            "image": "i:latest",
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 3},
            "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/x"}}},
            "volumeMounts": [{"name": "e", "mountPath": "/e"}],
        }
    ],
    "volumes": [
        {"name": "e"},
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "h", "hostPath": {"path": "/x"}},
        {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {
            "name": "d",
            "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.labels"}}]},
        },
    ],
}


async def test_defaults_of_a_rich_pod(api):
    spec = (await api.made(PODS, pod(**RICH)))["spec"]
    container = spec["containers"][0]
    assert container["imagePullPolicy"] == "Always"
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    common = {"timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "periodSeconds": 10,
        **common,
    }
    assert container["readinessProbe"] == {
        "tcpSocket": {"port": 80},
        "periodSeconds": 3,
        **common,
    }
    assert container["lifecycle"]["preStop"]["httpGet"]["scheme"] == "HTTP"
    volumes = {each.pop("name"): each for each in spec["volumes"]}
    assert volumes["e"] == {"emptyDir": {}}
    assert volumes["c"]["configMap"]["defaultMode"] == 420
    assert volumes["s"]["secret"]["defaultMode"] == 420
    assert volumes["h"]["hostPath"] == {"path": "/x", "type": ""}
    assert volumes["p"]["projected"] == {
        "defaultMode": 420,
        "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}],
    }
    assert volumes["d"]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"
    assert "volumeMounts" not in spec["initContainers"][0]


@pytest.mark.parametrize(
    ("requests", "limits", "quality"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1"}, {}, "Burstable"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}, "Burstable"),
    ],
)
async def test_quality_of_service(api, requests, limits, quality):
    resources = {"requests": requests, "limits": limits}
    made = await api.made(
        PODS, pod(containers=[{"name": "c", "image": "i", "resources": resources}])
    )
    assert made["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        ({"containers": []}, 422, "spec.containers: Required value"),
        ({"containers": [{"name": "c"}]}, 422, "spec.containers[0].image: Required value"),
        ({"containers": [{"image": "i"}]}, 422, "spec.containers[0].name: Required value"),
        (
            {
                "containers": [
                    {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
                ]
            },
            422,
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        ({"serviceAccountName": "none"}, 403, 'serviceaccount "none" not found'),
        ({"priorityClassName": "none"}, 403, "no PriorityClass with name none was found"),
        ({"runtimeClassName": "none"}, 403, 'RuntimeClass "none" not found'),
    ],
)
async def test_refused(api, spec, status, said):
    answer = await api.create(PODS, pod(**spec))
    assert answer.status == status, answer.body
    assert said in answer.message


async def test_spec_is_fixed(api):
    await api.made(PODS, pod())

    async def patch(spec):
        return await api.call("PATCH", api.path(PODS, "p"), {"spec": spec}, content=MERGE)

    answer = await patch({"hostname": "other"})
    assert answer.status == 422
    assert answer.message.startswith(
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than'
    )
    known = (await api.get(PODS, "p"))["spec"]["tolerations"]
    more = [*known, {"key": "x", "operator": "Exists"}]
    assert (await patch({"tolerations": more})).status == 200
    fewer = await patch({"tolerations": []})
    assert fewer.status == 422
    assert (await patch({"activeDeadlineSeconds": 50})).status == 200
    with pytest.raises(Invalid):
        await api.client.patch(PODS, "p", {"spec": {"nodeName": "n"}}, api.namespace)


async def test_gates(api):
    made = await api.made(PODS, pod(schedulingGates=[{"name": "a.b/c"}]))
    condition = made["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "SchedulingGated"
    bound = await bind(api, "p")
    assert bound.status == 409
    answer = await api.call(
        "PATCH", api.path(PODS, "p"), {"spec": {"schedulingGates": None}}, content=MERGE
    )
    assert answer.status == 200
    answer = await api.call(
        "PATCH",
        api.path(PODS, "p"),
        {"spec": {"schedulingGates": [{"name": "a.b/c"}]}},
        content=MERGE,
    )
    assert answer.status == 422


async def bind(api, name, node="elsewhere"):
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return await api.call("POST", api.path(PODS, name, "binding"), body)


async def test_binding(api):
    await api.made(PODS, pod())
    assert (await bind(api, "p")).status == 201
    bound = await api.get(PODS, "p")
    assert bound["spec"]["nodeName"] == "elsewhere"
    condition = bound["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    again = await bind(api, "p", "other")
    assert (again.status, again.reason) == (409, "Conflict")
    assert 'pod p is already assigned to node "elsewhere"' in again.message
    assert (await bind(api, "none")).status == 404


async def test_status(api):
    await api.made(PODS, pod())
    shown = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"hostname": "x"},
        "status": {"phase": "Running", "podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]},
    }
    answer = await api.call("PATCH", api.path(PODS, "p", "status"), shown, content=MERGE)
    assert answer.status == 200
    assert answer.body["status"]["phase"] == "Running"
    assert answer.body["status"]["qosClass"] == "BestEffort"
    assert "hostname" not in answer.body["spec"]
    main = {"status": {"phase": "Failed"}}
    answer = await api.call("PATCH", api.path(PODS, "p"), main, content=MERGE)
    assert answer.body["status"]["phase"] == "Running"


async def evict(api, name, **more):
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": api.namespace},
        **more,
    }
    return await api.call("POST", api.path(PODS, name, "eviction"), body)


async def test_eviction(api):
    await api.made(PODS, pod())
    assert (await evict(api, "p")).status == 201
    await api.gone(PODS, "p")
    assert (await evict(api, "p")).status == 404


async def test_eviction_says_why(api):
    await api.made(PODS, pod())
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    await api.client.patch(PODS, "p", held, api.namespace)
    assert (await evict(api, "p")).status == 201
    found = await api.get(PODS, "p")
    assert found["metadata"]["deletionTimestamp"]
    (why,) = [e for e in found["status"]["conditions"] if e["type"] == "DisruptionTarget"]
    assert (why["status"], why["reason"]) == ("True", "EvictionByEvictionAPI")
    assert why["message"] == "Eviction API: evicting"
    await api.client.patch(PODS, "p", {"metadata": {"finalizers": None}}, api.namespace)
    await api.gone(PODS, "p")


async def test_eviction_against_a_budget(api):
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    await api.made(POD_DISRUPTION_BUDGETS, budget)
    await api.made(PODS, pod(labels={"app": "x"}, nodeName="elsewhere"))
    ready = {"type": "Ready", "status": "True"}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    await api.client.patch(PODS, "p", status, api.namespace, subresource="status")

    async def counted():
        found = await api.get(POD_DISRUPTION_BUDGETS, "b")
        return found.get("status", {}).get("currentHealthy") == 1

    await eventually(counted)
    answer = await evict(api, "p")
    assert (answer.status, answer.reason) == (429, "TooManyRequests")
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = answer.body["details"]["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert "The disruption budget b needs 1 healthy pods and has 1 currently" in cause["message"]
    patch = {"spec": {"minAvailable": 0}}
    await api.client.patch(POD_DISRUPTION_BUDGETS, "b", patch, api.namespace)

    async def evicted():
        return (await evict(api, "p")).status == 201

    await eventually(evicted)


async def test_runtime_class(api):
    name = f"rc-{api.namespace}"
    runtime = {
        "metadata": {"name": name},
        "handler": "x",
        "scheduling": {
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "t", "operator": "Exists"}],
        },
    }
    await api.client.create(RUNTIME_CLASSES, runtime)
    try:

        async def made():
            answer = await api.create(PODS, pod(runtimeClassName=name))
            return answer.body if answer.status == 201 else None

        spec = (await eventually(made))["spec"]
        assert spec["nodeSelector"] == {"a": "b"}
        assert {"key": "t", "operator": "Exists"} in spec["tolerations"]
        answer = await api.call(
            "PATCH", RUNTIME_CLASSES.path(None, name), {"handler": "y"}, content=MERGE
        )
        assert answer.status == 422
    finally:
        await api.client.delete(RUNTIME_CLASSES, name)
