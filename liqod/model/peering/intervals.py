"""The times by which this cluster and its peers are judged to live, in one place.

They depend on each other. All are seconds. What an operator may set is in the configuration; any
other time stands at the head of the module that uses it. docs/intervals.md is made from this.
"""

from typing import Final

ACKNOWLEDGED_EVERY: Final = 1
"""Between two TCP keep-alives on an idle connection to a peer's API server; a whole number."""
FRESH: Final = 5.0 * ACKNOWLEDGED_EVERY
"""A peer from which nothing came back for this long is no longer called connected."""
PROBE_EVERY: Final = 10.0
"""Between two HTTP probes of a peer's API server while it answers. TCP alone is not enough: a
server that hangs is still acknowledged."""
PEER_DAEMON_EVERY: Final = 3 * PROBE_EVERY - 1
"""Between two reads of the Lease of a peer's daemon. A probe does it; a little less than three
probes, so that the third one is never too early."""
LEADER_RENEWS_EVERY: Final = 2.0
"""Between two renewals of the Lease by which a daemon leads."""
LEADER_STOPS_AFTER: Final = 8.0
"""A leader that could not renew its Lease for this long stops; the rest of the Lease is for
stopping."""
LEADER_LEASE: Final = 12.0
"""After this long without a renewal another daemon may lead. A crash may cost 15 s."""
SILENT_AFTER: Final = LEADER_STOPS_AFTER + LEADER_LEASE
"""After this long without a renewal no daemon runs, here or at a peer: the last leader has stopped,
and no standby has taken over."""
NODE_LEASE: Final = 40.0
"""Kubernetes takes a node whose Lease was not renewed for this long for dead; kubelets use the
same."""
NODE_LEASE_RENEWED_EVERY: Final = NODE_LEASE / 4
"""Between two renewals of a virtual node's Lease."""
PEER_VERSION_EVERY: Final = 3600.0
"""Between two reads of the version of a peer's API server and of the kinds that it serves. A server
behind a load balancer is upgraded without an outage; each read takes a connection, some 4 kB."""
WEBHOOK_PROOF_EVERY: Final = 600.0
"""Between two dry runs that prove that the API server reaches the webhook."""
UNPROVED: Final = 2 * WEBHOOK_PROOF_EVERY + 60.0
"""A proof that is older than this proves nothing: one dry run may fail to come."""
