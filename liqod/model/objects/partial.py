"""Pods and Nodes as far as they are read: the one vocabulary of their parts.

The API server's field names; what is not here is passed over unread. Two places have structs of
their own, and say why: where each event of a peer's pods is decoded for one field or two
(``reflection/placement.py``, ``plugins/reflectors/pods.py``), and where the rest stays JSON
(``bounds.py``, ``provider/workloads/shadow.py``).
"""

import msgspec

from liqod.kube.meta import ObjectMeta
from liqod.model.objects.conditions import Condition


class Waiting(msgspec.Struct, frozen=True):
    """Why a container waits."""

    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container, as far as it waits."""

    waiting: Waiting | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a container."""

    name: str
    state: ContainerState = ContainerState()
    restart_count: int = 0


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Where a pod is."""

    node_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How a pod fares."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(msgspec.Struct, frozen=True):
    """The networks of a node's pods, textual prefixes."""

    pod_cidr: str = msgspec.field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = msgspec.field(name="podCIDRs", default=())


class NodeAddress(msgspec.Struct, frozen=True):
    """An address of a node: an IP address or a name, and of which type."""

    address: str = ""
    type: str = ""


class NodeStatus(msgspec.Struct, frozen=True):
    """How a node fares, where it is, and what it has for pods."""

    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    allocatable: dict[str, int | str] = {}


class Node(msgspec.Struct, frozen=True):
    """A node, real or virtual."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
