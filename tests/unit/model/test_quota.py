"""The cost of pods: the scheduler's formula, from Kubernetes' own documentation of sidecars."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.errors import ConfigError
from liqod.model.objects import quantities
from liqod.model.peering.quota import complaint, pod_cost


def container(requests=None, limits=None, *, name="c", always=False):
    resources = {"requests": requests, "limits": limits}
    sidecar = {"restartPolicy": "Always"} if always else {}
    return {"name": name, "resources": {k: v for k, v in resources.items() if v}, **sidecar}


def cost(spec):
    return quantities.render_all(pod_cost(spec))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"name": "c"}]}, {}),
        ({"containers": [container({"cpu": "1"}), container({"cpu": "500m"})]}, {"cpu": "1500m"}),
        # an init container runs alone: the larger of both counts, resource by resource
        (
            {
                "containers": [container({"cpu": "1", "memory": "1Gi"})],
                "initContainers": [container({"cpu": "3", "memory": "512Mi"})],
            },
            {"cpu": "3", "memory": "1Gi"},
        ),
        # a sidecar runs beside the containers
        (
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "2"}, always=True)],
            },
            {"cpu": "3"},
        ),
        # and beside the init containers after it, but not before
        (
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [
                    container({"cpu": "5"}),
                    container({"cpu": "2"}, always=True),
                    container({"cpu": "4"}),
                ],
            },
            {"cpu": "6"},
        ),
        (
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "4"}), container({"cpu": "2"}, always=True)],
            },
            {"cpu": "4"},
        ),
        # limits stand for requests that are not stated
        (
            {"containers": [container({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})]},
            {"cpu": "1", "memory": "1Gi"},
        ),
        ({"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m"}}, {"cpu": "1250m"}),
        (
            {"containers": [container({"cpu": "1"})], "resources": {"requests": {"cpu": "4"}}},
            {"cpu": "4"},
        ),
        # nobody gains by less than nothing
        ({"containers": [container({"cpu": "-5"}), container({"cpu": "1"})]}, {"cpu": "1"}),
        ({"containers": None}, {}),
    ],
)
def test_cost(spec, expected):
    assert cost(spec) == {**expected, "pods": "1"}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "all"},
        {"containers": [3]},
        {"containers": [{"resources": {"requests": {"cpu": "much"}}}]},
        {"containers": [{"resources": {"requests": {"cpu": {}}}}]},
        {"overhead": [1]},
        [],
    ],
)
def test_nonsense_is_an_error_of_the_pods(spec):
    with pytest.raises(ConfigError):
        pod_cost(spec)


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "soft", "hard"),
    [
        ({"containers": [container(FULL, FULL)]}, "", ""),
        (
            {"containers": [container(FULL, {"cpu": "2", "memory": "1024Mi"})]},
            "",
            "limit and request of cpu differ in container c",
        ),
        ({"containers": [container(None, FULL)]}, "", ""),
        (
            {"containers": [container(FULL, FULL), container({"cpu": "1"}, name="d")]},
            "container d does not state its request of memory",
            "container d does not state its request of memory",
        ),
        (
            {"containers": [container(FULL, FULL)], "initContainers": [container(name="i")]},
            "container i does not state its request of cpu and memory",
            "container i does not state its request of cpu and memory",
        ),
        (
            # A server that does not know them drops them, and the pod would be held by nothing.
            {"containers": [container()], "resources": {"requests": FULL, "limits": FULL}},
            "container c does not state its request of cpu and memory"
            " (for the pod as a whole is not enough)",
            "container c does not state its request of cpu and memory"
            " (for the pod as a whole is not enough)",
        ),
        (
            # More for the whole than its containers may take is no more for any of them.
            {"containers": [container(FULL, FULL)], "resources": {"limits": {"cpu": "64"}}},
            "",
            "",
        ),
    ],
)
def test_enforcement(spec, soft, hard):
    assert complaint(spec, "None") == ""
    assert complaint(spec, "Soft") == soft
    assert complaint(spec, "Hard") == hard


REQUESTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9), max_size=2)
CONTAINERS = st.lists(st.builds(container, REQUESTS), max_size=3)
INITS = st.lists(st.builds(container, REQUESTS, always=st.booleans()), max_size=3)


@given(CONTAINERS, INITS)
def test_cost_is_at_least_every_container_and_at_most_all_together(containers, inits):
    total = pod_cost({"containers": containers, "initContainers": inits})
    every = [each["resources"].get("requests", {}) for each in (*containers, *inits)]
    for name in ("cpu", "memory"):
        amounts = [quantities.parse(each.get(name, 0)) for each in every]
        assert max(amounts, default=0) <= total.get(name, 0) <= sum(amounts)
