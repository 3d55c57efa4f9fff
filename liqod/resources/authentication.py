"""``authentication.liqo.io``: who a peer is, what it was given, how much of it.

Tenant, Identity, ResourceSlice and Renew of Liqo v1. ResourceSlice and Renew cross clusters: their
fields and defaults are exactly Liqo's.
"""

from typing import Annotated, ClassVar

from msgspec import field

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    ID_PATTERN,
    MAX_QUANTITIES,
    Base,
    ClusterID,
    Column,
    Definition,
    IngressClass,
    LoadBalancerClass,
    LocalRef,
    Quantities,
    Resource,
    StorageClass,
    Time,
    immutable,
    one_of,
    schema,
)

GROUP = "authentication.liqo.io"
VERSION = "v1beta1"

TENANTS = Kind(GROUP, VERSION, "Tenant", "tenants")
IDENTITIES = Kind(GROUP, VERSION, "Identity", "identities")
RESOURCE_SLICES = Kind(GROUP, VERSION, "ResourceSlice", "resourceslices")
RENEWS = Kind(GROUP, VERSION, "Renew", "renews")

ACTIVE = "Active"
CORDONED = "Cordoned"
DRAINED = "Drained"
KEYS_EXCHANGE = "KeysExchange"
TOLERATE_NO_HANDSHAKE = "TolerateNoHandshake"
CONTROL_PLANE = "ControlPlane"
RESOURCE_SLICE = "ResourceSlice"
AUTHENTICATION = "Authentication"
RESOURCES = "Resources"
ACCEPTED = "Accepted"
DENIED = "Denied"
GROWTH_DENIED = "ResourceSliceGrowthDenied"
"""Reason of a slice's accepted resources where it keeps what it had: it asks for more."""
PERMISSION_WITHDRAWN = "PermissionWithdrawn"
"""Reason of a slice whose provider does not let this cluster ask any more."""
DEFAULT_CLASS = "default"


class AwsConfig(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Credentials of a provider on EKS, in place of a certificate."""

    aws_access_key_id: str = field(name="awsAccessKeyID")
    aws_secret_access_key: str
    aws_region: str
    aws_cluster_name: str
    aws_user_arn: str


class AuthParams(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The access to this API server that a peer needs beside its own key.

    Attributes:
        ca: PEM certificates of the API server's authority; empty where it is publicly trusted.
        signed_crt: PEM certificate issued for the peer's key.
        api_server: URL of the API server.
        proxy_url: HTTP proxy on the way to it.
        aws_config: credentials on EKS.
    """

    ca: bytes = b""
    signed_crt: bytes = field(name="signedCRT", default=b"")
    api_server: str = ""
    proxy_url: str = field(name="proxyURL", default="")
    aws_config: AwsConfig | None = None


class TenantSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The cluster that asks to become a consumer, and what its user decided about it.

    Attributes:
        cluster_id: id of the consumer.
        public_key: PEM public key of the consumer (raw 32 bytes before Liqo 1.0.2).
        csr: PEM certificate request of its control plane.
        signature: signature over the nonce's text by that key.
        proxy_url: HTTP proxy that the consumer shall use towards this API server.
        authz_policy: whether a handshake is asked for.
        tenant_condition: Active, Cordoned (nothing new) or Drained (nothing at all).
    """

    cluster_id: Annotated[
        str, schema(pattern=ID_PATTERN, **immutable("the cluster id is immutable"))
    ] = field(name="clusterID", default="")
    public_key: bytes = b""
    csr: bytes = b""
    signature: bytes = b""
    proxy_url: str = field(name="proxyURL", default="")
    authz_policy: Annotated[
        str, one_of(KEYS_EXCHANGE, TOLERATE_NO_HANDSHAKE, default=KEYS_EXCHANGE)
    ] = KEYS_EXCHANGE
    tenant_condition: Annotated[str, one_of(ACTIVE, CORDONED, DRAINED, default=ACTIVE)] = ACTIVE


class TenantStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The namespace and the access that the consumer was given.

    Attributes:
        tenant_namespace: the consumer's namespace in this cluster.
        auth_params: the consumer's way in.
    """

    tenant_namespace: str = ""
    auth_params: AuthParams | None = None


class Tenant(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A consumer of this cluster; its name is the consumer's id."""

    KIND: ClassVar[Kind] = TENANTS
    spec: TenantSpec = TenantSpec()
    status: TenantStatus = TenantStatus()


class IdentitySpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The access that a provider gave to this cluster.

    Attributes:
        cluster_id: id of the provider.
        type: ControlPlane or ResourceSlice.
        auth_params: the way into the provider.
        namespace: this cluster's tenant namespace at the provider.
    """

    cluster_id: ClusterID = field(name="clusterID", default="")
    type: Annotated[str, one_of(CONTROL_PLANE, RESOURCE_SLICE)] = ""
    auth_params: AuthParams = AuthParams()
    namespace: str = ""


class IdentityStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Where the kubeconfig made from it is.

    Attributes:
        kubeconfig_secret_ref: the Secret of the kubeconfig.
    """

    kubeconfig_secret_ref: LocalRef | None = None


class Identity(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """An identity that this cluster has at a provider."""

    KIND: ClassVar[Kind] = IDENTITIES
    spec: IdentitySpec = IdentitySpec()
    status: IdentityStatus = IdentityStatus()


class SliceSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The request of the consumer.

    Attributes:
        class_name: class of the slice; empty or ``default`` grants what is asked.
        consumer_cluster_id: id of the consumer.
        provider_cluster_id: id of the provider.
        resources: the quantities asked for.
        csr: PEM certificate request for the slice's own user.
    """

    class_name: str = field(name="class", default="")
    consumer_cluster_id: ClusterID = field(name="consumerClusterID", default="")
    provider_cluster_id: ClusterID = field(name="providerClusterID", default="")
    resources: Annotated[Quantities, schema(maxProperties=MAX_QUANTITIES)] = {}
    csr: bytes = b""


class SliceCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The provider's verdict on one side of a slice."""

    type: Annotated[str, one_of(AUTHENTICATION, RESOURCES)]
    status: Annotated[str, one_of(ACCEPTED, DENIED)]
    reason: str = ""
    message: str = ""
    last_transition_time: Time = ""

    @property
    def denies(self) -> bool:
        """True if anything that is asked for is denied, be it a growth alone."""
        return self.status == DENIED or self.reason == GROWTH_DENIED


class SliceStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The grant of the provider.

    Attributes:
        conditions: the verdicts on Authentication and on Resources.
        auth_params: the way in for the slice's own user.
        resources: the quantities granted.
        storage_classes: storage classes offered.
        ingress_classes: ingress classes offered.
        load_balancer_classes: load-balancer classes offered.
        node_labels: labels for the virtual node.
        node_selector: selector that every offloaded pod gets.
    """

    conditions: tuple[SliceCondition, ...] = ()
    auth_params: AuthParams | None = None
    resources: Quantities = {}
    storage_classes: tuple[StorageClass, ...] = ()
    ingress_classes: tuple[IngressClass, ...] = ()
    load_balancer_classes: tuple[LoadBalancerClass, ...] = ()
    node_labels: dict[str, str] = {}
    node_selector: dict[str, str] = {}


class ResourceSlice(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A share of the provider that the consumer asks for."""

    KIND: ClassVar[Kind] = RESOURCE_SLICES
    spec: SliceSpec = SliceSpec()
    status: SliceStatus = SliceStatus()

    def verdict(self, type_: str) -> str:
        """Status of the condition of that type: ``Accepted``, ``Denied``, or "" before it."""
        return next((c.status for c in self.status.conditions if c.type == type_), "")


class RenewSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The identity that is to be renewed.

    Attributes:
        consumer_cluster_id: id of the consumer.
        identity_type: ControlPlane or ResourceSlice.
        resource_slice_ref: the slice, for an identity of a slice.
        public_key: PEM public key, where it changes.
        csr: PEM certificate request, where it changes.
    """

    consumer_cluster_id: ClusterID = field(name="consumerClusterID", default="")
    identity_type: str = ""
    resource_slice_ref: LocalRef | None = None
    public_key: bytes = b""
    csr: bytes = b""


class RenewStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The fresh certificate.

    Attributes:
        auth_params: the way in, with the newest certificate.
    """

    auth_params: AuthParams | None = None


class Renew(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A consumer's lasting request for fresh certificates of its control plane."""

    KIND: ClassVar[Kind] = RENEWS
    spec: RenewSpec = RenewSpec()
    status: RenewStatus = RenewStatus()


def _verdict(type_: str) -> Column:
    return Column(type_, f'.status.conditions[?(@.type=="{type_}")].status')


DEFINITIONS = (
    Definition(Tenant, ("tn",), (Column("Condition", ".spec.tenantCondition"), AGE)),
    Definition(
        Identity,
        ("id",),
        (
            Column("Type", ".spec.type"),
            AGE,
            Column("KubeconfigSecret", ".status.kubeconfigSecretRef.name", priority=1),
        ),
    ),
    Definition(ResourceSlice, ("rslice",), (_verdict(AUTHENTICATION), _verdict(RESOURCES), AGE)),
    Definition(Renew, (), (AGE,)),
)
