"""A request as it is shown: who asks to borrow, or whom this cluster asks. Pure."""

import msgspec


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asks to borrow from this cluster, or whom this cluster asks; of no secret a trace.

    Attributes:
        name: of the IncomingPeering or OutgoingPeering.
        cluster_id: who asks, or who is asked; empty while that is not known.
        words: what both sides show, for two people to compare.
        asked: quantities by resource; empty for what the lender grants by default.
        granted: likewise what is granted.
        state: its phase, such as ``Waiting``; empty before it has crossed.
        decision: ``Accept`` or ``Deny`` of an operator; empty while nobody has decided.
        always: whether the decision is good for later requests, too.
        source: the address that it comes from, or that was reached.
        reason: what is waited for, who has decided, or why the answer is no.
        since: when it was made.
        expires: when it is forgotten if nothing comes of it, as Kubernetes writes times.
        lends: whether this cluster dials the other one to lend to it, and does not ask it.
        by: how the two have met: ``invitation``; ``discovery`` or ``policy``, of those that are
            seen; ``address``, which somebody gave; ``request`` of the other one.
    """

    name: str
    cluster_id: str = ""
    words: str = ""
    asked: dict[str, str] = {}
    granted: dict[str, str] = {}
    state: str = ""
    decision: str = ""
    always: bool = False
    source: str = ""
    reason: str = ""
    since: float = 0.0
    expires: str = ""
    lends: bool = False
    by: str = ""
