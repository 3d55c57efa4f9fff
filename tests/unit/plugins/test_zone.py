"""The records that a cluster is listed by are those that the plugin reads."""

import pytest

from liqod.errors import ConfigError
from liqod.plugins.discovery.zone import TTL, records
from tests.unit.plugins.nameserver import NameServer
from tests.unit.plugins.test_dns_srv import rounds

ADVERT = "v1." + "x" * 900


@pytest.fixture
def server():
    made = NameServer()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("addresses", "seen_at", "beside"),
    [
        (["milan.example.org:6446"], ["milan.example.org:6446"], set()),
        (["Milan.Example.net.:443"], ["milan.example.net:443"], set()),
        (["192.0.2.7:6446"], ["milan.example.org:6446"], {("A", "192.0.2.7")}),
        (
            ["192.0.2.7:6446", "[2001:db8::7]:6446", "192.0.2.7:6446"],
            ["milan.example.org:6446"],
            {("A", "192.0.2.7"), ("AAAA", "2001:db8::7")},
        ),
        (
            ["192.0.2.7:443", "gate.example.org:6446"],
            ["gate.example.org:6446", "milan.example.org:443"],
            {("A", "192.0.2.7")},
        ),
    ],
)
async def test_what_is_listed_is_read_as_it_was_meant(server, addresses, seen_at, beside):
    found = records("example.org", "milan", ADVERT, addresses)
    server.take("\n".join(f"{r.name} {r.ttl} IN {r.type} {r.value}" for r in found))
    seen, lasts = await rounds(server)
    assert sorted(each.addresses[0] for each in seen) == seen_at
    assert {(each.cluster_id, each.advert, lasts) for each in seen} == {("milan", ADVERT, TTL)}
    hosts = [r for r in found if r.type in ("A", "AAAA")]
    assert {(r.type, r.value) for r in hosts} == beside
    assert {r.name for r in hosts} <= {"milan.example.org."}


@pytest.mark.parametrize(
    ("domain", "address", "why"),
    [
        ("exa mple.org", "milan.example.org:6446", "is no domain"),
        ("example.org\n$INCLUDE /etc/passwd", "milan.example.org:6446", "is no domain"),
        ("::1", "milan.example.org:6446", "is no domain"),
        ("", "milan.example.org:6446", "is no domain"),
        ("example.org", "milan.example.org", "is no host:port"),
        ("example.org", 'milan.example.org" "a=x:6446', "is no host:port"),
        ("example.org", "127.0.0.1:6446", "not reached from other machines"),
        ("example.org", "0.0.0.0:6446", "not reached from other machines"),
        ("example.org", "[fe80::1%eth0]:6446", "not reached from other machines"),
        ("example.org", "[2001:db8::7%eth0]:6446", "not reached from other machines"),
        ("example.org", f"{'m' * 64}.example.org:6446", "it is too long"),
        (".".join(["d" * 60] * 4), "milan.example.org:6446", "it is too long"),
    ],
)
def test_what_cannot_be_in_a_zone_is_not_written(domain, address, why):
    with pytest.raises(ConfigError, match=why):
        records(domain, "milan", ADVERT, [address])
