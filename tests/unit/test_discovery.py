"""What discovery plugins see is kept, but not any number of clusters, and peers with nobody."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from liqod import config, discovery
from liqod.discovery import MOST_SEEN, Discovery
from liqod.inspect.hub import Hub
from liqod.inspect.rooms import Rooms
from liqod.inspect.summary import EventSummary
from liqod.plugins.calls import Calls
from liqod.plugins.loader import Plugins
from liqod.plugins.providers import DiscoveryProvider, Sighting


def seen(cluster: str, kubeconfig: str = "", *, gone: bool = False) -> Sighting:
    return Sighting(cluster_id=cluster, plugin="mdns", kubeconfig=kubeconfig, gone=gone)


class Watched:
    """An inbox, and the introductions that run, by cluster."""

    def __init__(self, nursery: trio.Nursery, text: str = "") -> None:
        home: Any = SimpleNamespace(
            hub=Hub(), rooms=Rooms(), cluster_id="rome", config=config.parse(text)
        )
        self.inbox = Discovery(home)
        self.running: dict[str, str] = {}
        self._nursery = nursery

    async def introduce(self, home: Any, peer: str, path: Any) -> None:
        self.running[peer] = str(path)
        try:
            await trio.sleep_forever()
        finally:
            if self.running.get(peer) == str(path):  # another may have begun before this ends
                del self.running[peer]

    async def sees(self, sighting: Any, plugin: str = "mdns") -> dict[str, str]:
        """The introductions after a sighting."""
        self.inbox._sighted(self._nursery, plugin, sighting)
        await trio.testing.wait_all_tasks_blocked()
        return self.running


@pytest.fixture
def watched(nursery, monkeypatch):
    def made(text: str = "") -> Watched:
        found = Watched(nursery, text)
        monkeypatch.setattr(discovery, "introduce", found.introduce)
        return found

    return made


NAMED = "[[peers]]\nid = 'milan'\n"


async def test_of_ever_more_clusters_so_many_are_kept(nursery, caplog):
    box = Watched(nursery).inbox

    def sighted(sighting: Sighting) -> None:
        box._sighted(nursery, "mdns", sighting)

    for number in range(2 * MOST_SEEN):
        sighted(seen(f"cluster-{number}"))
        sighted(seen(f"No_Cluster_{number}"))
    assert len(box.sightings) == MOST_SEEN
    assert len(caplog.records) == 2
    sighted(seen("cluster-0", gone=True))
    sighted(seen("milan"))
    assert ("mdns", "milan") in box.sightings


@pytest.mark.parametrize(
    "nonsense",
    [
        "milan",
        None,
        msgspec.structs.replace(seen("milan"), gone="no"),
        msgspec.structs.replace(seen("milan"), kubeconfig=None),
        seen("milan", "x" * 5000),
    ],
    ids=["text", "nothing", "gone", "no path", "long"],
)
async def test_nonsense_is_no_sighting(nonsense, watched, nursery):
    found = watched(NAMED)
    await found.sees(nonsense)
    assert not found.inbox.sightings
    nursery.cancel_scope.cancel()


async def test_a_sighting_alone_peers_with_nobody(watched, nursery):
    found = watched()
    assert await found.sees(seen("milan", "/their/kubeconfig")) == {}
    assert found.inbox.waits("milan")
    nursery.cancel_scope.cancel()


async def test_one_that_the_operator_names_is_peered_with_until_it_goes(watched, nursery):
    found = watched(NAMED)
    assert not found.inbox.waits("milan")
    assert await found.sees(seen("milan", "/a")) == {"milan": "/a"}
    assert await found.sees(seen("turin", "/t")) == {"milan": "/a"}
    assert await found.sees(seen("milan", "/b")) == {"milan": "/b"}
    assert await found.sees(seen("milan", gone=True)) == {}
    assert await found.sees(seen("milan", "/b")) == {"milan": "/b"}
    nursery.cancel_scope.cancel()


async def test_the_operators_own_path_counts_before_one_that_was_sighted(watched, nursery):
    found = watched(NAMED + "kubeconfig = '/etc/milan'\n")
    assert await found.sees(seen("milan", "/a")) == {"milan": "/etc/milan"}
    assert await found.sees(seen("milan", "/b"), "other") == {"milan": "/etc/milan"}
    nursery.cancel_scope.cancel()


async def test_what_two_plugins_see_stays_while_one_does(watched, nursery):
    found = watched(NAMED)
    await found.sees(seen("milan", "/a"))
    await found.sees(seen("milan", "/b"), "other")
    assert await found.sees(seen("milan", gone=True)) == {"milan": "/b"}
    nursery.cancel_scope.cancel()


async def test_this_cluster_itself_is_no_peer(watched, nursery):
    found = watched("[[peers]]\nid = 'rome'\n")
    assert await found.sees(seen("rome", "/a")) == {}
    nursery.cancel_scope.cancel()


class Dns:
    """A plugin that runs well for some rounds only."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.runs = 0

    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        task_status.started()
        self.runs += 1
        if self.runs <= self.failures:
            raise SystemExit(self.runs)
        await trio.sleep_forever()


@pytest.fixture
def discovering(nursery):
    async def made(plugin: Dns) -> tuple[Discovery, EventSummary]:
        """An inbox that runs one plugin, and what its events add up to."""
        provider = DiscoveryProvider(name="dns", build=lambda settings, services: plugin)
        everyone = Calls()
        home: Any = SimpleNamespace(
            cluster_id="rome",
            hub=Hub(),
            rooms=Rooms(),
            config=config.parse(""),
            plugins=Plugins(discovery=(provider,)),
            informers=SimpleNamespace(share=None),
            calls=everyone,
            gauge=everyone.of,
        )
        summary = EventSummary()
        home.hub.listen(summary.take)
        box = Discovery(home)
        await nursery.start(box.run)
        return box, summary

    return made


async def test_a_plugin_that_exits_again_and_again_is_shown_until_it_runs(
    discovering, nursery, autojump_clock
):
    plugin = Dns(5)
    box, summary = await discovering(plugin)
    await trio.sleep(6)
    assert "the discovery dns raised SystemExit" in summary.plugins["dns"].reason
    assert "the discovery dns" in box.home.calls.troubles()
    await trio.sleep(120)
    assert plugin.runs == 6
    assert not summary.plugins
    assert not box.home.calls.troubles()
    nursery.cancel_scope.cancel()


async def test_a_plugin_that_is_parked_is_not_left_running(discovering, nursery, autojump_clock):
    plugin = Dns(0)
    box, _ = await discovering(plugin)
    await trio.sleep(1)
    box.home.calls.of("discovery", "dns").blocked(9.0)
    await trio.sleep(40)
    assert "parked for" in box.home.calls.troubles()["the discovery dns"]
    assert plugin.runs == 1
    await trio.sleep(60)
    assert plugin.runs == 2
    nursery.cancel_scope.cancel()
