"""The endpoints that a peer is told of an offloaded Service, as the Service asks."""

import pytest

from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.plugins.reflectors import endpointslices, services
from simulator.suites import NAMES, StaticView
from tests.unit.model.clusterset.proxying import used

KEY = "liqod.io/endpoint-preference"
OWN = [f"10.10.0.{each}" for each in range(1, 7)]
NATIVE = [f"10.30.0.{each}" for each in range(1, 4)]


def web(asked, **spec):
    """The Service, as the API server has it."""
    marks = {"annotations": {KEY: asked}} if asked else {}
    known = {"clusterIP": "10.20.0.1", "selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", **marks},
        "spec": known,
    }


def endpoint(address, node, ready=True):
    return {"addresses": [address], "conditions": {"ready": ready}, "nodeName": node}


def told(asked, natives=tuple(NATIVE), own=tuple(OWN), ready=True, **spec):
    """The plan for a slice with pods here and at milan."""
    found = [endpoint(each, "worker-1", ready) for each in own]
    found += [endpoint(each, "milan") for each in natives]
    source = {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": "EndpointSlice",
        "metadata": {
            "name": "web-x",
            "namespace": "shop",
            "uid": "s",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "endpoints": found,
        "ports": [{"port": 8080}],
    }
    view = StaticView(endpointslices.REFLECTOR, names=NAMES, local=[web(asked, **spec)])
    return endpointslices.outgoing(source, view)


def addresses(plan):
    (made,) = plan.remote
    return [each["addresses"][0] for each in made["spec"]["template"]["endpoints"]]


def test_all_are_told_alike_where_nothing_is_asked():
    plan = told(None)
    assert addresses(plan) == OWN
    (made,) = plan.remote
    assert not any("hints" in each for each in made["spec"]["template"]["endpoints"])


@pytest.mark.parametrize(("natives", "zone"), [(NATIVE, "a"), (NATIVE, "b"), ([], "a")])
def test_clients_at_the_peer_use_what_runs_there_while_any_of_it_is_ready(natives, zone):
    (made,) = told("own-first", natives).remote
    there = [
        {
            "addresses": [each],
            "conditions": {"ready": True},
            "hints": {"forZones": [{"name": zone}]},
        }
        for each in natives  # as the peer's own controller writes them
    ]
    template = made["spec"]["template"]
    manifests = [template, {"addressType": "IPv4", "endpoints": there}]
    manifests = [{"addressType": "IPv4", **each} for each in manifests]
    assert used(manifests, zone) == set(natives or OWN)


def test_where_they_are_to_use_what_runs_there_alone_nothing_is_told():
    plan = told("own-only")
    assert plan.remote == ()
    (why,) = plan.reasons
    assert (why.code, why.expected) == ("EndpointsNotTold", True)
    assert told("own-only", own=()).reasons == ()


@pytest.mark.parametrize(
    ("asked", "natives", "count"),
    [
        ("milan=50", 3, 3),
        ("milan=75", 3, 1),
        ("milan=60", 3, 2),
        ("milan=100", 3, 0),
        ("milan=100", 0, 6),  # better anyone than nobody
        ("milan=10", 3, 6),  # what runs there cannot be left out there
        ("milan=0", 3, 6),
        ("turin=50", 3, 3),
        ("milan=", 3, 6),
    ],
)
def test_so_many_are_told_as_make_the_share(asked, natives, count):
    plan = told(asked, NATIVE[:natives])
    assert len(addresses(plan)) == count if count else plan.remote == ()


@pytest.mark.parametrize("asked", ["own-first", "milan=90"])
def test_a_headless_service_keeps_the_names_of_all_its_pods(asked):
    plan = told(asked, clusterIP="None")
    assert addresses(plan) == OWN
    (made,) = plan.remote
    assert not any("hints" in each for each in made["spec"]["template"]["endpoints"])
    (why,) = reflected(web(asked, clusterIP="None"))[1]
    assert (why.code, why.expected) == ("Headless", False)


def test_those_that_are_not_ready_are_told_and_count_for_nothing():
    assert addresses(told("milan=90", ready=False)) == OWN


def reflected(source):
    (made,) = (plan := services.outgoing(source, StaticView(services.REFLECTOR))).remote
    # The peer would refuse it, and it is not for the peer to follow.
    assert KEY not in made["metadata"]["annotations"]
    return made["spec"], plan.reasons


@pytest.mark.parametrize(
    ("asked", "spec", "wanted"),
    [
        ("own-first", {}, "PreferClose"),
        ("own-first", {"trafficDistribution": "PreferSameNode"}, "PreferClose"),
        ("own-first", {"clusterIP": "None"}, None),
        ("own-only", {}, None),
        ("own-first,", {}, None),
        (None, {"trafficDistribution": "PreferClose"}, None),
    ],
)
def test_the_peer_gives_its_own_endpoints_hints_where_they_come_first(asked, spec, wanted):
    made, _ = reflected(web(asked, **spec))
    assert made.get("trafficDistribution") == wanted


def test_what_cannot_be_done_for_clients_here_is_said_on_the_service():
    (why,) = reflected(web("own-first"))[1]
    assert (why.code, why.expected) == ("PreferenceAtPeersOnly", True)
    assert "spec.trafficDistribution" in why.message
    (why,) = reflected(web("nearest"))[1]
    assert (why.code, why.expected) == ("InvalidPreference", False)
    assert reflected(web(None))[1] == ()
