"""The objects that the demo creates in its namespace, and the test that a pod of it is ready."""

from typing import Any, Final

from liqod.apimachinery.kinds import CONFIG_MAPS, DEPLOYMENTS, SECRETS, SERVICES, Kind

NAMESPACE: Final = "shop"
REPLICAS: Final = 6


def is_ready(pod: dict[str, Any]) -> bool:
    """Running, with the condition Ready."""
    status = pod.get("status", {})
    conditions = status.get("conditions", [])
    return status.get("phase") == "Running" and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def shop_objects() -> list[tuple[Kind, dict[str, Any]]]:
    """The objects of a user: a ConfigMap, a Secret, a Service and a Deployment that uses them."""
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": "nginx:1.29",
        "ports": [{"name": "http", "containerPort": 8080}],
        "envFrom": [{"configMapRef": {"name": "web"}}, {"secretRef": {"name": "web"}}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return [
        (CONFIG_MAPS, {"metadata": {"name": "web"}, "data": {"GREETING": "buongiorno"}}),
        (SECRETS, {"metadata": {"name": "web"}, "stringData": {"PASSWORD": "s3cret"}}),
        (
            SERVICES,
            {
                "metadata": {"name": "web", "labels": labels},
                "spec": {
                    "selector": labels,
                    "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
                },
            },
        ),
        (
            DEPLOYMENTS,
            {
                "metadata": {"name": "web", "labels": labels},
                "spec": {
                    "replicas": REPLICAS,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [container]},
                    },
                },
            },
        ),
    ]
