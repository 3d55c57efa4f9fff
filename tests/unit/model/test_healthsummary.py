"""How a consumer's tenant is, by its Tenant alone."""

import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.cli.report import ladders, overview
from liqod.model.peering.healthsummary import NO_WAY_IN
from liqod.model.view.snapshot import Snapshot
from liqod.resources import ForeignCluster, Tenant
from liqod.resources.authentication import AuthParams, TenantSpec, TenantStatus
from liqod.resources.core import ForeignClusterSpec

GIVEN = TenantStatus("liqo-tenant-rome", AuthParams())
NOTHING = TenantStatus("liqo-tenant-rome")


@pytest.mark.parametrize(
    ("condition", "policy", "status", "state", "verdict"),
    [
        ("Active", "KeysExchange", GIVEN, "active", "ok"),
        ("Active", "KeysExchange", NOTHING, "not accepted", "unknown"),
        ("Active", "TolerateNoHandshake", NOTHING, "active", "ok"),
        ("Cordoned", "KeysExchange", GIVEN, "Cordoned", "skipped"),
        ("Drained", "KeysExchange", NOTHING, "Drained", "skipped"),
    ],
)
def test_a_tenant_without_a_way_in_is_not_called_active(condition, policy, status, state, verdict):
    spec = TenantSpec(cluster_id="rome", tenant_condition=condition, authz_policy=policy)
    snapshot = Snapshot(
        cluster_id="milan",
        leader="host-1",
        leader_age=1.0,
        foreign_clusters=(
            ForeignCluster(
                metadata=ObjectMeta(name="rome"), spec=ForeignClusterSpec(cluster_id="rome")
            ),
        ),
        tenants=(Tenant(metadata=ObjectMeta(name="rome"), spec=spec, status=status),),
    )
    assert overview(snapshot).peers[0].state == state
    _, rome = ladders(snapshot, "v1.35.4", 0.1)
    (row,) = [each for each in rome.checks if each.layer == "tenant"]
    assert row.verdict == verdict
    assert (row.evidence == NO_WAY_IN) is (state == "not accepted")
