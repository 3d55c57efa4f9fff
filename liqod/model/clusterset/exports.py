"""Values of the Services that clusters export to each other, and how this cluster makes its own.

An :class:`Export` is what one cluster says of one Service. It travels to other clusters as JSON,
and all of them compute the same ServiceImport from the same exports
(:mod:`liqod.model.clusterset.merging`).
"""

import hashlib
from collections.abc import Collection, Iterable
from typing import Annotated, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.resources.multicluster import SOURCE_CLUSTER, ServiceExport

Key = tuple[str, str]
"""Namespace and name, which a Service, its ServiceExport and its ServiceImport have in common."""

CLUSTER_SET_IP: Final = "ClusterSetIP"
HEADLESS: Final = "Headless"
TYPES: Final = (CLUSTER_SET_IP, HEADLESS)
FAMILIES: Final = ("IPv4", "IPv6")
CLIENT_IP: Final = "ClientIP"
CLOSE: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
"""Values of ``trafficDistribution`` by which a client's own zone comes first."""
AFFINITIES: Final = ("None", CLIENT_IP)
DEFAULT_TIMEOUT: Final = 10800
"""Seconds of session affinity of a Service that names none (``core/v1 ClientIPConfig``)."""

NO_SERVICE: Final = "NoService"
INVALID_TYPE: Final = "InvalidServiceType"
REFLECTED: Final = "ReflectedService"
LEAVING: Final = "Terminating"
_UNMARKED: Final = {"slices", "byWay"}
_LATEST: Final = 1 << 40


class Port(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A port of a Service, or of the endpoints of a slice."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str = ""


class Endpoint(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An endpoint of a Service.

    Attributes:
        addresses: its addresses, of the family of its slice.
        hostname: the name that it has in DNS; empty for none.
        zone: its zone; empty where it is not known.
        node: its node, if that is this cluster's; it does not travel.
        ready: whether it takes traffic.
        serving: whether it would, if it were not about to end.
        terminating: whether it is about to end.
    """

    addresses: tuple[str, ...]
    hostname: str = ""
    zone: str = ""
    node: str = ""
    ready: bool = True
    serving: bool = True
    terminating: bool = False


class Slice(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The endpoints of one EndpointSlice, with their ports, which are the targets of a Service's.

    Attributes:
        name: of the EndpointSlice in the cluster that it is from.
        family: ``IPv4`` or ``IPv6``.
        ports: the ports, each under the name that it has in the Service.
        endpoints: the endpoints.
    """

    name: str
    family: str
    ports: tuple[Port, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


class Consent(msgspec.Struct, frozen=True):
    """The word of an exporter that a peer may tell another cluster of an export.

    Attributes:
        key: the exporter's public key, PEM.
        signature: over the export, the other cluster's key and the end, in hexadecimal
            (:func:`liqod.model.clusterset.byway.statement`).
        until: the Unix time from which it counts no more.
    """

    key: str
    signature: str
    until: Annotated[int, msgspec.Meta(ge=0, le=_LATEST)]


class Export(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A Service as one cluster exports it.

    Attributes:
        cluster: the id of the cluster.
        namespace: of the Service.
        name: of the Service.
        created: creation time of the ServiceExport, RFC 3339 in UTC.
        type: ``ClusterSetIP`` or ``Headless``.
        ports: the ports of the Service.
        families: its IP families, the first one first.
        session_affinity: ``None`` or ``ClientIP``.
        affinity_timeout: seconds of the affinity; 0 where there is none.
        internal_traffic_policy: ``Cluster`` or ``Local``.
        traffic_distribution: as the Service has it; empty for none.
        labels: those that the ServiceExport gives to the ServiceImport.
        annotations: those that it gives.
        slices: the endpoints.
        by_way: by cluster id, consents that the peer which is told tells other clusters, too.
    """

    cluster: str
    namespace: str
    name: str
    created: str
    type: str = CLUSTER_SET_IP
    ports: tuple[Port, ...] = ()
    families: tuple[str, ...] = ("IPv4",)
    session_affinity: str = "None"
    affinity_timeout: int = 0
    internal_traffic_policy: str = "Cluster"
    traffic_distribution: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    slices: tuple[Slice, ...] = ()
    by_way: dict[str, Consent] = {}

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name


def mark_of(export: str | bytes) -> str:
    """The mark of an export as JSON, endpoints and consents left out.

    Raises:
        msgspec.DecodeError: it is none.
    """
    said = "".join(f"{name}={value}" for name, value in marked(export))
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def marked(export: str | bytes) -> list[tuple[str, str]]:
    """The fields of an export as JSON, endpoints and consents left out, each as it was sent.

    A receiver may be of a version that does not know them all.

    Raises:
        msgspec.DecodeError: it is none.
    """
    fields = msgspec.json.decode(export, type=dict[str, msgspec.Raw])
    return [
        (name, bytes(fields[name]).decode()) for name in sorted(fields) if name not in _UNMARKED
    ]


class Refusal(msgspec.Struct, frozen=True):
    """The reason why a Service is not exported.

    Attributes:
        reason: of the condition ``Valid``, one word.
        message: a sentence.
    """

    reason: str
    message: str


class ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a Service of this cluster."""

    port: int
    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None


class ClientIPConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The time that a client stays with its endpoint."""

    timeout_seconds: int | None = None


class AffinityConfig(msgspec.Struct, frozen=True):
    """The configuration of a Service's session affinity."""

    client_ip: ClientIPConfig | None = msgspec.field(name="clientIP", default=None)


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a Service of this cluster, as far as it is exported."""

    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    ip_families: tuple[str, ...] | None = None
    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] | None = None
    session_affinity: str | None = None
    session_affinity_config: AffinityConfig | None = None
    internal_traffic_policy: str | None = None
    traffic_distribution: str | None = None


class Service(msgspec.Struct, frozen=True):
    """A Service of this cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(msgspec.Struct, frozen=True):
    """The conditions of an endpoint; None where they are missing."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class SliceEndpoint(msgspec.Struct, frozen=True, rename="camel"):
    """An endpoint of an EndpointSlice of this cluster."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions | None = None
    hostname: str | None = None
    zone: str | None = None
    node_name: str | None = None


class SlicePort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of an EndpointSlice of this cluster."""

    port: int | None = None
    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel"):
    """An EndpointSlice of this cluster (``discovery.k8s.io/v1``)."""

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = "IPv4"
    endpoints: tuple[SliceEndpoint, ...] | None = None
    ports: tuple[SlicePort, ...] | None = None


def own_export(
    export: ServiceExport, service: Service | None, found: Iterable[EndpointSlice], cluster: str
) -> Export | Refusal:
    """The export of a Service of this cluster, or the reason why it is none.

    Args:
        export: the ServiceExport.
        service: the Service of its name; None where there is none.
        found: the EndpointSlices of that Service.
        cluster: this cluster's id.
    """
    name = export.metadata.name
    if export.metadata.deletion_timestamp is not None:
        return Refusal(LEAVING, "it is being deleted")
    if service is None:
        return Refusal(NO_SERVICE, f"there is no Service {name} in this namespace")
    if labels.REMOTE_CLUSTER_ID in service.metadata.labels or is_reflected(service.metadata):
        return Refusal(REFLECTED, "the Service is another cluster's, and is exported from there")
    spec = service.spec
    if spec.type == "ExternalName":
        return Refusal(INVALID_TYPE, "a Service of type ExternalName cannot be exported")
    affinity = spec.session_affinity or "None"
    config = spec.session_affinity_config
    timeout = config.client_ip.timeout_seconds if config and config.client_ip else None
    slices = tuple(_exported(each) for each in found if _is_exported(each))
    return Export(
        cluster=cluster,
        namespace=export.metadata.namespace,
        name=name,
        created=export.metadata.creation_timestamp or "",
        type=HEADLESS if spec.cluster_ip == "None" else CLUSTER_SET_IP,
        ports=tuple(_port(each.port, each) for each in spec.ports or ()),
        families=_families(spec, slices),
        session_affinity=affinity,
        affinity_timeout=(timeout or DEFAULT_TIMEOUT) if affinity == CLIENT_IP else 0,
        internal_traffic_policy=spec.internal_traffic_policy or "Cluster",
        traffic_distribution=spec.traffic_distribution or "",
        labels=export.spec.exported_labels,
        annotations=export.spec.exported_annotations,
        slices=tuple(sorted(slices, key=lambda each: each.name)),
    )


def sent(export: Export, virtual: Collection[str] = frozenset()) -> Export:
    """The export as another cluster is told it: without the names of this cluster's nodes.

    Args:
        export: the export.
        virtual: the names of virtual nodes, whose pods are left out.
    """
    slices = (
        msgspec.structs.replace(
            each,
            endpoints=tuple(
                msgspec.structs.replace(one, node="")
                for one in each.endpoints
                if one.node not in virtual
            ),
        )
        for each in export.slices
    )
    return msgspec.structs.replace(export, slices=tuple(slices))


def _families(spec: ServiceSpec, slices: Collection[Slice]) -> tuple[str, ...]:
    """The families that a Service has.

    A headless one without a selector gets both, also in a cluster that has one alone
    (``ipFamilyPolicy: RequireDualStack``); it is reached by those that its endpoints have.
    """
    named = spec.ip_families or ("IPv4",)
    if spec.cluster_ip != "None" or spec.selector:
        return named
    there = {each.family for each in slices}
    return tuple(each for each in named if each in there) or named[:1]


def is_reflected(meta: ObjectMeta) -> bool:
    """True if an object of this cluster was made from another cluster's."""
    return labels.ORIGIN in meta.labels or meta.labels.get(labels.MANAGED) == labels.TRUE


def _is_exported(found: EndpointSlice) -> bool:
    """True if an EndpointSlice has endpoints of this cluster's own: one endpoint is exported once,
    by the cluster that its Service is in."""
    theirs = SOURCE_CLUSTER in found.metadata.labels or is_reflected(found.metadata)
    return not theirs and found.address_type in FAMILIES


def _exported(found: EndpointSlice) -> Slice:
    # A port without a number is every port, which no Service has.
    return Slice(
        name=found.metadata.name,
        family=found.address_type,
        ports=tuple(_port(each.port, each) for each in found.ports or () if each.port is not None),
        endpoints=tuple(_endpoint(each) for each in found.endpoints or () if each.addresses),
    )


def _port(number: int, said: ServicePort | SlicePort) -> Port:
    return Port(number, said.name or "", said.protocol or "TCP", said.app_protocol or "")


def _endpoint(found: SliceEndpoint) -> Endpoint:
    said = found.conditions or EndpointConditions()
    # An endpoint that says nothing is ready, and serves while it is (discovery/v1).
    ready = said.ready is not False
    return Endpoint(
        addresses=found.addresses,
        hostname=found.hostname or "",
        zone=found.zone or "",
        node=found.node_name or "",
        ready=ready,
        serving=ready if said.serving is None else said.serving,
        terminating=bool(said.terminating),
    )
