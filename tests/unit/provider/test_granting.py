"""The resources that a slice is granted."""

import msgspec
import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.config import ProviderSettings
from liqod.provider.slices.allocation import Allocation
from liqod.provider.slices.granting import SliceVerdict, granted_in, judge, status_of
from liqod.resources import AuthParams, ResourceSlice, Tenant
from liqod.resources.authentication import SliceSpec, SliceStatus, TenantSpec

NOW, THEN = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
GIVEN = AuthParams(api_server="https://milan", signed_crt=b"x")
SETTINGS = ProviderSettings()


def wanted(class_name="default", **resources):
    spec = SliceSpec(class_name=class_name, resources=resources)
    return ResourceSlice(metadata=ObjectMeta(name="milan"), spec=spec)


def tenant(condition="Active"):
    return Tenant(spec=TenantSpec(cluster_id="rome", tenant_condition=condition))


def verdict_of(status):
    return {c["type"]: c["status"] for c in status["conditions"]}


def test_what_is_asked_is_granted_and_gaps_are_filled():
    found = judge(wanted(cpu="20", gpu="1"), tenant(), None, SETTINGS, served=False)
    assert found == SliceVerdict(granted={**SETTINGS.default_resources, "cpu": "20", "gpu": "1"})
    status = status_of({}, found, GIVEN, SETTINGS, NOW)
    assert verdict_of(status) == {"Authentication": "Accepted", "Resources": "Accepted"}
    assert status["conditions"][0] == {
        "type": "Authentication",
        "status": "Accepted",
        "reason": "ResourceSliceAuthenticationAccepted",
        "message": "ResourceSlice authentication accepted",
        "lastTransitionTime": NOW,
    }
    assert granted_in(status) == found.granted


@pytest.mark.parametrize(
    ("condition", "served", "authentication", "resources"),
    [
        ("Active", False, "Accepted", "Accepted"),
        ("Cordoned", True, "Accepted", "Accepted"),
        ("Cordoned", False, "Accepted", "Denied"),
        ("Drained", True, "Denied", "Denied"),
        ("Drained", False, "Denied", "Denied"),
    ],
)
def test_cordon_spares_what_is_served_and_drain_does_not(
    condition, served, authentication, resources
):
    """The conditions equal those that Liqo reports, for slices of any class."""
    for class_name in ("default", "of-my-own"):
        asked = wanted(class_name) if condition == "Cordoned" and not served else wanted()
        found = judge(asked, tenant(condition), None, SETTINGS, served=served)
        told = verdict_of(status_of({}, found, GIVEN, SETTINGS, NOW))
        assert told == {"Authentication": authentication, "Resources": resources}


def test_a_refusal_takes_everything_back():
    accepted = judge(wanted(), tenant(), None, SETTINGS, served=True)
    before = status_of({}, accepted, GIVEN, SETTINGS, THEN)
    refused = judge(wanted(), tenant(), "it is forged", SETTINGS, served=True)
    after = status_of(before, refused, None, SETTINGS, NOW)
    assert verdict_of(after) == {"Authentication": "Denied", "Resources": "Denied"}
    assert "authParams" not in after
    assert "resources" not in after
    assert granted_in(after) is None


@pytest.mark.parametrize("resources", [{"cpu": "-1"}, {"cpu": "lots"}])
def test_nonsense_is_denied_but_authenticated(resources):
    found = judge(wanted(**resources), tenant(), None, SETTINGS, served=False)
    status = status_of({}, found, GIVEN, SETTINGS, NOW)
    assert verdict_of(status) == {"Authentication": "Accepted", "Resources": "Denied"}
    assert "resources" not in status


def test_the_default_class_can_be_switched_off():
    settings = ProviderSettings(accept_default_class=False)
    found = judge(wanted(""), tenant(), None, settings, served=False)
    assert verdict_of(status_of({}, found, GIVEN, settings, NOW))["Resources"] == "Denied"


def test_another_class_keeps_what_its_own_controller_wrote():
    theirs = {
        "resources": {"cpu": "1"},
        "nodeSelector": {"a": "b"},
        "authParams": {"apiServer": "https://elsewhere"},
        "conditions": [{"type": "Resources", "status": "Accepted", "lastTransitionTime": THEN}],
    }
    found = judge(wanted("gold"), tenant(), None, SETTINGS, served=False)
    status = status_of(theirs, found, GIVEN, SETTINGS, NOW)
    assert status["resources"] == {"cpu": "1"}
    assert status["nodeSelector"] == {"a": "b"}
    assert status["authParams"]["apiServer"] == "https://milan"
    assert verdict_of(status) == {"Authentication": "Accepted", "Resources": "Accepted"}


def test_another_class_keeps_nothing_that_it_has_not_granted():
    accepted = judge(wanted(cpu="2"), tenant(), None, SETTINGS, served=False)
    before = status_of({}, accepted, GIVEN, SETTINGS, THEN)
    found = judge(wanted("gold", cpu="2"), tenant(), None, SETTINGS, served=True)
    status = status_of(before, found, GIVEN, SETTINGS, NOW, theirs=False)
    assert verdict_of(status) == {"Authentication": "Accepted"}
    assert set(status) == {"authParams", "conditions"}


def test_a_status_that_somebody_else_wrote_is_overwritten():
    forged = {
        "resources": {"cpu": "1000"},
        "nodeSelector": {"a": "b"},
        "conditions": [{"type": "Resources", "status": "Accepted", "lastTransitionTime": THEN}],
    }
    found = judge(wanted(cpu="1"), tenant(), None, SETTINGS, served=False)
    status = status_of(forged, found, GIVEN, SETTINGS, NOW)
    assert status["resources"]["cpu"] == "1"
    assert "nodeSelector" not in status


def test_times_move_with_the_verdict_only():
    accepted = judge(wanted(), tenant(), None, SETTINGS, served=True)
    before = status_of({}, accepted, GIVEN, SETTINGS, THEN)
    assert status_of(before, accepted, GIVEN, SETTINGS, NOW) == before


@pytest.mark.parametrize(
    ("asked", "allocation"),
    [
        ("100", Allocation("one consumer may have cpu 8", {"cpu": "4"})),
        ("lots", Allocation(kept={"cpu": "4"})),
        ("-1", Allocation(kept={"cpu": "4"})),
    ],
)
def test_a_growth_alone_is_denied_and_says_so(asked, allocation):
    found = judge(wanted(cpu=asked), tenant(), None, SETTINGS, served=True, allocation=allocation)
    status = status_of({}, found, GIVEN, SETTINGS, NOW)
    assert verdict_of(status)["Resources"] == "Accepted"
    assert granted_in(status) == {"cpu": "4"}
    told = status["conditions"][1]
    assert told["reason"] == "ResourceSliceGrowthDenied"
    assert allocation.excess in told["message"]
    assert told["message"] != "ResourceSlice resources accepted"


def test_classes_are_offered_as_liqo_writes_them():
    settings = msgspec.structs.replace(
        SETTINGS, storage_classes=("fast", "slow"), load_balancer_classes=("lb",)
    )
    found = judge(wanted(), tenant(), None, settings, served=True)
    status = status_of({}, found, GIVEN, settings, NOW)
    assert status["storageClasses"] == [
        {"storageClassName": "fast", "default": True},
        {"storageClassName": "slow"},
    ]
    assert status["loadBalancerClasses"] == [{"loadBalancerClassName": "lb", "default": True}]
    assert "ingressClasses" not in status
    msgspec.convert(status, SliceStatus)
    denied = judge(wanted(), tenant(), "it is forged", settings, served=True)
    assert "storageClasses" not in status_of({}, denied, GIVEN, settings, NOW)


@pytest.mark.parametrize(
    ("level", "said"),
    [("privileged", ""), ("restricted", "; pods must fit the Pod Security level restricted")],
)
def test_what_every_pod_must_fit_is_said_with_the_grant(level, said):
    settings = msgspec.structs.replace(SETTINGS, pod_security=level)
    found = judge(wanted(), tenant(), None, settings, served=True)
    told = status_of({}, found, GIVEN, settings, NOW)["conditions"][1]["message"]
    assert told == f"ResourceSlice resources accepted{said}"
