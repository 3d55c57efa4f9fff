"""The times by which this cluster and its peers are said to live, in one place: they hang together.

All are seconds. What an operator may set is in the configuration; any other time stands at the head
of the module that keeps it.
"""

from typing import Final

ACKNOWLEDGED_EVERY: Final = 1
"""TCP asks a peer's server on an idle connection whether it is there; whole seconds."""
FRESH: Final = 5.0 * ACKNOWLEDGED_EVERY
"""A peer that was not heard of for so long is not called connected any more."""
PROBE_EVERY: Final = 10.0
"""HTTP probes of a peer's server while it answers: what TCP acknowledges may still hang."""
PEER_DAEMON_EVERY: Final = 3 * PROBE_EVERY - 1
"""Looks at the Lease of a peer's daemon, on the connection of a probe: less than a whole number of
these, so that the probe that is due is not missed by a hair."""
SILENT_AFTER: Final = 20.0
"""Without renewal the leader's Lease says that no daemon runs: it is good for less, by what two
clocks may differ."""
NODE_LEASE: Final = 40.0
"""Kubernetes takes a node whose lease is not renewed for dead."""
WEBHOOK_PROOF_EVERY: Final = 600.0
"""Dry runs that prove that the API server reaches the webhook."""
UNPROVED: Final = 2 * WEBHOOK_PROOF_EVERY + 60.0
"""A proof of that proves nothing any more: one may be missed."""
