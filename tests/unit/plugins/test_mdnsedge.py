"""The reading of mDNS packets: zeroconf's own, without a socket."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from zeroconf import ServiceInfo, Zeroconf
from zeroconf._cache import DNSCache
from zeroconf._dns import DNSPointer
from zeroconf._handlers.record_manager import RecordManager
from zeroconf._protocol.incoming import DNSIncoming
from zeroconf._protocol.outgoing import DNSOutgoing

from liqod.plugins.discovery import adapters
from liqod.plugins.discovery.mdnsedge import MOST_NAMES, RENEWED, TYPE, Edge

MILAN = f"milan.{TYPE}"


def packet(name: str = MILAN, ttl: int = 180, parts: str = "", **more: Any) -> bytes:
    """The announcement of a service: all of it, or its records of these types alone."""
    told: dict[str, Any] = {
        "port": 6446,
        "properties": b"\x01x",
        "server": f"liqod-{name.partition('.')[0]}.local.",
        "parsed_addresses": ["10.0.0.1", "fd00::1"],
    }
    info = ServiceInfo(TYPE, name, host_ttl=ttl, other_ttl=ttl, **(told | more))
    made = Zeroconf.generate_service_broadcast(Zeroconf.__new__(Zeroconf), info, None)
    if parts:
        made.answers = [each for each in made.answers if type(each[0]).__name__ in parts.split()]
    (found,) = made.packets()
    return found


class Heard:
    """An edge that is told of packets."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self.woken = 0
        self.asked: list[str] = []
        loop = SimpleNamespace(call_soon_threadsafe=lambda function, *args: function(*args))
        self.zc: Any = SimpleNamespace(
            cache=DNSCache(), loop=loop, done=False, async_notify_all=lambda: None, started=True
        )
        zeroconf: Any = self.zc
        self.edge = Edge([], self._wake, zeroconf=zeroconf, request=self.asked.append, most=most)
        manager: Any = RecordManager
        self._manager = manager(self.zc)
        self._manager.listeners.add(self.edge)

    def _wake(self) -> None:
        self.woken += 1

    def hears(self, *packets: bytes) -> dict[str, Any]:
        """The news that the edge lays down of these packets."""
        for each in packets:
            self._manager.async_updates_from_response(DNSIncoming(each))
        return self.edge.take()

    def kept(self) -> list[str]:
        """The records that zeroconf keeps."""
        cache = self.zc.cache
        return [type(each).__name__ for of in cache.names() for each in cache.entries_with_name(of)]


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_a_service_is_read_and_only_its_pointer_kept(heard):
    told = heard.hears(packet())[MILAN]
    assert (told.name, told.hosts, told.port) == ("milan", ("10.0.0.1", "fd00::1"), 6446)
    assert (told.strings, told.ttl, heard.woken) == ((b"x",), 180.0, 1)
    assert heard.kept() == ["DNSPointer"]


def test_announced_again_it_is_renewed_and_nobody_is_woken(heard):
    heard.hears(packet())
    assert heard.hears(packet()) == {MILAN: RENEWED}
    assert heard.woken == 1
    assert heard.kept() == ["DNSPointer"]


@pytest.mark.parametrize(
    "more",
    [
        {"port": 7000},
        {"properties": b"\x01y"},
        {"server": "other.local."},
        {"parsed_addresses": ["10.0.0.1", "fd00::2"]},
        {"parsed_addresses": ["10.0.0.1"]},
    ],
    ids=str,
)
def test_what_has_changed_is_told(heard, more):
    before = heard.hears(packet())[MILAN]
    after = heard.hears(packet(**more))[MILAN]
    assert after not in (before, RENEWED)
    assert heard.kept() == ["DNSPointer"]
    assert heard.hears(packet(**more)) == {MILAN: RENEWED}


@pytest.mark.parametrize("parts", ["DNSPointer", "DNSText", "DNSService", "DNSService DNSAddress"])
def test_a_part_of_what_is_known_renews_it(heard, parts):
    heard.hears(packet())
    assert heard.hears(packet(parts=parts)) == {MILAN: RENEWED}
    assert heard.asked == []


def test_a_part_that_is_other_than_known_has_all_of_it_asked_for(heard):
    heard.hears(packet())
    assert heard.hears(packet(parts="DNSText", properties=b"\x01y")) == {}
    assert heard.asked == [MILAN]
    told = heard.hears(packet(properties=b"\x01y"))[MILAN]
    assert told.strings == (b"y",)


def test_what_is_not_told_wholly_is_asked_for(heard):
    assert heard.hears(packet(parts="DNSPointer")) == {}
    assert heard.asked == [MILAN]


@pytest.mark.parametrize("parts", ["", "DNSPointer"])
def test_a_farewell_is_told_and_its_return_is_news(heard, parts):
    before = heard.hears(packet())[MILAN]
    # A record that says farewell is in the cache no more once all of the packet was taken in.
    assert heard.hears(packet(ttl=0, parts=parts)) == {MILAN: None}
    assert heard.kept() == []
    assert heard.hears(packet()) == {MILAN: before}


def test_what_was_forgotten_is_news_again(heard):
    before = heard.hears(packet())[MILAN]
    heard.edge.forget([MILAN])
    assert heard.hears(packet()) == {MILAN: before}


def test_a_server_that_has_the_name_of_the_service_takes_nobodys_pointer_away(heard):
    heard.hears(packet())
    heard.hears(packet(f"evil.{TYPE}", server=TYPE, parsed_addresses=["10.0.0.9"]))
    assert heard.kept().count("DNSPointer") == 2
    assert heard.hears(packet()) == {MILAN: RENEWED}


def test_one_that_says_that_it_is_the_server_of_another_takes_nothing_of_it(heard):
    heard.hears(packet())
    heard.hears(packet(f"evil.{TYPE}", server=f"liqod-{MILAN.partition('.')[0]}.local."))
    assert heard.hears(packet()) == {MILAN: RENEWED}


def test_more_than_are_remembered_leave_nothing_but_pointers():
    heard = Heard(most=2)
    told = heard.hears(*(packet(f"c{at}.{TYPE}") for at in range(4)))
    assert list(told) == [f"c0.{TYPE}", f"c1.{TYPE}"]
    assert heard.kept() == ["DNSPointer"] * 4
    assert heard.hears(packet(f"c0.{TYPE}", ttl=0), packet(f"c3.{TYPE}")).keys() == {
        f"c0.{TYPE}",
        f"c3.{TYPE}",
    }


@pytest.mark.parametrize("name", ["other._http._tcp.local.", "x_liqod._tcp.local.", TYPE, "local."])
def test_a_pointer_to_what_is_no_service_of_this_kind_is_nothing(heard, name):
    pointer = DNSPointer(TYPE, 12, 1, 180, name, created=0.0)
    made = DNSOutgoing(0x8400)
    made.add_answer_at_time(pointer, 0)
    assert heard.hears(*made.packets()) == {}
    assert heard.asked == []


ROUTES = "Iface\tDestination\tGateway\n{way}\t00000000\t0100000A\nveth1\t0200F40A\t00000000\n"
"""A default route, and one to a pod."""


@pytest.mark.parametrize(
    ("name", "flags", "iflink", "kind", "way", "used"),
    [
        ("eth0", "0x1003", 2, "", "eth0", True),
        ("eth1", "0x1003", 2, "", "eth0", True),
        ("lo", "0x9", 2, "", "eth0", False),
        ("kube-ipvs0", "0x82", 2, "DEVTYPE=dummy", "eth0", False),
        ("veth1", "0x1003", 7, "", "eth0", False),
        ("eth0.7", "0x1003", 7, "DEVTYPE=vlan", "eth0", True),
        ("eth0", "0x1003", 7, "", "eth0", True),
    ],
    ids=["wired", "another", "loopback", "services", "a pod's", "vlan", "the pod's own"],
)
def test_interfaces_that_lead_nowhere_are_not_announced(
    tmp_path: Path, name: str, flags: str, iflink: int, kind: str, way: str, used: bool
):
    place = tmp_path / name
    place.mkdir()
    for what, text in (("flags", flags), ("iflink", iflink), ("ifindex", 2), ("uevent", kind)):
        (place / what).write_text(f"{text}\n")
    routes = tmp_path / "route"
    routes.write_text(ROUTES.format(way=way))
    assert adapters.is_external(name, tmp_path, routes) is used
    # Where nothing is known of it, it may be the only one there is.
    assert adapters.is_external("unknown", tmp_path, routes)


def test_the_loopbacks_own_address_of_ipv6_is_not_bound():
    assert adapters.zeroconf_interfaces((("lo", 1, ("127.0.0.1", "::1")),)) == ["127.0.0.1"]
    assert adapters.zeroconf_interfaces((("eth0", 2, ("10.0.0.1", "fe80::1")),)) == ["10.0.0.1", 2]
