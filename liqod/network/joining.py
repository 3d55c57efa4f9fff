"""A peer's network as one task of the peer: a failure of it is reported and retried, no more.

Lending and borrowing do not wait for it, and go on without it: where this machine lacks rights or
tools, where an older installation gave none to the daemon, and where the objects are not there.
"""

import logging
from collections.abc import Callable
from typing import Final, NoReturn

import trio

from liqod.config import Config
from liqod.model.view.networkfacts import NetworkFacts
from liqod.network.dataplane.names import PROXY_PORT
from liqod.network.gateway import gatewayobjects, keysecrets, publickeys
from liqod.network.gateway.connections import Connections
from liqod.network.gateway.exposure import Exposed
from liqod.network.gateway.gatewaydeployments import GatewayDeployments
from liqod.network.gateway.gatewayobjects import Object
from liqod.network.gateway.gatewayplan import GatewayRefusal, LocalFacts
from liqod.network.gateway.gateways import Gateways, every
from liqod.network.gateway.gatewayservices import GatewayServices
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.ipam.peercidrs import PeerCIDRs
from liqod.network.remotemachine import RemoteMachine
from liqod.network.tunnelcontroller import TunnelController
from liqod.peers.peer import Peer
from liqod.resources.networking import GatewayServer, PublicKey
from liqod.runtime.observable import Observable
from liqod.runtime.supervise import Failure, Supervision, fault
from liqod.telemetry.events import TunnelChanged

log = logging.getLogger(__name__)


def _unknown() -> str:
    return ""


async def join(
    peer: Peer, machine: RemoteMachine, *, api: Callable[[], str] = _unknown, leads: bool = True
) -> NoReturn:
    """Keep the network of one peer, where one is requested, until cancelled.

    Args:
        machine: this machine.
        api: the path by which its API server was reached last; empty while it was not.
        leads: whether this daemon leads; one that stands by judges as the leader does, and writes
            nothing but how the tunnel is, where it has that.
    """

    def report(failure: Failure | None, error: BaseException | None) -> None:
        if failure is None or error is None:
            return
        peer.report(TunnelChanged(state="Error", reason=failure.reason))
        # What the kernel carries it carries without this task: nobody looks, that is all.
        peer.network.set_connected(None, failure.reason)
        peer.network.looked.set()
        log.warning("the network of %s failed", peer.id, exc_info=fault(error, OSError))

    async def run() -> None:
        await _run(peer, machine, api, leads)

    await Supervision(run, report).forever()


def own_ports(config: Config) -> frozenset[int]:
    """The ports at which a daemon listens by its configuration, of whichever protocol."""
    tables = (config.webhook, config.kubelet, config.health, config.inspector, config.handshake)
    fixed = (config.network.candidate_port, PROXY_PORT)
    return frozenset((*(each.port for each in tables), *fixed))


async def _run(peer: Peer, machine: RemoteMachine, api: Callable[[], str], leads: bool) -> None:
    """Join by the machine's capabilities, and begin anew when these change."""
    while True:
        async with trio.open_nursery() as nursery:
            if machine.facts.now.unknown:
                nursery.start_soon(_await_machine, peer, machine, leads)
            else:
                nursery.start_soon(_join, peer, machine, api, leads)
            await machine.facts.wait_changed()
            nursery.cancel_scope.cancel()


async def _await_machine(peer: Peer, machine: RemoteMachine, leads: bool) -> None:
    """Report that nothing is known of this machine: what is there stays as it is until then."""
    problem = machine.facts.now.problem
    peer.network.tunnel = lambda: NetworkFacts(problem=problem)
    peer.network.set_connected(None, problem)
    peer.network.looked.set()
    if leads:
        here = LocalFacts(namespace=peer.context.namespace, backends={}, unknown=problem)
        await Gateways(peer, Observable(TunnelEndpoints()), here, (), machine.role).run()


async def _join(peer: Peer, machine: RemoteMachine, api: Callable[[], str], leads: bool) -> None:
    context, facts = peer.context, machine.facts.now
    ends = Observable(TunnelEndpoints())
    here = LocalFacts(
        namespace=context.namespace,
        problem=facts.problem,
        backends=facts.backends,
        websocket=context.config.network.websocket,
        networks=(*context.addressing.pod_cidrs, *context.addressing.service_cidrs),
        kept=own_ports(context.config),
        undecided=facts.undecided,
    )
    connections = Connections(peer, ends, machine.role)
    exposed = Observable(Exposed()) if context.in_cluster and leads else None
    judge = Gateways if leads else StandbyGateways
    async with trio.open_nursery() as nursery:
        await nursery.start(PeerCIDRs(peer).run)
        await nursery.start(connections.run)
        gateways = judge(peer, ends, here, facts.addresses, machine.role, exposed)
        await nursery.start(gateways.run)
        if exposed is not None:
            services = GatewayServices(peer, ends, exposed, facts.addresses, machine.role)
            nursery.start_soon(services.run)
        if leads:
            nursery.start_soon(GatewayDeployments(peer, ends, connections).run)
        nursery.start_soon(TunnelController(peer, machine, ends, connections, api, leads=leads).run)


UNTOLD: Final = "the leader has not told its port and keys yet"
AGAIN: Final = 1.0
"""Seconds until keys are looked for again that are not there."""


class StandbyGateways(Gateways):
    """Publishes both ends of the tunnel, from the leader's writes."""

    async def reconcile(self, key: str) -> float | None:
        """Judge the present objects, and publish both ends."""
        await super().reconcile(key)
        return AGAIN if self._ends.now.waits == UNTOLD else None

    def _port(self, chosen: Object | None) -> int | GatewayRefusal:
        return gatewayobjects.reported_port(chosen) if isinstance(chosen, GatewayServer) else 0

    async def _accept(self, one: Object, port: int) -> None:
        given = one.spec.secret_ref.name if one.spec.secret_ref is not None else ""
        place, own = self._peer.tenant_namespace, self._peer.context.namespace
        keys = await keysecrets.kept(self._client, self._peer.id, place, own, given)
        if keys is None or (isinstance(one, GatewayServer) and not port):
            self._ends.set(TunnelEndpoints(waits=UNTOLD, looked=True))
            return
        found = every(self._keys.store, PublicKey)
        taken = publickeys.taken(found, self._peer.id, place, keys.public)
        self._ends.set(self._ends_of(one, port, keys, taken))

    async def _refuse(self, one: Object, why: GatewayRefusal) -> None:
        """The report of the leader."""
