"""``offloading.liqo.io``: VirtualNode and VkOptionsTemplate.

A VirtualNode is a share of a provider that appears as a Node; the template holds its options.
"""

from typing import Annotated, ClassVar

from msgspec import field

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    Base,
    ClusterID,
    Column,
    Definition,
    IngressClass,
    Int32,
    Int64,
    LoadBalancerClass,
    LocalRef,
    ObjectRef,
    Opaque,
    Quantities,
    Resource,
    StorageClass,
    Time,
    Toleration,
    one_of,
)
from liqod.resources.offloading import GROUP, VERSION

VIRTUAL_NODES = Kind(GROUP, VERSION, "VirtualNode", "virtualnodes")
VK_OPTIONS_TEMPLATES = Kind(GROUP, VERSION, "VkOptionsTemplate", "vkoptionstemplates")

VIRTUAL_KUBELET = "VirtualKubelet"
NODE = "Node"
NONE = "None"
RUNNING = "Running"
CREATING = "Creating"
DRAINING = "Draining"
DELETING = "Deleting"
NOT_TOLD = "NotTold"
"""Reason of a Node that stands for a whole peer though its slice asks for parts of it."""


class NodeAffinityPatch(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Affinity that every pod of a virtual node gets.

    Attributes:
        node_affinity: core/v1 NodeAffinity.
    """

    node_affinity: Opaque | None = None


class OffloadingPatch(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The changes to every pod of a virtual node on its way to the peer.

    Attributes:
        annotations_not_reflected: annotation keys that stay in this cluster.
        labels_not_reflected: label keys that stay in this cluster.
        node_selector: node selector added.
        tolerations: tolerations added.
        affinity: node affinity added.
        runtime_class_name: runtime class, unless the pod names one.
    """

    annotations_not_reflected: tuple[str, ...] = ()
    labels_not_reflected: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    affinity: NodeAffinityPatch | None = None
    runtime_class_name: str | None = None


class HardQuota(Base, frozen=True, omit_defaults=True, rename="camel"):
    """core/v1 ResourceQuotaSpec, of which ``hard`` is used.

    Attributes:
        hard: capacity of the virtual node.
        scopes: not used.
        scope_selector: not used.
    """

    hard: Quantities = {}
    scopes: tuple[str, ...] = ()
    scope_selector: Opaque | None = None


class ContainerImage(Base, frozen=True, omit_defaults=True, rename="camel"):
    """``core/v1 ContainerImage``."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class Taint(Base, frozen=True, omit_defaults=True, rename="camel"):
    """``core/v1 Taint``."""

    key: str
    effect: str
    value: str = ""
    time_added: Time | None = None


class VirtualNodeSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The node that stands for a share of a provider.

    Attributes:
        cluster_id: id of the provider.
        template: Deployment of Liqo's virtual kubelet; liqod needs none and ignores it.
        offloading_patch: what is changed on every pod on its way.
        create_node: whether there is a Node at all; absent means yes.
        disable_network_check: whether the Node says nothing about the network.
        kubeconfig_secret_ref: the Secret of the slice's kubeconfig.
        images: images that the Node announces.
        resource_quota: capacity of the Node, in ``hard``.
        labels: labels of the Node.
        annotations: annotations of the Node.
        taints: taints of the Node beside its own.
        storage_classes: storage classes offered.
        ingress_classes: ingress classes offered.
        load_balancer_classes: load-balancer classes offered.
        vk_options_template_ref: options that differ from the default ones.
    """

    cluster_id: ClusterID = field(name="clusterID", default="")
    template: Opaque | None = None
    offloading_patch: OffloadingPatch | None = None
    create_node: bool | None = None
    disable_network_check: bool | None = None
    kubeconfig_secret_ref: LocalRef | None = None
    images: tuple[ContainerImage, ...] = ()
    resource_quota: HardQuota = HardQuota()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    ingress_classes: tuple[IngressClass, ...] = ()
    load_balancer_classes: tuple[LoadBalancerClass, ...] = ()
    vk_options_template_ref: ObjectRef | None = None


class VirtualNodeCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How far the virtual kubelet or the Node is."""

    type: Annotated[str, one_of(VIRTUAL_KUBELET, NODE)]
    status: Annotated[str, one_of(NONE, RUNNING, CREATING, DRAINING, DELETING, default=NONE)]
    reason: str = ""
    message: str = ""
    last_transition_time: Time = ""


class VirtualNodeStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How it fares.

    Attributes:
        conditions: one each for VirtualKubelet and Node.
    """

    conditions: tuple[VirtualNodeCondition, ...] = ()


class VirtualNode(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A share of a provider that appears as a Node of the same name."""

    KIND: ClassVar[Kind] = VIRTUAL_NODES
    spec: VirtualNodeSpec = VirtualNodeSpec()
    status: VirtualNodeStatus = VirtualNodeStatus()


class ReflectorConfig(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How one kind is reflected.

    Attributes:
        workers: how many at a time; 0 turns the kind off.
        type: DenyList, AllowList or CustomLiqo.
    """

    workers: int
    type: str = ""


class VkOptionsSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Options of Liqo's virtual kubelets; liqod heeds those about reflection and labels."""

    container_image: str
    create_node: bool
    disable_network_check: bool
    metrics_enabled: bool
    metrics_address: str = ""
    replicas: Int32 | None = None
    resources: Opaque | None = None
    pull_policy: str = ""
    image_pull_secrets: tuple[LocalRef, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    extra_args: tuple[str, ...] = ()
    extra_labels: dict[str, str] = {}
    extra_annotations: dict[str, str] = {}
    node_extra_labels: dict[str, str] = {}
    node_extra_annotations: dict[str, str] = {}
    labels_not_reflected: tuple[str, ...] = ()
    annotations_not_reflected: tuple[str, ...] = ()
    reflectors_config: dict[str, ReflectorConfig] = {}


class VkOptionsTemplate(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """Defaults for virtual nodes."""

    KIND: ClassVar[Kind] = VK_OPTIONS_TEMPLATES
    spec: VkOptionsSpec | None = None


DEFINITIONS = (
    Definition(
        VirtualNode,
        ("vn", "vnode", "virno", "vno"),
        (
            Column("ClusterID", ".spec.clusterID"),
            Column("Create Node", ".spec.createNode", "boolean"),
            AGE,
            Column("Node", '.status.conditions[?(@.type=="Node")].status', priority=1),
            Column(
                "VirtualKubelet",
                '.status.conditions[?(@.type=="VirtualKubelet")].status',
                priority=1,
            ),
        ),
    ),
    Definition(VkOptionsTemplate, ("vkot", "vkopt"), (AGE,), status=False),
)
