"""The role of this machine, gateway or standby, handed from its election to those that apply it."""

from typing import Final

from liqod.network.orders.candidacy import GatewayState
from liqod.runtime.observable import Observable

UNKNOWN: Final = GatewayState(active=None)
"""The role before any election."""


class Role(Observable[GatewayState]):
    """The current role, which those that apply it wait on for changes.

    Args:
        now: what is known at first.
        others: whether there may be other candidates at all.

    Attributes:
        now: the same.
        gateway: name of the node that is the gateway; empty where there is one machine only.
        standbys: names of the others.
        observed: where peers are observed by this machine, which is the gateway.
    """

    def __init__(self, now: GatewayState = GatewayState(), *, others: bool = False) -> None:  # noqa: B008
        super().__init__(now)
        self.others = others
        self.gateway = ""
        self.standbys: tuple[str, ...] = ()
        self.observed: dict[str, str] = {}

    def have_others(self, others: bool) -> None:
        """There may be other candidates, or none: then this machine is the gateway."""
        if others != self.others:
            self.others = others
            self.set(UNKNOWN if others else GatewayState())

    def observe(self, peer: str, endpoint: str) -> None:
        """Set where a peer is observed; empty for nowhere any more."""
        if endpoint:
            self.observed[peer] = endpoint
        else:
            self.observed.pop(peer, None)
