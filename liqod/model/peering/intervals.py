"""Intervals and deadlines of liveness for this cluster and its peers, which depend on each other.

All are seconds. Times that an operator may set are in the configuration; any other time is at the
head of the module that uses it.
"""

from typing import Final

ACKNOWLEDGED_EVERY: Final = 1
"""TCP sends a keepalive probe to a peer's server on an idle connection; whole seconds."""
ACKNOWLEDGED_AGAIN: Final = 1
"""The same where it did not answer; whole seconds."""
UNACKNOWLEDGED: Final = 2
"""Number of probes without an answer until TCP breaks the connection; no seconds."""
FRESH: Final = 5.0 * ACKNOWLEDGED_EVERY
"""A peer that was not seen for so long is no longer called connected."""
PROBE_EVERY: Final = 10.0
"""HTTP probes of a peer's server while it answers: a server that acknowledges TCP may hang."""
FIRST_DEADLINE: Final = 2.5
"""For a probe; with the second try's connection it stays below the 5 s of a lost host."""
SECOND_DEADLINE: Final = 5.0
"""For the probe that confirms a failure: a server that is only slow gets another chance."""
CONNECT_DEADLINE: Final = 1.5
"""For a TCP connection to a peer's server: one lost packet is made up for within it."""
GONE_WITHIN: Final = ACKNOWLEDGED_EVERY + ACKNOWLEDGED_AGAIN * UNACKNOWLEDGED + CONNECT_DEADLINE
"""The most that passes until a host that vanished is noticed."""
FROZEN_WITHIN: Final = (
    PROBE_EVERY + FIRST_DEADLINE + CONNECT_DEADLINE + FIRST_DEADLINE + SECOND_DEADLINE
)
"""The most that passes until a server that accepts and answers nothing is noticed.

Less costs something: shorter deadlines take a server for dead that is only slow, and more probes
are more bytes of a peering at rest (`benchmarks.rest` has the aim). If the documentation names one
of these times, `tests/unit/test_figures.py` shows the sentence to change."""
PEER_DAEMON_EVERY: Final = 3 * PROBE_EVERY - 1
"""Looks at the Lease of a peer's daemon, on the connection of a probe: less than a whole number of
these, so that the probe that is due is not missed by a hair."""
LEADER_RENEWS_EVERY: Final = 2.0
"""The daemon renews the Lease that it leads by."""
LEADER_STOPS_AFTER: Final = 8.0
"""Without a good renewal the leader stops; the rest of the Lease's time is for stopping."""
LEADER_TOLD_WITHIN: Final = 2 * LEADER_RENEWS_EVERY + 1.0
"""A leader that was last seen by then leads: one renewal may be late, and the API server's
dates are to the second."""
LEADER_LEASE: Final = 12.0
"""Without a renewal others may lead: under the 15 s that a crash may cost."""
SILENT_AFTER: Final = LEADER_STOPS_AFTER + LEADER_LEASE
"""Without a renewal the leader's Lease shows that no daemon runs, in this cluster or at a peer: the
last one has stopped, and no standby leads in its place."""
NODE_LEASE: Final = 40.0
"""Kubernetes takes a node whose lease is not renewed for dead; kubelets use the same."""
NODE_LEASE_RENEWED_EVERY: Final = NODE_LEASE / 4
"""Renewals of a virtual node's Lease."""
PEER_VERSION_EVERY: Final = 3600.0
"""Looks at the version of a peer's API server, and at the kinds it serves: one behind a load
balancer is upgraded without an outage, and each look takes a connection, some 4 kB."""
WEBHOOK_PROOF_EVERY: Final = 600.0
"""Dry runs that prove that the API server reaches the webhook."""
UNPROVED: Final = 2 * WEBHOOK_PROOF_EVERY + 60.0
"""A proof of that proves nothing any more: one may be missed."""
