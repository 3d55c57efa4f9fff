"""The size of a pod in its node affinity, by which a scheduler leaves out peers without a place."""

import msgspec
import pytest

from liqod.model.objects import scheduling
from liqod.model.objects.eligibility import Placement
from liqod.model.objects.nodefilters import NodeFacts, unselected
from liqod.model.objects.scheduling import TOLERATION
from tests.unit.model.test_scheduling import EU, EU_TERM, VIRTUAL, patched, pod, terms


def sized(cpu, memory="0", **spec):
    requests = {"cpu": cpu, "memory": memory}
    return pod(containers=[{"name": "c", "resources": {"requests": requests}}], **spec)


@pytest.mark.parametrize("strategy", ["Remote", "LocalAndRemote"])
@pytest.mark.parametrize(
    ("shown", "goes"),
    [
        ({}, True),
        ({"liqod.io/largest-cpu": "1501", "liqod.io/largest-memory": "2"}, True),
        ({"liqod.io/largest-cpu": "1500", "liqod.io/largest-memory": "2"}, False),
        ({"liqod.io/largest-cpu": "9000", "liqod.io/largest-memory": "1"}, False),
    ],
)
def test_a_pod_goes_only_where_a_node_may_have_a_place_of_its_size_now(strategy, shown, goes):
    placement = Placement(strategy, providers={"milan": None}, room_told=True)
    made = patched(sized("1500m", "1"), scheduling.mutate(sized("1500m", "1"), placement))
    marks = {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan", **shown}
    assert (unselected(made["spec"], NodeFacts("milan", marks)) is None) is goes
    here = unselected(made["spec"], NodeFacts("here")) is None
    assert here is (strategy == "LocalAndRemote")
    # One that was made before any provider told has missed nothing.
    before = patched(sized("1500m", "1"), scheduling.mutate(sized("1500m", "1"), Placement()))
    assert (
        scheduling.late_verdict(
            before, msgspec.structs.replace(placement, strategy="LocalAndRemote")
        )
        is None
    )


@pytest.mark.parametrize("strategy", ["Remote", "LocalAndRemote", "Local"])
def test_no_size_is_compared_where_none_is_asked_or_told(strategy):
    for value, told in ((sized("0"), True), (sized("2"), False)):
        placement = Placement(strategy, room_told=told)
        assert "largest" not in str(scheduling.mutate(value, placement))
    assert "largest" not in str(scheduling.mutate(sized("2"), Placement("Local", room_told=True)))


def test_a_gated_pod_gets_no_alternative_besides_those_that_it_has():
    """The API server refuses a change of their number, and the toleration with it."""
    gates = {"schedulingGates": [{"name": "g"}]}
    told = Placement("Remote", room_told=True)
    late = scheduling.late_patch(sized("2", **gates), told)
    assert late is not None
    assert len(terms({"spec": late["spec"]})) == 2
    own = sized("2", **gates)
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    own["spec"]["affinity"] = {"nodeAffinity": {field: {"nodeSelectorTerms": [EU_TERM]}}}
    late = scheduling.late_patch(own, told)
    assert late is not None
    assert terms({"spec": late["spec"]}) == [[EU, VIRTUAL]]
    assert late["spec"]["tolerations"] == [dict(TOLERATION)]
    # One that was made before any provider told what is free is left as it is.
    made = patched(sized("2", **gates), scheduling.mutate(sized("2", **gates), Placement("Remote")))
    assert scheduling.late_patch(made, told) is None
