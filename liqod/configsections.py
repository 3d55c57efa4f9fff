"""The configuration's tables of what the daemon listens on and of what peers may do; their base."""

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.kube.http import proxies
from liqod.model import ids
from liqod.model.crossing import allowedkeys
from liqod.model.crossing.addresses import is_network, parse
from liqod.model.crossing.thirdclusters import ANYBODY
from liqod.model.network.rangechecks import malformed
from liqod.model.objects.quantities import is_quantity

PodNetwork = Literal["none", "routed", "tunnel"]
HomeAccess = Literal["none", "asked", "home"]
NodeParts = Literal["", "whole", "groups", "nodes"]
NodePods = Literal["podCIDRs", "cni"]
Port = Annotated[int, Meta(ge=0, le=65535)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: an unknown key in it is an error."""


class WebhookSettings(Table, frozen=True):
    """The admission webhook for pods of offloaded namespaces.

    Attributes:
        enabled: without it, pods get their toleration by patch after they were refused a node.
        host: address to listen on.
        port: TCP port to listen on; 0 takes a free one.
        advertise: ``host:port`` or URL for the API server; empty means the Service in a cluster,
            and the address of the connection to the API server otherwise.
        fail_closed: whether pods of namespaces of which none may run here (strategy ``Remote``) are
            refused while the API server does not reach the webhook; a namespace may say otherwise.
    """

    enabled: bool = True
    host: str = ""
    port: Port = 9443
    advertise: str = ""
    fail_closed: bool = False


def check_webhook(webhook: WebhookSettings) -> None:
    """See that a webhook which is asked for is there.

    Raises:
        ConfigError: it is not.
    """
    if webhook.fail_closed and not webhook.enabled:
        raise ConfigError(
            "[webhook] fail_closed is set, and enabled is false: nobody would be asked about pods"
        )


class ServiceSettings(Table, frozen=True):
    """Services of the whole set of clusters (Multi-Cluster Services API).

    Attributes:
        enabled: whether exported Services cross to and from peers, in the namespaces that are
            shared with them; `liqod install --services` gives the kinds and the rights.
    """

    enabled: bool = False


class KubeletSettings(Table, frozen=True):
    """The address that virtual nodes show.

    Attributes:
        host: IP address in the Node's status; empty means that of the connection to the API server.
        listen: address to listen on.
        port: TCP port, the same for all virtual nodes; 0 takes a free one, 10250 is refused.
    """

    host: str = ""
    listen: str = ""
    port: Port = 10270


class HealthSettings(Table, frozen=True):
    """``/healthz``, ``/readyz`` and ``/metrics``.

    Attributes:
        host: address to listen on.
        port: TCP port; 0 takes a free one.
        enabled: whether to listen at all.
    """

    host: str = "127.0.0.1"
    port: Port = 10271
    enabled: bool = True


class InspectorSettings(Table, frozen=True):
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


_SELECTOR = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,316})(=[A-Za-z0-9._-]{0,63})?")
MOST_RELAYED = 30_000
"""Megabits per second: a limit's number has 32 bits."""
MOST_PAIRS = 64
"""Pairs of peers between which transit is allowed."""


class NetworkSettings(Table, frozen=True):
    """How networks are joined with those of peers. Ranges are prefixes such as ``10.70.0.0/20``.

    Attributes:
        enabled: whether networks are joined at all.
        machine: folder of the socket at which `liqod node` takes the orders of `liqod run` on the
            same machine.
        daemon: user of `liqod run`, who may order the machine beside root; the socket is of its
            group, of that number where the user is one; empty means root alone.
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
        node: name of the Node that the daemon runs on; empty means the one that has this machine's
            address.
        node_address: IP address of that Node, where the daemon is not in its network, as in a pod;
            empty means the address at which the daemon itself is reached.
        node_pods: who knows which node has a pod: ``podCIDRs`` (of the Nodes), or ``cni``, where
            those are set and pods are elsewhere; the gateway then goes by the CNI's own routes.
        in_band: ids of peers, or patterns of them (``*``), that may reach this cluster's API server
            through the tunnel; it asks them who they are as it asks everybody.
        candidates: nodes of which one has the tunnels, while another takes over when it is gone:
            `all` on which a `liqod run` is, or those with a label (`key` or `key=value`); empty
            means that the leader has them, and nobody stands by.
        candidate_port: UDP port at which candidates ask each other, on the nodes' own network.
        relay: ids of peers, or patterns, whose tunnels to each other may go by this gateway.
        relay_rate: megabits per second that it carries for each of them, both ways together.
        relayed_by: likewise, those by whose gateway the tunnels of others may come to this one's.
        transit: pairs of ids of peers, such as ``[["milan", "turin"]]``: pods of each reach
            endpoints at the other that this cluster publishes there, by way of this gateway.
        transit_rate: megabits per second that it carries from each to the other, in both directions
            together.
        service_annotations: keys of annotations that a GatewayServer, which a peer may have
            written, can have its Service carry in a cluster.
        websocket: whether gateways that are dialled by UDP listen at TCP port 443, too, for clients
            that no UDP leads to.
    """

    enabled: bool = True
    machine: str = "/run/liqod-node"
    daemon: str = ""
    advertise: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    external_cidr: str = ""
    lendable: tuple[str, ...] = ()
    node: str = ""
    node_address: str = ""
    node_pods: NodePods = "podCIDRs"
    in_band: tuple[str, ...] = ()
    candidates: str = ""
    candidate_port: int = 12346
    relay: tuple[str, ...] = ()
    relay_rate: int = 100
    relayed_by: tuple[str, ...] = ()
    transit: tuple[tuple[str, str], ...] = ()
    transit_rate: int = 1000
    service_annotations: tuple[str, ...] = ()
    websocket: bool = False


def check_network(network: NetworkSettings) -> None:
    """See that ranges are ranges.

    Raises:
        ConfigError: one is not.
    """
    if not 0 < network.candidate_port < 65536:
        raise ConfigError(
            f"[network] candidate_port is {network.candidate_port}: 1 to 65535 can be"
        )
    if network.candidates and not _SELECTOR.fullmatch(network.candidates):
        raise ConfigError(
            f"[network] candidates is {network.candidates!r}: `all`, or a label of nodes such as "
            "`liqod.io/gateway=true`"
        )
    if network.node_address and parse(network.node_address) is None:
        raise ConfigError(f"[network] node_address is {network.node_address!r}: no IP address")
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
    for field, rate in (
        ("relay_rate", network.relay_rate),
        ("transit_rate", network.transit_rate),
    ):
        if not 1 <= rate <= MOST_RELAYED:
            raise ConfigError(f"network.{field}: 1 to {MOST_RELAYED} Mbit/s can be")
    _check_transit(network.transit)


def _check_transit(pairs: tuple[tuple[str, str], ...]) -> None:
    if len(pairs) > MOST_PAIRS:
        raise ConfigError(f"network.transit: {len(pairs)} pairs are more than {MOST_PAIRS}")
    for one, other in pairs:
        for each in (one, other):
            problem = ids.cluster_id_problem(each)
            if problem is not None:
                raise ConfigError(f"network.transit: {problem}; a pair is two ids of peers")
        if one == other:
            raise ConfigError(f"network.transit: {one} is paired with itself; name two peers")


GuestField = Literal[
    "clusterIP",
    "loadBalancerIP",
    "nodePort",
    "healthCheckNodePort",
    "volumeAttributesClassName",
]
"""A field by which a guest would choose what a provider gives out otherwise."""


class GuestSettings(Table, frozen=True):
    """Limits on the requests of those who borrow; lists are of shell patterns (``*``).

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
        (:mod:`liqod.model.crossing.allowedkeys`). labels: keys of labels that they may have.
        ingress_hosts: hosts of their Ingresses; ``{peer}`` stands for the consumer's id.
        ingress_classes: classes of their Ingresses. storage_classes: classes of their claims.
        load_balancer_classes: classes of their Services of the type LoadBalancer.
        fields: fields that choose addresses and ports, which their Services and claims may set.
        opt_ins: names of those settings that are on by which this cluster consents to a kind which
            can hold it up (:class:`liqod.plugins.grants.OptIn`). In the file each is a key of its
            own that is true or false, such as ``disruption_budgets``.
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
    annotations: tuple[str, ...] = allowedkeys.GUEST_ANNOTATIONS
    labels: tuple[str, ...] = allowedkeys.GUEST_LABELS
    ingress_hosts: tuple[str, ...] = ()
    ingress_classes: tuple[str, ...] = ("*",)
    storage_classes: tuple[str, ...] = ("*",)
    load_balancer_classes: tuple[str, ...] = ("*",)
    fields: tuple[GuestField, ...] = ()
    opt_ins: tuple[str, ...] = ()
    max_grace_seconds: Annotated[int, Meta(ge=1, le=31_536_000)] = 3600
    always_pull: bool = False


class StorageSettings(Table, frozen=True):
    """Claims of the virtual StorageClass; ``liqod install --storage`` brings what they need.

    Attributes:
        enabled: whether claims of that class get volumes, and pods that use them go to peers.
        class_name: its name.
        local_class: the StorageClass of volumes on this cluster's own nodes; empty means the
            cluster's default.
    """

    enabled: bool = False
    class_name: str = labels.STORAGE_CLASS
    local_class: str = ""


class HandshakeSettings(Table, frozen=True):
    """How other clusters' daemons reach this one's, and how it reaches them.

    Attributes:
        enabled: whether it listens at all; it asks others in any case.
        host: address to listen on; empty means every interface.
        port: TCP port; 0 takes a free one.
        advertise: where others reach it, as ``host:port``, the best first; empty means this
            machine's address.
        proxy: HTTP proxy by which others are reached; empty means directly.
        labels: labels of this cluster that it sends to those whom it asks, for their policies.
        tell_resources: whether adverts say what is free, to whoever hears them:
            ``provider.default_resources`` less what consumers were granted.
        stream_idle: seconds after which a consumer's connection to this cluster's API server ends
            by which nothing passes.
    """

    enabled: bool = True
    host: str = ""
    port: Port = 6446
    advertise: tuple[str, ...] = ()
    proxy: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    tell_resources: bool = False
    stream_idle: Annotated[float, Meta(ge=60)] = 4 * 3600.0


class PeerPolicy(Table, frozen=True):
    """A policy for clusters that ask to borrow, or that are asked; the first that fits counts.

    All that it names must fit; a policy that names nothing fits everybody.

    Attributes:
        action: ``auto`` grants without a person, ``ask`` leaves it to the inbox, ``deny`` refuses.
        cluster_id: pattern (``*``) of its cluster id.
        key: SHA-256 of its public key, hexadecimal.
        discovery: pattern of the names of discovery plugins, one of which has seen that cluster
            with that key.
        label: a label that it claims for itself, as ``key=pattern``; nobody has checked it.
        max_resources: what ``auto`` grants at the most, by resource name; what is not named is
            bounded by ``provider.default_resources``. Requests for more are left to the inbox.
        borrow: what this cluster asks, by itself, of one that discovery sees and that fits; of the
            policies that say so, or deny, the first that fits counts here.
    """

    action: Literal["auto", "ask", "deny"]
    cluster_id: str = ""
    key: str = ""
    discovery: str = ""
    label: str = ""
    max_resources: dict[str, str] = msgspec.field(default_factory=dict)
    borrow: dict[str, str] = msgspec.field(default_factory=dict)


class PeerSettings(Table, frozen=True):
    """The operator's settings for one peer.

    Attributes:
        id: its cluster id.
        pod_network: how its pods are reachable from here: not at all, by their own addresses, or
            through a tunnel by translated ones (not at all while no network is joined).
        kubeconfig: path of a peering user's kubeconfig; the daemon then peers by itself.
        addresses: where its daemon listens, as ``host:port``; the daemon then asks it by itself.
        key: SHA-256 of the public key that it must have, hexadecimal.
        resources: what to ask for, by resource name, when it does.
        virtual_nodes: the nodes that its slice is to have (:mod:`liqod.model.peering.parts`), when
            it does; empty for those that there are, and one as a whole at first.
        pod_cidrs: where pods' own addresses cross, the networks that the peer's lie in.
        believed_labels: keys of labels that it may declare for its virtual nodes, as patterns
            (:mod:`liqod.model.crossing.allowedkeys`); others are left out, so that no selector goes
            by them.
        node_labels: labels that its virtual nodes have by this cluster's own word.
        api_server: which of this cluster's pods at it may speak with this cluster's API server, by
            tokens that its administrators can read: none; those that are annotated
            ``liqo.io/api-server-support: home``; or all that have a token.
        direct_connections: ids of the other peers, or ``*``, whose pods the Services that it
            brings here may lead to, by the network that this cluster has joined with these.
    """

    id: str
    pod_network: PodNetwork = "tunnel"
    kubeconfig: str = ""
    addresses: tuple[str, ...] = ()
    key: str = ""
    resources: dict[str, str] = msgspec.field(default_factory=dict)
    virtual_nodes: NodeParts = ""
    pod_cidrs: tuple[str, ...] = ()
    believed_labels: tuple[str, ...] = ()
    node_labels: dict[str, str] = msgspec.field(default_factory=dict)
    api_server: HomeAccess = "none"
    direct_connections: tuple[str, ...] = ()


class PeerDefaults(Table, frozen=True):
    """The settings of peers that have no entry of their own; each means the same as there."""

    pod_network: PodNetwork = "tunnel"
    pod_cidrs: tuple[str, ...] = ()
    believed_labels: tuple[str, ...] = ()
    api_server: HomeAccess = "none"
    direct_connections: tuple[str, ...] = ()


def check_boundary(
    guests: GuestSettings, peers: tuple[PeerSettings, ...], defaults: PeerDefaults
) -> None:
    """See that the lists of what peers may do are made of what they are to be made of.

    Raises:
        ConfigError: one is not.
    """
    for field, problem_of in (
        ("annotations", allowedkeys.pattern_problem),
        ("labels", allowedkeys.pattern_problem),
        ("ingress_hosts", allowedkeys.host_problem),
        ("ingress_classes", allowedkeys.class_problem),
        ("storage_classes", allowedkeys.class_problem),
        ("load_balancer_classes", allowedkeys.class_problem),
    ):
        _check(f"guests.{field}", getattr(guests, field), problem_of)
    named: list[tuple[str, PeerSettings | PeerDefaults]] = [("peers", each) for each in peers]
    for name, each in (("peer_defaults", defaults), *named):
        for cidr in each.pod_cidrs:
            if not is_network(cidr):
                raise ConfigError(f"{name}.pod_cidrs: {cidr!r} is no network")
        if each.pod_network == "routed" and not each.pod_cidrs:
            raise ConfigError(
                f'{name}: with pod_network = "routed" say which networks the peer\'s pods are in, '
                'such as pod_cidrs = ["10.245.0.0/16"]: it may name addresses in these alone'
            )
        _check(f"{name}.believed_labels", each.believed_labels, allowedkeys.pattern_problem)
        _check(f"{name}.direct_connections", each.direct_connections, _id_problem)


def _id_problem(text: str) -> str:
    return "" if text == ANYBODY else ids.cluster_id_problem(text) or ""


def _check(where: str, patterns: Iterable[str], problem_of: Callable[[str], str]) -> None:
    for pattern in patterns:
        problem = problem_of(pattern)
        if problem:
            raise ConfigError(f"{where}: {problem}")


_KEY = re.compile("[0-9a-f]{64}")
_ENDPOINT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?):([0-9]{1,5})")
MOST_ADDRESSES = 16
"""Addresses that one cluster may be given."""


def check_handshake(
    handshake: HandshakeSettings, policies: tuple[PeerPolicy, ...], peers: tuple[PeerSettings, ...]
) -> None:
    """See that addresses, keys and quantities are such.

    Raises:
        ConfigError: one is not.
    """
    _check_addresses("handshake.advertise", handshake.advertise)
    if handshake.proxy:
        proxies.check(handshake.proxy, "handshake.proxy")
    for place, policy in enumerate(policies, 1):
        where = f"policies, entry {place}"
        _check_key(where, policy.key)
        if policy.label and not re.fullmatch("[^=]+=.*", policy.label):
            raise ConfigError(f"{where}: label is {policy.label!r}; write key=pattern")
        if policy.max_resources and policy.action != "auto":
            raise ConfigError(f"{where}: max_resources bounds what `auto` grants, and nothing else")
        _check_quantities(f"{where} max_resources", policy.max_resources)
        _check_quantities(f"{where} borrow", policy.borrow)
        if policy.borrow and policy.action == "deny":
            raise ConfigError(f"{where}: who is denied is not asked: take borrow out")
        if policy.borrow and not (policy.key or (policy.cluster_id and policy.discovery)):
            raise ConfigError(
                f"{where}: borrow sends pods to whoever fits: name the key, or cluster_id and"
                " discovery"
            )
    for peer in peers:
        _check_addresses(f"peers: {peer.id}", peer.addresses)
        _check_key(f"peers: {peer.id}", peer.key)
        _check_quantities(f"peers: {peer.id} resources", peer.resources)
        if peer.addresses and not peer.key:
            raise ConfigError(
                f"peers: {peer.id} has addresses and no key, so that whoever answers there would be"
                " it: `liqod status` there shows its key"
            )
        if peer.addresses and peer.kubeconfig:
            raise ConfigError(
                f"peers: {peer.id} has a kubeconfig and addresses; one of them is enough"
            )


def is_endpoint(text: str) -> bool:
    """True if a text is ``host:port``; an IPv6 address is in brackets."""
    match = _ENDPOINT.fullmatch(text)
    return match is not None and 0 < int(match[3]) < 65536 and len(text) <= 260


def _check_addresses(where: str, addresses: tuple[str, ...]) -> None:
    if len(addresses) > MOST_ADDRESSES:
        raise ConfigError(f"{where}: {MOST_ADDRESSES} addresses at the most")
    for text in addresses:
        if not is_endpoint(text):
            raise ConfigError(f"{where}: {text!r} is no host:port")


def _check_key(where: str, key: str) -> None:
    if key and not _KEY.fullmatch(key):
        raise ConfigError(f"{where}: key is a SHA-256 of 64 hexadecimal digits, in lower case")


def _check_quantities(where: str, resources: dict[str, str]) -> None:
    for name, text in resources.items():
        if not is_quantity(text) or text.startswith("-"):
            raise ConfigError(f"{where}: {text!r} is no quantity for {name}; write 4, 500m or 8Gi")
