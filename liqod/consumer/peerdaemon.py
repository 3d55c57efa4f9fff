"""Checks if a peer's daemon runs: it shows the Lease that it leads by, and the link reads it.

A check takes the place of every third probe of the peer's API server, so it costs no connection and
few bytes. Without that daemon nothing that is requested there is done: running pods go on, and
new pods are kept from its nodes.
"""

import logging
from collections.abc import Callable

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.kube.leases import Look, read
from liqod.model.peering.heartbeat import Heartbeat, HeartbeatVerdict, HeartbeatView, judge, observe
from liqod.telemetry.events import PeerDaemonChanged, TopicEvent

REFUSED_AGAIN = 600.0
"""Seconds until a peer that does not show it is tried again: it may have been upgraded by then."""
PATH = LEASES.path(labels.LIQO_NAMESPACE, labels.LEADER_LEASE)

log = logging.getLogger(__name__)


class PeerDaemon:
    """The observed state of one peer's daemon.

    Attributes:
        verdict: its state.
    """

    def __init__(self, timings: ConsumerTimings = ORDINARY) -> None:
        self._timings = timings
        self.verdict = HeartbeatVerdict()
        self._sight: HeartbeatView | None = None
        self._due = float("-inf")
        self._began = float("inf")

    @property
    def heard(self) -> tuple[float, float]:
        """Trio times from which and until which it surely ran, and told what it had to tell; all
        times of one that does not show its Lease."""
        if self.verdict.state == "untold":
            return float("-inf"), trio.current_time()
        at = self._sight.renewed if self._sight is not None else None
        return self._began, float("-inf") if at is None else at

    @property
    def renewed(self) -> float | None:
        """Seconds since it renewed its Lease, or less than that; None where it is unknown."""
        at = self._sight.renewed if self._sight is not None else None
        return None if at is None else trio.current_time() - at

    @property
    def quiet(self) -> float:
        """Seconds for which it surely has not renewed its Lease, at the last check."""
        return 0.0 if self._sight is None else self._sight.quiet

    @property
    def looked(self) -> float | None:
        """Seconds since the Lease was read; None where nothing is known of it."""
        return None if self._sight is None else trio.current_time() - self._sight.looked

    def doubt(self) -> None:
        """Make the next probe read the Lease, unless the peer does not show it."""
        if self.verdict.state != "untold":
            self._due = float("-inf")

    def due(self) -> bool:
        """True if a check is due."""
        return trio.current_time() >= self._due

    def lose(self) -> None:
        """Drop the observations: they prove nothing once the API server does not answer."""
        self._sight, self._began = None, float("inf")
        self._due = float("-inf")

    def saw(
        self,
        status: int,
        body: bytes,
        report: Callable[[TopicEvent], None],
        date: float | None = None,
    ) -> bool:
        """Record an answer; True if the verdict has changed.

        Args:
            status: of the answer, 200 with a Lease.
            body: of the answer.
            report: called with a change (:meth:`liqod.peers.peer.Peer.report`).
            date: of the answer, by its server's clock; None where it names none.
        """
        now = trio.current_time()
        seen = _read(body, date) if status == 200 else None
        if seen is None or not seen.lease.spec.renew_time:
            # There is none, or not yet: a backup came back, or no daemon has led so far.
            again = self._timings.peer_daemon_every if status == 404 else REFUSED_AGAIN
            self._sight, self._due, self._began = None, now + again, float("inf")
            return self._become(HeartbeatVerdict("untold", f"it answers {status}"), report)
        spec = seen.lease.spec
        beat = Heartbeat(spec.holder_identity or "", spec.renew_time or "")
        self._sight = sight = observe(self._sight, beat, now, seen.ago)
        verdict = judge(sight, now, self._timings.silent_after)
        # A Lease without a change may be dead: read it at every probe until that is certain.
        steady = verdict.state == "runs" and sight.since == now and not sight.doubtful
        self._due = now + self._timings.peer_daemon_every if steady else float("-inf")
        if verdict.state == "unasked":
            return False
        self._began = min(self._began, now) if verdict.state == "runs" else float("inf")
        return self._become(verdict, report)

    def _become(self, verdict: HeartbeatVerdict, report: Callable[[TopicEvent], None]) -> bool:
        before = self.verdict
        if verdict == before:
            return False
        self.verdict = verdict
        if verdict.state in ("runs", "silent") and before.state != verdict.state:
            report(PeerDaemonChanged(runs=verdict.state == "runs", reason=verdict.why))
        if verdict.state == "silent":
            log.warning("the peer's daemon does not run: %s", verdict.why)
        elif before.state == "silent":
            log.info("the peer's daemon runs again")
        return True


def _read(body: bytes, date: float | None) -> Look | None:
    try:
        return read(body, date)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
