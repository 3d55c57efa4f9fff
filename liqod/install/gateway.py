"""The daemon's pod where networks are joined, and the programs beside it on every node. Pure.

Packets of pods go through the node's own network, so ``liqod node``, which has the tunnels, is in
it, with the capabilities of a gateway on a host. The daemon has none, and is not root: it orders
``liqod node`` of its node at a socket. The keeper, by which tunnels outlive the pod of ``liqod
node``, has fewer. Comments give the reason of each; docs/background/security.md says what it opens.
"""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.install import noderights
from liqod.install.probes import probes
from liqod.keeper.keepermessages import VARIABLE
from liqod.keeper.server import DEFAULT

Manifest = dict[str, Any]

KEEPER: Final = "liqod-keeper"
NODES: Final = "liqod-node"
NODES_CAPABILITIES: Final = ("CHOWN", "NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW", "SYS_ADMIN")
"""Of ``liqod node``. ``CHOWN``: its socket is of the daemon's group. ``NET_ADMIN``: links, routes,
rules and nftables. ``NET_BIND_SERVICE``: port 443, which it opens for websockets. ``NET_RAW``: the
echoes that go from a pod's address here to one there, and to the gateway. ``SYS_ADMIN``: to make
network namespaces and enter them, and to make ``/proc/sys/net``, which containers can only read,
writable."""
NODES_CONFIG: Final = "/etc/liqod"
CONFIG_FILE: Final = "liqod.toml"
DAEMON: Final = 65532
"""The user of the daemon's pod, and its group: a number, since a node knows none of its names."""
NODES_PORT: Final = 10273
"""Of its health, on loopback."""
LOOPBACK: Final = "127.0.0.1"
KEEPERS_CAPABILITIES: Final = ("KILL", "NET_ADMIN", "SETGID", "SETUID")
"""``NET_ADMIN``: the interfaces that its programs make. The others: to begin a program that takes
another user, as the tunnels' process does, and to end it."""
PRIVILEGED: Final = {
    "pod-security.kubernetes.io/enforce": "privileged",
    "pod-security.kubernetes.io/warn": "privileged",
}
"""Labels of the namespace: no other level lets a pod into the node's network."""
PRIORITY: Final = "system-node-critical"
"""Pods of every namespace may depend on the way."""
STRATEGY: Final[Manifest] = {
    # Two cannot listen at the same ports of one node.
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
}
ROOM: Final = "1Mi"
"""Of the folder of namespaces' names: empty files with a mount each."""
ANSWERS: Final = (
    "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('{socket}')"
)
"""The keeper's probe: a socket that another one left behind is not enough."""
KEEPERS_GRACE: Final = 5
"""Seconds; it ends at once."""

_TUN: Final[Manifest] = {"name": "tun", "hostPath": {"path": "/dev/net/tun", "type": "CharDevice"}}
_SHARED: Final = (
    # The sockets of userspace WireGuards, where `wg` on the node finds them, too.
    ("wireguard", "/run/wireguard"),
    # The keeper's socket, and what backends keep for the next ``liqod node``.
    ("network", "/run/liqod-network"),
)
"""Folders of the node's that ``liqod node`` and the keeper both have."""
_SOCKET: Final = ("machine", "/run/liqod-node")
"""The folder of the node's with the socket at which the daemon orders ``liqod node``."""


def pod(spec: Manifest) -> Manifest:
    """The fields that joined networks add to the spec of the daemon's pod; changes its container.

    Args:
        spec: that of a daemon that joins no networks; its one container is changed.
    """
    container = spec["containers"][0]
    container["volumeMounts"] += [_mount(*_SOCKET)]
    container["env"] = [
        # On the node's own addresses nobody but the kubelet is to ask, by loopback, unless the
        # configuration says otherwise.
        *(each for each in container["env"] if each["name"] != "LIQOD_HEALTH_HOST"),
        {"name": "LIQOD_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    container |= probes("health", LOOPBACK)
    return {
        **_in_the_nodes_network(),
        "securityContext": {**spec["securityContext"], "runAsUser": DAEMON, "runAsGroup": DAEMON},
        "volumes": [*spec["volumes"], _volume(*_SOCKET)],
    }


def node_configuration(namespace: str) -> Manifest:
    """The configuration of ``liqod node``, which needs no secret: it is the operator's once made.

    Args:
        namespace: liqod's own.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NODES, "namespace": namespace},
        "data": {CONFIG_FILE: ""},
    }


def keeper(namespace: str, image: str, affinity: Manifest) -> Manifest:
    """The keepers, one on each node on which a gateway may come to run.

    They are replaced only when their pods are deleted: a new version of the daemon leaves the
    tunnels alone.

    Args:
        namespace: liqod's own.
        image: that of ``liqod node``.
        affinity: that keeps it off virtual nodes.
    """
    container = {
        "name": "keeper",
        "image": image,
        "command": ["python", "-m", "liqod.keeper.server"],
        "env": [{"name": VARIABLE, "value": DEFAULT}],
        # Once: it has nothing to be asked again and again.
        "startupProbe": {
            "exec": {"command": ["python", "-ISc", ANSWERS.format(socket=DEFAULT)]},
            "periodSeconds": 1,
            "failureThreshold": 30,
        },
        # Its programs are in it: some 65 MB each under load, 8 at rest.
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": _security(KEEPERS_CAPABILITIES),
        "volumeMounts": _mounts(),
    }
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": KEEPERS_GRACE,
        "containers": [container],
        "volumes": _volumes(),
    }
    return _everywhere(KEEPER, namespace, {"type": "OnDelete"}, spec, affinity)


def node(namespace: str, image: str, affinity: Manifest) -> Manifest:
    """``liqod node`` on every node: on the gateway's it has the tunnels.

    Its settings and tunnels stay on a node while it is replaced, so many may be replaced at once.

    Args:
        namespace: liqod's own.
        image: that of ``liqod node``.
        affinity: that keeps it off virtual nodes.
    """
    container = {
        "name": "node",
        "image": image,
        "args": ["node", "--config", f"{NODES_CONFIG}/{CONFIG_FILE}"],
        "env": [
            {"name": "LIQOD_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "LIQOD_NAMESPACE", "value": namespace},
            {"name": "LIQOD_HEALTH_HOST", "value": LOOPBACK},
            {"name": "LIQOD_DAEMON_USER", "value": str(DAEMON)},
            {"name": VARIABLE, "value": DEFAULT},
        ],
        **probes(NODES_PORT, LOOPBACK),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": _security(NODES_CAPABILITIES),
        "volumeMounts": [
            *_mounts(),
            _mount(*_SOCKET),
            _mount("netns", "/run/netns"),
            {**_mount("config", NODES_CONFIG), "readOnly": True},
        ],
    }
    spec = {
        "serviceAccountName": noderights.ACCOUNT,
        "securityContext": _UNCONFINED,
        "terminationGracePeriodSeconds": KEEPERS_GRACE,
        "containers": [container],
        "volumes": [
            *_volumes(),
            _volume(*_SOCKET),
            {"name": "netns", "emptyDir": {"medium": "Memory", "sizeLimit": ROOM}},
            {"name": "config", "configMap": {"name": NODES}},
        ],
    }
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}}
    return _everywhere(NODES, namespace, update, spec, affinity)


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
                    **_in_the_nodes_network(),
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


def _in_the_nodes_network() -> Manifest:
    return {
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "priorityClassName": PRIORITY,
    }


def _security(capabilities: tuple[str, ...]) -> Manifest:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": list(capabilities)},
    }


def _mounts() -> list[Manifest]:
    return [*(_mount(*each) for each in _SHARED), _mount(_TUN["name"], "/dev/net/tun")]


def _mount(name: str, path: str) -> Manifest:
    return {"name": name, "mountPath": path}


def _volumes() -> list[Manifest]:
    return [*(_volume(*each) for each in _SHARED), _TUN]


def _volume(name: str, path: str) -> Manifest:
    """A folder of the node's."""
    return {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
