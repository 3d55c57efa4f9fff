"""Has this machine be a candidate as the daemon orders, and go on while none is connected."""

import logging
from collections.abc import Callable
from functools import partial
from typing import NoReturn

import trio

from liqod.network.failover.fence import Fence
from liqod.network.failover.role import Role
from liqod.network.machine import candidacychecks
from liqod.network.machine.candidate import Candidate, Inside
from liqod.network.machine.remotelease import RemoteLease
from liqod.network.orders.candidacy import (
    Candidacy,
    CandidacyOrder,
    CandidacyReport,
    LeaseAnswer,
    LeaseFound,
    LetGo,
    LetGoDone,
    LocalCandidate,
    RoleReport,
)
from liqod.runtime.log import Seldom
from liqod.runtime.observable import Observable
from liqod.runtime.supervise import Failure, Supervision

log = logging.getLogger(__name__)


class CandidateService:
    """This machine's part of the election of the gateway.

    Args:
        fence: of this machine's tunnels.
        role: notified whether this machine is the gateway.
        send: sends a report to the daemon; one that comes to none is lost.
        inside: opens sockets.
    """

    def __init__(
        self,
        fence: Fence,
        role: Role,
        send: Callable[[CandidacyReport], None],
        *,
        inside: Inside,
    ) -> None:
        self._fence, self._role, self._send, self._inside = fence, role, send, inside
        self._lease = RemoteLease(send)
        self._me: Observable[LocalCandidate | None] = Observable(None)
        self._candidacy: Candidacy | None = None
        self._found: LeaseFound | None = None
        self._candidate: Candidate | None = None
        self._told: RoleReport | None = None
        self._seldom = Seldom()

    def receive(self, order: CandidacyOrder) -> None:
        """Carry out an order of the daemon; the same one again changes nothing.

        Raises:
            ValueError: the order cannot be, and nothing of it is carried out.
        """
        match order:
            case Candidacy():
                candidacychecks.candidate(order.me)
                self._candidacy = order
                self._me.set(order.me)
                self._pass_cluster()
                if self._told is not None:
                    self._send(self._told)
            case LeaseFound():
                self._found = candidacychecks.sound(order)
                self._pass_lease()
            case LeaseAnswer():
                self._lease.on_answer(order)
            case LetGo():
                self._let_go()

    def retire(self) -> None:
        """Be no candidate any more, of which there are none; the role is not notified."""
        self._candidacy = self._found = self._told = None
        self._me.set(None)

    async def run(self) -> NoReturn:
        """Be a candidate, as often as it takes, until cancelled."""
        while True:
            async with trio.open_nursery() as nursery:
                if self._me.now is not None:
                    run = partial(self._be, self._me.now)
                    nursery.start_soon(Supervision(run, self._report).forever)
                await self._me.wait_changed()
                nursery.cancel_scope.cancel()

    async def _be(self, me: LocalCandidate) -> None:
        self._candidate = Candidate(
            *(me, self._fence, self._role, self._lease, self._on_role, self._released),
            inside=self._inside,
        )
        self._pass_cluster()
        self._pass_lease()
        try:
            await self._candidate.run()
        finally:
            self._candidate = None

    def _pass_cluster(self) -> None:
        if self._candidate is not None and self._candidacy is not None:
            state = self._candidacy
            self._candidate.on_cluster(leads=state.leads, cordoned=state.cordoned)

    def _pass_lease(self) -> None:
        if self._candidate is not None and self._found is not None:
            self._candidate.on_lease(self._found.record)

    def _on_role(self, role: RoleReport) -> None:
        if role != self._told:
            self._told = role
            self._send(role)

    def _let_go(self) -> None:
        if self._candidate is None:
            self._released()
        else:
            self._candidate.let_go()

    def _released(self) -> None:
        self._send(LetGoDone())

    def _report(self, failure: Failure | None, error: BaseException | None) -> None:
        if failure is not None and self._seldom.allows(failure.reason):
            log.warning("this node cannot be the gateway: %s", failure.reason)
