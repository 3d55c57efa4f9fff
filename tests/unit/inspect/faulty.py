"""Objects as a fault leaves them, for tests."""

from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.peering.foreigncluster import DEGRADED
from liqod.model.view.daemonfacts import PluginFacts
from liqod.model.view.requests import RequestRow
from liqod.model.view.snapshot import PodSummary
from liqod.resources import NamespaceOffloading, ResourceSlice
from liqod.resources.authentication import SliceCondition, SliceSpec, SliceStatus
from liqod.resources.core import PeerCondition
from liqod.resources.networking import Connection, ConnectionStatus
from liqod.resources.offloading import (
    NamespaceCondition,
    NamespaceOffloadingSpec,
    NamespaceOffloadingStatus,
)
from tests.unit.model.test_overview import peer


def cut_off(status: str = "Connecting") -> Connection:
    meta = ObjectMeta(name="milan", labels={labels.REMOTE_CLUSTER_ID: "milan"})
    return Connection(metadata=meta, status=ConnectionStatus(status))


def degraded(message: str) -> Any:
    well = peer("milan")
    more = PeerCondition("NetworkStatus", "Established", DEGRADED, message)
    status = msgspec.structs.replace(well.status, conditions=(*well.status.conditions, more))
    return msgspec.structs.replace(well, status=status)


def denied(message: str = "too much") -> ResourceSlice:
    condition = SliceCondition(type="Resources", status="Denied", message=message)
    return ResourceSlice(
        metadata=ObjectMeta(name="gpus"),
        spec=SliceSpec(provider_cluster_id="milan"),
        status=SliceStatus(conditions=(condition,)),
    )


def plugin(failure: str = "", *, kind: str = "reflector", name: str = "gadgets") -> PluginFacts:
    return PluginFacts(name, kind, failure=failure)


def lent(**resources: str) -> ResourceSlice:
    marks = {labels.REPLICATED: labels.TRUE, labels.ORIGIN_ID: "rome"}
    meta = ObjectMeta(name="milan", labels=marks)
    return ResourceSlice(metadata=meta, status=SliceStatus(resources=dict(resources)))


def offers(reason: str) -> RequestRow:
    return RequestRow("invitation-1", "milan", state="Done", reason=reason, lends=True)


def without_place(reason: str) -> PodSummary:
    return PodSummary("shop", "web", "milan", "Pending", False, reason, unplaced=True)


def unmapped(reason: str, message: str) -> NamespaceOffloading:
    condition = NamespaceCondition(type="Ready", status="False", reason=reason, message=message)
    status = NamespaceOffloadingStatus(remote_namespaces_conditions={"milan": (condition,)})
    return NamespaceOffloading(
        metadata=ObjectMeta(name="offloading", namespace="shop"),
        spec=NamespaceOffloadingSpec(),
        status=status,
    )
