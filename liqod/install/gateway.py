"""The daemon's pod where networks are joined, and ``liqod node`` beside it on every node. Pure.

Packets of pods go through the node's own network, so ``liqod node``, which has the tunnels, is in
it, with the capabilities of a gateway on a host. The daemon is in the network of pods, has no
capability, and is not root: it orders ``liqod node`` of its node at a socket. Comments give the
reason of each right; docs/background/security.md says what it opens.
"""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.install import noderights, podpolicy
from liqod.install.probes import probes
from liqod.model import ids

Manifest = dict[str, Any]

NODES: Final = "liqod-node"
NODES_CAPABILITIES: Final = (
    *("CHOWN", "KILL", "NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW"),
    *("SETGID", "SETUID", "SYS_ADMIN"),
)
"""Of ``liqod node``. ``CHOWN``: its socket is of the daemon's group. ``KILL``, ``SETGID``,
``SETUID``: to begin the tunnels' process, which takes another user, and to end it. ``NET_ADMIN``:
links, routes, rules and nftables. ``NET_BIND_SERVICE``: port 443, which it opens for websockets.
``NET_RAW``: the echoes that go from a pod's address here to one there, and to the gateway.
``SYS_ADMIN``: to make network namespaces and enter them, and to make ``/proc/sys/net``, which
containers can only read, writable."""
NODES_CONFIG: Final = "/etc/liqod"
CONFIG_FILE: Final = "liqod.toml"
DAEMON: Final = 65532
"""The user of the daemon's pod, and its group: a number, since a node knows none of its names."""
NODES_PORT: Final = 10273
"""Of its health, on loopback."""
LOOPBACK: Final = "127.0.0.1"
PRIORITY: Final = "system-node-critical"
"""Pods of every namespace may depend on the way."""
STRATEGY: Final[Manifest] = {
    # A second one on another node, ready first, would have the gateway move there and back.
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
}
ROOM: Final = "1Mi"
"""Of a folder of the container's own: sockets, and empty files with a mount each."""
NODES_GRACE: Final = 5
"""Seconds; it ends at once."""

_TUN: Final[Manifest] = {"name": "tun", "hostPath": {"path": "/dev/net/tun", "type": "CharDevice"}}
_RUN: Final = ("run", "/run")
"""The folder of what goes with the pod: names of network namespaces, sockets of tunnels."""
_SOCKET: Final = ("machine", "/run/liqod-node")
"""The folder of the node's with the socket at which the daemon orders ``liqod node``."""


def own_pods(namespace: str) -> list[Manifest]:
    """The policy, with its binding, that bounds what pods of the daemon's namespace have.

    Args:
        namespace: liqod's own.
    """
    return podpolicy.policies(namespace, _SOCKET[1])


def pod(spec: Manifest) -> Manifest:
    """The fields that joined networks add to the spec of the daemon's pod; changes its container.

    Args:
        spec: that of a daemon that joins no networks; its one container is changed.
    """
    container = spec["containers"][0]
    container["volumeMounts"] += [_mount(*_SOCKET)]
    container["env"] += [
        {"name": "LIQOD_NODE_NAME", "valueFrom": field_of("spec.nodeName")},
        {"name": "LIQOD_NODE_ADDRESS", "valueFrom": field_of("status.hostIP")},
    ]
    return {
        "securityContext": {**spec["securityContext"], "runAsUser": DAEMON, "runAsGroup": DAEMON},
        "volumes": [*spec["volumes"], _volume(*_SOCKET)],
    }


def node_configuration(namespace: str) -> Manifest:
    """The configuration of ``liqod node``, which needs no secret: it is the operator's once made.

    Args:
        namespace: liqod's own, beside which that of ``liqod node`` is.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NODES, "namespace": ids.nodes_namespace(namespace)},
        "data": {CONFIG_FILE: ""},
    }


def node(namespace: str, image: str, affinity: Manifest) -> Manifest:
    """``liqod node`` on every node: on the gateway's it has the tunnels.

    The tunnels of a gateway end with its pod, and stand again once the next one runs. On other
    nodes what leads to the gateway stays, so many may be replaced at once.

    Args:
        namespace: liqod's own, whose objects it reads; its pods are in the one beside.
        image: that of ``liqod node``.
        affinity: that keeps it off virtual nodes.
    """
    container = {
        "name": "node",
        "image": image,
        "args": ["node", "--config", f"{NODES_CONFIG}/{CONFIG_FILE}"],
        "env": [
            {"name": "LIQOD_NODE_NAME", "valueFrom": field_of("spec.nodeName")},
            {"name": "LIQOD_NAMESPACE", "value": namespace},
            {"name": "LIQOD_HEALTH_HOST", "value": LOOPBACK},
            {"name": "LIQOD_DAEMON_USER", "value": str(DAEMON)},
        ],
        **probes(NODES_PORT, LOOPBACK),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": _security(NODES_CAPABILITIES),
        "volumeMounts": [
            _mount(*_RUN),
            _mount(_TUN["name"], "/dev/net/tun"),
            _mount(*_SOCKET),
            {**_mount("config", NODES_CONFIG), "readOnly": True},
        ],
    }
    spec = {
        "serviceAccountName": noderights.ACCOUNT,
        "securityContext": _UNCONFINED,
        "terminationGracePeriodSeconds": NODES_GRACE,
        "containers": [container],
        "volumes": [
            {"name": _RUN[0], "emptyDir": {"medium": "Memory", "sizeLimit": ROOM}},
            _TUN,
            _volume(*_SOCKET),
            {"name": "config", "configMap": {"name": NODES}},
        ],
    }
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}}
    return _everywhere(NODES, ids.nodes_namespace(namespace), update, spec, affinity)


def _everywhere(
    name: str, namespace: str, update: Manifest, spec: Manifest, affinity: Manifest
) -> Manifest:
    """A DaemonSet in the nodes' network, on all nodes but virtual ones, whatever their taints."""
    marks = {labels.APP_NAME: name, labels.APP_COMPONENT: name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": marks},
        "spec": {
            "selector": {"matchLabels": marks},
            "updateStrategy": update,
            "template": {
                "metadata": {"labels": {**marks, labels.APP_PART_OF: labels.APP_LIQO}},
                "spec": {
                    "hostNetwork": True,
                    "dnsPolicy": "ClusterFirstWithHostNet",
                    "priorityClassName": PRIORITY,
                    "enableServiceLinks": False,
                    "tolerations": [{"operator": "Exists"}],
                    "affinity": affinity,
                    "securityContext": _CONFINED,
                    **spec,
                },
            },
        },
    }


_CONFINED: Final[Manifest] = {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}}
"""Capabilities are given to root only, which has no others than those."""
_UNCONFINED: Final[Manifest] = {
    **_CONFINED,
    # The runtimes' profile forbids every mount, also to those who have the capability.
    "appArmorProfile": {"type": "Unconfined"},
}


def field_of(path: str) -> Manifest:
    """The source of a variable that is told a field of its own pod."""
    return {"fieldRef": {"fieldPath": path}}


def _security(capabilities: tuple[str, ...]) -> Manifest:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": list(capabilities)},
    }


def _mount(name: str, path: str) -> Manifest:
    return {"name": name, "mountPath": path}


def _volume(name: str, path: str) -> Manifest:
    """A folder of the node's."""
    return {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
