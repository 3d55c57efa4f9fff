"""Orders that cannot be sound are refused before a kernel is given any of them."""

import pytest
from msgspec.structs import replace

from liqod.model.network.ranges import ClusterCidrs, Entrance, TransitEntrance
from liqod.network.machine.orderchecks import (
    MOST_REASON,
    ReservedAddresses,
    around_problem,
    problem,
)
from liqod.network.orders.tunnels import Surroundings, TunnelOrder
from tests.unit.network.tunnels import GATEWAY, ORDER, RANGES

INJECTED = '10.0.0.0/8 accept; }; table inet other { chain c { comment "'
TRANSIT = TransitEntrance("turin", "10.99.0.5", "10.70.0.6")
ENTRANCE = Entrance("10.70.0.1", "tcp", 443, "192.0.2.1", 6443)


def of(**ranges: object) -> TunnelOrder:
    return replace(ORDER, ranges=replace(RANGES, **ranges))


def by(**gateway: object) -> TunnelOrder:
    return replace(ORDER, gateway=replace(GATEWAY, **gateway))


@pytest.mark.parametrize(
    "order",
    [
        ORDER,
        of(lent={"10.70.0.5": "192.0.2.5"}, unmasked=("192.0.2.5",), entrances=(ENTRANCE,)),
        of(own=ClusterCidrs(("10.244.0.0/16", "fd00::/64"), ("10.70.0.0/16",))),
        of(transit=(TRANSIT,), transit_rate=1000),
        by(side="server", endpoints=(), port=51840),
        by(endpoints=("[2001:db8::1]:51840", "gateway.example.com:51840")),
        # Liqo's proxy, and a tunnel by way of a relay.
        of(entrances=(replace(ENTRANCE, host="169.254.19.1", to=8118),)),
        of(entrances=(Entrance("10.70.0.0", "udp", 51840, "169.254.19.1", 51840),)),
        of(lent={f"10.70.{n >> 8}.{n & 255}": "192.0.2.5" for n in range(4096)}),
    ],
    ids=lambda order: repr(order)[:200],
)
def test_a_sound_order(order: TunnelOrder):
    assert problem(order) == ""


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (replace(ORDER, peer='x" }; table'), "cluster id"),
        (replace(ORDER, peer=""), "cluster id"),
        (replace(ORDER, private_key=b"short"), "private_key"),
        (replace(ORDER, peer_key=b""), "peer_key"),
        (by(backend="../wireguard"), "backend"),
        (by(mtu=68), "MTU"),
        (by(mtu=70000), "MTU"),
        (by(port=65536), "port"),
        (by(websocket=-1), "port"),
        (by(endpoints=("-oProxy=x",)), "endpoint"),
        (by(endpoints=("192.0.2.1:1\nlisten_port=1",)), "endpoint"),
        (by(endpoints=("192.0.2.1:1",) * 9), "9 endpoints"),
        (of(own=ClusterCidrs((INJECTED,))), "10.0.0.0/8 accept"),
        (of(own=ClusterCidrs(("0.0.0.0/0",))), "every address"),
        (of(seen=ClusterCidrs(("0.0.0.0/0",))), "0.0.0.0/0"),
        (of(seen=ClusterCidrs(("169.254.0.0/16",))), "169.254.0.0/16"),
        (of(peer=ClusterCidrs(("10.244.0.1/16",))), "10.244.0.1/16"),
        (of(seen=ClusterCidrs(RANGES.seen.pod)), "1 ranges of the peer have 0 aliases"),
        (of(lent={"10.70.0.5": INJECTED}), "is no address"),
        (of(lent={"10.70.0.5": "fe80::1%x; }"}), "is no address"),
        (of(lent={"10.70.0.5": "169.254.169.254"}), "metadata service"),
        (of(lent={"10.70.0.5": "127.0.0.1"}), "loopback"),
        (of(lent={"fd00::5": "::1"}), "loopback"),
        (of(unmasked=("all",)), "is no address"),
        (of(transit=(replace(TRANSIT, host=INJECTED),)), "is no address"),
        (of(transit=(replace(TRANSIT, shown=INJECTED),)), "is no address"),
        (of(transit=(replace(TRANSIT, host="fe80::1%x", shown="fe80::2"),)), "is no address"),
        (of(transit=(replace(TRANSIT, owner="x { } }; table"),)), "cluster id"),
        (of(transit=(replace(TRANSIT, host="fd00::5"),)), "two families"),
        (of(transit=(replace(TRANSIT, shown="10.71.0.6"),)), "no external address"),
        (of(transit=(replace(TRANSIT, host="10.244.0.5"),)), "no address at another peer"),
        (of(transit=(replace(TRANSIT, host="10.70.0.9"),)), "no address at another peer"),
        (of(transit=(TRANSIT,), lent={"10.70.0.6": "192.0.2.5"}), "leads to two hosts"),
        (of(transit=(TRANSIT, replace(TRANSIT, host="10.99.0.6"))), "leads to two hosts"),
        (of(transit=(TRANSIT,) * 2049), "2049 endpoints"),
        (of(transit=(TRANSIT,), transit_rate=-1), "below 0"),
        (of(entrances=(replace(ENTRANCE, host="any"),)), "is no address"),
        (of(entrances=(replace(ENTRANCE, to=70000),)), "port"),
        (of(entrances=(replace(ENTRANCE, rate=-1),)), "rate"),
        (of(entrances=(replace(ENTRANCE, host="169.254.169.254"),)), "metadata service"),
        (of(entrances=(replace(ENTRANCE, host="127.0.0.1"),)), "loopback"),
        (of(entrances=(replace(ENTRANCE, host="::ffff:127.0.0.1"),)), "loopback"),
        (of(entrances=(replace(ENTRANCE, host="169.254.19.1", to=10250),)), "link-local"),
        (of(entrances=(Entrance("10.70.0.0", "udp", 0, "169.254.19.1"),)), "link-local"),
        (of(entrances=(ENTRANCE,) * 1025), "1025 entrances"),
        (of(lent=dict.fromkeys(map(str, range(4097)), "x")), "4097 lent"),
        (of(unmasked=("192.0.2.5",) * 4097), "4097 addresses with"),
        (by(endpoints=("127.0.0.1:51840",)), "nobody else"),
        (by(endpoints=("[::1]:51840",)), "nobody else"),
        (by(endpoints=("[::ffff:127.0.0.1]:51840",)), "nobody else"),
        (by(endpoints=("0.0.0.0:51840",)), "nobody else"),
        (by(endpoints=("169.254.169.254:80",)), "nobody else"),
        (by(endpoints=("224.0.0.1:51840",)), "nobody else"),
        (by(name="x" * 254), "characters"),
        (by(uid="x" * 254), "characters"),
    ],
    ids=lambda found: repr(found)[:200],
)
def test_an_order_that_cannot_be_is_refused_and_says_why(order: TunnelOrder, said: str):
    assert said in problem(order)


def test_no_reason_is_as_long_as_what_it_quotes():
    assert len(problem(of(own=ClusterCidrs(("x" * 1_000_000,))))) == MOST_REASON
    assert len(around_problem(Surroundings(address="x" * 1_000_000))) == MOST_REASON


@pytest.mark.parametrize(
    "around",
    [
        Surroundings(),
        Surroundings(address="192.0.2.5", server="https://api.example", others=True),
        Surroundings(address="fd00::5", server="https://[fd00::1]:6443", reached="http://a:80/x"),
    ],
    ids=repr,
)
def test_sound_surroundings(around: Surroundings):
    assert around_problem(around) == ""


@pytest.mark.parametrize(
    ("around", "said"),
    [
        (Surroundings(address="gateway"), "'gateway' is no address"),
        (Surroundings(address="fe80::1%x; drop"), "no address"),
        (Surroundings(server="https://user:pass@a"), "no URL of an API server"),
        (Surroundings(server="file:///etc/passwd"), "no URL of an API server"),
        (Surroundings(reached="https://a:99999"), "no URL of an API server"),
        (Surroundings(reached="https://a:0"), "no URL of an API server"),
        (Surroundings(reached="https://"), "no URL of an API server"),
        (Surroundings(reached="https://a\nb"), "no URL of an API server"),
        (Surroundings(reached="https://[::1"), "no URL of an API server"),
    ],
    ids=repr,
)
def test_surroundings_that_cannot_be_are_refused(around: Surroundings, said: str):
    assert said in around_problem(around)


@pytest.mark.parametrize("seen", [("10.96.0.0/16",), ("10.61.0.0/16", "192.168.0.0/16")])
def test_no_alias_takes_the_way_to_the_api_server(seen: tuple[str, ...]):
    reserved = ReservedAddresses(api_servers=("10.96.0.1", "fd00::1"), own=("192.168.1.10",))
    order = of(
        seen=ClusterCidrs(seen), peer=ClusterCidrs(("10.244.0.0/16", "10.245.0.0/16")[: len(seen)])
    )
    assert problem(order) == ""
    assert "has" in problem(order, reserved)
    assert problem(ORDER, reserved) == ""


@pytest.mark.parametrize(
    "kept", ["10.71.3.0/24", "10.0.0.0/8", "10.72.0.0/16"], ids=["in it", "around it", "itself"]
)
def test_no_alias_overlaps_what_the_machines_own_configuration_reserves(kept: str):
    reserved = ReservedAddresses(ranges=("192.168.1.0/24", "fd00::/8", kept))
    assert f"overlaps {kept}" in problem(ORDER, reserved)
    assert problem(ORDER, replace(reserved, ranges=reserved.ranges[:2])) == ""
