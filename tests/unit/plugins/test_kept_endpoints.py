"""The wish of an offloaded Service that peers keep the endpoints of a cluster that is silent."""

import pytest

from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.plugins.reflectors import endpointslices, services
from simulator.suites import NAMES, StaticView

KEY = "liqod.io/keep-last-endpoints"


def web(asked, address="10.20.0.1"):
    """The Service, as the API server has it."""
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.name,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "annotations": asked},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    }


def told(asked, own=None, address="10.20.0.1"):
    """The annotations of what a peer is told of a slice with annotations of its own."""
    source = {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.name,
        "metadata": {
            "name": "web-x",
            "namespace": "shop",
            "uid": "s",
            "labels": {"kubernetes.io/service-name": "web"},
            "annotations": own or {},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.10.0.1"], "nodeName": "worker-1"}],
    }
    view = StaticView(endpointslices.REFLECTOR, names=NAMES, local=[web(asked, address)])
    (made,) = endpointslices.outgoing(source, view).remote
    return made["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("asked", "own", "address", "wanted"),
    [
        ({KEY: "true"}, {}, "10.20.0.1", {KEY: "true"}),
        ({KEY: "false"}, {}, "10.20.0.1", {}),
        ({KEY: "yes"}, {}, "10.20.0.1", {}),
        ({}, {}, "10.20.0.1", {}),
        ({}, {KEY: "true"}, "10.20.0.1", {}),
        ({KEY: "true"}, {}, "None", {}),
    ],
    ids=["asked", "not", "invalid", "absent", "on-the-slice", "headless"],
)
def test_a_peer_is_told_the_wish_of_the_service_and_no_other(asked, own, address, wanted):
    assert told(asked, own, address) == wanted


@pytest.mark.parametrize(
    ("asked", "address", "codes"),
    [
        ("true", "10.20.0.1", []),
        ("false", "None", []),
        ("true", "None", ["Headless"]),
        ("yes", "10.20.0.1", ["InvalidAnnotation"]),
    ],
)
def test_the_service_crosses_without_it_and_says_where_it_is_not_followed(asked, address, codes):
    plan = services.outgoing(web({KEY: asked}, address), StaticView(services.REFLECTOR))
    (made,) = plan.remote
    assert KEY not in made["metadata"]["annotations"]
    assert [each.code for each in plan.reasons] == codes
    assert not any(each.expected for each in plan.reasons)
