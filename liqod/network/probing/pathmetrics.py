"""Measures the facts of a peer's network that its probes do not report, while it exists.

Seldom at rest, at once when something turns, and each second while nothing answers or somebody
looks: bytes and endpoint of the tunnel, packets dropped, the largest packet that the path carries,
and a packet from an address among this cluster's pods to one among the peer's and back, through
all that pods' packets go through on both gateways. Nothing of it ends anything.
"""

import errno
import ipaddress
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Final, NoReturn, TypeVar

import msgspec
import trio

from liqod.errors import LiqodError, NetworkError, PluginError
from liqod.model.network.pathfigures import LEAST_MTU
from liqod.model.network.podpath import NOT_TRIED, PodPath
from liqod.model.network.ranges import PeerRanges
from liqod.network.dataplane.names import PeerNames, Side
from liqod.network.dataplane.transitrules import owners
from liqod.network.dataplane.values import KernelChange
from liqod.network.probing.pathprobe import KernelPathProbe, Unit
from liqod.network.timings import ORDINARY, NetworkTimings
from liqod.plugins.providers import Tunnel, TunnelStatus
from liqod.tunnel.probes.messages import ProbeResult

ARRIVALS: Final = 2
"""Datagrams within that time of which one may be anybody's."""
FOUGHT: Final = 3
"""Times that the same was mended of late from which on somebody takes it away."""

INSTANT: Final = 0.001
"""Seconds after its time when a repair is forgotten for sure."""

K = TypeVar("K")

log = logging.getLogger(__name__)


class RoundTrip(msgspec.Struct, frozen=True):
    """A packet from a pod's address here to one there and back.

    Attributes:
        at: when it was made, by Trio's clock.
        way: from where to where.
        took: seconds; None where nothing came back.
    """

    at: float
    way: str
    took: float | None


class ProbeTarget(msgspec.Struct, frozen=True):
    """The network to measure.

    Attributes:
        tunnel: the tunnel.
        side: which end of it this cluster has.
        mtu: of its interface, in bytes.
        ranges: of both clusters.
        port: UDP port at which this side listens; 0 where it is any, or no UDP.
        endpoint: the possible address of the other side; empty for unknown.
    """

    tunnel: Tunnel
    side: Side
    mtu: int
    ranges: PeerRanges
    port: int = 0
    endpoint: str = ""


class PathMetrics:
    """Measures the network of one peer.

    Args:
        names: of the peer.
        path_probe: what measures; None where nothing does but the tunnel itself.
        turned: called when the path carries another size, and when a trip turns out otherwise.
        measured: called after each round of measurements.
        timings: how often it is measured.

    Attributes:
        own: address among this cluster's pods at which this gateway answers; empty for none.
        status: of the tunnel; None where there is none, or nobody has looked.
        broken: the reason its backend cannot report its state, where that is the plugin's fault.
        looked: when the tunnel was looked at last; ``-inf`` for never.
        received_at: when bytes were last seen to have come; ``-inf`` for never.
        arrived_at: when datagrams last came that the tunnel may have refused; ``-inf`` for never.
            It is looked for while nothing answers.
        unreachable: why packets to the other gateway do not leave this machine; empty for nothing.
        guards: chains of this machine that drop passing packets, unless a rule accepts them; None
            while nobody has looked.
        dropped: packets by counter, of this daemon's time and of what it found.
        passed: packets and bytes to and from other peers' endpoints, by these peers' ids, likewise.
        passes: the largest packet that was found to pass, in bytes; None: not tried.
        trip: the newest.
    """

    def __init__(
        self,
        names: PeerNames,
        path_probe: KernelPathProbe | None,
        turned: Callable[[], None],
        measured: Callable[[], None] = lambda: None,
        timings: NetworkTimings = ORDINARY,
    ) -> None:
        self.own = self.unreachable = self.broken = ""
        self.status: TunnelStatus | None = None
        self.looked = self.received_at = self.arrived_at = -inf
        self.guards: list[str] | None = None
        self.dropped: Counter[str] = Counter()
        self.passed: Counter[tuple[str, Unit]] = Counter()
        self.passes: int | None = None
        self.trip: RoundTrip | None = None
        self._names = names
        self._path_probe = path_probe
        self._turned = turned
        self._measured = measured
        self._timings = timings
        self._result = ProbeResult(False)
        self._counted: dict[str, int] = {}
        self._counted_passing: dict[tuple[str, Unit], int] = {}
        self._received = 0
        self._sized_at = self._checked_at = self._tripped_at = -inf
        self._wake, self._fell = trio.Event(), trio.Event()
        self._mended: deque[tuple[float, KernelChange]] = deque(maxlen=256)

    @property
    def pods(self) -> PodPath:
        """The path of a packet from a pod's address here to one there and back."""
        if self._path_probe is None:
            return NOT_TRIED
        if self.trip is not None:
            if self.trip.took is None:
                return PodPath("failed", f"nothing came back, {self.trip.way}")
            return PodPath("reached")
        if not self.own:
            return PodPath("untried", "this gateway has no address among its pods")
        if self._result.alive and not self._result.hello.pod_address:
            return PodPath("untried", "the peer's gateway names no address that answers")
        return PodPath("trying")

    def carries(self, mtu: int) -> int:
        """Bytes for which routes and segments are to be made; never below what IPv6 needs."""
        return mtu if self.passes is None else max(LEAST_MTU, min(self.passes, mtu))

    def on_result(self, result: ProbeResult) -> None:
        """Take the probes' result; what that changes is measured at once."""
        before, self._result = self._result, result
        if result.alive:
            self._fell = trio.Event()
        else:
            self._fell.set()
        if result.alive and not before.alive:
            # It may be another path than before.
            self._sized_at = self._checked_at = -inf
        if (result.alive, result.hello) != (before.alive, before.hello):
            self._tripped_at = -inf
            self._wake.set()

    def nudge(self) -> None:
        """Note a viewer: the cheap facts are read again."""
        self._wake.set()

    def mended(self, changes: Iterable[KernelChange]) -> None:
        """Records that something of the network had to be made again, by these changes."""
        now = trio.current_time()
        self._mended.extend((now, each) for each in changes)
        self._tripped_at = -inf
        self._wake.set()

    def lately(self) -> Counter[KernelChange]:
        """Repairs of the last minute, and how many times each."""
        since = trio.current_time() - self._timings.fought_within
        return Counter(each for at, each in self._mended if at >= since)

    @property
    def forgets_at(self) -> float:
        """When a repair is forgotten next, by Trio's clock; ``inf`` where none is remembered."""
        since = trio.current_time() - self._timings.fought_within
        oldest = next((at for at, _ in self._mended if at >= since), inf)
        return oldest + self._timings.fought_within + INSTANT

    @property
    def _slow(self) -> float:
        """Seconds that answers take, by the probes."""
        return self._result.latency or 0.0

    @property
    def quarrel(self) -> bool:
        """True if another program removes each repair."""
        return any(times >= FOUGHT for times in self.lately().values())

    async def run(self, probe_target: Callable[[], ProbeTarget]) -> NoReturn:
        """Measure until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, probe_target)
            await self._rounds(probe_target)
        raise AssertionError("measuring ends by cancellation only")

    async def _rounds(self, probe_target: Callable[[], ProbeTarget]) -> NoReturn:
        while True:
            self._wake = trio.Event()
            began = trio.current_time()
            await self._round(probe_target())
            self._measured()
            again = self._timings.measured_again
            with trio.move_on_after(self._timings.measured_every if self._result.alive else again):
                await self._wake.wait()
            await trio.sleep_until(began + again)

    async def _round(self, probe_target: ProbeTarget) -> None:
        for look in (self._look, self._count, self._size, self._travel):
            try:
                await look(probe_target)
            except (LiqodError, OSError) as error:
                # Those who keep the network say what is wrong with it; here it is not known.
                log.debug("%s of %s: %s", look.__name__, self._names.peer_id, error)

    async def _listen(self, probe_target: Callable[[], ProbeTarget]) -> NoReturn:
        """While nothing answers, whether anything of the other gateway's comes at all."""
        while True:
            now = probe_target()
            status = self.status
            endpoint = (status.endpoint if status is not None else "") or now.endpoint
            if self._result.alive:
                await self._fell.wait()
                continue
            if self._path_probe is None or not (now.port or endpoint):
                await trio.sleep(self._timings.measured_again)
                continue
            began = trio.current_time()
            try:
                found = await self._path_probe.arriving(endpoint, now.port, self._timings.listens)
                if found >= ARRIVALS:
                    self.arrived_at = trio.current_time()
            except (NetworkError, OSError, ValueError) as error:
                log.debug("datagrams of %s: %s", self._names.peer_id, error)
            # It ends at once where nothing can be told, and early where a stranger sends many.
            await trio.sleep_until(began + self._timings.listens)

    async def _look(self, probe_target: ProbeTarget) -> None:
        """The tunnel's own report."""
        try:
            self.status = status = await probe_target.tunnel.status()
        except PluginError as error:
            self.status, self.broken = None, str(error)
            raise
        self.broken = ""
        now, self.looked = trio.current_time(), trio.current_time()
        if status is None:
            self._received = 0
            return
        # Of what had come before nobody knows when it did.
        if status.received > self._received and self._received:
            self.received_at = now
        self._received = status.received
        if self._path_probe is not None:
            there = "" if self._result.alive else status.endpoint
            self.unreachable = await self._path_probe.way_to(there) if there else ""

    async def _count(self, probe_target: ProbeTarget) -> None:
        """Packets dropped, and those that were passed on to other peers."""
        if self._path_probe is None:
            return
        found = await self._path_probe.dropped(self._names)
        add_up(self.dropped, self._counted, found)
        self._counted = found
        others = owners(probe_target.ranges)
        passed = await self._path_probe.passed(self._names, others) if others else {}
        add_up(self.passed, self._counted_passing, passed)
        self._counted_passing = passed

    async def _size(self, probe_target: ProbeTarget) -> None:
        """How large a packet passes: looked for where one of today's size does not, and seldom."""
        if self._path_probe is None or not self._result.alive:
            return
        now, known, mtu = trio.current_time(), self.passes, probe_target.mtu
        due = now - self._sized_at >= self._timings.size_raised
        more = known is not None and known < mtu and due
        if known is not None and not more:
            if now - self._checked_at < self._timings.measured_every:
                return
            self._checked_at = now
            if await self._path_probe.passes(
                self._names, probe_target.side, min(known, mtu), self._slow
            ):
                return
        before = self.carries(mtu)
        found = await self._path_probe.largest(self._names, probe_target.side, mtu, self._slow)
        self._sized_at = self._checked_at = trio.current_time()
        if found is None or not self._result.alive:
            return  # nothing passes at all, or whoever is there answers no echo
        self.passes = found
        if self.carries(mtu) != before:
            log.info("the way to %s carries %d of %d bytes", self._names.peer_id, found, mtu)
            self._turned()

    async def find_own(self, ranges: PeerRanges) -> None:
        """Find the address at which this gateway answers; there may be one later.

        Raises:
            NetworkError: the kernel cannot be queried.
        """
        if self._path_probe is not None:
            self.own = await self._path_probe.answering(ranges.own.pod)

    async def _travel(self, probe_target: ProbeTarget) -> None:
        """From a pod's address to one of the peer's, and back."""
        if self._path_probe is None:
            return
        if not self.own:
            await self.find_own(probe_target.ranges)
        target = alias_of(self._result.hello.pod_address, probe_target.ranges)
        now = trio.current_time()
        if not (self.own and target and self._result.alive):
            return
        if now - self._tripped_at < self._timings.measured_every:
            return
        self._tripped_at = now
        try:
            took = await self._path_probe.trip(self.own, target, self._slow)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                self.own = ""
            raise
        if took is None and not self._result.alive:
            return  # nothing comes through at all, which the probes report
        if took is None or self.guards is None:
            self.guards = await self._path_probe.guards()
        before = self.pods
        self.trip = RoundTrip(trio.current_time(), f"{self.own} to {target}", took)
        if took is None:
            self._tripped_at = -inf  # it is tried again soon
        if self.pods != before:
            self._turned()


def alias_of(address: str, ranges: PeerRanges) -> str:
    """How an address among the peer's pods is seen here; empty where it is none of them.

    It comes from the peer: an address outside of its own ranges is not probed.
    """
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        return ""
    for own, seen in zip(ranges.peer.pod, ranges.seen.pod, strict=False):
        theirs, alias = ipaddress.ip_network(own), ipaddress.ip_network(seen)
        if wanted in theirs:
            return str(alias[int(wanted) - int(theirs.network_address)])
    return ""


def add_up(sums: Counter[K], before: Mapping[K, int], found: Mapping[K, int]) -> None:
    """Add to sums the growth of counters; one that begins anew adds to what there was."""
    for name, number in found.items():
        last = before.get(name, 0)
        sums[name] += number - last if number >= last else number
