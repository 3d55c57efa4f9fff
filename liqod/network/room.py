"""The network of one peer: from the objects of both sides to a tunnel and a data path that stand.

What is wanted is told by others: the ranges by the peer's Configuration (:class:`PeerNetwork`),
both ends by its gateways and keys (:mod:`.ends`). Here it is applied, watched, and taken down. All
that is made outlives the daemon, so that the next one finds it and no packet is lost; so nothing
ends with this task: only what the objects say ends anything, and before that the API server itself
is asked.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import NoReturn

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.kube.backoff import Backoff
from liqod.kube.meta import Partial
from liqod.kube.selection import Selection
from liqod.log import Seldom
from liqod.model.network.ranges import PeerRanges
from liqod.model.view.networkfacts import NetworkFacts
from liqod.network import keysecrets, peerplan
from liqod.network.connections import Connections, Way
from liqod.network.ends import KnownEnds
from liqod.network.facts import facts
from liqod.network.gatewayplan import Gateway
from liqod.network.liveness import DEADLINE
from liqod.network.machine import Heard, Machine
from liqod.network.names import Names, Side
from liqod.peer import Peer
from liqod.plugins.providers import Tunnel, TunnelSpec
from liqod.resources.networking import (
    CONFIGURATIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
)

RETRIES = Backoff(first=0.5, last=30.0)
"""Seconds between tries of what the machine refuses."""
DOUBT = 5.0
"""Seconds until it is asked again whether something has ended."""

log = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True):
    """All that a peer's network is made of.

    Attributes:
        ranges: of both clusters.
        gateway: this end of the tunnel.
        spec: of the tunnel.
    """

    ranges: PeerRanges
    gateway: Gateway
    spec: TunnelSpec


class Room:
    """Keeps the network of one peer.

    Args:
        peer: the peer.
        machine: what this machine can do.
        ends: of the tunnel.
        connections: told how it is.
    """

    def __init__(
        self, peer: Peer, machine: Machine, ends: KnownEnds, connections: Connections
    ) -> None:
        self._peer = peer
        self._machine = machine
        self._ends = ends
        self._connections = connections
        self._names = Names(peer.home.cluster_id, peer.id)
        self._tunnel: Tunnel | None = None
        self._backend = ""
        self._up: Wanted | None = None
        self._left = True
        """Whether a daemon before this one may have left something of the peer's."""
        self._disturbed = False
        self._again_at = 0.0
        self._silent_since = inf
        """Since when nothing comes through the tunnel, by the probes; ``inf`` while it does."""
        self._attended: tuple[trio.CancelScope, Side] | None = None
        self._stirred = trio.Event()
        self._last: tuple[Heard, float] | None = None
        """What the probes said last, and when they last said that the other side is there."""
        self._failures = 0
        self._seldom = Seldom()

    async def run(self) -> NoReturn:
        """Keep it until cancelled, which ends nothing."""
        async with trio.open_nursery() as self._nursery:
            self._peer.network.facts = self._facts
            self._nursery.start_soon(self._follow, self._peer.network.wait_changed)
            self._nursery.start_soon(self._follow, self._ends.wait_changed)
            while True:
                # Before anything is read: what changes from here on comes to another round.
                self._stirred = trio.Event()
                pause = await self._try()
                with trio.move_on_after(pause):
                    await self._stirred.wait()
        raise AssertionError("a room ends by cancellation only")

    async def _follow(self, wait: Callable[[], Awaitable[None]]) -> NoReturn:
        while True:
            await wait()
            self._stirred.set()

    async def _notice(self, wait: Callable[[], Awaitable[None]]) -> NoReturn:
        while True:
            await wait()
            self._disturbed = True
            self._stirred.set()

    async def _try(self) -> float:
        """Settle, and say so where that fails; seconds until the next look."""
        try:
            pause = await self._settle()
        except LiqodError as error:
            self._failures += 1
            self._say(Way("Error", str(error)))
            if self._seldom.allows(str(error)):
                log.warning("the network of %s: %s", self._peer.id, error)
            return RETRIES.delay(self._failures)
        self._failures = 0
        return pause

    async def _settle(self) -> float:
        """Have everything be as it is wanted now; seconds until the next look."""
        wanted = self._wanted()
        if isinstance(wanted, Wanted):
            rest = self._again_at - trio.current_time()
            if wanted != self._up or self._disturbed or rest <= 0:
                await self._have(wanted)
                rest = self._again_at - trio.current_time()
            return max(rest, 0.0)
        ends = self._ends.now
        self._say(Way("Error" if ends.refused else "Connecting", wanted))
        if self._up is None and not self._left:
            return inf
        if not ends.refused and not (ends.looked and await self._surely_ended()):
            return DOUBT if ends.looked else inf
        await self._take_down(for_good=ends.gateway is None)
        return inf

    def _wanted(self) -> Wanted | str:
        """What is wanted, or what is waited for."""
        ends, ranges = self._ends.now, self._peer.network.ranges
        if ends.gateway is None or ends.keys is None or not ends.peer_key:
            return ends.waits
        if ranges is None:
            return self._peer.network.waits
        gateway = ends.gateway
        spec = TunnelSpec(
            side=gateway.side,
            private_key=ends.keys.private,
            public_key=ends.keys.public,
            peer_public_key=ends.peer_key,
            listen_port=gateway.port,
            endpoints=gateway.endpoints,
            mtu=gateway.mtu,
        )
        return Wanted(ranges, gateway, spec)

    async def _have(self, wanted: Wanted) -> None:
        """Make or mend the tunnel and the data path.

        Raises:
            LiqodError: why it does not stand.
        """
        datapath = self._machine.datapath
        assert datapath is not None  # or no gateway would have been accepted
        if self._backend not in ("", wanted.gateway.backend):
            await self._take_down()
        self._disturbed = True  # until it is done
        await datapath.begin(self._names)
        tunnel = self._tunnel_of(wanted.gateway.backend)
        lacks = await tunnel.problem()
        if lacks is not None:
            raise LiqodError(lacks)
        silent = max(0.0, trio.current_time() - self._silent_since)
        pause = await tunnel.up(wanted.spec, silent=silent)
        self._again_at = trio.current_time() + pause
        plan = peerplan.plan(self._names, wanted.ranges, wanted.gateway.side, wanted.gateway.mtu)
        for line in await datapath.apply(plan):
            log.info("the network of %s: %s", self._peer.id, line)
        if self._up != wanted:
            self._say(Way("Connecting", "the peer has not answered yet"))
        self._up, self._left, self._disturbed = wanted, True, False
        self._attend(wanted.gateway.side)

    def _tunnel_of(self, backend: str) -> Tunnel:
        if self._tunnel is None:
            self._tunnel = self._machine.tunnels[backend](self._names)
            self._backend = backend
        return self._tunnel

    def _attend(self, side: Side) -> None:
        """Probe what stands, and notice who disturbs it; of what is attended already, nothing."""
        if self._attended is None or self._attended[1] != side:
            self._leave()
            scope = trio.CancelScope()
            self._attended = (scope, side)
            self._nursery.start_soon(self._watch, scope, side)

    async def _watch(self, scope: trio.CancelScope, side: Side) -> None:
        datapath, probes = self._machine.datapath, self._machine.probes
        assert datapath is not None
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._notice, partial(datapath.wait_disturbed, self._names))
                if probes is not None:
                    nursery.start_soon(probes, self._names, side, self._heard)

    def _leave(self) -> None:
        """Attend it no more."""
        if self._attended is not None:
            self._attended[0].cancel()
            self._attended = self._last = None
            self._silent_since = inf

    def _facts(self) -> NetworkFacts:
        """What is known, for those who look."""
        network, last = self._peer.network, self._last
        silent = trio.current_time() - last[1] if last is not None and last[1] >= 0 else None
        return facts(
            self._machine.problem,
            self._ends.now,
            network.ranges,
            network.waits,
            self._connections.way,
            last[0] if last is not None else None,
            silent,
        )

    def _heard(self, heard: Heard) -> None:
        seen = self._last[1] if self._last is not None else -1.0
        if heard.alive or (self._last is not None and self._last[0].alive):
            # Told when it turns: until then there was an answer, but for the time that doubt takes.
            seen = trio.current_time() - (0.0 if heard.alive else DEADLINE)
        self._last = (heard, seen)
        if heard.alive:
            self._silent_since = inf
            self._say(Way("Connected", latency=heard.latency))
        else:
            if self._silent_since == inf:
                # The tunnel may know other endpoints, or have to agree on keys anew: at once.
                self._silent_since = trio.current_time() - DEADLINE
                self._again_at = trio.current_time()
                self._stirred.set()
            self._say(Way("Connecting", heard.why or "the peer's gateway does not answer"))

    def _say(self, way: Way) -> None:
        self._connections.tell(way)
        stands = None if self._up is None and not self._ends.now.gateway else False
        self._peer.network.stand(True if way.state == "Connected" else stands, way.why)

    async def _surely_ended(self) -> bool:
        """Whether one of what it is made of is not there, by the API server's own word."""
        client, place = self._peer.home.client, self._peer.tenant_namespace
        kinds = ((GATEWAY_SERVERS, GATEWAY_CLIENTS), (PUBLIC_KEYS,), (CONFIGURATIONS,))
        for either in kinds:
            there = False
            for kind in either:
                found = await client.list(kind, Selection(place), decode=Partial)
                there = there or any(one.metadata.deletion_timestamp is None for one in found)
            if not there:
                return True
        return False

    async def _take_down(self, *, for_good: bool = False) -> None:
        """Have nothing of the peer's on this machine.

        The private key is the record that there may be something, so it goes last, and only where
        there is no gateway any more.
        """
        own, client = self._peer.home.namespace, self._peer.home.client
        if self._up is None and not await keysecrets.is_kept(client, self._peer.id, own):
            self._left = False
            return
        self._leave()
        await take_down(self._machine, self._names)
        if for_good:
            await keysecrets.forget(client, self._peer.id, own)
        self._up, self._tunnel, self._backend, self._left = None, None, "", False
        log.info("the network of %s is taken down", self._peer.id)


async def take_down(machine: Machine, names: Names) -> None:
    """Have nothing of a peer's on this machine, by its names alone.

    Raises:
        LiqodError: something does not go; what did is gone.
    """
    for build in machine.tunnels.values():
        await build(names).down()
    if machine.datapath is not None:
        await machine.datapath.remove(names)
