"""The discovery plugin that reads a list of clusters in DNS, by a real resolver."""

import msgspec
import pytest
import trio

from liqod.errors import TransientError
from liqod.plugins import loader
from liqod.plugins.discovery import dns_srv, texts
from liqod.plugins.discovery.dns_srv import (
    MOST_TARGETS,
    PATIENCE,
    SOONEST,
    DnsAnswer,
    DnsResolver,
    DnsSrv,
    DnsSrvSettings,
)
from liqod.plugins.providers import MOST_ADVERT, Sighting
from simulator.suites import DiscoveryContract
from tests.unit.plugins.nameserver import NameServer

PROVIDER = dns_srv.liqod_discovery()[0]


def text(cluster: str, advert: str) -> str:
    return " ".join(f'"{each.decode()}"' for each in texts.pack(cluster, advert))


@pytest.fixture
def server():
    made = NameServer()
    made.cluster("milan", texts=text("milan", "v1.of-milan"))
    yield made
    made.close()


MILAN = Sighting(
    cluster_id="milan",
    plugin="dns-srv",
    where="example.org/milan.example.org:6446",
    ttl=30 + PATIENCE,
    addresses=("milan.example.org:6446",),
    advert="v1.of-milan",
)


class TestDnsSrv(DiscoveryContract):
    provider = PROVIDER
    expected = (MILAN,)

    @pytest.fixture(autouse=True)
    def served(self, server):
        self._server = server
        type(self).settings = {"domains": ["example.org"], "nameservers": [server.address]}

    def lose(self) -> None:
        self._server.records.clear()


async def rounds(server: NameServer, count: int = 1, plugin: DnsSrv | None = None, change=None):
    """The sightings of so many rounds, and the seconds after which it would ask again."""
    made = plugin or DnsSrv(DnsSrvSettings(domains=("example.org",), nameservers=(server.address,)))
    seen: list[Sighting] = []
    lasts = 0.0
    for number in range(count):
        if number and change is not None:
            change()
        lasts = await made.look("example.org", seen.append)
    return seen, lasts


async def test_it_asks_again_when_the_first_answer_grows_old(server):
    server.cluster("turin", 7000, text("turin", "x" * 900), ttl=12)
    seen, lasts = await rounds(server)
    assert [each.cluster_id for each in sorted(seen, key=lambda s: s.where)] == ["milan", "turin"]
    assert max(each.advert for each in seen) == "x" * 900
    assert lasts == 12


async def test_what_is_not_there_is_not_asked_for_before_the_zone_says_so(server):
    server.records.clear()
    seen, lasts = await rounds(server)
    assert (seen, lasts) == ([], 7.0)


async def test_a_cluster_without_a_text_is_named_by_its_host_and_vouched_for_by_nobody(server):
    server.records.clear()
    server.cluster("bern")
    (seen,), lasts = await rounds(server)
    assert (seen.cluster_id, seen.advert, lasts) == ("bern", "", 7.0)


async def test_one_that_leaves_the_list_is_gone_and_one_that_changes_its_id_is_another(server):
    def change() -> None:
        server.records["_liqod.milan.example.org.", "TXT"] = (30, [text("oslo", "v1.of-oslo")])

    seen, _ = await rounds(server, 2, change=change)
    assert [(each.cluster_id, each.gone) for each in seen] == [
        ("milan", False),
        ("milan", True),
        ("oslo", False),
    ]
    seen, _ = await rounds(server, 2, change=server.records.clear)
    assert [(each.cluster_id, each.gone) for each in seen] == [("oslo", False), ("oslo", True)]


@pytest.mark.parametrize(("secure", "proof"), [(True, "DNSSEC"), (False, "")])
async def test_it_shows_whether_the_name_server_has_verified_the_answers(server, secure, proof):
    server.secure = secure
    (seen,), _ = await rounds(server)
    assert seen.proof == proof


@pytest.mark.parametrize(
    "record",
    [
        "0 0 0 milan.example.org.",
        "0 0 6446 .",
        "0 0 6446 mi\\027lan.example.org.",
        "0 0 6446 mi\\032lan.example.org.",
    ],
)
async def test_a_record_that_names_no_host_is_left_out(server, record):
    server.records["_liqod._tcp.example.org.", "SRV"] = (30, [record])
    seen, _ = await rounds(server)
    assert seen == []


async def test_of_a_domain_with_ever_more_records_so_many_are_looked_at():
    class Endless:
        async def query(self, name: str, kind: str) -> DnsAnswer:
            import dns.rdata

            if kind == "TXT":
                return DnsAnswer((), 60.0, secure=False)
            made = (dns.rdata.from_text("IN", "SRV", f"0 0 1 h{n}.example.") for n in range(300))
            return DnsAnswer(tuple(made), 60.0, secure=False)

    plugin = DnsSrv(DnsSrvSettings(domains=("example.org",)), Endless())  # type: ignore[arg-type]
    seen: list[Sighting] = []
    await plugin.look("example.org", seen.append)
    assert len(seen) == MOST_TARGETS


class Counting:
    """A name server that answers with a TTL of nothing, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.times: list[float] = []
        self._fails = fails

    async def query(self, name: str, kind: str) -> DnsAnswer:
        self.times.append(trio.current_time())
        if self._fails:
            raise TransientError("no name server answers")
        return DnsAnswer((), 0.0, secure=False)


async def test_a_ttl_of_nothing_is_no_reason_to_ask_without_end(autojump_clock):
    resolver = Counting()
    plugin = DnsSrv(DnsSrvSettings(domains=("example.org",)), resolver)  # type: ignore[arg-type]
    with trio.move_on_after(100):
        await plugin.run(lambda seen: None)
    assert 100 / SOONEST - 2 <= len(resolver.times) <= 100 / SOONEST + 1


async def test_where_nothing_can_be_asked_it_says_so(autojump_clock):
    resolver = Counting(fails=True)
    plugin = DnsSrv(DnsSrvSettings(domains=("a.example", "b.example")), resolver)  # type: ignore[arg-type]
    with pytest.raises(ExceptionGroup) as raised:
        await plugin.run(lambda seen: None)
    assert raised.group_contains(TransientError, match="no name server answers")
    assert len(resolver.times) >= 2 * dns_srv.FAILURES


async def test_while_one_domain_cannot_be_asked_the_others_are_followed(server, caplog):
    real = DnsResolver((server.address,))

    class Partly:
        """A resolver that gets no answer about one domain."""

        async def query(self, name: str, kind: str) -> DnsAnswer:
            if name.endswith("b.example"):
                raise TransientError("b.example: no answer")
            return await real.query(name, kind)

    plugin = DnsSrv(DnsSrvSettings(domains=("example.org", "b.example")), Partly())  # type: ignore[arg-type]
    for _ in range(5):
        await plugin.look("b.example", lambda seen: None)
    seen, _ = await rounds(server, plugin=plugin)
    assert seen == [MILAN]
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({}, "domains is empty"),
        ({"domains": ["exa mple"]}, "is no domain"),
        ({"domains": ["example.org"], "nameservers": ["ns.example.org"]}, "is no address"),
        ({"domains": ["example.org"], "nameservers": ["10.0.0.10:99999"]}, "is no address"),
        ({"domain": ["example.org"]}, "unknown field"),
    ],
)
def test_settings_that_cannot_be_are_refused(table, why):
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(table, DnsSrvSettings)


@pytest.mark.parametrize("server", ["10.0.0.10", "10.0.0.10:5353", "fd00::a", "[fd00::a]:53"])
def test_name_servers_are_addresses_with_a_port_or_without(server):
    assert dns_srv.place(server)[1] in (53, 5353)


def test_it_runs_where_the_configuration_names_it():
    own = loader.built_in()
    assert "dns-srv" not in {each.name for each in loader.load(sources=own).discovery}
    named = loader.load(sources=own, settings={"dns-srv": {"domains": ["example.org"]}})
    assert "dns-srv" in {each.name for each in named.discovery}


@pytest.mark.parametrize(
    ("strings", "found"),
    [
        ([], ("", "")),
        ([b"id=milan"], ("milan", "")),
        ([b"path=/", b"id=milan", b"a=v1.", b"b=?", b"a=x"], ("milan", "v1.x")),
        ([b"id=milan", b"id=rome"], ("milan", "")),
        ([b"id=milan", b"a=" + b"x" * 253] * 6, ("milan", "")),
        ([b"id=milan", b"a=\xff"], ("milan", "")),
        ([b"", b"="] * 1000, ("", "")),
    ],
)
def test_texts_are_read_within_bounds(strings, found):
    assert texts.unpack(strings) == found


@pytest.mark.parametrize("length", [0, 1, 252, 253, 254, MOST_ADVERT])
def test_an_advert_of_any_length_goes_into_strings_and_comes_out(length):
    strings = texts.pack("milan", "x" * length)
    assert max(map(len, strings)) <= 255
    assert texts.unpack(strings) == ("milan", "x" * length)
