"""Building blocks of the structs of the custom resources.

A struct says three things at once: how a decoded object is read, how one is written, and what the
CRD's schema says. Annotations made by :func:`schema` touch the schema alone: decoding stays
lenient, because the API server has validated what it stores, and an object of a newer peer must
not stop a reconciler. Where a default stands on both sides they are equal; an absent field and a
field at its default both read as the default.

``bytes`` is base64 text on the wire. Deep types of Kubernetes' own that are only relayed are
:data:`Opaque`: plain JSON, kept unseen.
"""

from typing import Annotated, Any, ClassVar, Final

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import ObjectMeta

CRD_REVISION: Final = 7
"""Revision of the generated CRDs: raised with each change of a schema, never lowered."""


MAX_QUANTITIES: Final = 128
"""Resources that a slice may name; a node of a real cluster has a dozen."""
MAX_MAPPED: Final = 4096
"""Namespaces of one NamespaceMap; a cluster is tested up to ten thousand in all."""
MAX_ENDPOINTS: Final = 1000
"""Endpoints of a slice: Kubernetes' own bound."""
MAX_ENDPOINT_BYTES: Final = 1 << 20
"""Bytes of a ShadowEndpointSlice that is read: so many endpoints with the longest names that pods,
namespaces and zones may have take 0.8 MiB, and an API server takes 1.5 MiB of any object."""


def schema(*, required: bool = False, **keys: Any) -> msgspec.Meta:
    """Keys for the field's place in the CRD's schema; underscores stand for hyphens in none.

    Args:
        required: the schema asks for the field although the struct has a default for it.
        keys: JSON-schema keys, such as ``enum``, ``default``, ``format``, ``pattern``.
    """
    return msgspec.Meta(extra_json_schema=dict(keys), extra={"required": required})


def one_of(*values: str, required: bool = False, **keys: Any) -> msgspec.Meta:
    """The field holds one of these values."""
    return schema(required=required, enum=list(values), **keys)


def immutable(message: str) -> dict[str, Any]:
    """Schema keys of a field that cannot be changed once it is set."""
    return {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": message}]}


ID_PATTERN: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

ClusterID = Annotated[str, schema(pattern=ID_PATTERN)]
Quantity = Annotated[
    int | str, schema(pattern=QUANTITY_PATTERN, **{"x-kubernetes-int-or-string": True})
]
Quantities = dict[str, Quantity]
Opaque = dict[str, Any]
Time = Annotated[str, schema(format="date-time")]
Int32 = Annotated[int, schema(format="int32")]
Int64 = Annotated[int, schema(format="int64")]
Address = Annotated[str, schema(format="ipv4")]
Prefix = Annotated[str, schema(format="cidr")]


class Base(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Frozen, camel case on the wire, absent where it holds its default."""


class Resource(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The base of every custom resource; the sub-classes add ``spec`` and ``status``.

    Attributes:
        KIND: the kind, with its API group, version and plural.
    """

    KIND: ClassVar[Kind]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """``metadata.namespace``, empty for cluster-scoped kinds."""
        return self.metadata.namespace

    @property
    def leaving(self) -> bool:
        """True if the object is being deleted."""
        return self.metadata.deletion_timestamp is not None


class LocalRef(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A reference to an object of the same namespace (``core/v1 LocalObjectReference``)."""

    name: Annotated[str, schema(default="")] = ""


class ObjectRef(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A reference to any object (``core/v1 ObjectReference``)."""

    api_version: str = ""
    field_path: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""


class Toleration(Base, frozen=True, omit_defaults=True, rename="camel"):
    """``core/v1 Toleration``."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class StorageClass(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A storage class that the provider offers; ``default`` is the one to take."""

    storage_class_name: str
    default: bool = False


class IngressClass(Base, frozen=True, omit_defaults=True, rename="camel"):
    """An ingress class that the provider offers; ``default`` is the one to take."""

    ingress_class_name: str
    default: bool = False


class LoadBalancerClass(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A load-balancer class that the provider offers; ``default`` is the one to take."""

    load_balancer_class_name: str
    default: bool = False


class Column(msgspec.Struct, frozen=True):
    """One column that ``kubectl get`` prints; priority 0 without ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class Definition(msgspec.Struct, frozen=True):
    """All that a CRD says beside its schema.

    Attributes:
        resource: the struct of the kind.
        short: short names for ``kubectl``.
        columns: printer columns, in order.
        status: whether ``status`` is a sub-resource.
        required: required fields of the object itself, such as ``spec``.
        labels: labels of the CRD itself.
        annotations: annotations of the CRD itself.
        also: further versions that are served, with the same schema.
        category: the word by which ``kubectl get`` lists it with others.
    """

    resource: type[Resource]
    short: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    status: bool = True
    required: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    also: tuple[str, ...] = ()
    category: str = "liqo"
