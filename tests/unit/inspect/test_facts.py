"""The conversion of measurements to facts before the checks look at them."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.cluster.transitaddresses import TransitAddresses
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.discovery.sightings import KeptSighting
from liqod.inspect.components import Components
from liqod.inspect.memoryfacts import FactsInMemory
from liqod.inspect.summary import EventSummary
from liqod.kube.http.transport import ClientStats
from liqod.kube.queue import KeyedQueue
from liqod.model.peering.roundtrips import lossiness
from liqod.model.view.facts import ClusterFacts
from liqod.model.view.objectfacts import everyone
from liqod.model.view.snapshot import Snapshot
from liqod.plugins.checks import objects, peers
from liqod.plugins.contracts import Reason
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.plugins.providers import Sighting
from liqod.resources import RESOURCE_SLICES, ResourceSlice
from liqod.resources.authentication import GROWTH_DENIED, SliceCondition, SliceSpec, SliceStatus
from tests.unit.inspect.working import Listed, components

GOOD = [0.01] * 10


@pytest.mark.parametrize(
    ("rounds", "lost"),
    [
        ([], None),
        ([0.01, None, 0.01], None),
        (GOOD, 0.0),
        ([0.01, None] * 10, 0.5),
        ([*GOOD, None, None, None], None),
        ([None, None, *GOOD], 0.0),
        ([0.01, None] * 5 + [None, None, *GOOD, None], 1 / 11),
    ],
)
def test_an_outage_that_is_over_is_not_a_lossy_path(rounds, lost):
    assert lossiness(rounds) == pytest.approx(lost)


async def test_a_peer_that_comes_back_has_not_waited_all_the_time(autojump_clock):
    context: Any = SimpleNamespace(
        informers=SimpleNamespace(find=lambda *_, **__: None, all=list), client=None
    )
    shown, probes = Components(), SimpleNamespace(canary=lambda peer: None)
    facts = FactsInMemory(
        context, shown, PluginHost(Plugins()), EventSummary(), cast("Any", probes)
    )
    mapping = SimpleNamespace(desired={"shop"}, accepted={}, known=True)
    events = SimpleNamespace(writer=SimpleNamespace(counts={}))
    engine = SimpleNamespace(
        mapping=mapping,
        nodes=(),
        queues={},
        context=SimpleNamespace(events=events),
        reasons=lambda: (),
    )
    borrowing: Any = SimpleNamespace(
        engine=engine,
        remotes=SimpleNamespace(all=list),
        replication=SimpleNamespace(queue=KeyedQueue[str](), unfollowed={}),
    )

    def unmapped() -> dict[str, float]:
        return facts.peer("milan", ClusterFacts(now=0)).reflection.unmapped

    for _ in range(2):
        with shown.borrows("milan", borrowing):
            await facts.refresh()
            assert unmapped() == {"shop": 0}
            await trio.sleep(100)
            await facts.refresh()
            assert unmapped() == {"shop": 100}
        await facts.refresh()


def sliced(name: str, *conditions: SliceCondition, lent: bool = False, beyond: str = "") -> Any:
    """A slice of milan's, or lent to it."""
    marks = {labels.REPLICATED: labels.TRUE, labels.ORIGIN_ID: "milan"} if lent else {}
    notes = {labels.BEYOND_NODES: beyond} if beyond else {}
    return ResourceSlice(
        metadata=ObjectMeta(name=name, namespace="liqo-tenant", labels=marks, annotations=notes),
        spec=SliceSpec(provider_cluster_id="" if lent else "milan"),
        status=SliceStatus(conditions=conditions, resources={"cpu": "4"}),
    )


NO = SliceCondition(type="Resources", status="Denied", message="too much")
UNSAID = SliceCondition(type="Resources", status="Denied")
KEPT = SliceCondition(
    type="Resources", status="Accepted", reason=GROWTH_DENIED, message="no more than 4 cpu"
)
YES = SliceCondition(type="Resources", status="Accepted")
SLICES = (
    sliced("gpus", NO),
    sliced("mute", UNSAID),
    sliced("main", KEPT),
    sliced("large", YES, beyond="cpu"),
    sliced("new"),
    sliced("theirs", NO, lent=True),
    sliced("growing", KEPT, lent=True),
)


async def test_what_slices_tell_is_known_with_a_daemon_as_without(nursery):
    """Of each slice the daemon says what the API server's objects say where none can be asked."""
    find = Listed(*SLICES)
    context: Any = SimpleNamespace(
        informers=SimpleNamespace(
            find=lambda kind, *_: find if kind is RESOURCE_SLICES else None, all=list
        ),
        client=SimpleNamespace(),
    )
    probes: Any = SimpleNamespace(canary=lambda peer: None)
    facts = FactsInMemory(context, Components(), PluginHost(Plugins()), EventSummary(), probes)
    await facts.refresh()
    with_daemon = facts.peer("milan", ClusterFacts(now=0.0))
    (without,) = everyone(Snapshot(cluster_id="rome", slices=SLICES), ClusterFacts(now=0.0))
    for each in ("denied", "ungrown", "beyond", "unanswered", "lent_denied", "lent_ungrown"):
        assert getattr(with_daemon, each) == getattr(without, each), each
        assert getattr(with_daemon, each), each
    finding = peers.granted(with_daemon)
    assert finding is not None
    assert [each.what.split(":")[0] for each in finding.faults] == [
        "slice gpus denied",
        "slice mute denied",
        "slice main may not grow",
        "slice large",
    ]
    assert {each.what for each in objects.lent(with_daemon)} == {
        "slice theirs denied: too much",
        "slice growing may not grow: no more than 4 cpu",
    }


async def test_the_daemon_knows_the_reasons_of_objects_and_the_clusters_that_are_seen(nursery):
    told = [(("pods", "shop", "web"), Reason("NotOffloadable", "it uses a hostPath"))]
    context: Any = SimpleNamespace(
        cluster_id="rome",
        version="",
        config=config.parse(""),
        client=SimpleNamespace(certificate=None, stats=ClientStats()),
        informers=SimpleNamespace(find=lambda *_: None, all=list),
        transit=TransitAddresses([("milan", "turin")]),
    )
    writer = SimpleNamespace(writer=SimpleNamespace(counts={}))
    engine = SimpleNamespace(
        reasons=lambda: iter(told),
        queues={},
        nodes=(),
        mapping=SimpleNamespace(desired=set(), accepted={}, known=True),
        context=SimpleNamespace(events=writer),
    )
    remotes = SimpleNamespace(all=list)
    replication = SimpleNamespace(queue=KeyedQueue(), unfollowed={})
    shown = components("milan", engine=engine, remotes=remotes, replication=replication)
    shown.discovery = DiscoveryManager(context, PluginHost(Plugins()))
    seen = Sighting(cluster_id="turin", plugin="manual", kubeconfig="/k")
    shown.discovery.book.take(KeptSighting(seen=seen, since=1.0))
    kept = shown.peers.pop("milan")  # its task is of no interest here
    probes: Any = SimpleNamespace(canary=lambda peer: None, server=lambda: None, skew=None)
    facts = FactsInMemory(context, shown, PluginHost(Plugins()), EventSummary(), probes)
    cluster = facts.cluster()
    assert cluster.apart == ("milan", "turin")
    assert [each.cluster_id for each in cluster.sightings.values()] == ["turin"]
    assert [each.what for each in objects.sightings(cluster)] == [
        "manual sees it, and it is not peered with, as nobody has said so"
    ]
    assert [each.what for each in objects.reasons(facts.peer("milan", cluster))] == [
        "pods shop/web: NotOffloadable: it uses a hostPath"
    ]
    assert kept.id == "milan"
