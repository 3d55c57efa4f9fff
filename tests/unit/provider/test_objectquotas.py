"""Bounds on objects, and the quota controller that does not know new kinds at once."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.config import ProviderSettings
from liqod.errors import Conflict
from liqod.install.rights import REMOTE_BASE_ROLE, cluster_roles
from liqod.kube.client import Client
from liqod.kube.watched import RESYNC
from liqod.model.objects.patches import merged
from liqod.provider.policies import guestkeys, guestobjects
from liqod.provider.slices.objectquotas import (
    PROVED,
    SETTLE,
    ObjectQuotas,
    change,
    custom,
    stuck,
    tenant_bounds,
)
from liqod.resources.exchanges import MOST_NAMESPACES

SHADOWS = "count/shadowpods.offloading.liqo.io"
HARD = {"count/secrets": "2000", SHADOWS: "5000"}


class Cluster:
    """One namespace's quota, and one definition of that age in seconds."""

    def __init__(self, age: float) -> None:
        created = datetime.now(UTC) - timedelta(seconds=age)
        self.created = created.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.quota: dict[str, Any] | None = None
        self.writes = 0

    async def find(self, kind: Kind, *_: Any, **__: Any) -> Any:
        if kind is CUSTOM_RESOURCES:
            return Partial(metadata=ObjectMeta(creation_timestamp=self.created))
        return self.quota

    def counts(self) -> None:
        """The quota controller has seen all bounds, and knows their use."""
        assert self.quota is not None
        self.quota["status"] = {"hard": self.hard, "used": dict.fromkeys(self.hard, "0")}

    async def create(self, _kind: Kind, obj: Any, _namespace: str) -> None:
        self.writes += 1
        self.quota = obj

    async def patch(self, _kind: Kind, _name: str, patch: Any, _namespace: str) -> None:
        self.writes += 1
        self.quota = merged(self.quota, patch)

    @property
    def hard(self) -> Any:
        assert self.quota is not None
        return self.quota["spec"]["hard"]


def quotas(cluster: Cluster) -> ObjectQuotas:
    return ObjectQuotas(cast("Client", cluster), "rome", HARD)


async def test_a_kind_that_is_known_is_bounded_at_once():
    cluster = Cluster(age=3600)
    assert await quotas(cluster).keep("shop-rome") == PROVED
    assert cluster.hard == HARD
    cluster.counts()
    assert await quotas(cluster).keep("shop-rome") == RESYNC


async def test_the_kinds_of_packages_are_bounded_as_granted_and_as_the_configuration_says_first():
    cluster = Cluster(age=3600)
    granted = {"count/gadgets.example.com": "100", "count/secrets": "1"}
    client = cast("Client", cluster)
    keeper = ObjectQuotas(client, "rome", HARD, granted=lambda: granted)
    await keeper.keep("shop-rome")
    assert cluster.hard == {**HARD, "count/gadgets.example.com": "100"}
    cluster.counts()
    granted.clear()  # taken back
    await keeper.keep("shop-rome")
    assert cluster.hard == HARD


async def test_a_new_kind_is_bounded_when_it_is_known(autojump_clock):
    cluster = Cluster(age=10)
    keeper = quotas(cluster)
    wait = await keeper.keep("shop-rome")
    assert SETTLE - 15 < wait <= SETTLE - 9
    assert cluster.hard == {"count/secrets": "2000"}
    await trio.sleep(wait)
    assert await keeper.keep("shop-rome") == PROVED
    assert cluster.hard == HARD
    cluster.counts()
    assert await keeper.keep("shop-rome") == RESYNC
    assert cluster.writes == 2


async def test_a_bound_whose_use_stays_unknown_is_taken_back_for_a_while(autojump_clock):
    cluster = Cluster(age=3600)
    keeper = quotas(cluster)
    await keeper.keep("shop-rome")
    assert cluster.quota is not None
    cluster.quota["status"] = {"hard": HARD, "used": {"count/secrets": "1"}}
    assert await keeper.keep("shop-rome") == SETTLE
    assert SHADOWS not in cluster.hard
    cluster.quota["status"] = {}
    await trio.sleep(SETTLE)
    await keeper.keep("shop-rome")
    assert cluster.hard == HARD


async def test_a_definition_that_is_old_is_no_proof_that_the_controller_could_look(autojump_clock):
    cluster = Cluster(age=SETTLE + 1)  # the API server was away for most of it
    keeper = quotas(cluster)
    assert await keeper.keep("shop-rome") == PROVED
    assert await keeper.keep("shop-rome") == PROVED, "the controller has not seen the bound yet"
    assert cluster.quota is not None
    cluster.quota["status"] = {"hard": HARD, "used": {"count/secrets": "1"}}
    await trio.sleep(PROVED)
    await keeper.keep("shop-rome")
    assert SHADOWS not in cluster.hard, "nobody can make any while it is there"


async def test_a_namespace_that_is_made_anew_is_looked_at_as_a_new_one(autojump_clock):
    cluster = Cluster(age=SETTLE + 1)
    keeper = quotas(cluster)
    await keeper.keep("shop-rome")
    await trio.sleep(60)
    assert await keeper.keep("shop-rome") == 60
    keeper.forget("shop-rome")
    assert await keeper.keep("shop-rome") == PROVED


async def test_a_quota_of_somebody_else_is_left_alone():
    cluster = Cluster(age=3600)
    cluster.quota = {"metadata": {"name": "liqod-objects"}, "spec": {"hard": {}}}
    with pytest.raises(Conflict):
        await quotas(cluster).keep("shop-rome")
    assert cluster.writes == 0


def test_amounts_are_compared_by_worth():
    live = {"spec": {"hard": {"count/secrets": "2k", "pods": "1"}}}
    assert change(live, {"count/secrets": "2000"}) == {"pods": None}


def test_which_bounds_are_on_custom_resources():
    assert custom(SHADOWS) == "shadowpods.offloading.liqo.io"
    assert [custom(key) for key in ("count/secrets", "services.nodeports", "pods")] == ["", "", ""]
    assert stuck(None) == []


def made_by(*names: str) -> set[str]:
    """The objects that those roles may create, by names of bounds; sub-resources are no objects."""
    return {
        f"count/{resource}.{group}".rstrip(".")
        for role in cluster_roles()
        for rule in role.get("rules") or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if role["metadata"]["name"] in names and "create" in rule["verbs"] and "/" not in resource
    }


def test_all_that_a_consumer_may_make_is_bounded():
    assert made_by(REMOTE_BASE_ROLE) <= ProviderSettings().object_quota.keys()


@pytest.mark.parametrize(
    ("policies", "name"),
    [
        (guestobjects.policies(), guestobjects.OBJECTS_POLICY),
        (guestkeys.policies(), guestkeys.KEYS_POLICY),
    ],
)
def test_all_that_a_consumer_may_make_is_held_to_what_guests_may_say(
    policies: list[dict[str, Any]], name: str
) -> None:
    """Of a ShadowPod it is the pod that is checked."""
    [found] = [each for each in policies if rules_of(each) and each["metadata"]["name"] == name]
    held = {
        f"count/{resource}" + (f".{group}" if group else "")
        for rule in rules_of(found)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert made_by(REMOTE_BASE_ROLE) - held == {SHADOWS}


def rules_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        manifest["spec"].get("matchConstraints", {}).get("resourceRules", [])
    )
    return found


def test_all_that_is_made_in_a_tenant_namespace_is_bounded():
    """Of Secrets a peering user makes one only, by policy."""
    made = made_by(labels.CONTROL_PLANE_ROLE, labels.PEERING_USER_ROLE)
    assert made - tenant_bounds(1).keys() == {"count/secrets"}


def test_exchanges_of_both_clusters_have_room():
    bound = tenant_bounds(1, shares=True)["count/serviceexchanges.peering.liqod.io"]
    assert int(bound) == 2 * MOST_NAMESPACES


async def test_affinity_across_namespaces_is_forbidden_once():
    cluster = Cluster(age=3600)
    for _ in range(2):
        await quotas(cluster).forbid_affinity("shop-rome")
    assert cluster.writes == 1
    assert cluster.hard == {"pods": "0"}
