"""A node's validation of the overlay's resources, where somebody writes nonsense, or worse."""

from ipaddress import ip_address, ip_network
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.network.dataplane import names, overlayplan
from liqod.network.overlay.checked import CheckedOverlay, believe
from liqod.resources.fabric import (
    FabricAlias,
    FabricGateway,
    InternalFabricSpec,
    InternalNodeSpec,
)

NODE = InternalNodeSpec(2, "172.16.0.2", ("10.244.1.0/24",))
FABRIC = InternalFabricSpec(
    cluster="rome",
    gateway=FabricGateway("a", 1, "172.16.0.1", 1, "me"),
    aliases=(FabricAlias("10.71.0.0/16", 1340), FabricAlias("10.72.0.0/20", 1340)),
    pod_cidrs=("10.244.0.0/16",),
    mtu=1450,
)
API = ("10.96.0.1", "203.0.113.4")


RESERVED = ("10.74.0.0/24",)


def believed(**changes: Any) -> CheckedOverlay:
    return believe("b", NODE, msgspec.structs.replace(FABRIC, **changes), API, RESERVED)


def test_what_makes_sense_is_believed() -> None:
    found = believed()
    assert found.refused == ()
    assert found.overlay.aliases == {"10.71.0.0/16": 1340, "10.72.0.0/20": 1340}
    assert (found.me.index, found.gateway.name) == (2, "a")


@pytest.mark.parametrize(
    ("alias", "why"),
    [
        ("0.0.0.0/0", "every address there is"),
        ("::/0", "every address there is"),
        ("10.96.0.0/16", "API server"),
        ("203.0.113.0/24", "API server"),
        ("172.16.0.0/24", "node"),
        ("10.244.1.0/24", "own pods"),
        ("10.0.0.0/8", "API server"),
        ("10.74.0.0/16", "reserved"),
        ("169.254.169.254/32", "metadata"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.32.0/20", "link-local"),
        ("fd18:6c71:20::/64", "overlay itself"),
        ("224.0.0.0/8", "multicast"),
        ("10.73.0.1/16", "host bits"),
        ("10.73.0.0/16 } ; flush ruleset ; {", "no range"),
        ("10.73.0.0", "no range"),
        ("", "no range"),
        ("::ffff:10.73.0.0/112", "another form"),
    ],
)
def test_an_alias_that_would_draw_traffic_away_is_left_out(alias: str, why: str) -> None:
    """And the others stay, for they are other peers'."""
    found = believed(aliases=(FabricAlias(alias, 1340), *FABRIC.aliases))
    assert why in found.refused[0]
    assert len(found.refused) == 1
    assert found.overlay.aliases.keys() == {"10.71.0.0/16", "10.72.0.0/20"}


@pytest.mark.parametrize("mtu", [0, -1, 68, 1279, 1451, 1 << 40])
def test_an_mtu_that_cannot_be_is_left_out(mtu: int) -> None:
    found = believed(aliases=(FabricAlias("10.73.0.0/16", mtu),))
    assert "is not from 1280 to 1450" in found.refused[0]
    assert found.overlay.aliases == {}


def gateway(**changes: Any) -> dict[str, Any]:
    return {"gateway": msgspec.structs.replace(FABRIC.gateway, **changes)}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (gateway(address="127.0.0.1"), "no address of a node"),
        (gateway(address="0.0.0.0"), "no address of a node"),
        (gateway(address="169.254.169.254"), "no address of a node"),
        (gateway(address="255.255.255.255"), "no address of a node"),
        (gateway(address="gateway.example.org"), "no address of a node"),
        (gateway(address="2001:db8::1%; flush ruleset"), "no address of a node"),
        (gateway(address="172.16.0.2"), "the address or the number of this node"),
        (gateway(index=2), "the address or the number of this node"),
        (gateway(index=0), "index 0"),
        (gateway(index=4095), "index 4095"),
        (gateway(address="fd00::1"), "not of one family"),
        ({"cluster": 'rome" ; flush ruleset'}, "cluster's id"),
        ({"cluster": ""}, "cluster's id"),
        ({"pod_cidrs": ()}, "no range"),
        ({"pod_cidrs": ("0.0.0.0/0",)}, "every address"),
        ({"pod_cidrs": ("10.244.0.0/16; drop",)}, "no range"),
        ({"pod_cidrs": ("10.244.0.1/16",)}, "host bits"),
        ({"pod_cidrs": ("10.0.0.0/24",) * 257}, "more than"),
        ({"aliases": (FabricAlias("10.71.0.0/16", 1340),) * 8193}, "more than"),
        ({"vni": 0}, "vni"),
        ({"vni": 1 << 24}, "vni"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"mtu": 1279}, "mtu"),
        ({"mtu": 65536}, "mtu"),
    ],
)
def test_what_cannot_be_is_refused_whole(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        believed(**changes)


def test_an_own_number_or_address_that_cannot_be_is_refused() -> None:
    for node in (InternalNodeSpec(0, "172.16.0.2"), InternalNodeSpec(2, "::1")):
        with pytest.raises(ValueError, match=r"index|no address"):
            believe("b", node, FABRIC)


texts = st.one_of(
    st.sampled_from(["0.0.0.0/0", "10.96.0.0/12", "10.71.0.0/16", "203.0.113.4/32", "fd00::/8"]),
    st.ip_addresses(v=4).map(lambda each: f"{each}/24"),
    st.ip_addresses().map(str),
    st.text(max_size=30),
)


@given(st.lists(st.builds(FabricAlias, texts, st.integers(-9, 70000)), max_size=6))
def test_no_alias_leads_the_api_server_the_nodes_or_everything_away(
    aliases: list[FabricAlias],
) -> None:
    """And whatever is believed can be planned."""
    found = believed(aliases=tuple(aliases))
    plan = overlayplan.plan(found.me, found.gateway, (), found.overlay)
    assert {rule.table for rule in plan.rules} <= {names.ALIASES_TABLE}
    for route in plan.routes:
        assert route.table == names.ALIASES_TABLE
        network = ip_network(route.to)
        assert network.prefixlen > 0
        for address in (*API, "172.16.0.1", "172.16.0.2"):
            assert ip_address(address) not in network
