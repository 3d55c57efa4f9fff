"""Decides what is done next for one peer's tunnel, as a pure state machine. No clock, no I/O.

Its inputs are the order, the machine's role, the verdicts of the probes, changes by others in the
kernel, and how what was done came out. :meth:`TunnelControl.step` gives the next thing to do;
:attr:`TunnelControl.state` is how the tunnel is.
"""

from collections.abc import Collection
from math import inf
from typing import Final

import msgspec

from liqod.model.network.liveness import DEADLINE
from liqod.network.machine.desiredtunnel import DesiredTunnel, desired_tunnel, is_same
from liqod.network.orders.candidacy import GatewayState
from liqod.network.orders.tunnels import TunnelOrder, TunnelState
from liqod.tunnel.probes.messages import MOST_RANGES, ProbeResult

QUARREL: Final = 0.5
"""Seconds between two applications where another program removes each repair."""
LAST_RESORT: Final = 60.0
"""Seconds of silence after which a websocket is tried that is reported as offered no more."""
CUT: Final = 15.0
"""Seconds of silence after which connections to the peer are ended: one whose gateway moves to
another node, or is begun anew, is back sooner, and its connections live."""
NO_ANSWER_YET: Final = "the peer has not answered yet"
SILENCE: Final = "the peer's gateway does not answer"


class Wait(msgspec.Struct, frozen=True):
    """Nothing is to be done until a time, or an input.

    Attributes:
        until: the time; ``inf`` for no time at all.
    """

    until: float


class Make(msgspec.Struct, frozen=True):
    """The tunnel and the data path are to be made, or mended.

    Attributes:
        desired: what they are to be.
        replaces: whether everything of a tunnel by another backend goes first.
        silent: seconds since anything came through the tunnel.
    """

    desired: DesiredTunnel
    replaces: bool = False
    silent: float = 0.0


class Vacate(msgspec.Struct, frozen=True):
    """Nothing of the peer's is to be there: a standby whose tunnel cannot be quiet.

    Attributes:
        desired: what there is to be once this machine takes over.
    """

    desired: DesiredTunnel


Step = Wait | Make | Vacate


class TunnelControl:
    """One peer's tunnel on this machine.

    Args:
        order: the daemon's.

    Attributes:
        order: the same, or the one that came after it.
        state: how the tunnel is, but for its pods.
        judged: whether the probes, or a failure, have judged it.
        up: the network that is there; None while there is none.
        maker: the backend of what there is, also of one that was begun and has failed; empty where
            there is nothing, or it is not known.
        last: the last verdict of the probes; None while none go.
        failures: number of failures in a row.
    """

    def __init__(self, order: TunnelOrder) -> None:
        self.order = order
        self.state = TunnelState()
        self.judged = False
        self.up: DesiredTunnel | None = None
        self.last: ProbeResult | None = None
        self.failures = 0
        self.maker = ""
        self._offers: bool | None = None
        """True if the peer's gateway reports to take the tunnel in a websocket; None: no report."""
        self._disturbed = False
        self._again_at = self._retry_at = -inf
        self._had_at = -inf
        self._silent_since = inf
        """Since when nothing comes through the tunnel, by the probes; ``inf`` while it does."""
        self._alive_at = -inf
        """When the probes last reported the other side alive."""

    # Inputs.

    def on_order(self, order: TunnelOrder) -> None:
        """The daemon orders something else."""
        self.order = order
        self._retry_at = -inf

    def on_role(self) -> None:
        """The machine's role is another."""
        self._retry_at = -inf

    def on_host(self) -> None:
        """The machine's capabilities are found anew."""
        self._retry_at = -inf

    def on_disturbance(self) -> None:
        """Somebody has changed what is there, or what is there is to be laid anew."""
        self._disturbed = True
        self._retry_at = -inf

    def on_probe(self, result: ProbeResult, now: float) -> None:
        """The probes have come to a verdict."""
        if result.alive:
            self._alive_at = now
        elif self.last is not None and self.last.alive:
            # Reported when it turns: until then there was an answer, but for the doubt's time.
            self._alive_at = now - DEADLINE
        self.last = result
        self._take_offer(result.hello.websocket)
        self.judged = True
        if result.alive:
            self._silent_since = inf
            self.state = TunnelState("Connected", latency=result.latency)
            return
        if self._offers is False and now - self._silent_since > LAST_RESORT:
            self._offers = None  # it may be otherwise by now, and nothing else is left to try
            self._retry_at = -inf
        if self._silent_since == inf:
            # The tunnel may have other endpoints, or have to agree on keys anew: at once.
            self._silent_since = now - DEADLINE
            self._again_at = self._retry_at = -inf
        self.state = TunnelState("Connecting", result.why or SILENCE)

    def _take_offer(self, offers: bool | None) -> None:
        if offers not in (None, self._offers):
            self._offers = offers
            self._retry_at = -inf

    def on_unattended(self) -> None:
        """The network is attended no more: what the probes have found counts for nothing."""
        self.last = None
        self._silent_since, self._alive_at = inf, -inf

    # What is to be done, and how it came out.

    def step(
        self, role: GatewayState, stands_by: Collection[str], now: float, *, quarrels: bool = False
    ) -> Step:
        """The next thing to do.

        Args:
            role: of the machine.
            stands_by: the backends whose tunnels can be quiet.
            quarrels: whether another program removes each repair.
        """
        if role.active is None:
            return Wait(inf)  # which machine is the gateway will be known in a moment: all stays
        if now < self._retry_at:
            return Wait(self._retry_at)
        cut_at = self._silent_since + CUT
        wanted = desired_tunnel(self.order, role, stands_by, self._offers, cut=now >= cut_at)
        if wanted == self.up:
            until = self._again_at if wanted.cut else min(self._again_at, cut_at)
            if not self._disturbed and now < until:
                return Wait(until)
            if quarrels and self._disturbed and now < self._had_at + QUARREL:
                # It would take all of the machine's time, and the other's as well.
                return Wait(self._had_at + QUARREL)
        backend = wanted.gateway.backend
        if not wanted.active and backend not in stands_by:
            return Vacate(wanted)
        silent = max(0.0, now - self._silent_since)
        return Make(wanted, self.maker not in ("", backend), silent)

    def on_begun(self, desired: DesiredTunnel) -> None:
        """The network is being made: until that is done it is not as it is to be."""
        self._disturbed = True
        self.maker = desired.gateway.backend

    def on_up(self, pause: float, now: float) -> None:
        """The tunnel is made, and is to be brought up again after a pause."""
        self._again_at = now + pause

    def on_made(self, desired: DesiredTunnel, now: float) -> None:
        """The network is made; a new one is not judged until the probes have a result."""
        # Addresses lent, opened or offered meanwhile do not change an established tunnel.
        same = self.up is not None and is_same(self.up, desired)
        if self.up != desired and (not same or self.state.state == "Error"):
            self.state, self.judged = TunnelState("Connecting", NO_ANSWER_YET), False
        self.up, self._disturbed = desired, False
        self._had_at, self.failures = now, 0

    def on_vacated(self, desired: DesiredTunnel) -> None:
        """Nothing of the peer's is there."""
        self.up, self._disturbed, self._again_at = desired, False, inf
        self.maker, self.failures = "", 0

    def on_removed(self) -> None:
        """Nothing of the peer's is there, for another to be made."""
        self.up, self.maker = None, ""

    def on_failure(self, why: str, retry_at: float) -> None:
        """The machine refuses something, which is to be tried again."""
        self.failures += 1
        self._retry_at = retry_at
        self.state, self.judged = TunnelState("Error", why), True

    # What is known.

    def silent(self, now: float) -> float | None:
        """Seconds since the probes last reported the other side alive; None: never."""
        return now - self._alive_at if self._alive_at > -inf else None

    @property
    def unseen(self) -> str:
        """The reason not all of this cluster's pods reach the peer's, by that gateway's report."""
        if self.up is None or self.last is None:
            return ""
        own = self.up.ranges.own
        seen, have = self.last.hello.seen_as, (*own.pod, *own.external)
        if not seen or len(seen) >= min(len(have), MOST_RANGES):
            return ""
        return (
            f"{self.order.peer} does not know all of {', '.join(own.pod)} yet; "
            "an older one is told by `liqod peer --remote-kubeconfig FILE` with an administrator's"
        )
