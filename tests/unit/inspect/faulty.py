"""Objects as a fault leaves them, for tests."""

from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.peering.foreigncluster import DEGRADED
from liqod.model.view.rows import Plugin
from liqod.resources import ResourceSlice
from liqod.resources.authentication import SliceCondition, SliceSpec, SliceStatus
from liqod.resources.core import PeerCondition
from liqod.resources.networking import Connection, ConnectionStatus
from tests.unit.model.test_overview import peer


def cut_off(status: str = "Connecting") -> Connection:
    meta = ObjectMeta(name="milan", labels={labels.REMOTE_CLUSTER_ID: "milan"})
    return Connection(metadata=meta, status=ConnectionStatus(status))


def degraded(message: str) -> Any:
    well = peer("milan")
    more = PeerCondition("NetworkStatus", "Established", DEGRADED, message)
    status = msgspec.structs.replace(well.status, conditions=(*well.status.conditions, more))
    return msgspec.structs.replace(well, status=status)


def denied() -> ResourceSlice:
    condition = SliceCondition(type="Resources", status="Denied", message="too much")
    return ResourceSlice(
        metadata=ObjectMeta(name="gpus"),
        spec=SliceSpec(provider_cluster_id="milan"),
        status=SliceStatus(conditions=(condition,)),
    )


def plugin(failure: str = "", *, kind: str = "reflector", name: str = "gadgets") -> Plugin:
    return Plugin(name, kind, failure=failure)
