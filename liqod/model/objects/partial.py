"""Structs of Kubernetes' own objects, with the fields that liqod reads.

The names are the API server's; other fields are skipped unread. Some modules have structs of their
own, with a reason: where each event is decoded for a field or two (``kube/cache/nodeindex.py``,
``reflection/reflectioncontext.py``, ``reflection/contents.py``, ``reflection/marks.py``), where a
spec is a consumer's, in which no other field may matter (``model/peering/quota.py``,
``provider/workloads/shadow.py``), and where the rest stays JSON (``bounds.py``).
"""

import msgspec

from liqod.apimachinery.meta import ObjectMeta
from liqod.model.objects.conditions import Condition


class ContainerWaiting(msgspec.Struct, frozen=True):
    """The state of a container that waits, with the reason."""

    reason: str = ""
    message: str = ""


class ContainerRunning(msgspec.Struct, frozen=True, rename="camel"):
    """Since when a container runs."""

    started_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container, as far as it waits or runs."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a container."""

    name: str = ""
    state: ContainerState = ContainerState()
    restart_count: int = 0


class Container(msgspec.Struct, frozen=True):
    """A container of a pod's spec."""

    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a pod: its node, its parts, and the time that it may take to end."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    termination_grace_period_seconds: int | None = None


class PodIP(msgspec.Struct, frozen=True):
    """An IP address of a pod."""

    ip: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] = msgspec.field(name="podIPs", default=())
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(msgspec.Struct, frozen=True):
    """The networks of a node's pods, textual prefixes; and whether it is cordoned."""

    pod_cidr: str = msgspec.field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = msgspec.field(name="podCIDRs", default=())
    unschedulable: bool = False


class NodeAddress(msgspec.Struct, frozen=True):
    """An address of a node: an IP address or a name, and of which type."""

    address: str = ""
    type: str = ""


class NodeStatus(msgspec.Struct, frozen=True):
    """The status of a node: its conditions, its addresses, its resources for pods, and the features
    that it declares."""

    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    allocatable: dict[str, int | str] = {}
    declared_features: tuple[str, ...] = msgspec.field(name="declaredFeatures", default=())


class Node(msgspec.Struct, frozen=True):
    """A node, real or virtual."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Secret(msgspec.Struct, frozen=True):
    """A Secret, its data decoded."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, bytes] | None = None

    def value(self, key: str) -> bytes:
        """The data under a key; empty where there are none."""
        return (self.data or {}).get(key, b"")


class EndpointConditions(msgspec.Struct, frozen=True):
    """The conditions of an endpoint; None where they are missing."""

    ready: bool | None = None


class Endpoint(msgspec.Struct, frozen=True):
    """An endpoint of an EndpointSlice."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    node_name: str | None = msgspec.field(name="nodeName", default=None)


class EndpointPort(msgspec.Struct, frozen=True):
    """A port of all endpoints of an EndpointSlice; None for every one."""

    port: int | None = None


class EndpointSlice(msgspec.Struct, frozen=True):
    """An EndpointSlice (``discovery.k8s.io/v1``)."""

    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


class InvolvedObject(msgspec.Struct, frozen=True, rename="camel"):
    """The object that an Event is about, and the part of it."""

    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class EventSource(msgspec.Struct, frozen=True):
    """The component that reports an Event."""

    component: str = ""


class EventSeries(msgspec.Struct, frozen=True, rename="camel"):
    """The number of times that an Event has come, and the last time."""

    count: int = 0
    last_observed_time: str | None = None


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """An Event (``core/v1``)."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: InvolvedObject = InvolvedObject()
    type: str = ""
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    reporting_component: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    count: int = 0
    series: EventSeries | None = None
    related: InvolvedObject | None = None


class TokenRequestStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A token of a ServiceAccount, and when it expires."""

    token: str
    expiration_timestamp: str = ""


class TokenRequest(msgspec.Struct, frozen=True):
    """A TokenRequest (``authentication.k8s.io/v1``), as the API server answers it."""

    status: TokenRequestStatus
