"""The gateway's part of the overlay as the daemon has it: ordered, and reported by the machine."""

from collections.abc import Callable

from liqod.errors import NetworkError
from liqod.network.orders.overlay import (
    OverlayOrder,
    OverlayPart,
    OverlayReport,
    OverlayState,
    ReadUplink,
    Uplink,
)
from liqod.network.requests import Requests
from liqod.runtime.observable import Observable

PATIENCE = 5.0
"""Seconds for the machine to read the MTU of an interface."""


class RemoteOverlay:
    """The machine's overlay.

    Args:
        send: sends an order to the machine.

    Attributes:
        state: as the machine reported it last.
    """

    def __init__(self, send: Callable[[OverlayOrder], None]) -> None:
        self._send = send
        self.state = Observable(OverlayState())
        self._part: OverlayPart | None = None
        self._requests: Requests[ReadUplink] = Requests(send)

    def receive(self, report: OverlayReport) -> None:
        """Take a report of the machine."""
        if isinstance(report, OverlayState):
            self.state.set(report)
        else:
            self._requests.on_answer(report.address, report)

    def have(self, part: OverlayPart) -> None:
        """Order the machine's part; the same again changes nothing there."""
        self._part = part
        self._send(part)

    def tell(self) -> None:
        """Order it anew, and request anew: the machine's side may have begun anew."""
        if self._part is not None:
            self._send(self._part)
        for request in self._requests.unanswered:
            self._send(request)

    def check(self) -> None:
        """Raises NetworkError where the machine has reported that it is not as ordered."""
        if self.state.now.problem:
            raise NetworkError(self.state.now.problem)

    async def mtu(self, address: str) -> int:
        """The MTU of the machine's interface that has an address, in bytes.

        Raises:
            NetworkError: none has it, or the machine does not answer.
        """
        uplink = await self._requests.ask(address, ReadUplink(address), Uplink, PATIENCE)
        if uplink is None:
            raise NetworkError(f"this machine's program has not read the MTU of {address}")
        if uplink.problem:
            raise NetworkError(uplink.problem)
        return uplink.mtu
