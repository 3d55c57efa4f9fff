"""``offloading.liqo.io``: namespaces and what is made at the provider.

NamespaceMap crosses clusters: its fields are exactly Liqo's. The pod inside a ShadowPod is relayed
without its schema spelt out, as are the deep types of Kubernetes' own in the other kinds.
"""

from typing import Annotated, Any, ClassVar

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    MAX_ENDPOINTS,
    MAX_MAPPED,
    Base,
    Column,
    Definition,
    Int32,
    Int64,
    Opaque,
    Quantities,
    Resource,
    Time,
    one_of,
    schema,
)

GROUP = "offloading.liqo.io"
VERSION = "v1beta1"

NAMESPACE_OFFLOADINGS = Kind(GROUP, VERSION, "NamespaceOffloading", "namespaceoffloadings")
NAMESPACE_MAPS = Kind(GROUP, VERSION, "NamespaceMap", "namespacemaps")
SHADOW_PODS = Kind(GROUP, VERSION, "ShadowPod", "shadowpods")
SHADOW_ENDPOINT_SLICES = Kind(GROUP, VERSION, "ShadowEndpointSlice", "shadowendpointslices")
QUOTAS = Kind(GROUP, VERSION, "Quota", "quotas")

ENFORCE_SAME_NAME = "EnforceSameName"
DEFAULT_NAME = "DefaultName"
SELECTED_NAME = "SelectedName"
LOCAL = "Local"
REMOTE = "Remote"
LOCAL_AND_REMOTE = "LocalAndRemote"

PHASE_READY = "Ready"
PHASE_NO_CLUSTER = "NoClusterSelected"
PHASE_IN_PROGRESS = "InProgress"
PHASE_SOME_FAILED = "SomeFailed"
PHASE_ALL_FAILED = "AllFailed"
PHASE_TERMINATING = "Terminating"

MAPPING_ACCEPTED = "Accepted"
MAPPING_BACK_OFF = "CreationLoopBackOff"
MAPPING_TERMINATING = "Terminating"

ENFORCE_NONE = "None"
ENFORCE_SOFT = "Soft"
ENFORCE_HARD = "Hard"


class NamespaceCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How the extension of a namespace into one cluster fares."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time = ""


class NamespaceOffloadingSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How a namespace is extended.

    Attributes:
        namespace_mapping_strategy: how the namespace is called over there.
        pod_offloading_strategy: where its pods may run.
        cluster_selector: core/v1 NodeSelector over the labels of virtual nodes.
        remote_namespace_name: the name, for the strategy SelectedName.
    """

    namespace_mapping_strategy: Annotated[
        str, one_of(ENFORCE_SAME_NAME, DEFAULT_NAME, SELECTED_NAME, default=DEFAULT_NAME)
    ] = DEFAULT_NAME
    pod_offloading_strategy: Annotated[
        str, one_of(LOCAL, REMOTE, LOCAL_AND_REMOTE, default=LOCAL_AND_REMOTE)
    ] = LOCAL_AND_REMOTE
    cluster_selector: Opaque | None = None
    remote_namespace_name: str = ""


class NamespaceOffloadingStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How it fares, in all and per cluster.

    Attributes:
        offloading_phase: the sum of all clusters.
        remote_namespace_name: the name in use over there.
        remote_namespaces_conditions: conditions by cluster id.
        observed_generation: generation of the spec that this status is about.
    """

    offloading_phase: str = ""
    remote_namespace_name: str = ""
    remote_namespaces_conditions: dict[str, tuple[NamespaceCondition, ...]] = {}
    observed_generation: Int64 = 0


class NamespaceOffloading(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """Extends its namespace into peers; its name is ``offloading``."""

    KIND: ClassVar[Kind] = NAMESPACE_OFFLOADINGS
    spec: NamespaceOffloadingSpec = NamespaceOffloadingSpec()
    status: NamespaceOffloadingStatus = NamespaceOffloadingStatus()


class RemoteNamespace(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A mapped namespace, as the provider reports it."""

    remote_namespace: str = ""
    phase: Annotated[str, one_of(MAPPING_ACCEPTED, MAPPING_BACK_OFF, MAPPING_TERMINATING)] = ""


class NamespaceMapSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The namespaces that the consumer wants.

    Attributes:
        desired_mapping: remote name by local name.
    """

    desired_mapping: Annotated[dict[str, str], schema(maxProperties=MAX_MAPPED)] = {}


class NamespaceMapStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The namespaces that the consumer has.

    Attributes:
        current_mapping: remote namespace and its phase by local name.
    """

    current_mapping: dict[str, RemoteNamespace] = {}


class NamespaceMap(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The namespaces of a consumer at a provider; its name is the provider's id."""

    KIND: ClassVar[Kind] = NAMESPACE_MAPS
    spec: NamespaceMapSpec = NamespaceMapSpec()
    status: NamespaceMapStatus = NamespaceMapStatus()


class ShadowPodSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The pod to be made.

    Attributes:
        pod: core/v1 PodSpec, relayed unseen.
    """

    pod: Opaque = {}


class ShadowPodStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How far it is.

    Attributes:
        phase: phase of the pod; terminal ones are final.
        reason: one word why there is no pod yet (liqod's own; Liqo has no such field).
        message: the same as a sentence.
    """

    phase: Annotated[
        str,
        one_of(
            "Pending", "Running", "Succeeded", "Failed", "Unknown", required=True, default="Unknown"
        ),
    ] = "Unknown"
    reason: str = ""
    message: str = ""


class ShadowPod(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A pod that a consumer wants here; it has the pod's name."""

    KIND: ClassVar[Kind] = SHADOW_PODS
    spec: ShadowPodSpec = ShadowPodSpec()
    status: ShadowPodStatus = ShadowPodStatus()


class ShadowEndpointPort(Base, frozen=True, omit_defaults=True, rename="camel"):
    """``discovery/v1 EndpointPort``; an absent port means all of them."""

    name: str | None = None
    port: Int32 | None = None
    protocol: str | None = None
    app_protocol: str | None = None


class EndpointTemplate(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The EndpointSlice to be made.

    Attributes:
        address_type: IPv4, IPv6 or FQDN.
        endpoints: discovery/v1 Endpoints.
        ports: their ports.
    """

    address_type: str = ""
    endpoints: Annotated[list[dict[str, Any]] | None, schema(maxItems=MAX_ENDPOINTS)] = None
    ports: tuple[ShadowEndpointPort, ...] = ()


class ShadowEndpointSliceSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The EndpointSlice to be made.

    Attributes:
        template: the slice.
    """

    template: EndpointTemplate = EndpointTemplate()


class ShadowEndpointSlice(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """Endpoints of a consumer that its pods here shall reach."""

    KIND: ClassVar[Kind] = SHADOW_ENDPOINT_SLICES
    spec: ShadowEndpointSliceSpec = ShadowEndpointSliceSpec()


class QuotaSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How much one user may use.

    Attributes:
        user: the user, as its certificate names it.
        resources: the quantities granted.
        limits_enforcement: how strictly pods must state requests and limits.
        cordoned: nothing new is admitted.
    """

    user: Annotated[str, schema(required=True, minLength=1)] = ""
    resources: Annotated[Quantities, schema(required=True)] = {}
    limits_enforcement: Annotated[str, one_of(ENFORCE_HARD, ENFORCE_SOFT, ENFORCE_NONE)] = ""
    cordoned: bool | None = None


class Quota(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The bound of one slice's user; it has the user's name."""

    KIND: ClassVar[Kind] = QUOTAS
    spec: QuotaSpec = QuotaSpec()


DEFINITIONS = (
    Definition(
        NamespaceOffloading,
        ("nso", "nsof", "nsoff", "nsoffloading"),
        (
            Column("NamespaceMappingStrategy", ".spec.namespaceMappingStrategy"),
            Column("PodOffloadingStrategy", ".spec.podOffloadingStrategy"),
            Column("OffloadingPhase", ".status.offloadingPhase"),
            AGE,
            Column("RemoteNamespaceName", ".status.remoteNamespaceName", priority=10),
        ),
        required=("spec",),
    ),
    Definition(
        NamespaceMap,
        ("nm", "nsmap"),
        (Column("Local", r".metadata.labels.liqo\.io/replication"), AGE),
    ),
    Definition(
        ShadowPod,
        ("shp", "shpod"),
        (
            Column("Status", ".status.phase"),
            AGE,
            Column("Reason", ".status.reason", priority=1),
        ),
    ),
    Definition(ShadowEndpointSlice, ("shes", "sheps", "seps"), (AGE,), status=False),
    Definition(
        Quota,
        ("qt",),
        (
            Column("Enforcement", ".spec.limitsEnforcement"),
            Column("Cordoned", ".spec.cordoned", "boolean"),
            AGE,
            Column("User", ".spec.user", priority=1),
        ),
        status=False,
        required=("spec",),
    ),
)
