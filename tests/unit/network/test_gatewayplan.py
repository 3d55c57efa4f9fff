"""Which gateway of a peer counts, and why the others do not."""

import pytest

from liqod.network.gatewayplan import (
    Object,
    Refusal,
    endpoints_of,
    judged,
    port_of,
    refusal,
)
from liqod.resources.base import ObjectRef
from tests.unit.network.gateways import HERE, PEER, client, meta, server, template

OTHER = "liqo-tenant-turin"


@pytest.mark.parametrize(
    "one",
    [
        server(),
        server(mtu=0),
        server(service_type="NodePort", node_port=30840),
        server(port=None, ports=(51840, 51841)),
        client("192.0.2.7"),
        client("gateway.example.org", "2001:db8::7"),
        client("192.0.2.7", port=None, ports=(1, 65535)),
    ],
    ids=lambda one: one.KIND.name,
)
def test_is_taken(one: Object):
    assert refusal(one, PEER, HERE) is None


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (server(meta(peer="turin")), "ForeignPeer"),
        (server(meta(peer="")), "ForeignPeer"),
        (server(mtu=1279), "MtuOutOfRange"),
        (server(mtu=-1), "MtuOutOfRange"),
        (server(mtu=65536), "MtuOutOfRange"),
        (server(port=0), "PortOutOfRange"),
        (server(port=65536), "PortOutOfRange"),
        (server(node_port=-1), "PortOutOfRange"),
        (server(service_type="ExternalName"), "ServiceType"),
        (server(ref=template("client")), "ForeignTemplate"),
        (server(ref=template("server", name="wireguard-client")), "ForeignTemplate"),
        (server(ref=template("server", namespace="default")), "ForeignTemplate"),
        (server(ref=template("server", kind="Deployment")), "ForeignTemplate"),
        (server(ref=template("server", name="server")), "ForeignTemplate"),
        (server(ref=ObjectRef()), "ForeignTemplate"),
        (server(ref=template("server", name="vxlan-server")), "BackendNotAllowed"),
        (client("192.0.2.7", port=70000), "PortOutOfRange"),
        (client("192.0.2.7", port=None), "NoEndpoint"),
        (client(), "NoEndpoint"),
        (client(*(f"192.0.2.{n}" for n in range(9))), "TooManyEndpoints"),
        (client("127.0.0.1"), "BadEndpoint"),
        (client("::1"), "BadEndpoint"),
        (client("0.0.0.0"), "BadEndpoint"),
        (client("224.0.0.1"), "BadEndpoint"),
        (client("169.254.169.254"), "BadEndpoint"),
        (client("10.244.7.7"), "BadEndpoint"),
        (client("::ffff:10.244.7.7"), "BadEndpoint"),
        (client("192.0.2.7", "not a name"), "BadEndpoint"),
        (client("192.0.2.7; reboot"), "BadEndpoint"),
        (client("a" * 64 + ".example.org"), "BadEndpoint"),
    ],
)
def test_is_refused_by_name(one: Object, reason: str):
    found = refusal(one, PEER, HERE)
    assert found is not None
    assert found.reason == reason


def test_the_oldest_that_can_be_counts():
    bad, first, second = server(meta("a", 0), mtu=5), server(meta("b", 1)), server(meta("c", 2))
    third = client("192.0.2.7", metadata=meta("d", 3))
    chosen, refused = judged([third, second, first, bad], PEER, HERE)
    assert chosen is first
    assert {uid.split("/")[1]: why.reason for uid, why in refused.items()} == {
        "a": "MtuOutOfRange",
        "c": "AnotherIsFirst",
        "d": "AnotherIsFirst",
    }


def test_of_the_same_age_the_name_decides():
    one, other = server(meta("a")), server(meta("b"))
    assert judged([one, other], PEER, HERE)[0] is judged([other, one], PEER, HERE)[0] is one


def test_peers_that_ask_for_the_same_port_get_their_own():
    first, second = server(meta(age=1)), server(meta("turin", 2, "turin", OTHER))
    assert port_of(first, [first, second]) == 51840
    told = server(meta(age=1), told=51840)
    assert port_of(second, [told, second]) == 51841
    # It stays there when the first one has gone.
    assert port_of(server(second.metadata, told=51841), [second]) == 51841


def test_of_two_that_took_the_same_port_at_once_the_younger_one_moves():
    first = server(meta(age=1), told=51840)
    second = server(meta("turin", 2, "turin", OTHER), told=51840)
    assert port_of(first, [first, second]) == 51840
    assert port_of(second, [first, second]) == 51841


def test_a_node_port_is_had_or_not():
    first = server(meta(age=1), told=30840, node_port=30840)
    second = server(meta("turin", 2, "turin", OTHER), node_port=30840)
    assert port_of(first, [first, second]) == 30840
    why = port_of(second, [first, second])
    assert isinstance(why, Refusal)
    assert why.reason == "PortTaken"


def test_endpoints_are_written_as_addresses_with_their_port():
    found = endpoints_of(client("192.0.2.7", "2001:db8::7", "gw.example.org", port=7))
    assert found == ("192.0.2.7:7", "[2001:db8::7]:7", "gw.example.org:7")
