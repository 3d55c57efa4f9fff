"""The status of a ForeignCluster, against those of a real peering."""

from pathlib import Path

import msgspec
import pytest
import yaml

from liqod.model.peering.foreigncluster import (
    REFUSES,
    UNTRUSTED,
    UNUSABLE,
    role,
    status,
)
from liqod.model.view.facts import LinkFacts, PeerFacts, ReflectionFacts
from liqod.model.view.networkfacts import NetworkFacts
from liqod.model.view.objectfacts import virtual_node
from liqod.resources import VirtualNode

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects"


def load(side, kind):
    document = yaml.safe_load(next((OBJECTS / side).glob(f"cr-{kind}.*")).read_text())
    return document["items"][0] if "items" in document else document


def timeless(value):
    """Without the times of conditions."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k != "lastTransitionTime"}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def node(kubelet="Running", node="Running", **spec):
    conditions = [
        {"type": "VirtualKubelet", "status": kubelet},
        {"type": "Node", "status": node},
    ]
    raw = {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(raw, VirtualNode)


def on(*nodes):
    """The reflection to these virtual nodes."""
    return ReflectionFacts(nodes=tuple(virtual_node(each) for each in nodes))


def test_a_provider_looks_as_in_liqo():
    facts = PeerFacts(
        peer="milan",
        lends=True,
        server="https://127.0.0.1:20112",
        tenant_namespace="liqo-tenant-lz",
        remote_namespace="liqo-tenant-ly",
        link=LinkFacts(state="up"),
        reflection=on(msgspec.convert(load("consumer", "virtualnodes"), VirtualNode)),
    )
    assert status(facts, 1) == timeless(load("consumer", "foreignclusters")["status"])


def test_a_consumer_looks_as_in_liqo():
    facts = PeerFacts(
        peer="milan", borrows=True, tenant_ready=True, tenant_namespace="liqo-tenant-ly"
    )
    assert status(facts, 1) == timeless(load("provider", "foreignclusters")["status"])


@pytest.mark.parametrize(
    ("lends", "borrows", "expected"),
    [
        (True, True, "ConsumerAndProvider"),
        (True, False, "Provider"),
        (False, True, "Consumer"),
        (False, False, "Unknown"),
    ],
)
def test_roles(lends, borrows, expected):
    assert role(PeerFacts(peer="milan", lends=lends, borrows=borrows)) == expected


def of(found, module):
    return {c["type"]: c["status"] for c in found["modules"][module].get("conditions", ())}


def test_what_is_not_ready_says_so():
    found = status(
        PeerFacts(
            peer="milan",
            lends=True,
            borrows=True,
            remote_namespace="liqo-tenant-ly",
            link=LinkFacts(state="down", reason="milan does not answer"),
            reflection=on(node(), node("Creating", "None"), node(node="Draining")),
        )
    )
    [api] = found["conditions"]
    assert (api["status"], api["message"]) == ("Error", "milan does not answer")
    assert of(found, "authentication") == {
        "AuthTenantStatus": "NotReady",
        "AuthIdentityControlPlaneStatus": "Ready",
    }
    assert of(found, "offloading") == {
        "OffloadingVirtualNodeStatus": "SomeNotReady",
        "OffloadingNodeStatus": "SomeNotReady",
    }
    none = status(PeerFacts(peer="milan", lends=True, reflection=on(node("None", "None"))))
    assert of(none, "offloading") == {
        "OffloadingVirtualNodeStatus": "NotReady",
        "OffloadingNodeStatus": "NotReady",
    }
    # A virtual node without a Node counts for the first only.
    bare = status(PeerFacts(peer="milan", lends=True, reflection=on(node(createNode=False))))
    assert of(bare, "offloading") == {"OffloadingVirtualNodeStatus": "Ready"}


@pytest.mark.parametrize(
    ("problem", "degraded", "reason"),
    [
        ("", False, "APIServerNotReady"),
        ("refused", False, REFUSES),
        ("untrusted", False, UNTRUSTED),
        ("", True, UNUSABLE),
    ],
)
def test_the_reason_says_what_kind_of_trouble_it_is(problem, degraded, reason):
    link = LinkFacts(state="down", reason="no", problem=problem)
    if degraded:
        link = LinkFacts(state="up", degraded="no", grave=True)
    facts = PeerFacts(peer="milan", lends=True, remote_namespace="liqo-tenant-ly", link=link)
    (condition,) = status(facts)["conditions"]
    assert (condition["status"], condition["reason"]) == ("Error", reason)


def test_nothing_is_said_of_a_server_that_nobody_asked():
    assert "conditions" not in status(
        PeerFacts(peer="milan", lends=True, remote_namespace="liqo-tenant-ly", link=LinkFacts())
    )
    assert "conditions" not in status(
        PeerFacts(peer="milan", borrows=True, link=LinkFacts(state="up"))
    )


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (None, {}),
        (
            NetworkFacts(),
            {
                "NetworkConfigurationStatus": "NotReady",
                "NetworkGatewayPresence": "NotReady",
                "NetworkConnectionStatus": "Pending",
            },
        ),
        (
            NetworkFacts(configured=True, gateways={"server": True}, stands=True),
            {
                "NetworkConfigurationStatus": "Ready",
                "NetworkGatewayPresence": "Ready",
                "NetworkGatewayServerStatus": "Ready",
                "NetworkConnectionStatus": "Established",
            },
        ),
        (
            NetworkFacts(
                configured=True, gateways={"client": False}, stands=False, why="no answer"
            ),
            {
                "NetworkConfigurationStatus": "Ready",
                "NetworkGatewayPresence": "Ready",
                "NetworkGatewayClientStatus": "NotReady",
                "NetworkConnectionStatus": "Error",
            },
        ),
    ],
)
def test_the_network_in_liqos_words(network, expected):
    found = status(PeerFacts(peer="milan", lends=True, network=network))
    assert of(found, "networking") == expected
    assert found["modules"]["networking"]["enabled"] is (network is not None)
