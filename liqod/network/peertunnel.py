"""The network of one peer: makes a tunnel and a data path from the objects of both sides.

Others give the desired state: the peer's Configuration the ranges (:class:`PeerNetwork`), its
gateways and keys both ends (:mod:`.gateway.tunnelendpoints`). Here it is applied, watched, and
taken down. All that is made outlives the daemon, so that the next one finds it and no packet is
lost; so nothing ends with this task: only the objects' state ends anything, and before that the API
server itself is queried.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain
from math import inf
from typing import NoReturn

import msgspec
import trio
from msgspec.structs import replace

from liqod.errors import LiqodError
from liqod.model.network.liveness import DEADLINE
from liqod.model.network.podpath import NOT_TRIED, PodPath
from liqod.model.network.ranges import ClusterCidrs
from liqod.model.view.networkfacts import NetworkFacts
from liqod.network import laterranges
from liqod.network.connectproxy import Healings
from liqod.network.dataplane import peerplan
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.entrances import has_proxy
from liqod.network.dataplane.names import PeerNames, Side
from liqod.network.failover.endpointhandover import publish_endpoint
from liqod.network.gateway import keysecrets
from liqod.network.gateway.connections import Connections, TunnelState
from liqod.network.gateway.desiredtunnel import DesiredTunnel, desired_tunnel, is_same
from liqod.network.gateway.joinedobjects import MADE_OF, is_there
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.gatewayhost import GatewayHost, take_down
from liqod.network.probing.pathmetrics import PathMetrics, ProbeTarget
from liqod.network.probing.peernetworkfacts import facts, measured, relayed
from liqod.peers.peer import Peer
from liqod.plugins.providers import Tunnel, TunnelProvider, TunnelStatus
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.observable import Observable
from liqod.telemetry.events import TunnelChanged
from liqod.tunnel.probes.messages import MOST_RANGES, PeerHello, ProbeResult

RETRIES = Backoff(first=0.5, last=30.0)
"""Seconds between tries of a change that the machine refuses."""
QUARREL = 0.5
"""Seconds between two applications where another program removes each repair."""
DOUBT = 5.0
"""Seconds until the API server is queried again for an end."""
LAST_RESORT = 60.0
"""Seconds of silence after which a websocket is tried that is reported as offered no more."""

Wait = Callable[[], Awaitable[None]]
log = logging.getLogger(__name__)


class PeerTunnel:
    """Keeps the network of one peer.

    Args:
        machine: what this machine can do.
        ends: of the tunnel.
        connections: notified how it is.
        leads: whether this daemon leads, and may forget the peer's key.
    """

    def __init__(
        self,
        peer: Peer,
        machine: GatewayHost,
        ends: Observable[TunnelEndpoints],
        connections: Connections,
        api: Callable[[], str],
        *,
        leads: bool = True,
    ) -> None:
        self._peer = peer
        self._machine = machine
        self._ends = ends
        self._connections = connections
        self._api = api
        self._leads = leads
        self._names = PeerNames(peer.context.cluster_id, peer.id)
        self._tunnel: Tunnel | None = None
        self._backend = ""
        self._up: DesiredTunnel | None = None
        self._keyed = False
        self._left = True
        """True while there may be something of the peer's that an earlier daemon left."""
        self._disturbed = False
        self._again_at = 0.0
        self._silent_since = inf
        """Since when nothing comes through the tunnel, by the probes; ``inf`` while it does."""
        self._attended: tuple[trio.CancelScope, Side, bool, bool] | None = None
        self._healed = Healings()
        self._stirred, self._seldom = trio.Event(), Seldom()
        self._last: tuple[ProbeResult, float] | None = None
        """The last report of the probes, and when they last reported the other side alive."""
        self._learned = ClusterCidrs()
        self._offers: bool | None = None
        self._failures, self._had_at = 0, 0.0
        self._laid: tuple[DesiredTunnel, int] | None = None
        """The network that was applied last, and the size of packets in bytes that it is for."""
        self._path = ""
        """The path of the tunnel as the backend reported it last."""
        self._stuck = ""
        """The kernel's refusal of the data path; empty for none."""
        self._measures = self._path_metrics()

    async def run(self) -> NoReturn:
        """Keep it until cancelled, which ends nothing."""
        async with trio.open_nursery() as self._nursery:
            self._peer.network.tunnel, self._peer.network.nudge = self._facts, self._nudge
            # All listen before anything is read: what changes in between would be missed.
            await self._nursery.start(self._follow, self._peer.network.wait_changed)
            await self._nursery.start(self._follow, self._ends.wait_changed)
            await self._nursery.start(self._follow, self._machine.role.wait_changed)
            while True:
                # Before anything is read: what changes from here on comes to another round.
                self._stirred = trio.Event()
                pause = await self._try()
                with trio.move_on_after(pause):
                    await self._stirred.wait()
        raise AssertionError("a component ends by cancellation only")

    async def _follow(self, wait: Wait, *, task_status: trio.TaskStatus[None]) -> NoReturn:
        task_status.started()
        while True:
            await wait()
            self._stirred.set()

    async def _notice(self, wait: Wait) -> NoReturn:
        while True:
            await wait()
            self._disturbed = True
            self._stirred.set()

    async def _try(self) -> float:
        """Settle, and report a failure of it; seconds until the next look."""
        try:
            pause = await self._settle()
        except LiqodError as error:
            self._failures += 1
            self._report(TunnelState("Error", str(error)))
            if self._seldom.allows(str(error)):
                log.warning("the network of %s: %s", self._peer.id, error)
            return RETRIES.delay(self._failures)
        self._failures = 0
        return pause

    async def _settle(self) -> float:
        """Have everything be as it is wanted now; seconds until the next look."""
        if self._machine.role.now.active is None:
            return inf  # which machine is the gateway will be known in a moment: all stays
        wanted = self._desired()
        if isinstance(wanted, DesiredTunnel):
            now = trio.current_time()
            quarrels = self._measures.quarrel and wanted == self._up
            if quarrels and self._disturbed and now < self._had_at + QUARREL:
                # It would take all of the machine's time, and the other's as well.
                await trio.sleep_until(self._had_at + QUARREL)
            if wanted != self._up or self._disturbed or self._again_at <= now:
                await self._have(wanted)
            return max(self._again_at - trio.current_time(), 0.0)
        ends = self._ends.now
        self._report(TunnelState("Error" if ends.refused else "Connecting", wanted))
        if self._up is None and not self._left:
            await self._forget_key()
            return inf
        if not ends.refused and not (ends.looked and await self._surely_ended()):
            return DOUBT if ends.looked else inf
        await self._take_down(for_good=ends.gateway is None)
        return inf

    def _desired(self) -> DesiredTunnel | str:
        """The desired network, or the object it waits for."""
        ends, network, machine = self._ends.now, self._peer.network, self._machine
        if ends.gateway is None or ends.keys is None or not ends.peer_key:
            return ends.waits
        if network.ranges is None:
            return network.waits
        where = machine.role.now
        told = (where, machine.stands_by, self._offers)
        found = desired_tunnel(self._peer.id, ends, network.ranges, *told)
        return found or ends.waits

    async def _have(self, wanted: DesiredTunnel) -> None:
        """Make or mend the tunnel and the data path.

        Raises:
            LiqodError: why there is none.
        """
        datapath = self._machine.datapath
        assert datapath is not None  # or no gateway would have been accepted
        if self._backend not in ("", wanted.gateway.backend):
            await self._take_down()
        if not wanted.active and wanted.gateway.backend not in self._machine.stands_by:
            await self._have_nothing(wanted)
            return
        if self._attended is not None and self._attended[3] != wanted.active:
            self._release()
        self._disturbed = True  # until it is done
        await datapath.prepare(self._names)
        tunnel = self._tunnel_of(wanted.gateway.backend)
        lacks = await tunnel.problem()
        if lacks is not None:
            raise LiqodError(lacks)
        silent = max(0.0, trio.current_time() - self._silent_since)
        pause = await tunnel.up(wanted.spec, silent=silent)
        self._again_at = trio.current_time() + pause
        await self._lay(wanted, datapath)
        if self._up != wanted:
            await self._measures.find_own(wanted.ranges)
            # Addresses lent, opened or offered meanwhile do not change an established tunnel.
            same = self._up is not None and is_same(self._up, wanted)
            if not same or self._connections.state.state == "Error":
                self._report(
                    TunnelState("Connecting", "the peer has not answered yet"), judged=False
                )
        self._up, self._left, self._disturbed = wanted, True, False
        self._had_at = trio.current_time()
        lends = has_proxy(wanted.ranges.entrances)
        self._attend(wanted.gateway.side, lends=lends, active=wanted.active)

    async def _have_nothing(self, wanted: DesiredTunnel) -> None:
        """Be a standby whose tunnel cannot be quiet: it is made when this machine takes over."""
        self._release()
        await take_down(self._machine, self._names)
        self._tunnel, self._again_at = None, inf
        self._up, self._left, self._disturbed = wanted, True, False

    async def _lay(self, wanted: DesiredTunnel, datapath: KernelDatapath) -> None:
        """Have the data path, for packets of the size that the path carries."""
        gateway, measures = wanted.gateway, self._measures
        carries = measures.carries(gateway.mtu)
        plan = peerplan.plan(
            self._names,
            wanted.ranges,
            gateway.side,
            gateway.mtu,
            carries=carries,
            active=wanted.active,
        )
        try:
            changes = await datapath.apply(plan)
        except LiqodError as error:
            self._stuck = str(error)
            raise
        self._stuck = ""
        for change in changes:
            log.info("the network of %s: %s", self._peer.id, change.text)
        if changes:
            self._healed.notify()
        if self._laid == (wanted, carries):
            measures.mended(changes)
        self._laid = (wanted, carries)

    def _tunnel_of(self, backend: str) -> Tunnel:
        if self._tunnel is None:
            self._tunnel = self._machine.tunnels[backend](self._names)
            self._backend = backend
        return self._tunnel

    def _attend(self, side: Side, *, lends: bool, active: bool) -> None:
        """Probe the network, and notice changes by others; nothing where it is attended already."""
        if self._attended is None or self._attended[1:] != (side, lends, active):
            self._release()
            scope = trio.CancelScope()
            self._attended = (scope, side, lends, active)
            self._nursery.start_soon(self._watch, scope, side, lends, active)

    async def _watch(self, scope: trio.CancelScope, side: Side, lends: bool, active: bool) -> None:
        datapath, prober = self._machine.datapath, self._machine.prober
        assert datapath is not None
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._notice, partial(datapath.wait_disturbed, self._names))
                if active:
                    nursery.start_soon(self._measures.run, self._probe_target)
                if prober is not None and active:
                    made = prober(self._names, side, self._on_probe, self._hello)
                    nursery.start_soon(made.run)
                if active and self._machine.role.others:
                    nursery.start_soon(
                        publish_endpoint, self._machine.role, self._peer.id, lambda: self._tunnel
                    )
                if lends and active and self._machine.proxy is not None:
                    nursery.start_soon(self._machine.proxy.run, self._names, self._healed.waits())

    def _hello(self) -> PeerHello:
        """The facts that the peer's gateway is notified of."""
        seen = self._up.ranges.seen if self._up is not None else ClusterCidrs()
        own = self._up.ranges.own if self._up is not None else ClusterCidrs()
        serves = self._up is not None and self._up.gateway.side == "server"
        offers = bool(self._up.spec.websocket) if self._up is not None and serves else None
        return PeerHello(self._measures.own, (*seen.pod, *seen.external), own, offers)

    def _release(self) -> None:
        """Attend it no more."""
        if self._attended is not None:
            self._attended[0].cancel()
            self._attended = self._last = None
            self._silent_since = inf
            self._measures = self._path_metrics()

    def _path_metrics(self) -> PathMetrics:
        """The measurements of this network, none taken yet."""
        gauge, timings = self._machine.gauge, self._machine.timings
        return PathMetrics(self._names, gauge, self._turned, self._goes, timings)

    def _probe_target(self) -> ProbeTarget:
        """The network to measure."""
        up = self._up
        assert up is not None
        assert self._tunnel is not None
        gateway = up.gateway
        provider = self._provider(gateway.backend)
        if provider is None or provider.transport != "UDP":
            return ProbeTarget(self._tunnel, gateway.side, gateway.mtu, up.ranges)
        first = next(iter(gateway.endpoints), "")
        return ProbeTarget(self._tunnel, gateway.side, gateway.mtu, up.ranges, gateway.port, first)

    def _provider(self, backend: str) -> TunnelProvider | None:
        every = self._machine.providers
        return next((each for each in every if each.name == backend), None)

    def _turned(self) -> None:
        """Something was measured that changes the data path, or its reported state."""
        self._disturbed = True
        self._stirred.set()
        self._report(self._connections.state)

    def _goes(self, status: TunnelStatus) -> None:
        """Report a tunnel that takes another path than before, such as a websocket."""
        before, self._path = self._path, status.path or self._path
        if before not in ("", self._path):
            told = TunnelChanged(
                state=self._connections.state.state, path=self._path, endpoint=status.endpoint
            )
            self._peer.report(told)

    def _nudge(self) -> None:
        self._measures.nudge()

    def _facts(self) -> NetworkFacts:
        """The facts of the network, for its viewers."""
        network, last, role = self._peer.network, self._last, self._machine.role
        silent = trio.current_time() - last[1] if last is not None and last[1] >= 0 else None
        found = facts(
            self._machine.problem,
            self._ends.now,
            network.ranges,
            network.waits,
            self._connections.state,
            last[0] if last is not None else None,
            silent,
        )
        backend = self._provider(found.backend)
        nodes, api = self._machine.node_reachability.nodes, self._api()
        found = replace(found, gateway=role.gateway, standbys=role.standbys, nodes=nodes, api=api)
        found = measured(found, self._measures, self._stuck, backend)
        return relayed(found, network.whose)

    def _on_probe(self, result: ProbeResult) -> None:
        seen = self._last[1] if self._last is not None else -1.0
        if result.alive or (self._last is not None and self._last[0].alive):
            # Reported when it turns: until then there was an answer, but for the doubt's time.
            seen = trio.current_time() - (0.0 if result.alive else DEADLINE)
        self._last = (result, seen)
        if result.hello.own.pod and result.hello.own != self._learned:
            self._learned = result.hello.own
            self._nursery.start_soon(self._learn, result.hello.own)
        if result.hello.websocket not in (None, self._offers):
            self._offers = result.hello.websocket
            self._stirred.set()
        self._measures.on_result(result)
        if result.alive:
            self._silent_since = inf
            self._report(TunnelState("Connected", latency=result.latency))
        else:
            if self._offers is False and trio.current_time() - self._silent_since > LAST_RESORT:
                self._offers = None  # it may be otherwise by now, and nothing else is left to try
                self._stirred.set()
            if self._silent_since == inf:
                # The tunnel may have other endpoints, or have to agree on keys anew: at once.
                self._silent_since = trio.current_time() - DEADLINE
                self._again_at = trio.current_time()
                self._stirred.set()
            self._report(
                TunnelState("Connecting", result.why or "the peer's gateway does not answer")
            )

    def _report(self, state: TunnelState, *, judged: bool = True) -> None:
        """Report the path's state; a new tunnel is not judged until the probes have a result."""
        if not self._machine.role.now.active and state.state != "Error":
            return  # the gateway reports it
        self._connections.report(msgspec.structs.replace(state, pods=self._pods()))
        nothing = self._up is None and not self._ends.now.gateway
        stands = None if nothing or not judged else False
        self._peer.network.set_connected(True if state.state == "Connected" else stands, state.why)

    def _pods(self) -> PodPath:
        """The path from pod to pod, where there is a tunnel at all."""
        if self._up is None:
            return NOT_TRIED
        unseen = self._unseen()
        return PodPath("failed", unseen) if unseen else self._measures.pods

    async def _learn(self, told: ClusterCidrs) -> None:
        """Take up the ranges that the peer's gateway reports."""
        if not self._machine.role.now.active:
            return
        try:
            problem = await laterranges.take_up(self._peer, told)
        except LiqodError as error:
            problem, self._learned = str(error), ClusterCidrs()  # it is reported again
        if problem and self._seldom.allows(problem):
            log.warning("ranges that %s has told: %s", self._peer.id, problem)

    def _unseen(self) -> str:
        """The reason not all of this cluster's pods reach the peer's, by that gateway's report."""
        if self._up is None or self._last is None:
            return ""
        own = self._up.ranges.own
        seen, have = self._last[0].hello.seen_as, (*own.pod, *own.external)
        if not seen or len(seen) >= min(len(have), MOST_RANGES):
            return ""
        return (
            f"{self._peer.id} does not know all of {', '.join(own.pod)} yet; "
            "an older one is told by `liqod peer --remote-kubeconfig FILE` with an administrator's"
        )

    async def _surely_ended(self) -> bool:
        """True if an object that it is made of does not exist, as the API server itself answers."""
        client, place = self._peer.context.client, self._peer.tenant_namespace
        return not all([await is_there(client, place, *either) for either in MADE_OF])

    async def _take_down(self, *, for_good: bool = False) -> None:
        """Have nothing of the peer's on this machine.

        The private key is the record that there may be something: it goes last, and only with all
        of the joining. Liqo's command makes a gateway anew, and the peer goes by the key of before.
        """
        own, client = self._peer.context.namespace, self._peer.context.client
        if self._up is None and not await keysecrets.is_kept(client, self._peer.id, own):
            self._left = False
            return
        self._release()
        await take_down(self._machine, self._names)
        self._up, self._tunnel, self._backend, self._left = None, None, "", False
        self._keyed = for_good and self._leads
        await self._forget_key()
        log.info("the network of %s is taken down", self._peer.id)

    async def _forget_key(self) -> None:
        """Delete the private key of a tunnel taken down, once nothing of the joining is there."""
        context, place = self._peer.context, self._peer.tenant_namespace
        if self._keyed and not await is_there(context.client, place, *chain(*MADE_OF)):
            await keysecrets.forget(context.client, self._peer.id, context.namespace)
            self._keyed = False
