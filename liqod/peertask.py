"""The whole life of one peer: what is lent to it and what is borrowed from it, in one nursery.

Lending (:mod:`liqod.provider`) and borrowing (:mod:`liqod.consumer`) are independent: with most
peers only one of the two has anything to do, and with some both have. When this task is
cancelled, everything done for the peer ends; what is left is in custom resources, and the next
start continues from there.
"""

from dataclasses import dataclass, field
from functools import partial

import trio

from liqod.borrowing import borrow
from liqod.cluster.context import ClusterContext
from liqod.clusterset.exchanges import share
from liqod.clusterset.sharing import Sharing
from liqod.consumer import timings as consumer
from liqod.consumer.link import PeerLink, ProviderPeer
from liqod.consumer.timings import ConsumerTimings
from liqod.errors import NotStarted
from liqod.identity.signingrequests import SigningRequests
from liqod.inspect.components import Components
from liqod.network.joining import join
from liqod.network.remotemachine import RemoteMachine, nowhere
from liqod.peers.peer import Neighbours, Peer
from liqod.plugins.host import PluginHost
from liqod.provider.lending import lend
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.reachability import follow_reachability
from liqod.reflection.overrides import OverrideProblems
from liqod.reflection.statusarbitration import StatusArbiter
from liqod.runtime.supervise import walled
from liqod.telemetry.events import PeerRunning

TRIED_AT_ONCE = 16
"""Peers that do not answer which are tried side by side: where a hundred are late at once, it is a
machine that has no time for a hundred TLS handshakes every few seconds on top."""
LOOK_DEADLINE = 5.0
"""Seconds for the first look at whether networks are joined."""
START_DEADLINE = 60.0
"""Seconds for the first look at the API server; then the peer is begun anew, and says why."""


@dataclass(frozen=True)
class PeerTasks:
    """Runs the tasks of peers, with what all of them share.

    Attributes:
        machine: the machine that joins the networks.
        components: shows what works, for those who look.
        arbiter: what the peers say of objects here.
        tries: bounds the tries of all peers that do not answer.
        timings: how long a provider waits for what.
        consumer_timings: how long a consumer does.
        signing_requests: those of consumers that are being worked on.
        override_problems: told what of OverridePolicies cannot be applied.
        sharing: the peers that Services are shared with; None where they are with none.
        neighbours: all peers that have a running task.
    """

    plugins: PluginHost
    machine: RemoteMachine = field(default_factory=nowhere)
    components: Components = field(default_factory=Components)
    arbiter: StatusArbiter = field(default_factory=StatusArbiter)
    tries: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(TRIED_AT_ONCE))
    timings: ProviderTimings = ORDINARY
    consumer_timings: ConsumerTimings = consumer.ORDINARY
    signing_requests: SigningRequests = field(default_factory=SigningRequests)
    override_problems: OverrideProblems = field(default_factory=OverrideProblems)
    sharing: Sharing | None = None
    neighbours: Neighbours = field(default_factory=Neighbours)

    async def run(self, context: ClusterContext, peer_id: str, tenant_namespace: str) -> None:
        """Lend to and borrow from one peer until cancelled, and keep the network with it."""
        peer = ProviderPeer(
            peer_id,
            context,
            tenant_namespace,
            neighbours=self.neighbours,
            link=PeerLink(self.tries, self.consumer_timings),
        )
        with self.components.peer(peer):
            await self._live(peer)

    async def run_as_standby(
        self, context: ClusterContext, peer_id: str, tenant_namespace: str
    ) -> None:
        """Be ready to have the tunnel to one peer until cancelled; nothing is lent or borrowed."""
        await join(Peer(peer_id, context, tenant_namespace), self.machine, leads=False)

    async def _live(self, peer: ProviderPeer) -> None:
        link = peer.link
        joined = partial(join, api=lambda: link.path if link.probed else "")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(joined, peer, self.machine)
            # By what is known already, a start changes no address. No network is waited for beyond
            # that: lending and borrowing go on while there is nothing to translate by.
            with trio.move_on_after(LOOK_DEADLINE):
                await peer.network.looked.wait()
            nursery.start_soon(follow_reachability, peer)
            await nursery.start(self.neighbours.follow, peer)
            shown = partial(self.components.borrows, peer.id)
            borrowed = partial(
                borrow,
                plugins=self.plugins,
                arbiter=self.arbiter,
                proxies=self.components.pod_proxies,
                shown=shown,
                timings=self.consumer_timings,
                problems=self.override_problems,
            )
            lent = partial(
                lend,
                guest_policies=self.components.guest_policies,
                signing_requests=self.signing_requests,
                timings=self.timings,
            )
            for name, begin in (("lend", lent), ("borrow", borrowed)):
                with trio.move_on_after(START_DEADLINE) as patience:
                    await nursery.start(begin, peer)
                if patience.cancelled_caught:
                    raise NotStarted(f"{name} did not start in {START_DEADLINE:.0f} s")
            if self.sharing is not None:
                shared = partial(share, peer, self.sharing)
                nursery.start_soon(walled, "exchanges of services", shared)
            peer.report(PeerRunning())
