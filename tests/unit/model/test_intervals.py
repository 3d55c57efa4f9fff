"""Times that hang together: who changes one of them learns here what else it means."""

from liqod.consumer import link
from liqod.consumer.timings import ORDINARY
from liqod.kube import leaderelection
from liqod.model.peering import intervals


def test_a_leader_is_called_silent_only_when_another_may_lead():
    assert (
        leaderelection.RETRY
        < leaderelection.RENEW_DEADLINE
        < leaderelection.DURATION
        < intervals.SILENT_AFTER
    )


def test_a_peer_that_answers_is_fresh():
    """Data that TCP acknowledges comes soon enough, also where some of it is lost."""
    keep_alive = link.KEEP_ALIVE
    lost = keep_alive.idle + keep_alive.interval * keep_alive.count
    assert lost < intervals.FRESH


def test_a_lost_peer_is_noticed_in_five_seconds():
    assert intervals.FIRST_DEADLINE + intervals.CONNECT_DEADLINE < 5.0


def test_a_look_at_a_peers_daemon_is_due_before_its_probe():
    looks = intervals.PEER_DAEMON_EVERY / intervals.PROBE_EVERY
    assert 0.5 < looks % 1 < 1


def test_a_proof_of_the_webhook_may_be_missed_once():
    assert 2 * intervals.WEBHOOK_PROOF_EVERY < intervals.UNPROVED


def test_node_leases_outlast_what_renews_them():
    assert ORDINARY.node_lease_every * 2 < intervals.NODE_LEASE
