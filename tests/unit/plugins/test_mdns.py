"""The discovery plugin that listens to mDNS: what it makes of what its thread has received."""

import threading
from typing import Any

import pytest
import trio

from liqod.errors import TransientError
from liqod.plugins import loader
from liqod.plugins.discovery import mdns, texts
from liqod.plugins.discovery.mdns import LONGEST, SHORTEST, Mdns, Settings, sighting
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
        self._wake = wake
        self.own = "liqod-0.local."

    def hears(self, news: dict[str, News]) -> None:
        """From a thread, as zeroconf does."""
        self.news |= news
        thread = threading.Thread(target=self._wake)
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

    def ask(self, names: list[str]) -> None:
        self.done += [("ask", each) for each in names]

    def forget(self, names: list[str]) -> None:
        self.done += [("forget", each) for each in names]

    def close(self) -> None:
        self.done.append("closed")


class TestMdns(DiscoveryContract):
    provider = mdns.liqod_discovery()[0]
    expected = (MILAN,)

    @pytest.fixture(autouse=True)
    def edge(self, monkeypatch):
        def opened(plugin: Mdns, token: Any) -> StaticEdge:
            made = StaticEdge(lambda: token.run_sync_soon(plugin._hear))
            self.made = made
            made.hears({"milan": heard()})
            return made

        monkeypatch.setattr(Mdns, "_opened", opened)

    def lose(self) -> None:
        self.made.hears({"milan": None})


async def at_once(plugin: Mdns, function: Any, *args: Any) -> Any:
    """Without a thread, for which a clock that jumps would not wait."""
    return function(*args)


@pytest.fixture
def listening(nursery, monkeypatch):
    monkeypatch.setattr(Mdns, "_threaded", at_once)

    async def made(settings: Settings | None = None, told: Any = None):
        services = Services(
            cluster_id="rome", share=share, announcement=lambda: told[0] if told else None
        )
        plugin = Mdns(settings or Settings(), services)
        token = trio.lowlevel.current_trio_token()
        edge: Any = StaticEdge(lambda: token.run_sync_soon(plugin._hear))
        seen: list[Sighting] = []
        nursery.start_soon(plugin._listen, edge, seen.append)
        return plugin, edge, seen

    return made


async def settle(edge: StaticEdge, news: dict[str, News]) -> None:
    edge.hears(news)
    await trio.sleep(2 * mdns.GATHERED)


async def test_an_instance_that_changes_its_cluster_is_another(listening, nursery):
    _, edge, seen = await listening()
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
    _, edge, seen = await listening()
    await settle(edge, {"a": heard(name="a")})
    edge.news = {"a": RENEWED, "unknown": RENEWED}
    await trio.sleep(mdns.COLLECTED + 0.1)
    assert [each.where for each in seen] == ["a", "a"]
    assert seen[0] is seen[1]
    nursery.cancel_scope.cancel()


async def test_its_own_announcement_is_not_seen_and_one_with_its_name_is(listening, nursery):
    _, edge, seen = await listening()
    await settle(edge, {"rome": heard("rome", server="liqod-0.local.")})
    assert seen == []
    await settle(edge, {"rome-2": heard("rome", name="rome-2")})
    assert [each.where for each in seen] == ["rome-2"]
    nursery.cancel_scope.cancel()


async def test_it_announces_again_now_and_then_anew_when_it_changes_and_no_more(
    listening, nursery, autojump_clock
):
    told = [Announcement(advert="v1.a", port=6446)]
    plugin, edge, _ = await listening(Settings(every=10), told)
    nursery.start_soon(plugin._announce, edge)
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
    plugin, edge, _ = await listening()
    nursery.start_soon(plugin._look_around, edge)
    await settle(edge, {f"c{n}": heard(f"c{n}", ttl=60.0) for n in range(20)})
    await trio.sleep(49)
    assert edge.done == []
    await trio.sleep(12)
    assert len(edge.done) == mdns.MOST_ASKED
    edge.done.clear()
    await trio.sleep(30)
    assert plugin._seen == {}
    # Else they were mere repetitions when they are announced again, and seen by nobody.
    assert edge.done == [("forget", f"c{n}") for n in range(20)]
    nursery.cancel_scope.cancel()


async def test_where_the_network_is_flooded_it_rests(listening, nursery, autojump_clock):
    plugin, edge, _ = await listening()
    edge.records = 0

    async def flood() -> None:
        while True:
            edge.records += mdns.MOST_RECORDS
            await trio.sleep(mdns.RESCAN / 2)

    nursery.start_soon(flood)
    with pytest.raises(TransientError, match="mDNS records a second"):
        await plugin._look_around(edge)
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
