"""The times by which a consumer works, in one value that its tasks are given."""

import msgspec

from liqod.model.peering import intervals
from liqod.runtime.backoff import Backoff


class ConsumerTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that a consumer waits, all in seconds.

    Those that depend on others have their defaults, with the reasons, in
    :mod:`liqod.model.peering.intervals`.

    Attributes:
        probe_every: between HTTP probes of a peer's server while it answers.
        first_deadline: for such a probe.
        second_deadline: for the probe that confirms a failure.
        retries: between tries while the server does not answer.
        peer_daemon_every: between reads of the Lease of a peer's daemon.
        silent_after: without a renewal of that Lease, until the peer's daemon is called silent.
        node_lease_every: between renewals of a virtual node's Lease.
        waiting_every: between counts of the pods on a virtual node that wait at the peer, where any
            has changed.
        sent_pause: between such counts where pods are sent to a peer that tells of places for them.
        parts_pause: between two divisions of a slice among its virtual nodes, however often its
            provider tells what is free.
        parts_every: until a slice is divided anew though its provider tells nothing new: pods have
            begun or ended that change nothing in rounded numbers.
        part_kept: for which a virtual node stays though its provider tells nothing of its group any
            more, and no pod runs on it: a machine may just start again.
        zone_held: for which a virtual node goes on not to show its zone once no pod would wait for
            it any more.
        usage_fresh: for which an answer on the usage of pods is good: scrapers that come closer
            together share one.
        readers_kept: for which a permission to read from the kubelet API is remembered:
            less than a kubelet does (two minutes for a token, five for a right). With a hundred
            virtual nodes each round of a scraper would be two hundred requests to the API server.
            Of streams, and of a denial, nothing is remembered.
        former_key_kept: for which the former key is kept when no peer seems to need it any more: a
            peering that was begun with it may just come about.
        signature_kept: for which a signed nonce that has done its work is kept: ``liqoctl`` may
            still read it.
        held_again: until the next check for volumes that keep a namespace at a provider.
        gone_within: for which a NamespaceOffloading that ends stays to show that providers still
            end theirs: a client that waits for its end, as ``liqoctl unoffload`` does, then finds
            none. Longer waiting brings nothing for a provider that does not answer, or whose
            namespace something holds.
        volume_answer: for which a peer's answer to a request for a volume is waited for.
        volume_refused: before the scheduler's choice of a node without a volume is taken back.
    """

    probe_every: float = intervals.PROBE_EVERY
    first_deadline: float = intervals.FIRST_DEADLINE
    second_deadline: float = intervals.SECOND_DEADLINE
    retries: Backoff = Backoff(first=0.5, last=5.0)
    peer_daemon_every: float = intervals.PEER_DAEMON_EVERY
    silent_after: float = intervals.SILENT_AFTER
    node_lease_every: float = intervals.NODE_LEASE_RENEWED_EVERY
    waiting_every: float = 5.0
    sent_pause: float = 1.0
    parts_pause: float = 5.0
    parts_every: float = 60.0
    part_kept: float = 300.0
    zone_held: float = 600.0
    usage_fresh: float = 10.0
    readers_kept: float = 60.0
    former_key_kept: float = 60.0
    signature_kept: float = 60.0
    held_again: float = 5.0
    gone_within: float = 30.0
    volume_answer: float = 60.0
    volume_refused: Backoff = Backoff(first=2.0, last=60.0)


ORDINARY = ConsumerTimings()
"""Those of a daemon."""
