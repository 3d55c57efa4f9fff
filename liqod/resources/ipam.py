"""``ipam.liqo.io``: Network and IP, address ranges and single addresses as peers see them.

:mod:`liqod.network.ipam` gives each its range or its address; ``liqoctl`` lists them, and a
peering user may create an IP.
"""

from typing import Annotated, ClassVar, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    Base,
    Column,
    Definition,
    ObjectRef,
    Opaque,
    Prefix,
    Resource,
    immutable,
    schema,
)

GROUP = "ipam.liqo.io"
VERSION = "v1alpha1"

NETWORKS = Kind(GROUP, VERSION, "Network", "networks")
IPS = Kind(GROUP, VERSION, "IP", "ips")


EITHER: Final = {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
"""Keys of an address; Liqo's own definitions know those of IPv4 only."""


class NetworkSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A range of addresses.

    Attributes:
        cidr: the range wanted.
        pre_allocated: how many addresses at its start are taken from the beginning.
    """

    cidr: Annotated[
        str, schema(required=True, format="cidr", **immutable("the cidr is immutable"))
    ] = ""
    pre_allocated: Annotated[
        int | None, schema(format="int32", minimum=0, **immutable("preAllocated is immutable"))
    ] = None


class NetworkStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The range given.

    Attributes:
        cidr: the range, remapped where the one wanted is taken.
    """

    cidr: Prefix = ""


class Network(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A range of addresses that this cluster uses or has set aside for a peer's."""

    KIND: ClassVar[Kind] = NETWORKS
    spec: NetworkSpec = NetworkSpec()
    status: NetworkStatus = NetworkStatus()

    @property
    def kind_of_range(self) -> str:
        """The kind of the range, such as :data:`labels.POD_CIDR`; empty for a peer's."""
        marks = self.metadata.labels
        return marks.get(labels.NETWORK_TYPE) or marks.get(labels.SECOND_NETWORK_TYPE, "")


class IPSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """An address that peers shall reach.

    Attributes:
        ip: the address here.
        network_ref: the Network to take its alias from.
        masquerade: whether it sees the gateway's node in place of a peer's pods; yes, unless false.
        service_template: Service made for it, as metadata and core/v1 ServiceSpec.
    """

    ip: Annotated[str, schema(required=True, **EITHER, **immutable("the ip is immutable"))] = ""
    network_ref: ObjectRef | None = None
    masquerade: bool | None = None
    service_template: Opaque | None = None


class IPStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Its alias.

    Attributes:
        ip: the alias.
        cidr: the range it lies in.
    """

    ip: Annotated[str, schema(**EITHER, **immutable("the ip is immutable"))] = ""
    cidr: Annotated[str, schema(format="cidr", **immutable("the cidr is immutable"))] = ""


class IP(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """An address that peers reach by an alias in the external CIDR."""

    KIND: ClassVar[Kind] = IPS
    spec: IPSpec = IPSpec()
    status: IPStatus = IPStatus()


DEFINITIONS = (
    Definition(
        Network,
        ("net",),
        (
            Column("Desired CIDR", ".spec.cidr"),
            Column("Remapped CIDR", ".status.cidr"),
            AGE,
        ),
        required=("spec",),
    ),
    Definition(
        IP,
        (),
        (
            Column("Local IP", ".spec.ip"),
            Column("Remapped IP", ".status.ip"),
            Column("Remapped IP CIDR", ".status.cidr"),
            AGE,
        ),
        required=("spec",),
    ),
)
