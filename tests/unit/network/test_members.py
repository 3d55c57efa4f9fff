"""Members of the overlay by their Nodes: no member takes from another what that one has."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.apimachinery import labels
from liqod.network.dataplane import overlayplan
from liqod.network.overlay import members
from liqod.network.overlay.members import Fabric, Member
from liqod.resources.fabric import InternalFabricSpec, InternalNodeSpec
from liqod.resources.networking import (
    Configuration,
    ConfigurationStatus,
    GatewayServer,
    GatewayServerSpec,
)

PODS = ("10.244.0.0/16",)
REACHED = {"10.71.0.0/16": 1340}
GATEWAY = Member("a", ("172.16.0.1",), ("10.244.0.0/24",))
SECOND = Member("b", ("172.16.0.2",), ("10.244.1.0/24",))


def known(**indices: int) -> dict[str, InternalNodeSpec]:
    return {name: InternalNodeSpec(index, "172.16.0.9") for name, index in indices.items()}


def made(*others: Member, have: dict[str, InternalNodeSpec] | None = None) -> Fabric:
    found = members.fabric("a", [GATEWAY, *others], have or {}, REACHED, PODS, 1500)
    assert found is not None
    return found


def as_node(**status: Any) -> bytes:
    addresses = [{"type": "Hostname", "address": "b"}, {"type": "InternalIP", "address": "fd00::2"}]
    return json.dumps(
        {
            "metadata": {"name": "b", **status.get("metadata", {})},
            "spec": {"podCIDR": "10.244.1.0/24"},
            "status": {"addresses": addresses},
        }
    ).encode()


def test_where_the_cni_knows_what_nodes_say_is_nothing_to_go_by() -> None:
    assert members.member(as_node(), says_pods=False) == Member("b", ("fd00::2",))
    found = made(Member("b", ("172.16.0.2",)))
    assert not found.refused
    plan = overlayplan.plan(found.gateway, found.gateway, found.nodes.values(), found.overlay)
    # The way back to its pods is the CNI's, and what it sends is believed for all of them.
    assert not plan.routes
    assert "10.244.0.0/16" in "".join(plan.tables.values())


def test_a_virtual_node_and_one_without_address_are_none() -> None:
    virtual = {"labels": {labels.TYPE: labels.VIRTUAL_NODE_TYPE}}
    assert members.member(as_node(metadata=virtual)) is None
    assert members.member(b'{"metadata": {"name": "b"}}') is None
    assert members.member(b'{"metadata": 3}') is None


@pytest.mark.parametrize("others", [(), (Member("a", ("172.16.0.7",)),)])
def test_one_node_has_no_overlay(others: tuple[Member, ...]) -> None:
    assert members.fabric("a", [*others, GATEWAY], {}, REACHED, PODS, 1500) is None


def test_nodes_keep_their_numbers_and_the_device_fits_the_network() -> None:
    found = made(SECOND, have=known(b=7))
    assert {name: node.index for name, node in found.nodes.items()} == {"a": 1, "b": 7}
    assert found.overlay.mtu == 1450
    assert found.overlay.aliases == REACHED
    assert not found.refused


def test_a_way_is_never_wider_than_the_overlay() -> None:
    found = members.fabric("a", [GATEWAY, SECOND], {}, {"10.71.0.0/16": 9000}, PODS, 1500)
    assert found is not None
    assert found.overlay.aliases == {"10.71.0.0/16": 1450}


def test_a_zone_is_no_part_of_a_nodes_address() -> None:
    """It is any text, and addresses go into the rules of nftables."""
    nodes = [Member("a", ("fd00::1",)), Member("b", ("fd00::2%; flush ruleset",))]
    found = members.fabric("a", nodes, {}, REACHED, PODS, 1500)
    assert found is not None
    assert "no InternalIP" in found.refused["b"]


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("172.16.0.1", "is the address of the node a"),
        ("172.16.0.2", "is the address of the node b"),
        ("127.0.0.1", "no InternalIP"),
        ("0.0.0.0", "no InternalIP"),
        ("169.254.32.1", "no InternalIP"),
        ("224.0.0.1", "no InternalIP"),
        ("fd00::7", "no InternalIP"),
        ("172.16.0.3; drop", "no InternalIP"),
        ("", "no InternalIP"),
    ],
)
def test_a_newcomer_takes_no_address(address: str, why: str) -> None:
    """A kubelet writes its own Node's addresses."""
    found = made(SECOND, Member("aa", (address,)), have=known(a=1, b=2))
    assert found.nodes.keys() == {"a", "b"}
    assert why in found.refused["aa"]


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ("10.244.1.0/24", "pods of the node b"),
        ("10.244.0.0/16", "overlaps pods of the node"),
        ("10.244.1.128/25", "pods of the node b"),
        ("0.0.0.0/0", "not in this cluster's ranges"),
        ("192.168.0.0/24", "not in this cluster's ranges"),
        ("fd00::/64", "not in this cluster's ranges"),
        ("10.244.9.1/24", "host bits"),
        ("10.244.9.0/24 } flush ruleset", "is no range"),
        ("", "is no range"),
    ],
)
def test_a_newcomer_takes_no_pods(pods: str, why: str) -> None:
    """One that makes its Node anew may say whichever range it likes."""
    found = made(SECOND, Member("aa", ("172.16.0.3",), (pods,)), have=known(a=1, b=2))
    assert found.nodes["aa"].pods == ()
    assert found.nodes["b"].pods == SECOND.pods
    assert why in found.refused["aa"]


def test_a_gateway_that_has_no_node_is_said() -> None:
    with pytest.raises(ValueError, match="no Node z"):
        members.fabric("z", [GATEWAY, SECOND], {}, REACHED, PODS, 1500)
    with pytest.raises(ValueError, match="no InternalIP"):
        members.fabric("a", [Member("a", ("::1",)), SECOND], {}, REACHED, PODS, 1500)


def test_this_machine_is_the_node_with_its_address() -> None:
    both = (GATEWAY, SECOND)
    assert members.local(both, "", ("10.0.0.1", "172.16.0.2")) == "b"
    assert members.local(both, "said", ()) == "said"
    assert members.local(both, "", ("10.0.0.1", "nonsense")) == ""


@pytest.mark.parametrize("change", ["gateway", "holder"])
def test_the_epoch_goes_up_with_another_gateway_only(change: str) -> None:
    found = made(SECOND)
    first = members.fabric_spec("rome", found, "me", None)
    live = msgspec.convert(first, InternalFabricSpec)
    assert live.gateway.epoch == 1
    assert members.fabric_spec("rome", found, "me", live) == first
    if change == "holder":
        then = members.fabric_spec("rome", found, "another", live)
    else:
        moved = members.fabric("b", [GATEWAY, SECOND], {}, REACHED, PODS, 1500)
        assert moved is not None
        then = members.fabric_spec("rome", moved, "me", live)
    assert then["gateway"]["epoch"] == 2


def told(name: str, *pods: str, reason: str = "NetworkCIDRsConfigured") -> Configuration:
    status = {
        "remote": {"cidr": {"pod": list(pods), "external": ["10.72.0.0/20"]}},
        "conditions": [
            {
                "type": "x",
                "status": "True",
                "reason": reason,
                "message": "",
                "lastTransitionTime": "",
            }
        ],
    }
    metadata = {"name": name, "namespace": f"liqo-tenant-{name}"}
    return msgspec.structs.replace(
        msgspec.convert({"metadata": metadata}, Configuration),
        status=msgspec.convert(status, ConfigurationStatus),
    )


def server(name: str, mtu: int, **more: Any) -> GatewayServer:
    metadata = {"name": name, "namespace": f"liqo-tenant-{name}", **more}
    made = msgspec.convert({"metadata": metadata}, GatewayServer)
    return msgspec.structs.replace(made, spec=GatewayServerSpec(mtu=mtu))


def test_aliases_are_those_of_peers_with_a_gateway() -> None:
    found = members.aliases(
        [told("milan", "10.71.0.0/16"), told("turin", "10.73.0.0/16")],
        [server("milan", 1400), server("milan", 0)],
    )
    assert found == {"10.71.0.0/16": 1340, "10.72.0.0/20": 1340}


def test_refused_ranges_and_a_leaving_gateway_lead_nowhere() -> None:
    refused = told("milan", "10.71.0.0/16", reason="RangesRefused")
    assert members.aliases([refused], [server("milan", 1400)]) == {}
    gone = server("milan", 1400, deletionTimestamp="2026-01-01T00:00:00Z")
    assert members.aliases([told("milan", "10.71.0.0/16")], [gone]) == {}


texts = st.one_of(
    st.sampled_from(["10.244.1.0/24", "10.244.0.0/16", "0.0.0.0/0", "10.244.2.0/23", "x", ""]),
    st.ip_addresses(v=4).map(str),
    st.text(max_size=20),
)


@given(st.lists(st.tuples(texts, texts), max_size=6))
def test_whatever_nodes_say_nobody_loses_anything(claims: list[tuple[str, str]]) -> None:
    """Known members keep address, number and pods, and no two nodes have the same."""
    others = [Member(f"n{number}", (at,), (pods,)) for number, (at, pods) in enumerate(claims)]
    found = made(SECOND, *others, have=known(a=1, b=2))
    assert found.nodes["b"].address == "172.16.0.2"
    assert found.nodes["b"].pods == SECOND.pods
    assert found.gateway.pods == GATEWAY.pods
    every = list(found.nodes.values())
    assert len({each.index for each in every}) == len(every)
    assert len({each.address for each in every}) == len(every)
    ranges = [each for node in every for each in node.pods]
    assert len(set(ranges)) == len(ranges)
    overlayplan.plan(found.gateway, found.gateway, every, found.overlay)
