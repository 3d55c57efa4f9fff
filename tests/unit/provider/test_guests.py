"""What consumers may ask for."""

from typing import Any

import pytest

from liqod.config import Guests
from liqod.provider.guests import (
    NotAllowed,
    Wish,
    check_pod,
    namespace_problem,
    tolerations,
    too_much,
    within_number,
)

OPEN = Guests(service_accounts=("*",), runtime_classes=("*",), tolerations=("*",), volumes=("*",))


@pytest.mark.parametrize(
    ("spec", "setting"),
    [
        ({"serviceAccountName": "deployer"}, "service_accounts"),
        ({"serviceAccount": "deployer"}, "service_accounts"),
        ({"serviceAccountName": 7}, "service_accounts"),
        ({"runtimeClassName": "nvidia"}, "runtime_classes"),
        ({"volumes": [{"name": "v", "csi": {"driver": "secrets-store.csi.k8s.io"}}]}, "volumes"),
        ({"volumes": [{"name": "v", "nfs": {"server": "10.0.0.1"}}]}, "volumes"),
        ({"volumes": [{"name": "v", "emptyDir": {}, "gitRepo": {}}]}, "volumes"),
    ],
)
def test_what_is_refused_names_the_setting_and_can_be_allowed(spec: Any, setting: str):
    with pytest.raises(NotAllowed, match=rf"the provider's administrator can .*\({setting} under"):
        check_pod(spec, Guests())
    if spec.get("serviceAccountName") != 7:
        check_pod(spec, OPEN)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"serviceAccountName": "default"},
        {"volumes": [{"name": "v", "secret": {}}, {"name": "w", "projected": {}}]},
        {"volumes": "nonsense"},
        {"volumes": ["nonsense"]},
    ],
)
def test_what_is_ordinary_passes_and_nonsense_is_the_api_servers(spec: Any):
    check_pod(spec, Guests())


def test_a_taint_that_keeps_guests_off_is_not_tolerated():
    kept = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec = {
        "tolerations": [
            {"operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            {"key": 7},
            "nonsense",
            kept,
        ]
    }
    assert tolerations(spec, Guests()) == [kept]
    assert len(tolerations(spec, OPEN)) == 4
    assert tolerations({"tolerations": "nonsense"}, OPEN) == []


def test_names_of_namespaces_may_be_asked_to_bear_the_consumers():
    own = Guests(namespaces=("*-{peer}",))
    assert namespace_problem("shop-rome", "rome", own) == ""
    assert "namespaces under [guests]" in namespace_problem("shop", "rome", own)
    assert namespace_problem("shop", "rome", Guests()) == ""


def wish(name: str, since: str, **resources: str) -> Wish:
    return Wish(name, since, resources)


def test_the_oldest_slices_are_kept():
    wishes = [wish("new", "2026-03"), wish("b", "2026-01"), wish("a", "2026-01")]
    assert within_number(wishes, Guests(max_slices=2)) == {"a", "b"}


def test_slices_share_what_one_consumer_may_have_in_the_order_of_their_age():
    bounds = Guests(max_resources={"cpu": "8"})
    wishes = [
        wish("third", "2026-03", cpu="2", memory="1Ti"),
        wish("first", "2026-01", cpu="4"),
        wish("second", "2026-02", cpu="6"),
    ]
    found = too_much(wishes, bounds)
    assert set(found) == {"second"}
    assert "cpu 8 in all its slices" in found["second"]
    assert "max_resources under [guests]" in found["second"]


def test_nothing_is_gained_by_asking_for_less_than_nothing():
    bounds = Guests(max_resources={"cpu": "8"})
    wishes = [wish("a", "1", cpu="-100"), wish("b", "2", cpu="nonsense"), wish("c", "3", cpu="9")]
    assert set(too_much(wishes, bounds)) == {"c"}
    assert too_much([Wish("gold", "1", None)], bounds) == {}
