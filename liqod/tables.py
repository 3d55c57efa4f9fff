"""The configuration's tables of what the daemon listens on and of what peers may do; their base."""

from collections.abc import Callable, Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from liqod.errors import ConfigError
from liqod.model.crossing import keys
from liqod.model.crossing.addresses import PRIVATE, is_network
from liqod.model.network.claims import malformed

PodNetwork = Literal["none", "routed", "tunnel"]
Port = Annotated[int, Meta(ge=0, le=65535)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: an unknown key in it is an error."""


class Webhook(Table, frozen=True):
    """The admission webhook for pods of offloaded namespaces.

    Attributes:
        enabled: without it, pods get their toleration by patch after they were refused a node.
        host: address to listen on.
        port: TCP port to listen on; 0 takes a free one.
        advertise: ``host:port`` or URL for the API server; empty means the Service in a cluster,
            and the address of the connection to the API server otherwise.
    """

    enabled: bool = True
    host: str = ""
    port: Port = 9443
    advertise: str = ""


class Kubelet(Table, frozen=True):
    """The address that virtual nodes show.

    Attributes:
        host: IP address in the Node's status; empty means that of the connection to the API server.
        listen: address to listen on.
        port: TCP port, the same for all virtual nodes; 0 takes a free one, 10250 is refused.
    """

    host: str = ""
    listen: str = ""
    port: Port = 10270


class Health(Table, frozen=True):
    """``/healthz``, ``/readyz`` and ``/metrics``.

    Attributes:
        host: address to listen on.
        port: TCP port; 0 takes a free one.
        enabled: whether to listen at all.
    """

    host: str = "127.0.0.1"
    port: Port = 10271
    enabled: bool = True


class Inspector(Table, frozen=True):
    """The websocket by which ``liqod top`` and the other commands look inside.

    Attributes:
        enabled: whether to serve it at all.
        socket: path of the Unix socket; empty means the cluster's name in the usual folder.
        group: name of the group that may look; empty leaves the socket to the daemon's own.
        host: address to listen on for clients over TCP; empty means none.
        port: TCP port; 0 takes a free one.
        cert_file: path of the PEM certificate chain for TCP.
        key_file: path of its PEM key.
    """

    enabled: bool = True
    socket: str = ""
    group: str = ""
    host: str = ""
    port: Port = 10272
    cert_file: str = ""
    key_file: str = ""


class Network(Table, frozen=True):
    """How networks are joined with those of peers. Ranges are prefixes such as ``10.70.0.0/20``.

    Attributes:
        enabled: whether networks are joined at all.
        advertise: addresses or names at which peers reach this machine's gateways; empty means the
            one by which it is a node.
        backends: of the tunnels that may be used, by name; empty means those that encrypt.
        pools: where aliases of peers' ranges are taken from, in this order; empty means private
            ranges, those that are rarely used first.
        reserved: ranges that are used here for something else: no alias lies in them.
        external_cidr: range of the addresses that are lent to peers; empty means 10.70.0.0/20,
            or another as large where that is taken.
        lendable: ranges of other hosts that peers themselves may have lent to them by an ``IP`` in
            their tenant namespace.
    """

    enabled: bool = True
    advertise: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    external_cidr: str = ""
    lendable: tuple[str, ...] = ()


def check_network(network: Network) -> None:
    """See that ranges are ranges.

    Raises:
        ConfigError: one is not.
    """
    external = (network.external_cidr,) if network.external_cidr else ()
    for field, texts in (
        ("pools", network.pools),
        ("reserved", network.reserved),
        ("external_cidr", external),
        ("lendable", network.lendable),
    ):
        for text in texts:
            problem = malformed(text)
            if problem:
                raise ConfigError(f"network.{field}: {problem}")


class Guests(Table, frozen=True):
    """What those who borrow may ask for; lists are of shell patterns (``*``).

    Attributes:
        max_slices: slices that one consumer may have.
        max_namespaces: namespaces that one consumer may have.
        max_resources: what all default-class slices of one consumer may be granted together; a
            resource that is not named has no bound.
        max_pod_bytes: size of a ShadowPod; a larger one is not kept in memory.
        max_bytes: what one consumer's objects may take of the daemon's memory, all together; where
            there is no more room, no pods are made of new ones. A small pod takes some 5 kB.
        namespaces: their names here; ``{peer}`` stands for the consumer's id.
        service_accounts: ServiceAccounts of their namespaces that their pods may use.
        runtime_classes: RuntimeClasses of this cluster that their pods may use.
        tolerations: keys of taints that their pods may tolerate; others are taken off them.
        volumes: types of volumes that their pods may have.
        priority_class: PriorityClass of their pods; empty leaves it to the cluster's default.
        annotations: keys of annotations that their objects may have
        (:mod:`liqod.model.crossing.keys`). labels: keys of labels that they may have.
        ingress_hosts: hosts of their Ingresses; ``{peer}`` stands for the consumer's id.
        ingress_classes: classes of their Ingresses. storage_classes: classes of their claims.
        max_grace_seconds: the longest that a pod of theirs may take to end; more is cut.
        always_pull: whether each start of theirs asks the registry, so that no image is run which
            another's credentials brought here.
    """

    max_slices: Annotated[int, Meta(ge=1)] = 16
    max_namespaces: Annotated[int, Meta(ge=1)] = 100
    max_resources: dict[str, str] = msgspec.field(default_factory=lambda: {"pods": "10000"})
    max_pod_bytes: Annotated[int, Meta(ge=4096)] = 131072
    max_bytes: Annotated[int, Meta(ge=1 << 20)] = 32 << 20
    namespaces: tuple[str, ...] = ("*",)
    service_accounts: tuple[str, ...] = ("default",)
    runtime_classes: tuple[str, ...] = ()
    tolerations: tuple[str, ...] = (
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
    )
    volumes: tuple[str, ...] = (
        *("configMap", "downwardAPI", "emptyDir", "ephemeral", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    )
    priority_class: str = ""
    annotations: tuple[str, ...] = keys.GUEST_ANNOTATIONS
    labels: tuple[str, ...] = keys.GUEST_LABELS
    ingress_hosts: tuple[str, ...] = ()
    ingress_classes: tuple[str, ...] = ("*",)
    storage_classes: tuple[str, ...] = ("*",)
    max_grace_seconds: Annotated[int, Meta(ge=1, le=31_536_000)] = 3600
    always_pull: bool = False


class PeerSettings(Table, frozen=True):
    """What the operator says of one peer.

    Attributes:
        id: its cluster id.
        pod_network: how its pods are reachable from here: not at all, by their own addresses, or
            through a tunnel by translated ones.
        kubeconfig: path of a peering user's kubeconfig; the daemon then peers by itself.
        resources: what to ask for, by resource name, when it does.
        pod_cidrs: where pods' own addresses cross, the networks that the peer's may lie in.
        believed_labels: keys of labels that it may declare for its virtual nodes, as patterns
            (:mod:`liqod.model.crossing.keys`); others are left out, so that no selector goes by
            them.
        node_labels: labels that its virtual nodes have by this cluster's own word.
    """

    id: str
    pod_network: PodNetwork = "none"
    kubeconfig: str = ""
    resources: dict[str, str] = msgspec.field(default_factory=dict)
    pod_cidrs: tuple[str, ...] = PRIVATE
    believed_labels: tuple[str, ...] = ()
    node_labels: dict[str, str] = msgspec.field(default_factory=dict)


class PeerDefaults(Table, frozen=True):
    """The settings of peers that have no entry of their own; each means the same as there."""

    pod_network: PodNetwork = "none"
    pod_cidrs: tuple[str, ...] = PRIVATE
    believed_labels: tuple[str, ...] = ()


def check_boundary(guests: Guests, peers: tuple[PeerSettings, ...], defaults: PeerDefaults) -> None:
    """See that the lists of what peers may do are made of what they are to be made of.

    Raises:
        ConfigError: one is not.
    """
    for field, problem_of in (
        ("annotations", keys.pattern_problem),
        ("labels", keys.pattern_problem),
        ("ingress_hosts", keys.host_problem),
        ("ingress_classes", keys.class_problem),
        ("storage_classes", keys.class_problem),
    ):
        _check(f"guests.{field}", getattr(guests, field), problem_of)
    named: list[tuple[str, PeerSettings | PeerDefaults]] = [("peers", each) for each in peers]
    for name, each in (("peer_defaults", defaults), *named):
        for cidr in each.pod_cidrs:
            if not is_network(cidr):
                raise ConfigError(f"{name}.pod_cidrs: {cidr!r} is no network")
        _check(f"{name}.believed_labels", each.believed_labels, keys.pattern_problem)


def _check(where: str, patterns: Iterable[str], problem_of: Callable[[str], str]) -> None:
    for pattern in patterns:
        problem = problem_of(pattern)
        if problem:
            raise ConfigError(f"{where}: {problem}")
