"""The choice of the gateway of a peer that counts, and the reasons against the others."""

from typing import Any

import msgspec
import pytest

from liqod.config import Config
from liqod.configsections import HandshakeSettings, WebhookSettings
from liqod.network.gateway.gatewayobjects import Object, endpoints_of, reported_websocket
from liqod.network.gateway.gatewayplan import (
    GatewayRefusal,
    judged,
    port_of,
    refusal,
    undecided,
    websocket_of,
)
from liqod.network.joining import own_ports
from liqod.network.orders.tunnels import PORT, Listening
from liqod.resources.base import ObjectRef
from liqod.resources.networking import GatewayServerStatus, StandardCondition
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


def test_one_that_may_be_possible_counts_and_no_other_in_its_place():
    here = msgspec.structs.replace(HERE, undecided={"vxlan": "silent"})
    first = server(meta("a", 0), ref=template("server", name="vxlan-server"))
    later = server(meta("b", 1))
    chosen, refused = judged([first, later], PEER, here)
    assert chosen is first
    assert refused[later.metadata.uid].reason == "AnotherIsFirst"
    assert undecided(first, here).endswith("silent")
    assert not undecided(later, here)
    assert judged([first, later], PEER, HERE)[0] is later
    wrong = server(ref=template("server", name="vxlan-server"), mtu=5)
    found = refusal(wrong, PEER, here)
    assert found is not None
    assert found.reason == "MtuOutOfRange"


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
    assert isinstance(why, GatewayRefusal)
    assert why.reason == "PortTaken"


def test_servers_that_share_a_port_all_get_it():
    """One firewall rule lets in the websockets of all peers; UDP ports are something else."""
    how = Listening(transport="TCP", port=443, shared=True)
    ref = template("server", name="websocket-server")
    first = server(meta(age=1), ref, told=443, protocol="TCP", port=None)
    second = server(meta("turin", 2, "turin", OTHER), ref, port=None)
    other = server(meta("bari", 0, "bari", "liqo-tenant-bari"), told=443)
    assert port_of(second, [other, first, second], how) == 443
    asked = server(meta("turin", 2, "turin", OTHER), ref, port=8443)
    assert port_of(asked, [first, asked], how) == 8443


def asked(port: int, which: str) -> dict[str, Any]:
    return {"port": PORT, which: port}


@pytest.mark.parametrize("port", [1, 22, 1023, 2379, 6443, 10250, 10259])
@pytest.mark.parametrize("which", ["port", "node_port"])
def test_a_tcp_port_of_the_nodes_own_is_not_given(port: int, which: str):
    """Such a program may be down for a moment, and then its port could be had."""
    how = Listening(transport="TCP", port=443, shared=True)
    here = msgspec.structs.replace(HERE, backends={"websocket": how})
    one = server(ref=template("server", "websocket-server"), **asked(port, which))
    why = refusal(one, PEER, here)
    assert why is not None
    assert (why.reason, why.message) == ("PortKept", f"TCP port {port} is kept for other programs")
    for good in (443, 8443, 30443):
        one = server(ref=template("server", "websocket-server"), **asked(good, which))
        assert refusal(one, PEER, here) is None


@pytest.mark.parametrize("port", [53, 123, 500, 4789, 4790, 6443, 8472, 10250, 12346])
@pytest.mark.parametrize("which", ["port", "node_port"])
def test_nor_is_a_udp_port(port: int, which: str):
    """The resolver's, the clock's, an overlay's, and liqod's own among candidates."""
    why = refusal(server(**asked(port, which)), PEER, HERE)
    assert why is not None
    assert (why.reason, why.message) == ("PortKept", f"UDP port {port} is kept for other programs")
    # Who has had it from a version that gave it keeps it, and goes on.
    assert refusal(server(**asked(port, which), told=port), PEER, HERE) is None
    assert refusal(server(**asked(51841, which)), PEER, HERE) is None


@pytest.mark.parametrize("port", [6446, 8118, 9443, 10270, 10271, 10272, 12346, 20443])
def test_a_port_of_this_daemon_is_no_gateway_s(port: int):
    """It may be down, as for an upgrade: the next owner of its port then gets the requests."""
    config = Config(webhook=WebhookSettings(port=20443)) if port == 20443 else Config()
    how = Listening(transport="TCP", port=443, shared=True)
    here = msgspec.structs.replace(HERE, backends={"websocket": how}, kept=own_ports(config))
    one = server(ref=template("server", "websocket-server"), **asked(port, "port"))
    why = refusal(one, PEER, here)
    assert why is not None
    assert why.reason == "PortKept"
    # One that is shared with the handshake, as at 443, is the backend's own.
    shared = own_ports(Config(handshake=HandshakeSettings(port=443)))
    one = server(ref=template("server", "websocket-server"), **asked(443, "port"))
    assert refusal(one, PEER, msgspec.structs.replace(here, kept=shared)) is None


def test_the_next_port_that_is_free_is_none_that_is_kept():
    first = server(meta(age=1), told=4788, port=4788)
    second = server(meta("turin", 2, "turin", OTHER), port=4788)
    assert port_of(second, [first, second]) == 4791


def test_one_that_shares_no_port_of_the_same_transport_is_in_the_way():
    how = Listening(transport="TCP", port=443, shared=True)
    first = server(meta(age=1), template("server", "rope-server"), told=443, protocol="TCP")
    second = server(
        meta("turin", 2, "turin", OTHER), template("server", "websocket-server"), port=None
    )
    why = port_of(second, [first, second], how)
    assert isinstance(why, GatewayRefusal)
    assert why.reason == "PortTaken"


def test_endpoints_are_written_as_addresses_with_their_port():
    found = endpoints_of(client("192.0.2.7", "2001:db8::7", "gw.example.org", port=7))
    assert found == ("192.0.2.7:7", "[2001:db8::7]:7", "gw.example.org:7")


def test_where_a_server_takes_websockets_is_read_from_its_status():
    def told(message: str, port: int = 0) -> int:
        said = StandardCondition(
            type="WebSocket",
            status="True",
            reason="WebSocket",
            message=message,
            last_transition_time="2026-01-01T00:00:00Z",
        )
        status = GatewayServerStatus(websocket_port=port, conditions=(said,))
        return reported_websocket(msgspec.structs.replace(server(), status=status))

    assert told("in other words", 443) == 443
    assert told("TCP 444") == 444, "a server of a version before that field"
    assert told("TCP x") == told("") == reported_websocket(server()) == 0


def test_a_websocket_beside_is_what_the_configuration_says_and_clients_are_told():
    backends = {
        "wireguard": Listening(carried=True),
        "websocket": Listening(transport="TCP", port=443, shared=True),
        "vxlan": Listening(),
    }
    here = msgspec.structs.replace(HERE, backends=backends, websocket=True)
    assert websocket_of(server(), "wireguard", here) == 443
    assert websocket_of(server(), "vxlan", here) == 0
    silent = msgspec.structs.replace(here, websocket=False)
    assert websocket_of(server(), "wireguard", silent) == 0
    without = msgspec.structs.replace(here, backends={"wireguard": Listening(carried=True)})
    told = {"443": 443, "8443": 8443, "0": 0, "65536": 0, "-1": 0, "443x": 0, "": 0, "9" * 6: 0}
    for text, port in told.items():
        one = client("192.0.2.1")
        one.metadata.annotations["liqod.io/websocket"] = text
        assert websocket_of(one, "wireguard", silent) == port
        assert websocket_of(one, "wireguard", without) == 0
