"""Keeps the networks of all peers on this machine as the daemon orders, each in its own nursery.

A failure of one peer's network ends no other, and is reported as that peer's. Without a daemon all
of them are kept, by the last orders.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError
from liqod.network.dataplane.kernel.kernelmonitor import WATCH
from liqod.network.dataplane.names import PeerNames
from liqod.network.failover.role import Role
from liqod.network.gatewayhost import GatewayHost, Look, take_down
from liqod.network.machine import orderchecks
from liqod.network.machine.peertunnel import PeerTunnel
from liqod.network.orders.tunnels import (
    EndTunnel,
    FindUnknown,
    MachineFacts,
    MachineRead,
    MeasureTunnel,
    ReadMachine,
    ReleaseTunnels,
    SweepUnknown,
    TunnelEnded,
    TunnelFigures,
    TunnelMessage,
    TunnelNews,
    TunnelOrder,
    TunnelReport,
    TunnelState,
    UnknownFound,
    UnknownSwept,
)
from liqod.runtime.observable import Notifier, Observable
from liqod.runtime.supervise import Failure, Supervision, explain, fault, walled

LOOKS: Final = 2
"""Looks at the machine at a time: one that hangs keeps the next one from nothing."""
MOST_PEERS: Final = 512
"""Peers whose tunnels may be ordered: a daemon that is taken over orders without end."""
AT_ONCE: Final = 64
"""Requests of one kind that are open at a time, and ends of one peer's tunnel."""
MOST_ADDRESSES: Final = 1 << 18
"""Single addresses in the orders of all peers: 512 of each."""
MANY_ADDRESSES: Final = f"the tunnels of all peers have more than {MOST_ADDRESSES} addresses"
MANY_PEERS: Final = (
    f"the tunnels of {MOST_PEERS} peers are ordered on this machine already: where it has not so "
    "many, restart liqod node"
)
MANY_REQUESTS: Final = f"{AT_ONCE} such requests are open on this machine already"
UNASKED: Final = 0
"""The number of an end that no daemon has requested."""

log = logging.getLogger(__name__)


class Ordered:
    """The orders for one peer's tunnel.

    Attributes:
        order: the newest; None for none.
        ends: numbers of the ends that were requested and have not come yet: they come first.
        news: of both.
    """

    def __init__(self) -> None:
        self.order: TunnelOrder | None = None
        self.ends: list[int] = []
        self.news = Notifier()

    def have(self, order: TunnelOrder | None) -> None:
        """Have a tunnel, or attend none."""
        self.order = order
        self.news.notify()

    def end(self, number: int) -> None:
        """Have everything taken away."""
        self.ends.append(number)
        self.have(None)


class TunnelService:
    """This machine's part of all peers' networks.

    Args:
        cluster: this cluster's id.
        role: whether this machine is the gateway; gets where peers are observed.
        send: sends a report to the daemon; one that comes to none is lost.
        look: finds the capabilities of this machine.
    """

    def __init__(
        self, cluster: str, role: Role, send: Callable[[TunnelNews], None], look: Look
    ) -> None:
        self._cluster, self._role, self._send, self._look = cluster, role, send, look
        self._host: Observable[GatewayHost | None] = Observable(None)
        self._ordered: dict[str, Ordered] = {}
        """By the peers' ids; forgotten when there is no order and no end to come."""
        self._tunnels: dict[str, PeerTunnel] = {}
        self._reserved = orderchecks.ReservedAddresses()
        self._looks = trio.CapacityLimiter(LOOKS)
        self._nursery: trio.Nursery | None = None
        self._open = Counter[type[TunnelNews]]()
        """Numbers of the requests that are not answered yet, by the answer's kind."""
        self._waiting: list[Callable[[], Awaitable[object]]] = []
        """Requests that came before the service ran."""

    def receive(self, order: TunnelMessage) -> None:
        """Carry out an order of the daemon; the same one again changes nothing."""
        match order:
            case TunnelOrder():
                if problem := orderchecks.problem(order, self._reserved):
                    self._fail(order.peer, f"it is not ordered soundly: {problem}")
                elif self._is_full_for(order.peer):
                    self._fail(order.peer, MANY_PEERS)
                elif self._has_no_room_for(order):
                    self._fail(order.peer, MANY_ADDRESSES)
                else:
                    self._have(order)
            case EndTunnel():
                if problem := orderchecks.peer_problem(order.peer):
                    self._send(TunnelEnded(order.number, problem))
                elif self._is_full_for(order.peer):
                    self._send(TunnelEnded(order.number, MANY_PEERS))
                elif len(self._of(order.peer).ends) == AT_ONCE:
                    self._send(TunnelEnded(order.number, MANY_REQUESTS))
                else:
                    self._of(order.peer).end(order.number)
            case MeasureTunnel():
                if order.peer in self._tunnels:
                    self._tunnels[order.peer].nudge()
            case ReleaseTunnels():
                self._release()
            case ReadMachine():
                self._role.have_others(order.around.others)
                problem = orderchecks.around_problem(order.around)
                facts = MachineFacts(problem=problem or MANY_REQUESTS, unknown=True)
                answer = MachineRead(order.number, facts)
                self._start(partial(self._read, order), answer, refused=bool(problem))
            case FindUnknown():
                problem = orderchecks.request_problem(order)
                none = UnknownFound(order.number, problem=problem or MANY_REQUESTS)
                self._start(partial(self._find, order), none, refused=bool(problem))
            case SweepUnknown():
                problem = orderchecks.request_problem(order)
                nothing = UnknownSwept(order.number, problem=problem or MANY_REQUESTS)
                self._start(partial(self._sweep, order), nothing, refused=bool(problem))

    async def run(self) -> NoReturn:
        """Keep all of it until cancelled, which ends nothing."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._observe)
                for peer, ordered in self._ordered.items():
                    self._nursery.start_soon(self._keep, peer, ordered)
                for each in self._waiting:
                    self._nursery.start_soon(each)
                self._waiting.clear()
                await trio.sleep_forever()
        finally:
            self._nursery = None
        raise AssertionError("a service ends by cancellation only")

    def _is_full_for(self, peer: str) -> bool:
        return peer not in self._ordered and len(self._ordered) >= MOST_PEERS

    def _has_no_room_for(self, order: TunnelOrder) -> bool:
        others = (
            each.order
            for peer, each in self._ordered.items()
            if peer != order.peer and each.order is not None
        )
        return sum(map(orderchecks.addresses_of, (order, *others))) > MOST_ADDRESSES

    def _of(self, peer: str) -> Ordered:
        """The orders for a peer's tunnel, which a task carries out."""
        if peer not in self._ordered:
            self._ordered[peer] = made = Ordered()
            if self._nursery is not None:
                self._nursery.start_soon(self._keep, peer, made)
        return self._ordered[peer]

    def _have(self, order: TunnelOrder) -> None:
        self._of(order.peer).have(order)
        if order.peer in self._tunnels:
            self._tunnels[order.peer].receive(order)

    def reserve(self, reserved: orderchecks.ReservedAddresses) -> None:
        """Have no tunnel that would take these addresses, from now on."""
        self._reserved = reserved
        for peer, ordered in self._ordered.items():
            if ordered.order and (problem := orderchecks.problem(ordered.order, reserved)):
                self._fail(peer, f"it is not ordered soundly: {problem}")
                ordered.end(UNASKED)

    def end_all(self) -> None:
        """Have nothing of any peer's, without a daemon: another machine is the gateway."""
        for ordered in self._ordered.values():
            if ordered.order is not None:
                ordered.end(UNASKED)

    def _release(self) -> None:
        """Attend tunnels no more; ends that were ordered come all the same."""
        for ordered in self._ordered.values():
            ordered.have(None)

    def _start(
        self,
        request: Callable[[], Awaitable[TunnelNews]],
        refusal: TunnelNews,
        *,
        refused: bool = False,
    ) -> None:
        """Answer a request soon, or at once with a refusal, also where too many are open."""
        kind = type(refusal)
        if refused or self._open[kind] == AT_ONCE:
            self._send(refusal)
            return
        self._open[kind] += 1
        answer = partial(self._answer, request, kind)
        if self._nursery is None:
            self._waiting.append(answer)
        else:
            self._nursery.start_soon(answer)

    async def _answer(
        self, request: Callable[[], Awaitable[TunnelNews]], kind: type[TunnelNews]
    ) -> None:
        try:
            self._send(await request())
        finally:
            self._open[kind] -= 1

    async def _observe(self) -> NoReturn:
        """Observe the node's own namespace and programs, as soon as it is known that it can be."""
        host = await self._known()
        while host.datapath is None:
            await self._host.wait_changed()
            host = await self._known()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(walled, WATCH, host.datapath.run)
            if host.watch is not None:
                nursery.start_soon(walled, "the tunnels' process", host.watch)
        raise AssertionError("a machine is observed until cancelled")

    async def _known(self) -> GatewayHost:
        """Wait until this machine was looked at."""
        while self._host.now is None:
            await self._host.wait_changed()
        return self._host.now

    def _names(self, peer: str) -> PeerNames:
        return PeerNames(self._cluster, peer)

    # One peer.

    async def _keep(self, peer: str, ordered: Ordered) -> None:
        """Keep one peer's network, until there is no order and no end to come."""
        await self._known()
        while ordered.ends or ordered.order is not None:
            if ordered.ends:
                numbers = tuple(ordered.ends)
                problem = await self._end(peer)
                for number in numbers:
                    self._send(TunnelEnded(number, problem))
                del ordered.ends[: len(numbers)]
            else:
                await self._attend(peer, ordered)
        del self._ordered[peer]

    async def _attend(self, peer: str, ordered: Ordered) -> None:
        """Keep one peer's network, as often as it takes, while there is an order and no end."""
        async with trio.open_nursery() as nursery:
            run = partial(self._run, peer, ordered)
            nursery.start_soon(Supervision(run, partial(self._on_failure, peer)).forever)
            while ordered.order is not None and not ordered.ends:
                await ordered.news.wait()
            nursery.cancel_scope.cancel()

    async def _run(self, peer: str, ordered: Ordered) -> None:
        if ordered.order is None:
            return
        known = (self._names(peer), ordered.order, self._present, self._role, self._send)
        self._tunnels[peer] = made = PeerTunnel(*known)
        try:
            await made.run()
        finally:
            del self._tunnels[peer]

    def _present(self) -> GatewayHost:
        host = self._host.now
        assert host is not None
        return host

    def _on_failure(self, peer: str, failure: Failure | None, error: BaseException | None) -> None:
        if failure is None or error is None:
            return
        # What the kernel carries it carries without this task: nobody looks, that is all.
        self._fail(peer, failure.reason)
        log.warning("the network of %s failed", peer, exc_info=fault(error, OSError))

    def _fail(self, peer: str, reason: str) -> None:
        """Report that a peer's network is not kept as ordered: how it is is not known."""
        state, figures = TunnelState("Error", reason), TunnelFigures(device=reason)
        self._send(TunnelReport(peer=peer, state=state, judged=False, figures=figures))

    async def _end(self, peer: str) -> str:
        """Have nothing of a peer's; why something is left, empty where all is gone."""
        try:
            await take_down(self._present(), self._names(peer))
        except Exception as error:
            if not isinstance(error, LiqodError):
                log.exception("the network of %s is not taken down", peer)
            return explain(error)
        log.info("the network of %s is taken down", peer)
        return ""

    # Requests.

    async def _read(self, request: ReadMachine) -> MachineRead:
        try:
            async with self._looks:
                host = await self._look(request.around)
        except Exception as error:
            if not isinstance(error, LiqodError):
                log.exception("this machine cannot be looked at")
            return MachineRead(request.number, MachineFacts(problem=explain(error), unknown=True))
        self._host.set(host)
        for each in self._tunnels.values():
            each.on_host()
        return MachineRead(request.number, host.facts)

    async def _find(self, request: FindUnknown) -> UnknownFound:
        try:
            found = tuple(each.hash for each in await self._unknown(request.known))
        except LiqodError as error:
            return UnknownFound(request.number, problem=str(error))
        return UnknownFound(request.number, found)

    async def _sweep(self, request: SweepUnknown) -> UnknownSwept:
        swept, problem = list[str](), ""
        try:
            unknown = await self._unknown(request.known)
            for names in (each for each in unknown if each.hash in request.found):
                await self._sweep_one(names)
                log.info("swept what was left of %s", names.mark)
                swept.append(names.mark)
        except LiqodError as error:
            problem = str(error)
        return UnknownSwept(request.number, tuple(swept), problem)

    async def _sweep_one(self, names: PeerNames) -> None:
        """Take a network down, also one that an earlier daemon has ordered. Raises LiqodError."""
        for peer, ordered in self._ordered.items():
            if self._names(peer).hash == names.hash:
                ordered.end(UNASKED)
                return
        await take_down(self._present(), names)

    async def _unknown(self, known: tuple[str, ...]) -> list[PeerNames]:
        """The networks on this machine of peers that the daemon does not know."""
        datapath = (await self._known()).datapath
        if datapath is None:
            return []
        return await datapath.leftovers([self._names(each) for each in known])
