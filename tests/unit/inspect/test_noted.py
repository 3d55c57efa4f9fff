"""What events add up to, and what becomes of it when the trouble is over."""

from liqod.inspect.hub import Hub
from liqod.inspect.noted import Noted


def listening() -> tuple[Hub, Noted]:
    hub, noted = Hub(), Noted()
    hub.listen(noted.take)
    return hub, noted


def test_a_peer_that_fails_is_known_until_it_runs():
    hub, noted = listening()
    hub.publish(
        "peer.failed", peer="milan", reason="no way", failures=2, retry_in=30.0, parked=False
    )
    failing = noted.peers["milan"]
    assert failing.reason == "no way"
    assert failing.retry_at == hub.history[-1].at + 30
    hub.publish("peer.running", peer="milan")
    assert noted.peers == {}


def test_reflection_is_counted_per_reflector_and_namespace():
    hub, noted = listening()
    hub.publish("peer.namespace", peer="milan", namespace="shop", state="started")

    def happens(**facts: object) -> None:
        hub.publish("peer.reflection", peer="milan", reflector="pods", namespace="shop", **facts)

    happens(action="create")
    happens(action="waiting", reason="doubt")
    happens(action="refused", reason="quota")
    count = noted.reflected["milan", "pods"]
    assert (count.done, count.failed, count.error) == (1, 1, "quota")
    happens(action="update")
    assert (count.done, count.failed, count.error) == (2, 1, "")
    assert noted.namespaces["milan", "pods", "shop"].done == 2
    hub.publish("peer.gone", peer="milan")
    assert noted.reflected == {}
    assert noted.namespaces == {}


def test_a_namespace_is_counted_while_it_is_mapped():
    hub, noted = listening()
    for number in range(1000):
        of = {"peer": "milan", "namespace": f"build-{number}"}
        hub.publish("peer.namespace", **of, state="started")
        hub.publish("peer.reflection", **of, reflector="pods", action="create")
        hub.publish("peer.namespace", **of, state="ended")
        hub.publish("peer.reflection", **of, reflector="pods", action="finish")
    hub.publish("peer.reflection", peer="milan", reflector="pods", key="x", failed="no way")
    assert set(noted.namespaces) == {("milan", "pods", "")}
    assert noted.reflected["milan", "pods"].done == 2000


def test_what_a_peers_task_told_before_it_failed_does_not_count_for_the_next():
    hub, noted = listening()
    hub.publish("peer.namespace", peer="milan", namespace="shop", state="started")
    of = {"peer": "milan", "namespace": "shop", "reflector": "pods"}
    hub.publish("peer.reflection", **of, action="create")
    hub.publish("peer.failed", peer="milan", reason="no way")
    hub.publish("peer.reflection", **of, action="create")
    assert noted.namespaces == {}


def test_who_leads_no_more_knows_of_no_peers():
    hub, noted = listening()
    hub.publish("peer.failed", peer="milan", reason="no way")
    hub.publish("peer.kind", peer="milan", kind="secrets", problem="forbidden")
    hub.publish("peer.reflection", peer="milan", reflector="pods", action="create")
    noted.rest()
    assert (noted.peers, noted.blind, noted.reflected, noted.namespaces) == ({}, {}, {}, {})


def test_sightings_and_peerings():
    hub, noted = listening()
    hub.publish("discovery.sighting", plugin="manual", cluster_id="oslo", gone=False)
    hub.publish("peer.introduction", peer="oslo", step="greet")
    hub.publish("discovery.failed", what="peering with oslo", reason="refused", retry_in=5.0)
    assert noted.peerings["oslo"].reason == "refused"
    assert noted.steps == {}
    hub.publish("peer.introduction", peer="oslo", step="wait")
    hub.publish("peer.gone", peer="oslo")
    assert noted.steps == {}
    assert set(noted.seen) == {"manual/oslo"}
    hub.publish("discovery.failed", what="discovery plugin manual", reason="broken", retry_in=1)
    assert noted.plugins["manual"].reason == "broken"
    hub.publish("discovery.sighting", plugin="manual", cluster_id="oslo", gone=True)
    assert noted.seen == {}


def test_kinds_that_cannot_be_read_and_the_webhook():
    hub, noted = listening()
    hub.publish("peer.kind", peer="milan", kind="secrets", problem="forbidden")
    hub.publish("webhook", reachable=False, reason="timeout")
    assert noted.blind == {"milan": {"secrets": "forbidden"}}
    assert noted.webhook == "timeout"
    hub.publish("peer.kind", peer="milan", kind="secrets", problem="")
    hub.publish("webhook", reachable=True, reason=True)
    assert noted.blind == {"milan": {}}
    assert noted.webhook == "reachable"
