"""One machine that can be the gateway: it requests the state, answers, and takes over.

One task decides (:mod:`liqod.network.failover.election`), so that what it was late for is not held
against anybody; another listens to answers, and each write goes by itself: a hung API server delays
no verdict. The kernel's fence is shut before others are notified that this machine is the gateway
no more, and opened before they are notified that it is. Ending changes nothing.
"""

import errno
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final, NoReturn, TypeVar

import msgspec
import trio

from liqod.errors import LiqodError, NetworkError
from liqod.network.failover import candidatemessages
from liqod.network.failover.candidatemessages import Answer, Question
from liqod.network.failover.election import Election
from liqod.network.failover.fence import Fence, FenceDeadline
from liqod.network.failover.responder import Responder, now
from liqod.network.failover.role import Role
from liqod.network.machine import candidatesockets
from liqod.network.machine.remotelease import RemoteLease
from liqod.network.orders.candidacy import (
    PATIENCE,
    Claim,
    GatewayState,
    LeaseRecord,
    LocalCandidate,
    RoleReport,
)
from liqod.runtime.observable import Notifier

R = TypeVar("R")
Inside = Callable[[Callable[[], socket.socket]], Awaitable[socket.socket]]
"""Opens a socket in the node's network namespace."""

BEHIND: Final = 1.0
"""Seconds between readings of a Lease that others know in another version than its watch."""
LATE: Final = 0.05
"""Seconds by which this program may be late without it being held in the gateway's favour."""
ABSENT: Final = 3.0
"""Seconds without a Lease after which one that does not lead makes it."""

log = logging.getLogger(__name__)


class Candidate:
    """Keeps a role as it is to be.

    Args:
        me: this machine.
        fence: of its tunnels.
        role: notified whether it is the gateway.
        lease: reads and writes the Lease.
        report: called with the role, once it is settled, changed or not.
        released: called once the Lease is let go, or surely kept, after :meth:`let_go`.
        inside: opens sockets.
    """

    def __init__(
        self,
        me: LocalCandidate,
        fence: Fence,
        role: Role,
        lease: RemoteLease,
        report: Callable[[RoleReport], None],
        released: Callable[[], None],
        *,
        inside: Inside,
    ) -> None:
        self._me, self._fence, self._role = me, fence, role
        self._lease, self._report, self._released = lease, report, released
        self._inside = inside
        self._leads = self._ends = False
        self._election = Election(me.name, now())
        self._record: LeaseRecord | None = None
        self._absent_since: float | None = None
        self._writing = False
        self._read_at = -inf
        self._written: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        """Endpoints and addresses as the Lease has them by our hand."""
        self._reached: dict[str, str] = {}
        """Where peers reach candidates, as they have said."""
        self._holding = FenceDeadline()
        self._stirred = Notifier()
        self._sock: trio.socket.SocketType | None = None
        self._number = secrets.randbits(62)
        self._had = 0

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Be a candidate until cancelled, which changes nothing.

        Raises:
            NetworkError: candidates cannot be answered here.
        """
        try:
            listening = await self._inside(partial(candidatesockets.listening, self._me))
        except OSError as error:
            raise NetworkError(
                f"UDP port {self._me.port} for candidates: {error.strerror or error}; where "
                "another program has it, set network.candidate_port to another at each of them"
            ) from error
        token = trio.lowlevel.current_trio_token()
        self._responder = Responder(
            listening, self._me.key, self._me.name, partial(_soon, token, self._stir)
        )
        self._responder.start()
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._converse)
                task_status.started()
                await self._decide()
        finally:
            self._responder.close()
        raise AssertionError("a candidate ends by cancellation only")

    def on_cluster(self, *, leads: bool, cordoned: frozenset[str]) -> None:
        """The daemon leads or does not, and the Nodes of this cluster that are cordoned."""
        self._leads = leads
        self._election.on_cordons(cordoned, now())
        self._stir()

    def let_go(self) -> None:
        """The daemon ends: a gateway whose Node is cordoned lets the Lease go at once."""
        self._ends = True
        self._stir()

    def on_lease(self, found: LeaseRecord | None) -> None:
        """The Lease was read."""
        if found is None:
            self._absent_since = self._absent_since or now()
            self._election.gone(now())
        elif self._record is None or not _is_behind(found.claim, self._election.claim):
            self._record, self._absent_since = found, None
            self._election.saw(found.claim, now())
        self._stir()

    def _stir(self) -> None:
        self._stirred.notify()

    # Deciding.

    async def _decide(self) -> NoReturn:
        mine, stirred, at = self._election, self._stirred.coming, now()
        while True:
            # From before the last step: while that waits for the kernel, nothing is asked.
            planned = mine.due(at)
            due = min(planned, self._holding.due(now()))
            with trio.move_on_after(max(0.0, due - now())):
                await stirred.wait()
            stirred, at = self._stirred.coming, now()
            if (late := at - planned) > LATE and mine.probe is not None:
                # Answers may lie there that were not read yet.
                mine.probe.stalled(late)
            self._listen()
            if mine.probe is not None and self._me.eligible:
                await self._query(at)
            await self._settle(at)
            if not self._writing and (mine.should_let_go(at) or (self._ends and mine.yields(at))):
                await self._let_go(at)
            else:
                self._write_what_is_due(at)
            if self._ends and not self._writing and not mine.yields(at):
                self._ends = False
                self._released()

    def _listen(self) -> None:
        """Take in the questions that the responder has received."""
        mine = self._election
        mine.on_epoch(self._responder.newest)
        for name, each in self._responder.standbys().items():
            mine.on_question(name, each.first, each.acknowledged, each.last_seen)
            self._reached[name] = each.address

    async def _settle(self, at: float) -> None:
        """Have the fence, the answers and the role be as decided."""
        mine = self._election
        active = mine.at_work(at)
        self._responder.publish(mine.claim, at_work=active, epoch=mine.epoch)
        if mine.claim is None or not mine.is_sure:
            return  # a life before this one may have left tunnels at work: nothing is known yet
        # Where nobody holds it, the next gateway is not known yet, and nothing is led elsewhere.
        self._role.gateway = mine.claim.holder or self._role.gateway
        self._role.standbys = mine.company if active else mine.claim.others
        held = mine.lease_left(at)
        changes = self._role.now.active is not active
        if changes or self._holding.is_due(held, at):
            await self._hold(held, at)
        if not active and self._role.now.active:
            why = "it is cordoned" if mine.is_letting_go else mine.claim.holder
            log.warning("this node is the gateway no more: %s", why)
        elif active and not self._role.now.active:
            log.info("this node is the gateway (epoch %d)", mine.claim.epoch)
        said = self._record or LeaseRecord(mine.claim)
        endpoints, reached = said.endpoints, said.reached
        if active and self._role.now.active:
            endpoints = self._role.now.endpoints  # its own word, which comes back
        first = reached.get(self._role.gateway, "")
        others = (reached[each] for each in sorted(reached) if each != self._role.gateway)
        addresses = tuple(dict.fromkeys(each for each in (first, *others) if each))
        self._role.set(GatewayState(active, self._fence.mark, endpoints, addresses))
        self._report(RoleReport(self._role.now, self._role.gateway, self._role.standbys))

    async def _hold(self, held: float | None, at: float) -> None:
        try:
            await self._fence.hold(held)
        except NetworkError as error:
            log.error("the fence of the tunnels is not as it is to be: %s", error)
            self._holding.refused(now())
        else:
            self._holding.confirm(held, at)

    async def _let_go(self, at: float) -> None:
        """Let the gateway go: fenced first, as the one that takes the Lease is at work at once."""
        if await self._yield(at):
            self._writing = True
            self._nursery.start_soon(self._write, self._unheld(), at, True)

    async def _yield(self, at: float) -> bool:
        """Stop being at work, before the Lease is let go; False where the kernel refuses."""
        self._election.letting_go(at)
        await self._settle(at)
        if self._holding.is_shut(at):
            return True
        self._election.keep(at)
        self._stir()
        return False

    def _unheld(self) -> Claim:
        """The Lease without a holder: this candidate is one of those that may take it."""
        before = self._election.claim
        assert before is not None
        others = tuple(sorted({*self._election.company, self._me.name}))
        return Claim("", before.epoch, before.version, others)

    def _write_what_is_due(self, at: float) -> None:
        mine = self._election
        if self._writing or not self._me.eligible:
            return
        if mine.is_behind and at >= self._read_at + BEHIND:
            self._read_at, self._writing = at, True
            self._nursery.start_soon(self._read)
            return
        if mine.claim is None:
            since = self._absent_since
            if since is not None and (self._leads or at >= since + ABSENT):
                self._start_write(Claim(self._me.name, mine.epoch + 1, ""), at, taken=True)
        elif mine.should_take(at):
            before = mine.claim
            others = tuple(sorted({before.holder, *before.others} - {"", self._me.name}))
            claim = Claim(self._me.name, mine.epoch + 1, before.version, others)
            self._start_write(claim, at, taken=True)
        elif mine.should_renew(at) or (mine.company and self._has_news(at)):
            before = mine.claim
            claim = Claim(self._me.name, before.epoch, before.version, mine.company)
            self._start_write(claim, at, taken=False)

    def _has_news(self, at: float) -> bool:
        """True if the endpoints of peers, or the reached candidates, are not those written last."""
        heard, reached = self._written
        news = any(heard.get(peer) != each for peer, each in self._role.observed.items())
        return (news or self._reachable() != reached) and self._election.at_work(at)

    def _reachable(self) -> dict[str, str]:
        """Where peers reach this candidate and its company."""
        said = self._record.reached if self._record is not None else {}
        found = {each: said[each] for each in self._election.company if each in said}
        found |= {each: self._reached[each] for each in found.keys() & self._reached.keys()}
        found |= {k: v for k, v in self._reached.items() if k in self._election.company}
        return {**found, self._me.name: self._me.reached or self._me.address}

    def _start_write(self, claim: Claim, at: float, *, taken: bool) -> None:
        self._writing = True
        self._election.trying(at)
        self._nursery.start_soon(self._write, claim, at, taken)

    async def _read(self) -> None:
        try:
            await self._lease.read()
        except LiqodError as error:
            log.debug("the gateway's lease is not read: %s", error)
        finally:
            self._writing = False
            self._stir()

    async def _write(self, claim: Claim, sent: float, taken: bool) -> None:
        """Write it; whether that went through or not, the next step decides from there."""
        before = self._record
        # What a gateway before this one has heard stands until this one hears it itself.
        heard = {**(before.endpoints if before is not None else {}), **self._role.observed}
        reached = {**(before.reached if taken and before is not None else {}), **self._reachable()}
        wanted = LeaseRecord(claim, self._me.address, reached, heard)
        try:
            version = await self._lease.write(wanted, taken=taken)
        except LiqodError as error:
            log.debug("the gateway's lease is not written: %s", error)
            return
        finally:
            self._writing = False
            self._stir()
        if not version:
            return
        made = msgspec.structs.replace(claim, version=version)
        if not _is_behind(made, self._election.claim):
            self._absent_since = None
            self._election.wrote(made, sent, now())
            self._record = msgspec.structs.replace(wanted, claim=made)
            self._written = (heard, reached)

    # Asking.

    async def _query(self, at: float) -> None:
        probe = self._election.probe
        assert probe is not None
        probe.judge(at)
        if not probe.sends(at):
            return
        self._number += 1
        probe.sent(self._number, at)
        question = Question(
            self._me.name,
            self._number,
            self._had,
            self._election.epoch,
            self._me.reached or self._me.address,
        )
        if self._sock is not None:
            try:
                await self._sock.send(candidatemessages.encoded(question, self._me.key))
            except OSError as error:
                self._failed(error)

    def _failed(self, error: OSError) -> None:
        if error.errno == errno.ECONNREFUSED:
            self._election.refused()

    async def _converse(self) -> NoReturn:
        """Listen to the answers of any gateway."""
        while True:
            stirred, address = self._stirred.coming, self._address()
            if not address:
                await stirred.wait()
                continue
            try:
                made = await self._inside(partial(candidatesockets.asking, self._me, address))
            except (OSError, LiqodError):
                await trio.sleep(PATIENCE)
                continue
            with trio.socket.from_stdlib_socket(made) as self._sock:
                self._had = 0
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._receive, self._sock)
                    while self._address() == address:
                        await self._stirred.wait()
                    nursery.cancel_scope.cancel()
            self._sock = None

    def _address(self) -> str:
        """Of the gateway, where it is another."""
        found = self._record
        return found.address if found is not None and self._election.probe is not None else ""

    async def _receive(self, sock: trio.socket.SocketType) -> NoReturn:
        while True:
            try:
                data = await sock.recv(candidatemessages.LARGEST + 1)
            except OSError as error:
                self._failed(error)
                continue
            answer = candidatemessages.read(data, self._me.key)
            if isinstance(answer, Answer):
                self._had = answer.number
                claim = Claim(answer.name, answer.epoch, answer.version)
                self._election.on_answer(answer.question, claim, now())


def _soon(token: trio.lowlevel.TrioToken, what: Callable[[], None]) -> None:
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(what, idempotent=True)


def _is_behind(claim: Claim, known: Claim | None) -> bool:
    """True if a claim is older than the known one; versions are numbers that grow."""
    if known is None:
        return False
    with suppress(ValueError):
        return int(claim.version) < int(known.version)
    return claim.epoch < known.epoch
