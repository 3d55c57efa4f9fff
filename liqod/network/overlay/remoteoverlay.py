"""The gateway's part of the overlay as the daemon has it: ordered, and reported by the machine."""

from collections.abc import Callable

import trio

from liqod.errors import NetworkError
from liqod.network.orders.overlay import (
    OverlayOrder,
    OverlayPart,
    OverlayReport,
    OverlayState,
    ReadUplink,
    Uplink,
)
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
        self._request: ReadUplink | None = None
        self._uplink: Uplink | None = None
        self._read = trio.Event()

    def receive(self, report: OverlayReport) -> None:
        """Take a report of the machine."""
        if isinstance(report, OverlayState):
            self.state.set(report)
        else:
            self._uplink = report
            self._read.set()

    def have(self, part: OverlayPart) -> None:
        """Order the machine's part; the same again changes nothing there."""
        self._part = part
        self._send(part)

    def tell(self) -> None:
        """Order it anew, and request anew: the machine's side may have begun anew."""
        if self._part is not None:
            self._send(self._part)
        if self._request is not None:
            self._send(self._request)

    def check(self) -> None:
        """Raises NetworkError where the machine has reported that it is not as ordered."""
        if self.state.now.problem:
            raise NetworkError(self.state.now.problem)

    async def mtu(self, address: str) -> int:
        """The MTU of the machine's interface that has an address, in bytes.

        Raises:
            NetworkError: none has it, or the machine does not answer.
        """
        self._uplink, self._read = None, trio.Event()
        self._request = ReadUplink(address)
        self._send(self._request)
        with trio.move_on_after(PATIENCE):
            await self._read.wait()
        self._request = None
        if self._uplink is None or self._uplink.address != address:
            raise NetworkError(f"this machine's program has not read the MTU of {address}")
        if self._uplink.problem:
            raise NetworkError(self._uplink.problem)
        return self._uplink.mtu
