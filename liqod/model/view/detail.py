"""Details of one peer that ``liqod status PEER`` adds: conditions, slices and waiting pods.

Made of the same snapshot as the overview, by :func:`detail`.
"""

from collections.abc import Iterable

import msgspec

from liqod.apimachinery import labels
from liqod.resources import ForeignCluster, ResourceSlice
from liqod.resources.authentication import AUTHENTICATION, RESOURCES
from liqod.resources.core import Module


class ConditionRow(msgspec.Struct, frozen=True):
    """One condition of the ForeignCluster; ``module`` is empty for those of the peer itself."""

    module: str
    type: str
    status: str
    since: str
    message: str


class SliceRow(msgspec.Struct, frozen=True):
    """One slice of resources between this cluster and the peer.

    Attributes:
        name: the slice's.
        direction: ``borrowed`` from the peer, or ``lent`` to it.
        class_name: its class.
        asked: the quantities asked for.
        granted: the quantities granted.
        authentication: the provider's verdict on the identity: Accepted, Denied, or nothing yet.
        resources: the provider's verdict on the resources, likewise.
        why: what the provider says to its verdicts.
        cordoned: whether the provider accepts no new pods on it.
    """

    name: str
    direction: str
    class_name: str
    asked: dict[str, str]
    granted: dict[str, str]
    authentication: str
    resources: str
    why: str
    cordoned: bool


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod of this cluster on one of the peer's virtual nodes that is not ready, and why."""

    namespace: str
    name: str
    node: str
    phase: str
    why: str


class Detail(msgspec.Struct, frozen=True):
    """Everything that is known of one peer beyond the overview.

    Attributes:
        server: URL of the peer's API server.
        namespace: the peer's tenant namespace here.
        conditions: of the ForeignCluster and of the modules in use.
        slices: borrowed and lent ones.
        certificates: days that each certificate from the peer is still good for, by identity.
        waiting: pods on the peer's virtual nodes that are not ready.
    """

    server: str
    namespace: str
    conditions: tuple[ConditionRow, ...]
    slices: tuple[SliceRow, ...]
    certificates: dict[str, float]
    waiting: tuple[WaitingPod, ...]


def conditions(cluster: ForeignCluster) -> Iterable[ConditionRow]:
    """The conditions of a peer, and of the modules in use with it."""
    modules = cluster.status.modules
    parts: list[tuple[str, Module | None]] = []
    if modules is not None:
        parts = [(name, getattr(modules, name)) for name in modules.__struct_fields__]
    for one in cluster.status.conditions:
        yield ConditionRow("", one.type, one.status, one.last_transition_time, one.message)
    for name, module in parts:
        for one in module.conditions if module is not None and module.enabled else ():
            yield ConditionRow(name, one.type, one.status, one.last_transition_time, one.message)


def owner(item: ResourceSlice) -> tuple[str, bool]:
    """The peer that a slice is shared with, and whether it is lent to it."""
    marks, spec = item.metadata.labels, item.spec
    if marks.get(labels.REPLICATED) == labels.TRUE:
        return marks.get(labels.ORIGIN_ID, spec.consumer_cluster_id), True
    return spec.provider_cluster_id or marks.get(labels.REMOTE_CLUSTER_ID, ""), False


def slice_row(item: ResourceSlice) -> SliceRow:
    """The row of a slice."""
    return SliceRow(
        item.name,
        "lent" if owner(item)[1] else "borrowed",
        item.spec.class_name or "default",
        {key: str(value) for key, value in item.spec.resources.items()},
        {key: str(value) for key, value in item.status.resources.items()},
        item.verdict(AUTHENTICATION),
        item.verdict(RESOURCES),
        "; ".join(
            f"{one.type}: {one.message}"
            for one in item.status.conditions
            if one.denies and one.message
        ),
        labels.CORDON in item.metadata.annotations,
    )
