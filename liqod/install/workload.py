"""The daemon as a Deployment of the cluster that it serves, with its Service.

Labels and the container's name are those by which ``liqoctl`` finds what runs, and its version.
Without a network the pod fits the Pod Security level ``restricted``; with one it is the gateway
(:mod:`.gateway`). Where the daemon runs outside the cluster, a Deployment without pods tells
``liqoctl`` the same, and the API server's address.
"""

import enum
from collections.abc import Sequence
from typing import Any, Final

from liqod import __version__
from liqod.apimachinery import labels
from liqod.install import gateway
from liqod.install.probes import probes
from liqod.model.view import whereabouts
from liqod.model.view.whereabouts import DEPLOYMENT

NAME: Final = DEPLOYMENT
IMAGE: Final = f"liqod:v{__version__}"
"""Where nobody names another; ``liqoctl`` reads the version in it."""
OF_NODES: Final = "-node"
"""Follows the tag of the daemon's image in that of ``liqod node``, where nobody names another."""
STAND_IN: Final = "liqo-controller-manager"
"""Name of the Deployment without pods, where the daemon runs outside the cluster."""
SERVER_ARGUMENT: Final = "--api-server-address-override"
"""The argument of a container from which ``liqoctl`` takes the API server's address."""
COMPONENT: Final = "controller-manager"
"""Value of name and component labels, and name of the container: ``liqoctl`` looks for these."""
WEBHOOK_PORT: Final = 9443
KUBELET_PORT: Final = 10270
HEALTH_PORT: Final = 10271
CONFIG_FILE: Final = gateway.CONFIG_FILE
CA_FILE: Final = "api-server-ca.crt"
CONFIG_PATH: Final = gateway.NODES_CONFIG
GRACE: Final = 15
"""Seconds; the daemon itself stops within ten."""
AWAY: Final = 30
"""Seconds that a node may be lost or not ready before its daemon is begun on another one: without
a word of this, Kubernetes waits for five minutes."""
SPREAD: Final = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
"""Labels of nodes over which replicas are spread, as far as there are several."""
ROOM: Final = "64Mi"
"""Of the only folder that can be written to: the inspector's socket, recordings and bundles. In
memory, where it is full instead of being the end of the pod.
"""

Manifest = dict[str, Any]


class Architecture(enum.StrEnum):
    """The machines that liqod's images are made for, as Kubernetes names them."""

    AMD64 = "amd64"
    ARM64 = "arm64"


ARCHITECTURES: Final = tuple(each.value for each in Architecture)


def workload(
    namespace: str,
    image: str,
    replicas: int,
    service_account: str,
    *,
    nodes_image: str = "",
    architectures: Sequence[str] = ARCHITECTURES,
    server: str = "",
    ca: str = "",
    storage: bool = False,
    services: bool = False,
) -> list[Manifest]:
    """Configuration (created once, then the operator's), Deployment, and what belongs to it.

    Args:
        namespace: liqod's own.
        image, replicas, service_account: of the Deployment.
        nodes_image: of ``liqod node`` beside it; empty for daemons that join no networks.
        architectures: of the nodes that these images are for.
        server: URL of the API server as peers reach it; empty leaves it to the operator.
        ca: PEM of its authority; empty for the one that the cluster itself tells.
        storage: whether it provisions volumes.
        services: whether it shares Services with peers.
    """
    deployment = _deployment(namespace, image, replicas, service_account, server)
    affinity = off_virtual_nodes(architectures)
    deployment["spec"]["template"]["spec"]["affinity"] = affinity
    beside = []
    if nodes_image:
        deployment["spec"] |= gateway.STRATEGY
        deployment["spec"]["template"]["spec"] |= gateway.pod(
            deployment["spec"]["template"]["spec"]
        )
        beside.append(gateway.node_configuration(namespace))
        beside.append(gateway.node(namespace, nodes_image, affinity))
    return [
        _configuration(namespace, server, ca, storage=storage, services=services),
        deployment,
        *beside,
        _budget(namespace),
        _service(namespace),
    ]


def stand_in(namespace: str, server: str) -> Manifest:
    """A Deployment of no pods that tells ``liqoctl`` the version and the API server's address.

    ``liqoctl generate peering-user`` hands that address on; without one it takes the address of a
    control plane's node.

    Args:
        namespace: liqod's own.
        server: URL of the API server as peers reach it; empty if it is not known.
    """
    container = {"name": COMPONENT, "image": IMAGE, "args": ["run"]}
    if server:
        container["args"] = [f"{SERVER_ARGUMENT}={server}"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": STAND_IN, "namespace": namespace, "labels": _labels()},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": _labels()},
            "template": {
                "metadata": {"labels": {**_labels(), labels.APP_PART_OF: labels.APP_LIQO}},
                "spec": {"containers": [container]},
            },
        },
    }


def _labels() -> dict[str, str]:
    return {labels.APP_NAME: COMPONENT, labels.APP_COMPONENT: COMPONENT}


def _configuration(
    namespace: str, server: str, ca: str, *, storage: bool, services: bool
) -> Manifest:
    """The configuration, as a Secret: it may name proxies with their passwords.

    ConfigMaps are shown to peering users, among whom Liqo's look for the cluster's id.
    """
    text = f'[api_server]\nadvertise = "{server}"\n' if server else ""
    data = {CONFIG_FILE: text}
    if server and ca:
        data[CONFIG_FILE] += f'ca_file = "{CONFIG_PATH}/{CA_FILE}"\n'
        data[CA_FILE] = ca
    for name, on in (("services", services), ("storage", storage)):
        if on:
            data[CONFIG_FILE] += f"[{name}]\nenabled = true\n"
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": NAME, "namespace": namespace},
        "stringData": data,
    }


def _deployment(
    namespace: str, image: str, replicas: int, service_account: str, server: str
) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {**_labels(), "app.kubernetes.io/version": f"v{__version__}"},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": _labels()},
            "template": {
                "metadata": {"labels": {**_labels(), labels.APP_PART_OF: labels.APP_LIQO}},
                "spec": {
                    "serviceAccountName": service_account,
                    # The Service liqod would set variables LIQOD_…, which are taken for settings.
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": GRACE,
                    "priorityClassName": "system-cluster-critical",
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": gateway.DAEMON,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "topologySpreadConstraints": [_spread(each) for each in SPREAD],
                    "tolerations": [
                        _away("node.kubernetes.io/not-ready"),
                        _away("node.kubernetes.io/unreachable"),
                    ],
                    "containers": [_container(image, server)],
                    "volumes": [
                        {"name": "config", "secret": {"secretName": NAME}},
                        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": ROOM}},
                    ],
                },
            },
        },
    }


def _container(image: str, server: str) -> Manifest:
    told = [f"{SERVER_ARGUMENT}={server}"] if server else []
    return {
        "name": COMPONENT,
        "image": image,
        "args": ["run", "--config", f"{CONFIG_PATH}/{CONFIG_FILE}", *told],
        "env": [
            {"name": "LIQOD_HEALTH_HOST", "value": "0.0.0.0"},
            {"name": "LIQOD_NAMESPACE", "valueFrom": gateway.field_of("metadata.namespace")},
            {"name": "LIQOD_KUBELET_HOST", "valueFrom": gateway.field_of("status.podIP")},
        ],
        "ports": [
            {"name": "webhook", "containerPort": WEBHOOK_PORT},
            {"name": "kubelet", "containerPort": KUBELET_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
        ],
        **probes("health"),
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # The reason of its end, for whoever looks at the pod.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_PATH, "readOnly": True},
            {"name": "run", "mountPath": str(whereabouts.SHARED)},
        ],
    }


def _spread(key: str) -> Manifest:
    """Keep replicas on different nodes where there are several: a soft rule."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels()},
    }


def _away(taint: str) -> Manifest:
    """How long the daemon stays on a node of which this is known."""
    return {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": AWAY,
    }


def _budget(namespace: str) -> Manifest:
    """One of several replicas at a time; a single one may always go, so that nodes can be drained.

    One that is not ready holds up no drain either.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": namespace, "labels": _labels()},
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": _labels()},
        },
    }


def _service(namespace: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": namespace, "labels": _labels()},
        "spec": {
            "selector": _labels(),
            "ports": [
                {"name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP"},
            ],
        },
    }


def off_virtual_nodes(architectures: Sequence[str] = ()) -> Manifest:
    """Keep pods off the nodes that the daemon makes itself, whatever tolerations others add.

    Args:
        architectures: of the nodes that their image is for; empty for all.
    """
    wanted = [{"key": labels.TYPE, "operator": "NotIn", "values": [labels.VIRTUAL_NODE_TYPE]}]
    if architectures:
        # On any other node they would fail for ever.
        wanted.append({"key": labels.ARCH, "operator": "In", "values": list(architectures)})
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": wanted}]
            }
        }
    }
