"""The discovery plugin that listens to mDNS: what it makes of what its thread has received."""

import threading
from typing import Any

import msgspec
import pytest
import trio

from liqod.errors import ConfigError, TransientError
from liqod.plugins import loader
from liqod.plugins.discovery import mdns, texts
from liqod.plugins.discovery.mdns import LONGEST, SHORTEST, Mdns, MdnsSettings, sighting
from liqod.plugins.discovery.mdnsedge import RENEWED, Edge, MdnsService, News
from liqod.plugins.providers import Announcement, Services, Sighting
from simulator.suites import DiscoveryContract
from simulator.suites.providers import share


def heard(cluster: str = "milan", name: str = "", **more: Any) -> MdnsService:
    told: dict[str, Any] = {
        "name": name or cluster,
        "server": "liqod-1.local.",
        "hosts": ("10.0.0.1", "fe80::1%3"),
        "port": 6446,
        "strings": tuple(texts.pack(cluster, f"v1.of-{cluster}")),
        "ttl": 180.0,
    }
    return MdnsService(**(told | more))


MILAN = Sighting(
    cluster_id="milan",
    plugin="mdns",
    where="milan",
    ttl=180.0,
    addresses=("10.0.0.1:6446", "[fe80::1%3]:6446"),
    advert="v1.of-milan",
)


class StaticEdge:
    """A stand-in for the edge that would speak mDNS."""

    def __init__(self, wake: Any = None) -> None:
        self.news: dict[str, News] = {}
        self.records = 0
        self.done: list[Any] = []
        self.changes = False
        self.wake = wake
        self.own = "liqod-0.local."

    def hears(self, news: dict[str, News]) -> None:
        """From a thread, as zeroconf does."""
        self.news |= news
        thread = threading.Thread(target=self.wake)
        thread.start()
        thread.join()

    def take(self) -> dict[str, News]:
        news, self.news = self.news, {}
        return news

    def is_own(self, found: MdnsService) -> bool:
        return found.server == self.own

    def announce(self, name: str, strings: list[bytes], port: int, ttl: int) -> None:
        self.done.append((name, port, ttl, texts.unpack(strings)[1]))

    def remind(self) -> None:
        self.done.append("again")

    def withdraw(self) -> None:
        self.done.append("farewell")

    def rescan(self) -> bool:
        return False

    def query(self, names: list[str]) -> None:
        self.done += [("ask", each) for each in names]

    def forget(self, names: list[str]) -> None:
        self.done += [("forget", each) for each in names]

    def close(self) -> None:
        self.done.append("closed")


class TestMdns(DiscoveryContract):
    provider = mdns.liqod_discovery()[0]
    expected = (MILAN,)

    @pytest.fixture(autouse=True)
    def edge(self):
        def opening(interfaces: Any, wake: Any) -> Any:
            self.made = StaticEdge(wake)
            self.made.hears({"milan": heard()})
            return self.made

        type(self).provider = msgspec.structs.replace(
            self.provider, build=lambda settings, services: Mdns(settings, services, opening)
        )

    def lose(self) -> None:
        self.made.hears({"milan": None})


async def at_once(function: Any, *args: Any, **options: Any) -> Any:
    """Without a thread, for which a clock that jumps would not wait."""
    return function(*args)


def plugin_of(settings: MdnsSettings | None = None, told: Any = None) -> tuple[Mdns, Any]:
    """A plugin, and the stand-in by which it would speak."""
    edge: Any = StaticEdge()

    def opening(interfaces: Any, wake: Any) -> Any:
        edge.wake = wake
        return edge

    services = Services(
        cluster_id="rome", share=share, announcement=lambda: told[0] if told else None
    )
    return Mdns(settings or MdnsSettings(), services, opening), edge


@pytest.fixture
def listening(nursery, monkeypatch):
    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)

    async def made(settings: MdnsSettings | None = None, told: Any = None):
        plugin, edge = plugin_of(settings, told)
        seen: list[Sighting] = []
        await nursery.start(plugin.run, seen.append)
        return edge, seen

    return made


async def settle(edge: StaticEdge, news: dict[str, News]) -> None:
    edge.hears(news)
    await trio.sleep(2 * mdns.GATHERED)


async def test_a_pod_says_that_it_meets_nobody_unless_an_interface_is_named(nursery, monkeypatch):
    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
    services = Services(cluster_id="rome", share=share, in_cluster=True)
    opened: list[Any] = []

    def opening(interfaces: Any, wake: Any) -> Any:
        opened.append(interfaces)
        return StaticEdge()

    with pytest.raises(ConfigError, match=r"from the network of pods.* dns-srv, .*liqod invite"):
        await Mdns(MdnsSettings(), services, opening).run(list[Sighting]().append)
    assert opened == []
    named = Mdns(MdnsSettings(interfaces=("net1",)), services, opening)
    await nursery.start(named.run, list[Sighting]().append)
    assert opened == [("net1",)]
    nursery.cancel_scope.cancel()


async def test_an_instance_that_changes_its_cluster_is_another(listening, nursery):
    edge, seen = await listening()
    await settle(edge, {"a": heard(name="a")})
    await settle(edge, {"a": heard("oslo", name="a")})
    await settle(edge, {"a": heard("oslo", name="a", strings=())})
    assert [(each.cluster_id, each.gone) for each in seen] == [
        ("milan", False),
        ("milan", True),
        ("oslo", False),
        ("oslo", True),
    ]
    nursery.cancel_scope.cancel()


async def test_what_is_announced_again_as_it_was_is_told_again_without_haste(
    listening, nursery, autojump_clock
):
    edge, seen = await listening()
    await settle(edge, {"a": heard(name="a")})
    edge.news = {"a": RENEWED, "unknown": RENEWED}
    await trio.sleep(mdns.COLLECTED + 0.1)
    assert [each.where for each in seen] == ["a", "a"]
    assert seen[0] is seen[1]
    nursery.cancel_scope.cancel()


async def test_its_own_announcement_is_not_seen_and_one_with_its_name_is(listening, nursery):
    edge, seen = await listening()
    await settle(edge, {"rome": heard("rome", server="liqod-0.local.")})
    assert seen == []
    await settle(edge, {"rome-2": heard("rome", name="rome-2")})
    assert [each.where for each in seen] == ["rome-2"]
    nursery.cancel_scope.cancel()


async def test_it_announces_again_now_and_then_anew_when_it_changes_and_no_more(
    listening, nursery, autojump_clock
):
    told = [Announcement(advert="v1.a", port=6446)]
    edge, _ = await listening(MdnsSettings(every=10), told)
    await trio.sleep(25)
    assert edge.done == [("rome", 6446, 30, "v1.a"), "again", "again"]
    told[0] = Announcement(advert="v1.b", port=7000)
    await trio.sleep(2)
    assert edge.done[-1] == ("rome", 7000, 30, "v1.b")
    told.clear()
    await trio.sleep(30)
    assert edge.done[-1] == "farewell"
    nursery.cancel_scope.cancel()


async def test_who_is_overdue_is_asked_and_in_the_end_forgotten(listening, nursery, autojump_clock):
    edge, seen = await listening()
    await settle(edge, {f"c{n}": heard(f"c{n}", ttl=60.0) for n in range(20)})
    await trio.sleep(49)
    assert edge.done == []
    await trio.sleep(12)
    assert len(edge.done) == mdns.MOST_ASKED
    edge.done.clear()
    await trio.sleep(30)
    # Else they were mere repetitions when they are announced again, and seen by nobody.
    assert edge.done == [("forget", f"c{n}") for n in range(20)]
    edge.done.clear()
    edge.news = {f"c{n}": RENEWED for n in range(20)}
    await trio.sleep(30)
    assert (len(seen), edge.done) == (20, [])
    nursery.cancel_scope.cancel()


async def test_where_the_network_is_flooded_it_rests(nursery, monkeypatch, autojump_clock):
    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
    plugin, edge = plugin_of()

    async def flood() -> None:
        while True:
            edge.records += mdns.MOST_RECORDS
            await trio.sleep(mdns.RESCAN / 2)

    nursery.start_soon(flood)
    with pytest.raises(ExceptionGroup) as raised:
        await plugin.run(lambda seen: None)
    assert raised.group_contains(TransientError, match="mDNS records a second")
    assert edge.done == ["closed"]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "told",
    [heard(strings=()), heard(strings=(b"a=v1.x",)), heard(port=0)],
    ids=["nothing", "no id", "no port"],
)
def test_what_names_no_cluster_is_none(told):
    assert sighting(told) is None


@pytest.mark.parametrize(("ttl", "lasts"), [(0.0, SHORTEST), (1e9, LONGEST), (60.0, 60.0)])
def test_however_long_it_is_said_to_hold_there_is_an_end(ttl, lasts):
    found = sighting(heard(ttl=ttl))
    assert found is not None
    assert found.ttl == lasts


def test_an_interface_that_is_not_there_is_named():
    with pytest.raises(TransientError, match="there is no interface nowhere0"):
        Edge(["nowhere0"], lambda: None).open()


def test_zeroconf_is_imported_only_where_it_is_switched_on():
    own = loader.built_in()
    assert "mdns" not in {each.name for each in loader.load(sources=own).discovery}
    found = loader.load(sources=own, settings={"mdns": {}}).discovery
    assert "mdns" in {each.name for each in found}
