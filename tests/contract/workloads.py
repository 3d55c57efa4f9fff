"""Pods and Deployments for the fake nodes of contract tests."""

from liqod.apimachinery.kinds import DEPLOYMENTS
from tests.contract.api import eventually


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
