"""The kinds of the Multi-Cluster Services API (KEP-1645), which is the whole set's, not Liqo's.

The two versions have the same schema. Clusters differ in the versions that they serve, and programs
in the one that they read, so each kind stands here once for each version.
"""

from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Final

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    Base,
    Column,
    Definition,
    Int32,
    Int64,
    Resource,
    one_of,
    schema,
)

GROUP: Final = "multicluster.x-k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha1")
"""The versions of the API, the newest first."""
SERVICE_EXPORTS: Final = {
    version: Kind(GROUP, version, "ServiceExport", "serviceexports") for version in VERSIONS
}
SERVICE_IMPORTS: Final = {
    version: Kind(GROUP, version, "ServiceImport", "serviceimports") for version in VERSIONS
}

SERVICE_NAME: Final = "multicluster.kubernetes.io/service-name"
"""Label of an EndpointSlice: the ServiceImport that it belongs to."""
SOURCE_CLUSTER: Final = "multicluster.kubernetes.io/source-cluster"
"""Label of an EndpointSlice: the id of the cluster that its endpoints are in."""
DERIVED_SERVICE: Final = "multicluster.kubernetes.io/derived-service"
"""Annotation of a ServiceImport: the Service that has its addresses."""
SLICE_MANAGER: Final = "clusterset.liqod.io"
"""Value of ``endpointslice.kubernetes.io/managed-by`` on the EndpointSlices of imports."""


def _map_of(key: str) -> dict[str, Any]:
    """The keys of the schema of a list in which each entry has another value of one field."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def served_version(versions: Collection[str]) -> str | None:
    """The newest version that a cluster serves and liqod speaks; None where there is none."""
    return next((version for version in VERSIONS if version in versions), None)


_Time = Annotated[str, schema(format="date-time")]


class MultiClusterCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A condition (``metav1.Condition``)."""

    type: str
    status: Annotated[str, one_of("True", "False", "Unknown")]
    reason: Annotated[str, schema(required=True, minLength=1, maxLength=1024)] = ""
    message: Annotated[str, schema(required=True, maxLength=32768)] = ""
    last_transition_time: Annotated[_Time, schema(required=True)] = ""
    observed_generation: Int64 = 0


_Conditions = Annotated[tuple[MultiClusterCondition, ...], schema(**_map_of("type"))]


class ServiceExportSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The keys that a ServiceExport gives to the ServiceImport.

    Attributes:
        exported_labels: labels of the ServiceImport.
        exported_annotations: annotations of the ServiceImport.
    """

    exported_labels: dict[str, str] = {}
    exported_annotations: dict[str, str] = {}


class ServiceExportStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The state of an export.

    Attributes:
        conditions: Valid, Ready and Conflict.
    """

    conditions: _Conditions = ()


class ServiceExport(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The wish that other clusters can use the Service of the same name."""

    KIND: ClassVar[Kind] = SERVICE_EXPORTS[VERSIONS[0]]

    spec: ServiceExportSpec = ServiceExportSpec()
    status: ServiceExportStatus = ServiceExportStatus()


class ImportedPort(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A port of a ServiceImport."""

    port: Int32
    name: str = ""
    protocol: Annotated[str, schema(default="TCP")] = "TCP"
    app_protocol: str = ""


class ClientIPTimeout(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The seconds for which a client stays with its endpoint."""

    timeout_seconds: Int32 = 0


class ImportedAffinity(Base, frozen=True, omit_defaults=True):
    """The configuration of a ServiceImport's session affinity."""

    client_ip: ClientIPTimeout | None = msgspec.field(name="clientIP", default=None)


class ServiceImportSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A Service of the set, as it is used in one cluster.

    Attributes:
        type: ``ClusterSetIP`` or ``Headless``.
        ports: the ports of all exporters.
        ips: its addresses in this cluster; none if it is headless.
        ip_families: its IP families, in the order of the addresses.
        session_affinity: ``None`` or ``ClientIP``.
        session_affinity_config: the time that the affinity lasts.
        internal_traffic_policy: ``Cluster``, or ``Local`` for endpoints of the client's node alone.
        traffic_distribution: the endpoints that are preferred.
    """

    type: Annotated[str, one_of("ClusterSetIP", "Headless", required=True)] = "ClusterSetIP"
    ports: Annotated[
        tuple[ImportedPort, ...], schema(required=True, **{"x-kubernetes-list-type": "atomic"})
    ] = ()
    ips: Annotated[tuple[str, ...], schema(maxItems=2)] = ()
    ip_families: Annotated[tuple[str, ...], schema(maxItems=2)] = ()
    session_affinity: str = ""
    session_affinity_config: ImportedAffinity | None = None
    internal_traffic_policy: str = ""
    traffic_distribution: str = ""


class Exporter(Base, frozen=True, omit_defaults=True):
    """A cluster that exports a Service."""

    cluster: str


class ServiceImportStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The state of an import.

    Attributes:
        clusters: the exporters.
        conditions: Ready.
        endpoint_slice_objects: whether EndpointSlices of it are in this cluster.
    """

    clusters: Annotated[tuple[Exporter, ...], schema(**_map_of("cluster"))] = ()
    conditions: _Conditions = ()
    endpoint_slice_objects: Annotated[str, one_of("Present", "Absent")] = ""


class ServiceImport(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A Service of the set, in a cluster that can use it; written by the controller alone."""

    KIND: ClassVar[Kind] = SERVICE_IMPORTS[VERSIONS[0]]

    spec: ServiceImportSpec = ServiceImportSpec()
    status: ServiceImportStatus = ServiceImportStatus()


DEFINITIONS: Final = (
    Definition(
        ServiceExport,
        short=("svcex", "svcexport"),
        columns=(AGE,),
        also=VERSIONS[1:],
        category="multicluster",
    ),
    Definition(
        ServiceImport,
        short=("svcim", "svcimport"),
        columns=(Column("Type", ".spec.type"), Column("IP", ".spec.ips"), AGE),
        also=VERSIONS[1:],
        category="multicluster",
    ),
)
"""The kinds of the set. They are not among those of every installation, since other programs may
have installed them."""
