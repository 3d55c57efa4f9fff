"""Without the admission policies that hold consumers nothing new is lent."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trio

from liqod import install
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    EVENTS,
    NAMESPACES,
    PODS,
)
from liqod.cli.snapshotreader import take
from liqod.errors import ConfigError
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.provider.policies import admission
from liqod.provider.policies.policycontroller import InstalledPolicy, PolicyBinding, missing
from liqod.provider.slices.allocation import Allocation, SliceRequest, without_growth
from liqod.provider.timings import ProviderTimings
from liqod.resources import QUOTAS, RESOURCE_SLICES, SHADOW_PODS
from tests.simulated.borrower import eventually, offload
from tests.simulated.lender import shadow_pod
from tests.simulated.members import Member, members
from tests.simulated.prepared import quiet

POLICY = "liqod-shadowpods"
MADE: list[dict[str, Any]] = admission.policies()
MARKS = {
    "liqo.io/remote-cluster-id": "milan",
    "liqo.io/remoteID": "milan",
    "liqo.io/replication": "true",
}
SPEC = ("class", "providerClusterID", "consumerClusterID")
AT_MILAN, AT_ROME = "liqo-tenant-rome", "liqo-tenant-milan"


def there(kind: str, policy: str = POLICY, **spec: Any) -> list[dict[str, Any]]:
    """Returns the installed objects of a kind, that of one policy with other fields in its spec."""
    found = [each for each in MADE if each["kind"] == f"ValidatingAdmissionPolicy{kind}"]
    return [
        {**each, "spec": {**each["spec"], **(spec if each["metadata"]["name"] == policy else {})}}
        for each in found
    ]


def judged(policies: list[dict[str, Any]], bindings: list[dict[str, Any]]) -> tuple[str, ...]:
    return missing(
        MADE,
        msgspec.convert(policies, list[InstalledPolicy]),
        msgspec.convert(bindings, list[PolicyBinding]),
    )


@pytest.mark.parametrize(
    ("policy", "binding"),
    [
        ({}, {"validationActions": ["Warn"]}),
        ({}, {"validationActions": ["Audit", "Warn"]}),
        ({}, {"policyName": "another"}),
        ({}, {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}),
        ({}, {"paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}}),
        ({"failurePolicy": "Ignore"}, {}),
        ({"validations": []}, {}),
        ({"matchConditions": [{"name": "never", "expression": "false"}]}, {}),
    ],
)
def test_a_policy_counts_where_it_and_its_binding_deny(
    policy: dict[str, Any], binding: dict[str, Any]
):
    assert judged(there(""), there("Binding")) == ()
    assert judged(there("", **policy), there("Binding", **binding)) == (POLICY,)


def test_a_policy_for_guests_counts_where_it_holds_all_of_them():
    name, nobody = "liqod-guest-services", {"name": "held", "expression": "false"}
    assert judged(there("", name, matchConditions=[nobody]), there("Binding")) == (name,)
    assert judged(there("", name, matchConditions=None), there("Binding")) == ()


def test_a_policy_counts_where_it_is_there_and_bound():
    def others(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each for each in found if each["metadata"]["name"] != POLICY]

    assert judged(others(there("")), there("Binding")) == (POLICY,)
    assert judged(there(""), others(there("Binding"))) == (POLICY,)


def test_a_slice_shrinks_and_does_not_grow_while_nothing_new_is_lent():
    had = {"cpu": "4", "memory": "8Gi"}
    less, more = {"cpu": "2", "memory": "8Gi"}, {"cpu": "2", "memory": "9Gi", "pods": "3"}

    def share(resources: dict[str, str] | None, granted: dict[str, str] | None) -> Allocation:
        return without_growth(SliceRequest("one", "", resources, granted), Allocation(), "because")

    assert share(less, had) == Allocation()
    kept: dict[str, int | str] = {"cpu": "2", "memory": "8Gi"}
    assert share(more, had) == Allocation("memory 9Gi, pods 3 is asked for: because", kept)
    assert share(more, None) == share({"cpu": "many"}, had) == Allocation()


@pytest.mark.long
async def test_no_slice_is_granted_or_grows_and_no_tenant_is_accepted_until_they_are_back():
    timings = ProviderTimings(policies_missing=0.5)
    async with members("rome", "milan", "turin", timings=timings) as [rome, milan, turin]:
        await rome.peer(milan)
        (quota,) = await milan.admin.list(QUOTAS, Selection(AT_MILAN))
        asked = (await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME))["spec"]["resources"]
        weak = {"spec": {"validationActions": ["Warn"]}}
        await milan.admin.patch(ADMISSION_POLICY_BINDINGS, POLICY, weak)
        await eventually(lambda: holds(bool(milan.components.guest_policies.missing)))
        assert milan.components.guest_policies.missing == (POLICY,)
        assert (await take(milan.admin, "liqo")).policies == (POLICY,)

        whole = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
        extra = {
            "metadata": {"name": "extra", "namespace": AT_ROME, "labels": MARKS},
            "spec": {key: whole["spec"][key] for key in SPEC} | {"resources": {"cpu": "1"}},
        }
        await rome.admin.create(RESOURCE_SLICES, extra, AT_ROME)
        grown = {"spec": {"resources": {**asked, "cpu": "7"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", grown, AT_ROME)

        for name in ("milan", "extra"):
            await rome.until(RESOURCE_SLICES, name, AT_ROME, told)
        assert await milan.admin.get(QUOTAS, quota["metadata"]["name"], AT_MILAN) == quota
        assert len(await milan.admin.list(QUOTAS, Selection(AT_MILAN))) == 1

        async def refused() -> bool:
            events = await milan.admin.list(EVENTS, Selection("liqo-tenant-turin"))
            return any("nothing new is lent" in each["message"] for each in events)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer_in_the_end, turin, milan)
            await eventually(refused)
            assert await milan.admin.list(QUOTAS, Selection("liqo-tenant-turin")) == []
            await install.install(milan.admin, install.Options(cluster_id="milan"), quiet)
        for name, cpu in (("milan", "7"), ("extra", "1")):
            user = ids.slice_user(name, "rome")
            await milan.until(QUOTAS, user, AT_MILAN, has(cpu))


async def peer_in_the_end(consumer: Member, provider: Member) -> None:
    """Peers as a person does who is refused: again, until it is done."""
    while True:
        try:
            await consumer.peer(provider)
        except ConfigError:
            await trio.sleep(0.5)
        else:
            return


def has(cpu: str) -> Callable[[dict[str, Any]], bool]:
    return lambda quota: bool(quota["spec"]["resources"]["cpu"] == cpu)


def told(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    return any("nothing new is lent" in each.get("message", "") for each in conditions)


async def test_a_daemon_that_starts_without_any_of_them_knows_before_it_lends():
    async with members("milan") as [milan]:
        await milan.stop()
        for kind in (ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS):
            for each in await milan.admin.list(kind):
                await milan.admin.delete(kind, each["metadata"]["name"])
        await milan.start()
        assert milan.components.guest_policies.known
        assert POLICY in milan.components.guest_policies.missing


@pytest.mark.long
async def test_nothing_new_is_lent_until_they_are_back():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")

        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        await milan.admin.delete(ADMISSION_POLICY_BINDINGS, POLICY)
        await milan.admin.delete(ADMISSION_POLICIES, POLICY)
        await eventually(lambda: holds(bool(milan.components.guest_policies.missing)))
        await offload(rome.admin, "late")
        asked = shadow_pod("web", user="")

        await milan.admin.create(SHADOW_PODS, asked, "shop-rome")

        async def told():
            found = await milan.admin.get(SHADOW_PODS, "web", "shop-rome")
            status = found.get("status", {})
            return status if status.get("reason") == "PoliciesMissing" else None

        said = (await eventually(told))["message"]
        assert "the admission policies that hold guests are missing here (liqod-shadowpods)" in said
        assert await milan.admin.find(PODS, "web", "shop-rome") is None
        assert await milan.admin.find(NAMESPACES, "late-rome") is None
        await install.install(milan.admin, install.Options(cluster_id="milan"), quiet)
        await eventually(lambda: holds(not milan.components.guest_policies.missing))
        await eventually(lambda: milan.admin.find(NAMESPACES, "late-rome"))


async def holds(verdict: bool) -> bool:
    return verdict
