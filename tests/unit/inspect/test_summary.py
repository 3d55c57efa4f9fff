"""The summary of events, and its end when the trouble is over."""

from liqod.inspect.summary import EventSummary
from liqod.telemetry.events import (
    DiscoveryBegun,
    DiscoveryFailed,
    KeyFailed,
    KindRead,
    NamespaceSession,
    PeerFailed,
    PeerGone,
    PeeringStep,
    PeerRunning,
    Reflected,
    Replicated,
    WebhookChanged,
)
from liqod.telemetry.hub import Hub

FAILED = PeerFailed(reason="no way", failures=2, retry_in=30.0, parked=False)


def reflected(action: str, namespace: str = "shop", *, reason: str = "") -> Reflected:
    return Reflected(
        reflector="pods", namespace=namespace, name="web", action=action, reason=reason
    )


def discovery_failed(reason: str, *, plugin: str = "", cluster: str = "") -> DiscoveryFailed:
    return DiscoveryFailed(
        plugin=plugin, cluster=cluster, reason=reason, failures=1, retry_in=5.0, parked=False
    )


def listening() -> tuple[Hub, EventSummary]:
    hub, summary = Hub(), EventSummary()
    hub.listen(summary.take)
    return hub, summary


def test_a_peer_that_fails_is_known_until_it_runs():
    hub, summary = listening()
    hub.publish(FAILED, "milan")
    failing = summary.peers["milan"]
    assert failing.reason == "no way"
    assert failing.retry_at == hub.history[-1].at + 30
    hub.publish(PeerRunning(), "milan")
    assert summary.peers == {}


def test_what_fails_at_the_peers_replicas_is_known():
    hub, summary = listening()
    hub.publish(Replicated(name="pool", refused="no"), "milan")
    assert summary.replication == {}
    hub.publish(Replicated(name="pool", failed="no answer"), "milan")
    assert summary.replication == {"milan": "no answer"}
    hub.publish(KeyFailed(source=Replicated.TOPIC, key="pool", failed="no way"), "milan")
    assert summary.replication == {"milan": "no way"}


def test_reflection_is_counted_per_reflector_and_namespace():
    hub, summary = listening()
    hub.publish(NamespaceSession(namespace="shop", state="started"), "milan")

    def happens(action: str, reason: str = "") -> None:
        hub.publish(reflected(action, reason=reason), "milan")

    happens(action="create")
    happens(action="waiting", reason="doubt")
    happens(action="refused", reason="quota")
    count = summary.reflected["milan", "pods"]
    assert (count.done, count.failed, count.error) == (1, 1, "quota")
    happens(action="update")
    assert (count.done, count.failed, count.error) == (2, 1, "")
    assert summary.namespaces["milan"]["pods", "shop"].done == 2
    hub.publish(PeerGone(), "milan")
    assert summary.reflected == {}
    assert summary.namespaces == {}


def test_a_namespace_is_counted_while_it_is_mapped():
    hub, summary = listening()
    for number in range(1000):
        name = f"build-{number}"
        hub.publish(NamespaceSession(namespace=name, state="started"), "milan")
        hub.publish(reflected("create", name), "milan")
        hub.publish(NamespaceSession(namespace=name, state="ended"), "milan")
        hub.publish(reflected("finish", name), "milan")
    source = Reflected.TOPIC
    hub.publish(KeyFailed(source=source, reflector="pods", key="x", failed="no way"), "milan")
    assert set(summary.namespaces["milan"]) == {("pods", "")}
    assert summary.reflected["milan", "pods"].done == 2000


def test_what_a_peers_task_told_before_it_failed_does_not_count_for_the_next():
    hub, summary = listening()
    hub.publish(NamespaceSession(namespace="shop", state="started"), "milan")
    hub.publish(reflected("create"), "milan")
    hub.publish(FAILED, "milan")
    hub.publish(reflected("create"), "milan")
    assert summary.namespaces == {}


def test_who_leads_no_more_knows_of_no_peers():
    hub, summary = listening()
    hub.publish(FAILED, "milan")
    hub.publish(KindRead(kind="secrets", problem="forbidden"), "milan")
    hub.publish(reflected("create"), "milan")
    summary.rest()
    assert (summary.peers, summary.blind, summary.reflected, summary.namespaces) == ({}, {}, {}, {})


def test_peerings_of_clusters_that_were_seen():
    hub, summary = listening()
    hub.publish(PeeringStep(step="greet"), "oslo")
    hub.publish(discovery_failed("refused", cluster="oslo"))
    assert summary.peerings["oslo"].reason == "refused"
    assert summary.steps == {}
    hub.publish(PeeringStep(step="wait"), "oslo")
    hub.publish(PeerGone(), "oslo")
    assert summary.steps == {}
    hub.publish(discovery_failed("broken", plugin="manual"))
    assert summary.plugins["manual"].reason == "broken"
    hub.publish(DiscoveryBegun(cluster="oslo"))
    assert set(summary.plugins) == {"manual"}
    hub.publish(DiscoveryBegun(plugin="manual"))
    assert summary.plugins == {}


def test_kinds_that_cannot_be_read_and_the_webhook():
    hub, summary = listening()
    hub.publish(KindRead(kind="secrets", problem="forbidden"), "milan")
    hub.publish(WebhookChanged(reachable=False, reason="timeout"))
    assert summary.blind == {"milan": {"secrets": "forbidden"}}
    assert summary.webhook == "timeout"
    hub.publish(KindRead(kind="secrets", problem=""), "milan")
    hub.publish(WebhookChanged(certified=("rome",)))
    assert summary.webhook == "timeout"
    hub.publish(WebhookChanged(reachable=True))
    assert summary.blind == {"milan": {}}
    assert summary.webhook == "reachable"
