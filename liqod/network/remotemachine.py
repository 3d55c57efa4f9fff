"""This machine as the daemon has it: orders for the machine's side, and its newest reports.

The machine's side may begin anew at any time: :meth:`RemoteMachine.tell` sends it all orders, and
each request that is not answered yet.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Final, NoReturn, TypeVar

import trio
from msgspec.structs import replace

from liqod.errors import NetworkError
from liqod.model.view.networkfacts import NodeWay
from liqod.network.failover.role import Role
from liqod.network.orders.tunnels import (
    NO_NETWORKS,
    BackendTrouble,
    BackendTroubles,
    EndTunnel,
    FindUnknown,
    MachineFacts,
    MachineRead,
    MachineRequest,
    MeasureTunnel,
    ReadMachine,
    ReleaseTunnels,
    Surroundings,
    SweepUnknown,
    TunnelEnded,
    TunnelMessage,
    TunnelNews,
    TunnelOrder,
    TunnelReport,
    UnknownFound,
    UnknownSwept,
)
from liqod.network.requests import Requests
from liqod.runtime.backoff import Backoff
from liqod.runtime.observable import Observable

A = TypeVar("A", MachineRead, TunnelEnded, UnknownFound, UnknownSwept)

PATIENCE: Final = 300.0
"""Seconds for a request: each backend may take a minute to end a tunnel."""
LOOKED: Final = 30.0
"""Seconds for the machine's side to find its capabilities."""
AGAIN: Final = Backoff(first=5.0, last=60.0)
"""Seconds until it is asked again, where networks cannot be joined on it, or not all is known."""
SILENT_FOR: Final = 3.0
"""Seconds for a connection to it to be there, where its capabilities are asked for."""
SILENT: Final = "this machine's side has not answered"


class RemoteTunnel:
    """The tunnel of one peer on this machine.

    Args:
        peer: its id.
        send: sends an order to the machine.

    Attributes:
        report: as the machine reported it last; None while it has not.
        received_at: when it did, by Trio's clock.
    """

    def __init__(self, peer: str, send: Callable[[TunnelMessage], None]) -> None:
        self.peer = peer
        self.report: Observable[TunnelReport | None] = Observable(None)
        self.received_at = 0.0
        self._send = send
        self._order: TunnelOrder | None = None

    def have(self, order: TunnelOrder) -> None:
        """Order it; the same order again is not sent."""
        if order != self._order:
            self._order = order
            self._send(order)

    def nudge(self) -> None:
        """Request fresh figures: somebody looks."""
        self._send(MeasureTunnel(self.peer))

    def receive(self, report: TunnelReport) -> None:
        """Take a report of the machine."""
        self.received_at = trio.current_time()
        self.report.set(report)

    def tell(self) -> None:
        """Order it anew."""
        if self._order is not None:
            self._send(self._order)

    def forget(self) -> None:
        """There is no order for it any more, and no report counts: it is to end."""
        self._order = None
        self.report.set(None)


class RemoteMachine:
    """This machine.

    Args:
        send: sends an order to it.
        role: whether it is the gateway, as it reports.
        facts: its capabilities, as known at first.
        why_silent: gives the reason why it cannot answer; empty where there is none.
        around: its surroundings.

    Attributes:
        role: the same.
        facts: its capabilities, as known last: where it does not answer any more they stay.
        troubles: the present faults of its backends, by their names.
        nodes: how the other nodes reach it, as the leader keeps it to be shown.
    """

    def __init__(
        self,
        send: Callable[[TunnelMessage], None],
        role: Role | None = None,
        facts: MachineFacts = MachineFacts(),  # noqa: B008
        why_silent: Callable[[], str] = str,
        around: Surroundings = Surroundings(),  # noqa: B008
    ) -> None:
        self.role = role if role is not None else Role()
        self.facts = Observable(facts)
        self.troubles: Mapping[str, BackendTrouble] = {}
        self.nodes: tuple[NodeWay, ...] = ()
        self._send, self._why_silent, self._around = send, why_silent, around
        self._tunnels: dict[str, RemoteTunnel] = {}
        self._requests: Requests[MachineRequest] = Requests(send)
        self._released = False
        self._looks = False
        """True if the capabilities were ever asked for."""
        self._known = False
        """True if they were ever found."""
        self._again = Observable(bool(facts.problem))
        """True while they are to be asked for again: there is no answer yet, or not of everything,
        or networks cannot be joined. It says nothing of the facts, which stay until then."""

    def receive(self, report: TunnelNews) -> None:
        """Take a report of the machine; one of a peer that nobody follows counts for nothing."""
        if isinstance(report, TunnelReport):
            if report.peer in self._tunnels:
                self._tunnels[report.peer].receive(report)
            return
        if isinstance(report, BackendTroubles):
            self.troubles = report.troubles
            return
        if isinstance(report, MachineRead):
            self._find(report.facts)
        self._requests.on_answer(report.number, report)

    def tell(self) -> None:
        """Send everything that is wanted: the machine's side may have begun anew."""
        self.troubles = {}  # it says them again, where it has any
        asked = self._requests.unanswered
        if self._looks:
            self._again.set(True)  # it attends no tunnel before it has looked, and that may fail
            if not any(isinstance(each, ReadMachine) for each in asked):
                self._send(self._reading())
        if self._released:
            self._send(ReleaseTunnels())
        for order in asked:  # an end that is under way comes before a tunnel that is to follow it
            self._send(order)
        for tunnel in self._tunnels.values():
            tunnel.tell()

    async def look(self) -> MachineFacts:
        """Have the capabilities looked for anew; a problem where the machine does not answer."""
        self._looks = True
        try:
            found = await self._ask(self._reading(), MachineRead, SILENT_FOR, LOOKED)
        except NetworkError as error:
            unknown = MachineFacts(problem=str(error), unknown=True)
            self._find(unknown)
            return unknown
        return found.facts

    async def wait_usable(self) -> None:
        """Wait until networks can be joined on it, as far as is known."""
        while self.facts.now.problem:
            await self.facts.wait_changed()

    async def keep_known(self) -> NoReturn:
        """Have the capabilities looked for again and again while a look is owed an answer."""
        failures = 0
        while True:
            failures = failures + 1 if self._again.now else 0
            with trio.move_on_after(AGAIN.delay(failures) if failures else inf) as waiting:
                await self._again.wait_changed()
            if waiting.cancelled_caught:
                await self.look()

    def _find(self, found: MachineFacts) -> None:
        self._again.set(bool(found.problem or found.undecided))
        if not (found.unknown and self._known):
            former = self.facts.now if self._known else MachineFacts(unknown=True)
            self._known = not found.unknown
            self.facts.set(settled(found, former))

    def release(self) -> None:
        """Leave all tunnels as they are, attended by nobody, until one is ordered again."""
        self._released = True
        self._send(ReleaseTunnels())

    @contextmanager
    def tunnel(self, peer: str) -> Iterator[RemoteTunnel]:
        """The tunnel of a peer, as long as the block; the machine keeps it beyond that."""
        self._released = False
        self._tunnels[peer] = made = RemoteTunnel(peer, self._send)
        try:
            yield made
        finally:
            if self._tunnels.get(peer) is made:
                del self._tunnels[peer]

    async def end(self, peer: str) -> None:
        """Have nothing of a peer's on this machine.

        Raises:
            NetworkError: something does not go, or the machine's side does not answer.
        """
        if peer in self._tunnels:
            self._tunnels[peer].forget()
        _check(await self._ask(EndTunnel(self._requests.number(), peer), TunnelEnded))

    async def unknown(self, known: Iterable[str]) -> tuple[str, ...]:
        """The networks on this machine that are of no known peer.

        Raises:
            NetworkError: they are not known.
        """
        order = FindUnknown(self._requests.number(), tuple(known))
        found = await self._ask(order, UnknownFound)
        _check(found)
        return found.found

    async def sweep(self, found: Iterable[str], known: Iterable[str]) -> UnknownSwept:
        """Take those networks away that still are of no known peer.

        Raises:
            NetworkError: the machine's side does not answer.
        """
        order = SweepUnknown(self._requests.number(), tuple(found), tuple(known))
        return await self._ask(order, UnknownSwept)

    def _reading(self) -> ReadMachine:
        return ReadMachine(self._requests.number(), self._around)

    async def _ask(self, order: MachineRequest, kind: type[A], *waits: float) -> A:
        """Request an answer.

        Args:
            waits: seconds for a connection, without which no answer is waited for, and for that.
        """
        asked = trio.current_time()
        answer = await self._requests.ask(
            order.number, order, kind, *(waits or (PATIENCE,)), gives_up=self._why_silent
        )
        if answer is None:
            why, waited = self._why_silent(), trio.current_time() - asked
            raise NetworkError(f"{SILENT} for {waited:.0f} s{': ' * bool(why)}{why}")
        return answer


def settled(found: MachineFacts, former: MachineFacts) -> MachineFacts:
    """The facts of a machine after a look: of what could not be asked those of before.

    Args:
        found: by the look.
        former: those of before; what these do not know either stays undecided.
    """
    if not found.undecided:
        return found
    lasting = {name: how for name, how in former.backends.items() if name in found.undecided}
    open_ = found.undecided if former.problem or former.unknown else former.undecided
    backends = {**lasting, **found.backends}
    return replace(
        found,
        backends=backends,
        stands_by=found.stands_by | (former.stands_by & lasting.keys()),
        # The first reason stays: the facts are others only where what can be done is.
        undecided={
            name: former.undecided.get(name, why)
            for name, why in found.undecided.items()
            if name in open_ and name not in backends
        },
    )


def _check(answer: TunnelEnded | UnknownFound) -> None:
    if answer.problem:
        raise NetworkError(answer.problem)


def nowhere(facts: MachineFacts = NO_NETWORKS, role: Role | None = None) -> RemoteMachine:
    """A machine that joins no networks, on which nothing is left of any.

    Args:
        facts: the reason.
        role: whether it is the gateway.
    """

    def answer(order: TunnelMessage) -> None:
        match order:
            case ReadMachine():
                made.receive(MachineRead(order.number, facts))
            case EndTunnel():
                made.receive(TunnelEnded(order.number))
            case FindUnknown():
                made.receive(UnknownFound(order.number))
            case SweepUnknown():
                made.receive(UnknownSwept(order.number))
            case _:
                pass

    made = RemoteMachine(answer, role, facts)
    return made
