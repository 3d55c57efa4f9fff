"""Bounds of discovery: sightings of a limited number of clusters are kept, and start no peering."""

from types import SimpleNamespace
from typing import Any, NoReturn

import msgspec
import pytest
import trio
import trio.testing

from liqod import config
from liqod.discovery import configuredpeering
from liqod.discovery.discoverymanager import BURST, DiscoveryManager
from liqod.discovery.sightings import MOST_SEEN, AdvertContent
from liqod.errors import ProtocolError
from liqod.inspect import components
from liqod.inspect.summary import EventSummary
from liqod.plugins.discovery import mdns
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.plugins.providers import DiscoveryProvider, Sighting
from liqod.telemetry.events import ClusterSighted, DiscoveryFailed
from liqod.telemetry.hub import Hub


def seen(cluster: str, kubeconfig: str = "", *, gone: bool = False) -> Sighting:
    return Sighting(cluster_id=cluster, plugin="mdns", kubeconfig=kubeconfig, gone=gone)


def on_lan(cluster: str, **more: Any) -> Sighting:
    """One that comes from a network, and ends by itself."""
    return Sighting(**{"cluster_id": cluster, "plugin": "mdns", "ttl": 60.0, **more})


class Signed:
    """Adverts of the form ``CLUSTER KEY SERIAL``."""

    key = "own"

    def __init__(self) -> None:
        self.reads = 0

    def announcement(self) -> None:
        return None

    def read(self, advert: str) -> AdvertContent:
        self.reads += 1
        cluster, key, *serial = advert.split()
        if key == "forged":
            raise ProtocolError("the advert is not signed by the key that it names")
        return AdvertContent(cluster_id=cluster, key=key, serial=int(serial[0]) if serial else 0)


class Reporting:
    """A plugin that reports what it is told to."""

    def __init__(self) -> None:
        self.report: Any = None

    async def run(self, sighted: Any, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> NoReturn:
        self.report = sighted
        task_status.started()
        await trio.sleep_forever()
        raise AssertionError


def context_of(text: str = "", *, in_cluster: bool = False) -> Any:
    """As much of a ClusterContext as discovery needs."""
    return SimpleNamespace(
        cluster_id="rome",
        hub=Hub(),
        config=config.parse(text),
        informers=SimpleNamespace(share=None),
        client=None,
        in_cluster=in_cluster,
    )


PLUGINS = ("mdns", "other", "http-peers", "manual", "dns_srv")


class Watched:
    """An inbox that runs, and the introductions that run, by cluster."""

    def __init__(self, text: str = "") -> None:
        context = context_of(text)
        self.plugins = {name: Reporting() for name in PLUGINS}
        self.adverts = Signed()
        providers = tuple(
            DiscoveryProvider(name=name, build=lambda *_, plugin=plugin: plugin)
            for name, plugin in self.plugins.items()
        )
        host = PluginHost(Plugins(discovery=providers))
        self.inbox = DiscoveryManager(context, host, self.adverts)
        self.events: list[Any] = []
        context.hub.listen(lambda event: self.events.append(event.payload))
        self.running: dict[str, str] = {}

    async def introduce(self, context: Any, peer: str, path: Any) -> None:
        self.running[peer] = str(path)
        try:
            await trio.sleep_forever()
        finally:
            if self.running.get(peer) == str(path):  # another may have begun before this ends
                del self.running[peer]

    async def sees(self, sighting: Any, plugin: str = "mdns") -> dict[str, str]:
        """The introductions after a sighting."""
        self.plugins[plugin].report(sighting)
        await trio.testing.wait_all_tasks_blocked()
        return self.running


@pytest.fixture
def watched(nursery, monkeypatch):
    async def made(text: str = "") -> Watched:
        found = Watched(text)
        monkeypatch.setattr(configuredpeering, "peer_with", found.introduce)
        await nursery.start(found.inbox.run)
        await trio.testing.wait_all_tasks_blocked()
        return found

    return made


NAMED = "[[peers]]\nid = 'milan'\n"


async def test_mdns_in_a_pod_fails_and_says_what_to_use_instead(nursery):
    context = context_of(in_cluster=True)
    events: list[Any] = []
    context.hub.listen(lambda event: events.append(event.payload))
    settings = {("discovery", "mdns"): mdns.MdnsSettings()}
    host = PluginHost(Plugins(discovery=tuple(mdns.liqod_discovery()), settings=settings))
    await nursery.start(DiscoveryManager(context, host, Signed()).run)
    await trio.testing.wait_all_tasks_blocked()
    [failed] = [each for each in events if isinstance(each, DiscoveryFailed)]
    assert mdns.NOBODY_NEAR in failed.reason
    assert host.gauge("discovery", "mdns").error == mdns.NOBODY_NEAR
    nursery.cancel_scope.cancel()


async def test_of_ever_more_clusters_so_many_are_kept(watched, nursery, caplog):
    found = await watched()
    box, sighted = found.inbox, found.plugins["mdns"].report
    for number in range(2 * MOST_SEEN):
        sighted(seen(f"cluster-{number}"))
        sighted(seen(f"No_Cluster_{number}"))
    assert len(box.book.entries) == MOST_SEEN
    assert len(caplog.records) == 2
    sighted(seen("cluster-0", gone=True))
    sighted(seen("milan"))
    assert ("mdns", "milan", "") in box.book.entries
    nursery.cancel_scope.cancel()


async def test_a_flood_is_said_of_whom_it_is_from(watched, nursery, caplog):
    found = await watched()
    for number in range(MOST_SEEN):
        found.plugins["http-peers"].report(Sighting(cluster_id=f"c-{number}", plugin="http-peers"))
    found.plugins["manual"].report(Sighting(cluster_id="milan", plugin="manual"))
    assert ("manual", "milan", "") in found.inbox.book.entries
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "the plugin http-peers sees more clusters than are kept"
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "nonsense",
    [
        "milan",
        None,
        msgspec.structs.replace(seen("milan"), gone="no"),
        msgspec.structs.replace(seen("milan"), kubeconfig=None),
        seen("milan", "x" * 5000),
        on_lan("milan", advert="x" * 1301),
        on_lan("milan", ttl=float("inf")),
        on_lan("milan", ttl=-1.0),
        on_lan("milan", where="milan\x1b[2J"),
        on_lan("milan", addresses=("milan",)),
        on_lan("milan", addresses=("milan:0",)),
        on_lan("milan", addresses=("milan\n:6446",)),
        on_lan("milan", addresses=("10.0.0.1:6446",) * 9),
        on_lan("milan", addresses="10.0.0.1:6446"),
    ],
    ids=range(14),
)
async def test_nonsense_is_no_sighting(nonsense, watched, nursery):
    found = await watched(NAMED)
    await found.sees(nonsense)
    assert not found.inbox.book.entries
    nursery.cancel_scope.cancel()


async def test_a_sighting_alone_peers_with_nobody(watched, nursery):
    found = await watched()
    assert await found.sees(seen("milan", "/their/kubeconfig")) == {}
    assert found.inbox.waits("milan")
    nursery.cancel_scope.cancel()


async def test_one_that_the_operator_names_is_peered_with_until_it_goes(watched, nursery):
    found = await watched(NAMED)
    assert not found.inbox.waits("milan")
    assert await found.sees(seen("milan", "/a")) == {"milan": "/a"}
    assert await found.sees(seen("turin", "/t")) == {"milan": "/a"}
    assert await found.sees(seen("milan", "/b")) == {"milan": "/b"}
    assert await found.sees(seen("milan", gone=True)) == {}
    assert await found.sees(seen("milan", "/b")) == {"milan": "/b"}
    nursery.cancel_scope.cancel()


async def test_the_operators_own_path_counts_before_one_that_was_sighted(watched, nursery):
    found = await watched(NAMED + "kubeconfig = '/etc/milan'\n")
    assert await found.sees(seen("milan", "/a")) == {"milan": "/etc/milan"}
    assert await found.sees(seen("milan", "/b"), "other") == {"milan": "/etc/milan"}
    nursery.cancel_scope.cancel()


async def test_what_two_plugins_see_stays_while_one_does(watched, nursery):
    found = await watched(NAMED)
    await found.sees(seen("milan", "/a"))
    await found.sees(seen("milan", "/b"), "other")
    assert await found.sees(seen("milan", gone=True)) == {"milan": "/b"}
    nursery.cancel_scope.cancel()


async def test_this_cluster_itself_is_no_peer(watched, nursery):
    found = await watched("[[peers]]\nid = 'rome'\n")
    assert await found.sees(seen("rome", "/a")) == {}
    nursery.cancel_scope.cancel()


async def test_what_is_not_seen_again_in_time_is_gone_and_what_was_tried_for_it_stops(
    watched, nursery, autojump_clock
):
    found = await watched(NAMED)
    assert await found.sees(on_lan("milan", kubeconfig="/a")) == {"milan": "/a"}
    await trio.sleep(50)
    assert await found.sees(on_lan("milan", kubeconfig="/a")) == {"milan": "/a"}
    await trio.sleep(50)
    assert found.running == {"milan": "/a"}
    assert [event.gone for event in found.events if isinstance(event, ClusterSighted)] == [False]
    await trio.sleep(12)
    assert found.running == {}
    assert found.inbox.seen("milan") is None
    assert found.events[-1].gone
    nursery.cancel_scope.cancel()


async def test_an_advert_is_verified_once_and_again_only_when_it_changes(watched, nursery):
    found = await watched()
    for advert in ("milan k1 1", "milan k1 1", "milan k1 1", "milan k1 2"):
        await found.sees(on_lan("milan", advert=advert, ttl=60.0 + found.adverts.reads))
    assert found.adverts.reads == 2
    assert found.inbox.seen("milan").newest().serial == 2
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("advert", "why"),
    [
        ("milan forged", "the advert is not signed by the key that it names"),
        ("turin k1", "its advert is that of turin"),
    ],
)
async def test_a_forged_advert_is_shown_as_such_and_counts_for_nothing(
    advert, why, watched, nursery
):
    found = await watched()
    await found.sees(on_lan("milan", advert=advert, addresses=("10.0.0.9:6446",)))
    seen = found.inbox.seen("milan")
    assert seen.entries[0].problem == why
    assert (seen.key, seen.addresses()) == ("", ())
    nursery.cancel_scope.cancel()


async def test_of_this_cluster_itself_nothing_is_shown_but_who_takes_its_id_is(watched, nursery):
    found = await watched()
    await found.sees(on_lan("rome", advert="rome own"))
    assert found.inbox.seen("rome") is None
    await found.sees(on_lan("rome", advert="rome other"))
    assert found.inbox.seen("rome").keys == ("other",)
    nursery.cancel_scope.cancel()


async def test_ten_thousand_sightings_cost_a_bounded_work_and_hide_no_other_plugins(
    watched, nursery, autojump_clock
):
    found = await watched()
    for number in range(10_000):
        sighting = on_lan(f"cluster-{number}", advert=f"cluster-{number} k{number}")
        found.plugins["mdns"].report(sighting)
    assert found.adverts.reads == BURST
    assert len(found.inbox.book.entries) == MOST_SEEN
    await found.sees(on_lan("milan", advert="milan k"), "dns_srv")
    assert found.inbox.seen("milan").key == "k"
    assert len(found.inbox.book.entries) == MOST_SEEN
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
    async def made(plugin: Dns) -> tuple[PluginHost, EventSummary]:
        """The host of one plugin that runs, and what its events add up to."""
        provider = DiscoveryProvider(name="dns", build=lambda settings, services: plugin)
        context = context_of()
        summary = EventSummary()
        context.hub.listen(summary.take)
        host = PluginHost(Plugins(discovery=(provider,)))
        await nursery.start(DiscoveryManager(context, host).run)
        return host, summary

    return made


async def test_a_plugin_that_exits_again_and_again_is_shown_until_it_runs(
    discovering, nursery, autojump_clock
):
    plugin = Dns(5)
    host, summary = await discovering(plugin)
    await trio.sleep(6)
    assert "the discovery dns raised SystemExit" in summary.plugins["dns"].reason
    assert "the discovery dns" in host.calls.troubles()
    await trio.sleep(120)
    assert plugin.runs == 6
    assert not summary.plugins
    assert not host.calls.troubles()
    nursery.cancel_scope.cancel()


async def test_a_plugin_that_is_parked_is_not_left_running(discovering, nursery, autojump_clock):
    plugin = Dns(0)
    host, _ = await discovering(plugin)
    await trio.sleep(1)
    host.calls.of("discovery", "dns").took(9.0)
    await trio.sleep(40)
    assert "parked for" in host.calls.troubles()["the discovery dns"]
    assert plugin.runs == 1
    await trio.sleep(60)
    assert plugin.runs == 2
    nursery.cancel_scope.cancel()


async def test_a_viewer_is_told_whose_key_is_configured(watched, nursery):
    named = f"[[peers]]\nid = 'milan'\naddresses = ['192.0.2.1:6446']\nkey = '{'ab' * 32}'\n"
    found = await watched(named)
    for cluster in ("milan", "bern"):
        found.plugins["manual"].report(Sighting(cluster_id=cluster, plugin="manual"))
    rows = components.sightings(found.inbox, EventSummary())
    assert {row.cluster_id: row.named for row in rows.values()} == {"milan": True, "bern": False}
    nursery.cancel_scope.cancel()
