"""Keeps the gateway's part of the overlay in this machine's kernel, as the daemon orders.

It observes its part, and repairs it where others change it, also while no daemon is connected.
"""

import logging
from collections.abc import Callable
from math import inf
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError, NetworkError
from liqod.network.dataplane import overlaychecks, overlayplan
from liqod.network.dataplane.kernel.kernelmonitor import WATCH
from liqod.network.following import whenever
from liqod.network.orders.overlay import (
    LeadOverlay,
    OverlayOrder,
    OverlayPart,
    OverlayReport,
    OverlayState,
    ReadUplink,
    ReleaseOverlay,
    RemoveOverlay,
    Uplink,
)
from liqod.network.overlay.kernel import NodeKernel
from liqod.network.requests import NewestRequest
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.observable import Notifier
from liqod.runtime.supervise import walled

RETRIES: Final = Backoff(first=0.5, last=30.0)
"""Seconds between tries of a change that the kernel refuses."""

log = logging.getLogger(__name__)


class OverlayService:
    """This machine's part of the overlay while it is the gateway.

    Args:
        cluster: this cluster's id.
        kernel: of this machine.
        send: sends a report to the daemon; one that comes to none is lost.
    """

    def __init__(
        self, cluster: str, kernel: NodeKernel, send: Callable[[OverlayReport], None]
    ) -> None:
        self._cluster, self._kernel, self._send = cluster, kernel, send
        self._wanted: OverlayPart | None = None
        self._request = NewestRequest(self._read, send)
        self._ordered, self._stirred = trio.Event(), Notifier()
        self._left = True
        """True while there may be something of the overlay's in the kernel."""
        self._reported: tuple[OverlayPart, str] | None = None
        """The part and its problem, as they were reported last."""
        self._seldom = Seldom()

    def receive(self, order: OverlayOrder) -> None:
        """Carry out an order of the daemon; a part that it has already changes nothing."""
        if not isinstance(order, ReleaseOverlay):
            self._ordered.set()
        if isinstance(order, ReadUplink):
            self._request.receive(order)
            return
        if self._reported is not None and self._reported[0] == order:
            self._send(OverlayState(self._reported[1]))  # to a daemon that has begun anew
        if order != self._wanted:
            self._wanted = order
            self._stirred.notify()

    async def run(self) -> NoReturn:
        """Keep it until cancelled, which ends nothing."""
        await self._ordered.wait()  # most machines have no overlay, and some no right to observe it
        async with trio.open_nursery() as nursery:
            nursery.start_soon(walled, WATCH, self._kernel.run)
            nursery.start_soon(whenever, self._kernel.wait_disturbed, self._stirred.notify)
            nursery.start_soon(self._request.run)
            failures = 0
            while True:
                # Before anything is done: what changes from here on comes to another round.
                stirred = self._stirred.coming
                problem = await self._carry_out(self._wanted) if self._wanted else ""
                failures = failures + 1 if problem else 0
                with trio.move_on_after(RETRIES.delay(failures) if problem else inf):
                    await stirred.wait()
        raise AssertionError("a service ends by cancellation only")

    async def _carry_out(self, wanted: OverlayPart) -> str:
        """Have the part that is ordered; report, and return, why it is not so."""
        problem = ""
        try:
            await self._have(wanted)
        except (LiqodError, ValueError) as error:
            problem = str(error)
            if self._seldom.allows(problem):
                log.warning("the overlay: %s", problem)
        if self._reported != (wanted, problem):
            self._reported = (wanted, problem)
            self._send(OverlayState(problem))
        return problem

    async def _have(self, wanted: OverlayPart) -> None:
        done: list[str] = []
        match wanted:
            case LeadOverlay():
                overlaychecks.lead(wanted.gateway, wanted.nodes, wanted.overlay)
                self._left = True
                plan = overlayplan.plan(
                    wanted.gateway, wanted.gateway, wanted.nodes, wanted.overlay
                )
                done = await self._kernel.apply(self._cluster, plan)
            case RemoveOverlay() if self._left:
                done = await self._kernel.remove(self._cluster)
                self._left = False
            case ReleaseOverlay() | RemoveOverlay():
                pass
        for line in done:
            log.info("the overlay: %s", line)

    async def _read(self, request: ReadUplink) -> Uplink:
        try:
            return Uplink(request.address, await self._kernel.mtu(request.address))
        except NetworkError as error:
            return Uplink(request.address, problem=str(error))
