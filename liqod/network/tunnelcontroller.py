"""The tunnel of one peer as the daemon wants it: ordered from the machine by the objects.

Others give the desired state: the peer's Configuration the ranges (:class:`PeerNetwork`), its
gateways and keys both ends (:mod:`.gateway.tunnelendpoints`). The machine's side applies it
(:mod:`.machine.peertunnel`). Nothing ends with this task, nor with the daemon: only the objects'
state ends anything, and before that the API server itself is queried.
"""

import logging
from collections.abc import Callable
from itertools import chain
from math import inf
from typing import Final, NoReturn

import trio
from msgspec.structs import replace

from liqod.errors import LiqodError
from liqod.model.network.ranges import ClusterCidrs
from liqod.model.view.networkfacts import NetworkFacts
from liqod.network import laterranges, peernetworkfacts
from liqod.network.following import whenever
from liqod.network.gateway import keysecrets
from liqod.network.gateway.connections import Connections
from liqod.network.gateway.joinedobjects import MADE_OF, is_there
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import TunnelOrder, TunnelReport, TunnelState
from liqod.network.remotemachine import RemoteMachine, RemoteTunnel
from liqod.peers.peer import Peer
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.observable import Notifier, Observable
from liqod.telemetry.events import TunnelChanged

RETRIES: Final = Backoff(first=0.5, last=30.0)
"""Seconds between tries of an end that fails."""
DOUBT: Final = 5.0
"""Seconds until the API server is queried again for an end."""
SILENT: Final = 75.0
"""Seconds without a report after which the last one counts no more: at rest one comes each 31."""

log = logging.getLogger(__name__)


class TunnelController:
    """Orders the tunnel of one peer, and passes on how it is.

    Args:
        machine: this machine.
        ends: of the tunnel.
        connections: notified how it is.
        api: the path by which the peer's API server was reached last; empty while it was not.
        leads: whether this daemon leads, and may forget the peer's key.
    """

    def __init__(
        self,
        peer: Peer,
        machine: RemoteMachine,
        ends: Observable[TunnelEndpoints],
        connections: Connections,
        api: Callable[[], str],
        *,
        leads: bool = True,
    ) -> None:
        self._peer, self._machine, self._ends = peer, machine, ends
        self._connections, self._api, self._leads = connections, api, leads
        self._remote = RemoteTunnel(peer.id, lambda order: None)
        self._keyed = False
        self._ordered = False
        """True from the first order until the end has come."""
        self._left = True
        """True while there may be something of the peer's on the machine."""
        self._learned = ClusterCidrs()
        self._path = ""
        """The path of the tunnel as it was reported last."""
        self._failures = 0
        self._stirred, self._seldom = Notifier(), Seldom()

    async def run(self) -> NoReturn:
        """Keep it ordered until cancelled, which ends nothing."""
        with self._machine.tunnel(self._peer.id) as self._remote:
            async with trio.open_nursery() as self._nursery:
                network = self._peer.network
                network.tunnel, network.nudge = self._facts, self._remote.nudge
                self._known = (network.ranges, network.waits)
                # All listen before anything is read: what changes in between would be missed.
                for wait, then in (
                    (self._ends.wait_changed, self._stirred.notify),
                    (network.wait_changed, self._on_network),
                    (self._machine.role.wait_changed, self._on_role),
                    (self._remote.report.wait_changed, self._on_report),
                ):
                    await self._nursery.start(whenever, wait, then)
                self._nursery.start_soon(self._follow_silence)
                while True:
                    # Before anything is read: what changes from here on comes to another round.
                    stirred = self._stirred.coming
                    pause = await self._try()
                    with trio.move_on_after(pause):
                        await stirred.wait()
        raise AssertionError("a component ends by cancellation only")

    def _on_network(self) -> None:
        # It also has the reports of this very task, each of which would begin another try.
        known, self._known = self._known, (self._peer.network.ranges, self._peer.network.waits)
        if known != self._known:
            self._stirred.notify()

    def _on_role(self) -> None:
        self._stirred.notify()
        self._on_report()  # of before it was the gateway's

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
        """Have everything be ordered as it is wanted now; seconds until the next look."""
        if self._machine.role.now.active is None:
            return inf  # which machine is the gateway will be known in a moment: all stays
        wanted = self._desired()
        if isinstance(wanted, TunnelOrder):
            self._ordered = self._left = True
            self._remote.have(wanted)
            return inf
        ends = self._ends.now
        self._report(TunnelState("Error" if ends.refused else "Connecting", wanted))
        if not self._ordered and not self._left:
            await self._forget_key()
            return inf
        if not ends.refused and not (ends.looked and await self._surely_ended()):
            return DOUBT if ends.looked else inf
        await self._take_down(for_good=ends.gateway is None)
        return inf

    def _desired(self) -> TunnelOrder | str:
        """The desired network, or the object it waits for."""
        ends, network = self._ends.now, self._peer.network
        if ends.gateway is None or ends.keys is None or not ends.peer_key:
            return ends.waits
        if network.ranges is None:
            return network.waits
        return TunnelOrder(
            peer=self._peer.id,
            ranges=network.ranges,
            gateway=ends.gateway,
            private_key=ends.keys.private,
            public_key=ends.keys.public,
            peer_key=ends.peer_key,
        )

    # What the machine reports.

    def _on_report(self) -> None:
        if self._remote.report.now is not None:
            self._take(self._remote.report.now)

    async def _follow_silence(self) -> NoReturn:
        """Forget the report of a machine's side that reports no more; the tunnel may well stand."""
        while True:
            before, active = self._remote.received_at, self._machine.role.now.active
            await trio.sleep(SILENT)
            silent = active and self._machine.role.now.active and self._ordered
            if silent and self._remote.report.now and self._remote.received_at == before:
                self._remote.report.set(None)
                why = peernetworkfacts.silent(trio.current_time() - before)
                self._connections.report(TunnelState("Connecting", why))

    def _take(self, report: TunnelReport) -> None:
        self._report(report.state, judged=report.judged)
        figures, active = report.figures, self._machine.role.now.active
        before, self._path = self._path, figures.path or self._path
        if before not in ("", self._path):
            told = TunnelChanged(
                state=report.state.state, path=self._path, endpoint=figures.endpoint
            )
            self._peer.report(told)
        if active and report.told.pod and report.told != self._learned:
            self._learned = report.told
            self._nursery.start_soon(self._learn, report.told)

    def _report(self, state: TunnelState, *, judged: bool = True) -> None:
        """Report the path's state; a new tunnel is not judged until the probes have a result."""
        if not self._machine.role.now.active and state.state != "Error":
            return  # the gateway reports it
        self._connections.report(state)
        nothing = not self._ordered and not self._ends.now.gateway
        stands = None if nothing or not judged else False
        self._peer.network.set_connected(True if state.state == "Connected" else stands, state.why)

    async def _learn(self, told: ClusterCidrs) -> None:
        """Take up the ranges that the peer's gateway reports."""
        try:
            problem = await laterranges.take_up(self._peer, told)
        except LiqodError as error:
            problem, self._learned = str(error), ClusterCidrs()  # it is reported again
        if problem and self._seldom.allows(problem):
            log.warning("ranges that %s has told: %s", self._peer.id, problem)

    def _facts(self) -> NetworkFacts:
        """The facts of the network, for its viewers."""
        network, role, report = self._peer.network, self._machine.role, self._remote.report.now
        problem = self._machine.facts.now.problem
        found = peernetworkfacts.facts(problem, self._ends.now, network.ranges, network.waits)
        age = trio.current_time() - self._remote.received_at
        if report is not None:
            found = peernetworkfacts.measured(found, network.ranges, report.figures, age)
        elif self._remote.received_at and found.backend:
            found = replace(found, device=peernetworkfacts.silent(age))
        found = replace(
            found,
            gateway=role.gateway,
            standbys=role.standbys,
            nodes=self._machine.nodes,
            api=self._api(),
        )
        others = self._peer.context.transit.partners(self._peer.id)
        found = peernetworkfacts.transiting(found, network.ranges, others)
        return peernetworkfacts.relayed(found, network.whose)

    # The end.

    async def _surely_ended(self) -> bool:
        """True if an object that it is made of does not exist, as the API server itself answers."""
        client, place = self._peer.context.client, self._peer.tenant_namespace
        return not all([await is_there(client, place, *either) for either in MADE_OF])

    async def _take_down(self, *, for_good: bool) -> None:
        """Have nothing of the peer's on this machine.

        The private key is the record that there may be something: it goes last, and only with all
        of the joining. Liqo's command makes a gateway anew, and the peer goes by the key of before.
        """
        own, client = self._peer.context.namespace, self._peer.context.client
        if not self._ordered and not await keysecrets.is_kept(client, self._peer.id, own):
            self._left = False
            return
        await self._machine.end(self._peer.id)
        self._ordered = self._left = False
        self._keyed = for_good and self._leads
        await self._forget_key()

    async def _forget_key(self) -> None:
        """Delete the private key of a tunnel taken down, once nothing of the joining is there."""
        context, place = self._peer.context, self._peer.tenant_namespace
        if self._keyed and not await is_there(context.client, place, *chain(*MADE_OF)):
            await keysecrets.forget(context.client, self._peer.id, context.namespace)
            self._keyed = False
