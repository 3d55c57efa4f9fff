"""The times by which the leader cares for the webhook and the pods that it missed."""

import msgspec

from liqod.model.peering.intervals import WEBHOOK_PROOF_EVERY


class WebhookTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that the leader waits for the webhook, all in seconds.

    Attributes:
        probe_pause: between the dry runs of one proof: an API server takes a moment to notice a
            changed configuration or certificate.
        proof_every: between proofs of the path while it works.
        probe_again: until the next proof where one failed.
        ready_again: between checks for a pod behind the Service: just after an installation, and
            after each rollout, no pod can be reached by it yet.
        ready_within: in which there should be such a pod.
        doubt_pause: after a proof, in which pods that came by are no reason for another.
        claim_again: until a claim is looked for again that a pod names and that was missing.
    """

    probe_pause: float = 0.5
    proof_every: float = WEBHOOK_PROOF_EVERY
    probe_again: float = 30.0
    ready_again: float = 2.0
    ready_within: float = 120.0
    doubt_pause: float = 5.0
    claim_again: float = 5.0


ORDINARY = WebhookTimings()
"""Those of a daemon."""
