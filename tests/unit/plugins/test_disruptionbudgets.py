"""A PodDisruptionBudget at a peer, and the division of the allowed disruptions."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.apimachinery.kinds import POD_DISRUPTION_BUDGETS
from liqod.model.crossing import guestrules
from liqod.plugins.contracts import Plan, VirtualNode
from liqod.plugins.reflectors import disruptionbudgets
from liqod.plugins.reflectors.disruptionbudgets import (
    REFLECTOR,
    DisruptionBudgetStatus,
    available,
    share,
)
from simulator.suites import ReflectorContract, StaticView

Json = dict[str, Any]

SELECTOR = {"matchLabels": {"app": "shop"}}


def budget(status: DisruptionBudgetStatus | None = None, generation: int = 1, **spec: Any) -> Json:
    made: Json = {
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "shop",
            "namespace": "shop",
            "uid": "uid-shop",
            "generation": generation,
            "labels": {"app": "shop"},
        },
        "spec": {"selector": SELECTOR, "maxUnavailable": 1, **spec},
    }
    if status is not None:
        made["status"] = msgspec.to_builtins(status)
    return made


def counted(expected: int, healthy: int, desired: int) -> DisruptionBudgetStatus:
    """A status as Kubernetes' controller writes it."""
    return DisruptionBudgetStatus(expected, healthy, desired, max(0, healthy - desired), 1)


def there(expected: int, healthy: int, minimum: int) -> Json:
    made = budget(counted(expected, healthy, minimum), minAvailable=minimum)
    del made["spec"]["maxUnavailable"]
    return made


def reflected(source: Json, *remote: Json) -> Json:
    [made] = disruptionbudgets.outgoing(source, StaticView(REFLECTOR, remote=remote)).remote
    return made


class TestBudgetsKeepTheContract(ReflectorContract):
    reflector = REFLECTOR
    sources = (
        budget(counted(3, 3, 2)),
        budget(counted(4, 4, 2), unhealthyPodEvictionPolicy="AlwaysAllow"),
        budget(),
    )
    remote = (there(3, 3, 3),)


def test_it_is_a_number_there_and_the_rest_crosses():
    source = budget(counted(3, 3, 2), unhealthyPodEvictionPolicy="AlwaysAllow")
    spec = {"selector": SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    assert reflected(source)["spec"] == {**spec, "minAvailable": 3}, "the peer has not counted yet"
    assert reflected(source, there(3, 3, 3))["spec"] == {**spec, "minAvailable": 2}
    assert reflected(source, there(2, 2, 2))["spec"] == {**spec, "minAvailable": 1}
    assert reflected(source, there(0, 0, 0))["spec"] == {**spec, "minAvailable": 0}


def test_what_is_counted_for_another_budget_decides_nothing():
    """Between a change and the controller's next count the one over there stays as it is."""
    changed = budget(counted(3, 3, 2), generation=2)
    seen = StaticView(REFLECTOR, remote=(there(3, 3, 2),))
    assert disruptionbudgets.outgoing(changed, seen) == Plan(hold=True)
    assert disruptionbudgets.outgoing(budget(), seen) == Plan(hold=True)


@pytest.mark.parametrize(
    "status",
    [
        {"expectedPods": -5, "observedGeneration": 1},
        {"expectedPods": 1 << 40, "observedGeneration": 1},
        {"expectedPods": "many", "observedGeneration": 1},
        {"currentHealthy": None},
        [],
        "x",
    ],
)
def test_a_peer_that_counts_nonsense_holds_its_own_evictions_only(status: Any):
    remote = {**there(3, 3, 2), "status": status}
    assert reflected(budget(counted(3, 3, 2)), remote)["spec"]["minAvailable"] == 3


def test_only_a_provider_that_takes_them_is_told():
    assert REFLECTOR.offered is not None
    node = VirtualNode(name="milan", slice="milan")
    assert not REFLECTOR.offered(node)
    assert REFLECTOR.offered(msgspec.structs.replace(node, takes=frozenset({"budgets"})))
    assert "budgets" not in guestrules.render(guestrules.Rules())
    told = guestrules.parse(guestrules.render(guestrules.Rules(takes=frozenset({"budgets"}))))
    assert told is not None
    assert told.takes == {"budgets"}


# --- What all places together may disrupt ---------------------------------------------------------

places = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda two: (max(two), min(two))),
    min_size=1,
    max_size=4,
)
"""Of each place its pods, and those of them that are Ready; the first is this cluster."""


def allowed(here: DisruptionBudgetStatus, pods: int, ready: int) -> int:
    """How many evictions a peer's own controller allows, when it has taken up what we write."""
    return max(0, ready - available(here, counted(pods, ready, 0)))


@given(places, st.integers(0, 24))
def test_no_more_is_allowed_in_all_than_here_but_one_for_each_peer(
    at: list[tuple[int, int]], desired: int
):
    expected, ready = sum(each[0] for each in at), sum(each[1] for each in at)
    here = counted(expected, ready, min(desired, expected))
    parts = [allowed(here, *each) for each in at[1:]]
    for part in parts:
        assert part <= here.disruptions_allowed
    several = sum(1 for part in parts if part)
    assert sum(parts) <= max(here.disruptions_allowed, several)


@given(places, st.integers(0, 24))
def test_a_drain_at_one_peer_goes_on_while_anything_is_allowed(
    at: list[tuple[int, int]], desired: int
):
    expected, ready = sum(each[0] for each in at), sum(each[1] for each in at)
    here = counted(expected, ready, min(desired, expected))
    for pods, healthy in at[1:]:
        if healthy and here.disruptions_allowed:
            assert allowed(here, pods, healthy) >= 1


@given(places, st.integers(0, 24), st.data())
def test_one_after_the_other_they_never_go_below_what_is_desired(
    at: list[tuple[int, int]], desired: int, data: st.DataObject
):
    """Evictions at random peers, each known here before the next; nobody makes the pods again."""
    expected = sum(each[0] for each in at)
    least = min(desired, expected)
    began = sum(each[1] for each in at)
    for _ in range(30):
        ready = sum(each[1] for each in at)
        here = counted(expected, ready, least)
        can = [n for n, each in enumerate(at) if n and allowed(here, *each)]
        if not can:
            break
        n = data.draw(st.sampled_from(can))
        pods, healthy = at[n]
        at[n] = (pods - 1, healthy - 1)
    assert sum(each[1] for each in at) >= min(least, began)


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_what_one_side_does_not_know_yet_allows_nothing_more(pods: int, told: int, lost: int):
    """The peer sees pods fail, or come back, before this cluster's controller has counted them."""
    ready_here = min(told, pods)
    here = counted(pods, ready_here, max(0, pods - 1))
    ready_there = max(0, min(pods, ready_here - lost))
    true = counted(pods, ready_there, max(0, pods - 1))
    assert allowed(here, pods, ready_there) <= true.disruptions_allowed
    back = counted(pods, ready_there, max(0, pods - 1))
    assert allowed(back, pods, ready_here) <= here.disruptions_allowed


def test_shares_follow_the_pods():
    here = DisruptionBudgetStatus(10, 10, 4, 6, 1)
    assert [share(here, pods) for pods in (0, 1, 5, 10, 20)] == [0, 1, 3, 6, 6]
    assert share(DisruptionBudgetStatus(10, 4, 4, 0, 1), 10) == 0
