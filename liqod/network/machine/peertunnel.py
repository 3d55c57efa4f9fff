"""The tunnel and the data path of one peer on this machine: made, watched, healed and reported.

:mod:`.tunnelcontrol` decides; here it is done. All that is made outlives this process, so that the
next one finds it and no packet is lost: nothing ends with this task.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

import msgspec
import trio

from liqod.errors import LiqodError, NetworkError
from liqod.model.network.podpath import NOT_TRIED, PodPath
from liqod.model.network.ranges import ClusterCidrs
from liqod.network.dataplane import peerplan
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.entrances import has_proxy
from liqod.network.dataplane.names import PeerNames, Side
from liqod.network.failover.endpointhandover import publish_endpoint
from liqod.network.failover.role import Role
from liqod.network.following import whenever
from liqod.network.gatewayhost import GatewayHost, take_down
from liqod.network.machine.desiredtunnel import DesiredTunnel
from liqod.network.machine.tunnelcontrol import Make, TunnelControl, Vacate
from liqod.network.machine.tunnelfigures import figures
from liqod.network.orders.tunnels import TunnelOrder, TunnelReport
from liqod.network.probing.pathmetrics import PathMetrics, ProbeTarget
from liqod.plugins.providers import Tunnel, TunnelProvider
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.observable import Notifier
from liqod.tunnel.probes.messages import PeerHello, ProbeResult

RETRIES: Final = Backoff(first=0.5, last=30.0)
"""Seconds between tries of a change that the machine refuses."""

log = logging.getLogger(__name__)


class Attended(msgspec.Struct, frozen=True):
    """How a network is attended.

    Attributes:
        scope: of the tasks that do.
        side: of this cluster.
        lends: whether the peer is led to this cluster's API server.
        active: whether packets take this tunnel.
    """

    scope: trio.CancelScope
    side: Side
    lends: bool
    active: bool


class PeerTunnel:
    """Keeps the network of one peer.

    Args:
        names: of the peer.
        order: the daemon's.
        host: gives what this machine has.
        role: of this machine.
        send: sends a report to the daemon.
    """

    def __init__(
        self,
        names: PeerNames,
        order: TunnelOrder,
        host: Callable[[], GatewayHost],
        role: Role,
        send: Callable[[TunnelReport], None],
    ) -> None:
        self._names, self._host, self._role, self._send = names, host, role, send
        self._control = TunnelControl(order)
        self._tunnel: Tunnel | None = None
        self._attended: Attended | None = None
        self._healed = Notifier()
        self._stirred, self._seldom = Notifier(), Seldom()
        self._laid: tuple[DesiredTunnel, int] | None = None
        """The network that was applied last, and the size of packets in bytes that it is for."""
        self._stuck = ""
        """The kernel's refusal of the data path; empty for none."""
        self._measures = self._path_metrics()

    def receive(self, order: TunnelOrder) -> None:
        """Take the daemon's order; the same one again is answered by a report."""
        if order != self._control.order:
            self._control.on_order(order)
            self._stirred.notify()
        else:
            self.report()

    def on_host(self) -> None:
        """Try at once what has failed: the machine was looked at, and may have what it lacked."""
        self._control.on_host()
        self._stirred.notify()

    def nudge(self) -> None:
        """Measure anew: somebody looks."""
        if self._attended is not None and self._attended.active:
            self._measures.nudge()
        else:
            self.report()

    def report(self) -> None:
        """Send the present state."""
        control = self._control
        backend = self._provider(control.order.gateway.backend)
        self._send(
            TunnelReport(
                peer=self._names.peer_id,
                state=msgspec.structs.replace(control.state, pods=self._pods()),
                judged=control.judged,
                told=control.last.hello.own if control.last is not None else ClusterCidrs(),
                figures=figures(control, self._measures, self._stuck, backend),
            )
        )

    async def run(self) -> NoReturn:
        """Keep it until cancelled, which ends nothing."""
        async with trio.open_nursery() as self._nursery:
            # All listen before anything is read: what changes in between would be missed.
            await self._nursery.start(whenever, self._role.wait_changed, self._on_role)
            while True:
                # Before anything is read: what changes from here on comes to another round.
                stirred = self._stirred.coming
                until = await self._try()
                with trio.move_on_at(until):
                    await stirred.wait()
        raise AssertionError("a component ends by cancellation only")

    def _on_role(self) -> None:
        self._control.on_role()
        self._stirred.notify()

    async def _try(self) -> float:
        """Do what is to be done next, and report a failure of it; until when nothing else is."""
        try:
            return await self._settle()
        except LiqodError as error:
            pause = RETRIES.delay(self._control.failures + 1)
            self._control.on_failure(str(error), trio.current_time() + pause)
            self.report()
            if self._seldom.allows(str(error)):
                log.warning("the network of %s: %s", self._names.peer_id, error)
            return trio.current_time()

    async def _settle(self) -> float:
        host, now = self._host(), trio.current_time()
        known = (self._role.now, host.facts.stands_by, now)
        step = self._control.step(*known, quarrels=self._measures.quarrel)
        match step:
            case Make(desired):
                if step.replaces:
                    await self._remove()
                    self._control.on_removed()
                await self._make(desired, step.silent)
            case Vacate(desired):
                await self._remove()
                self._control.on_vacated(desired)
            case _:
                return step.until
        return trio.current_time()

    async def _make(self, desired: DesiredTunnel, silent: float) -> None:
        """Make or mend the tunnel and the data path.

        Raises:
            LiqodError: why there is none.
        """
        control, datapath = self._control, self._host().datapath
        if datapath is None:
            raise NetworkError(self._host().facts.problem or "this machine has no data path")
        if self._attended is not None and self._attended.active != desired.active:
            self._release()
        control.on_begun(desired)
        tunnel = self._tunnel_of(desired.gateway.backend)
        await datapath.prepare(self._names, desired.gateway.backend)
        try:
            if (lacks := await tunnel.problem()) is not None:
                raise LiqodError(lacks)
            control.on_up(await tunnel.up(desired.spec, silent=silent), trio.current_time())
        except LiqodError:
            await self._cut(desired.cut, datapath)
            raise
        await self._lay(desired, datapath)
        if control.up != desired:
            await self._measures.find_own(desired.ranges)
        control.on_made(desired, trio.current_time())
        self._attend(desired, datapath)
        self.report()

    async def _cut(self, cut: bool, datapath: KernelDatapath) -> None:
        """End connections to the peer, or let them be, where the data path alone can be changed."""
        if self._laid is not None and self._laid[0].cut != cut:
            await self._lay(msgspec.structs.replace(self._laid[0], cut=cut), datapath)

    async def _lay(self, desired: DesiredTunnel, datapath: KernelDatapath) -> None:
        """Have the data path, for packets of the size that the path carries."""
        gateway, measures = desired.gateway, self._measures
        carries = measures.carries(gateway.mtu)
        plan = peerplan.plan(
            self._names,
            desired.ranges,
            gateway.side,
            gateway.mtu,
            carries=carries,
            active=desired.active,
            cut=desired.cut,
        )
        try:
            changes = await datapath.apply(plan)
        except LiqodError as error:
            self._stuck = str(error)
            raise
        self._stuck = ""
        for change in changes:
            log.info("the network of %s: %s", self._names.peer_id, change.text)
        if changes:
            self._healed.notify()
        if self._laid == (desired, carries):
            measures.mended(changes)
        self._laid = (desired, carries)

    async def _remove(self) -> None:
        """Have nothing of the peer's on this machine. Raises LiqodError: something does not go."""
        self._release()
        await take_down(self._host(), self._names)
        self._tunnel = self._laid = None

    def _tunnel_of(self, backend: str) -> Tunnel:
        if self._tunnel is None:
            build = self._host().tunnels.get(backend)
            if build is None:
                why = self._host().facts.undecided.get(backend, "")
                raise NetworkError(
                    f"tunnels by {backend} cannot be made on this machine{': ' * bool(why)}{why}"
                )
            self._tunnel = build(self._names)
        return self._tunnel

    def _attend(self, desired: DesiredTunnel, datapath: KernelDatapath) -> None:
        """Probe the network, and notice changes by others; nothing where it is attended already."""
        side, lends = desired.gateway.side, has_proxy(desired.ranges.entrances)
        made = self._attended
        if made is None or (made.side, made.lends, made.active) != (side, lends, desired.active):
            self._release()
            attended = Attended(trio.CancelScope(), side, lends, desired.active)
            self._attended = attended
            self._nursery.start_soon(self._watch, attended, datapath)

    async def _watch(self, attended: Attended, datapath: KernelDatapath) -> None:
        with attended.scope:
            async with trio.open_nursery() as nursery:
                disturbed = partial(datapath.wait_disturbed, self._names)
                nursery.start_soon(whenever, disturbed, self._on_disturbance)
                prober = self._host().prober
                if prober is not None:
                    known = (self._names, attended.side, self._on_probe, self._hello)
                    made = prober(*known)
                    nursery.start_soon(made.run if attended.active else made.stand_by)
                if attended.active:
                    self._use(attended, nursery)

    def _use(self, attended: Attended, nursery: trio.Nursery) -> None:
        """Begin what a network needs through which packets go."""
        host = self._host()
        nursery.start_soon(self._measures.run, self._probe_target)
        nursery.start_soon(self._report_forgotten)
        if self._role.others:
            peer = self._names.peer_id
            nursery.start_soon(publish_endpoint, self._role, peer, lambda: self._tunnel)
        if attended.lends and host.proxy is not None:
            nursery.start_soon(host.proxy, self._names, self._healed.waits())

    def _on_disturbance(self) -> None:
        self._control.on_disturbance()
        self._stirred.notify()

    async def _report_forgotten(self) -> NoReturn:
        """Report again whenever a repair is so long ago that it is shown no more."""
        while True:
            healed = self._healed.coming
            with trio.move_on_at(self._measures.forgets_at) as over:
                await healed.wait()
            if over.cancelled_caught:
                self.report()

    def _hello(self) -> PeerHello:
        """The facts that the peer's gateway is notified of."""
        up = self._control.up
        if up is None:
            return PeerHello(self._measures.own)
        seen, serves = up.ranges.seen, up.gateway.side == "server"
        offers = bool(up.spec.websocket) if serves else None
        return PeerHello(self._measures.own, (*seen.pod, *seen.external), up.ranges.own, offers)

    def _release(self) -> None:
        """Attend it no more."""
        if self._attended is not None:
            self._attended.scope.cancel()
            self._attended = None
            self._control.on_unattended()
            self._measures = self._path_metrics()

    def _path_metrics(self) -> PathMetrics:
        """The measurements of this network, none taken yet."""
        host = self._host()
        return PathMetrics(self._names, host.path_probe, self._turned, self.report, host.timings)

    def _probe_target(self) -> ProbeTarget:
        """The network to measure."""
        up = self._control.up
        assert up is not None
        assert self._tunnel is not None
        gateway = up.gateway
        provider = self._provider(gateway.backend)
        if provider is None or provider.transport != "UDP":
            return ProbeTarget(self._tunnel, gateway.side, gateway.mtu, up.ranges)
        first = next(iter(gateway.endpoints), "")
        return ProbeTarget(self._tunnel, gateway.side, gateway.mtu, up.ranges, gateway.port, first)

    def _provider(self, backend: str) -> TunnelProvider | None:
        every = self._host().providers
        return next((each for each in every if each.name == backend), None)

    def _turned(self) -> None:
        """Something was measured that changes the data path, or its reported state."""
        self._on_disturbance()
        self.report()

    def _on_probe(self, result: ProbeResult) -> None:
        self._control.on_probe(result, trio.current_time())
        self._measures.on_result(result)
        self._stirred.notify()
        self.report()

    def _pods(self) -> PodPath:
        """The path from pod to pod, where there is a tunnel at all."""
        if self._control.up is None:
            return NOT_TRIED
        unseen = self._control.unseen
        return PodPath("failed", unseen) if unseen else self._measures.pods
