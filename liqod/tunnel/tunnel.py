"""One tunnel of the process: its device, its sessions, and the dialling or listening for them."""

import ssl
from functools import partial
from typing import Any, Final

import msgspec
import trio

from liqod.tunnel.carrier import Carrier
from liqod.tunnel.dialing import Dialer
from liqod.tunnel.dialsockets import DialSockets
from liqod.tunnel.listening import Listener, Ports
from liqod.tunnel.packets import Tun
from liqod.tunnel.tunnelsession import TunnelSession
from liqod.tunnel.tunneltls import context
from liqod.tunnel.wanted import TunnelReport, Wanted

SILENT: Final = 10
"""Seconds between words where no keepalive is wanted, to notice all the same that the other end is
gone."""
PATIENCE: Final = 5.0
"""Seconds, besides two keepalives, after which a connection that brings nothing is left."""


class CarriedTunnel:
    """Carries the packets of one device as requested last.

    Args:
        device: whose packets are carried; closed when the tunnel ends.
        ports: at which the process listens.

    Attributes:
        sockets: to dial by.
    """

    def __init__(self, device: Tun, ports: Ports) -> None:
        self.sockets = DialSockets()
        self._device, self._ports = device, ports
        self._carrier = Carrier(device)
        self._desired: Wanted | None = None
        self._part: Dialer | Listener | None = None
        self._scope, self._ended = trio.CancelScope(), trio.CancelScope()
        self._closed = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is ended, or the device is gone.

        Any failure ends this tunnel alone: the daemon sees its interface go, and makes it anew.
        """
        try:
            with self._ended:
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._carrier.run)
                    task_status.started()
        except* Exception:
            pass  # nobody reads the output of this process
        finally:
            self._device.close()
            self.sockets.close()
            self._closed.set()

    async def end(self) -> None:
        """End it, with its interface; it has ended then."""
        await self._carrier.break_off("it is taken down")
        self._ended.cancel()
        await self._closed.wait()

    def hurry(self) -> None:
        """Dial anew at once, where it is this end that dials."""
        if isinstance(self._part, Dialer):
            self._part.hurry()

    def files(self) -> list[int]:
        """The descriptors of all sockets that packets to the other end go by."""
        port = self._desired.port if self._desired is not None else 0
        return [*self._carrier.files(), *self.sockets.files(), *self._ports.files(port)]

    def status(self) -> TunnelReport:
        """How it is, as is answered."""
        newest, part, desired = self._carrier.newest, self._part, self._desired
        why = part.why if part is not None and newest is None else ""
        if desired is not None and desired.quiet:
            why = "it stands by"
        return TunnelReport(
            digest=desired.digest if desired is not None else "",
            mark=desired.mark if desired is not None else 0,
            dials=len(self.sockets) > 0,
            endpoint=newest.where if newest is not None else "",
            age=trio.current_time() - newest.opened if newest is not None else None,
            why=why or ("" if newest is not None else "no connection stands yet"),
            refused=self._carrier.refused,
        )

    async def be(self, new: Wanted) -> None:
        """Match the desired tunnel from now on; parts that need not end go on.

        Raises:
            OSError, ssl.SSLError, ValueError: it cannot be; what was before has ended.
        """
        old = self._desired
        if new == old:
            return
        how = context(new.side, new.identity, new.peer)
        same = old is not None and _fixed(old) == _fixed(new)
        self._scope.cancel()
        if new.quiet or not same:
            await self._carrier.break_off("it stands by, or its keys are others")
        self._scope, self._desired, self._part = trio.CancelScope(), None, None
        if not new.quiet:
            self._part = await self._start(new, how)
        self._desired = new

    async def _start(self, new: Wanted, how: ssl.SSLContext) -> Dialer | Listener:
        carry = partial(self._carry, new)
        if new.side == "server":
            listener = Listener(how, new.name, new.port, new.mark, self._ports, carry)
            await self._nursery.start(self._serving, self._scope, listener)
            return listener
        dialer = Dialer(how, new.name, new.targets, new.proxy_ca, self.sockets, carry)
        newest = self._carrier.newest
        stands = newest is not None and newest.way in new.targets
        self._nursery.start_soon(self._dialling, self._scope, dialer, stands)
        return dialer

    async def _serving(
        self,
        scope: trio.CancelScope,
        listener: Listener,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        with scope:
            await listener.run(task_status)

    async def _dialling(self, scope: trio.CancelScope, dialer: Dialer, stands: bool) -> None:
        with scope:
            await dialer.run(stands=stands)

    def _carry(self, wanted: Wanted, session: TunnelSession) -> None:
        """Have packets go by a session; it lives on when where to dial or to listen changes."""
        if wanted is not self._desired:
            # It was established while another tunnel was being requested.
            session.discard()
            return
        pause = wanted.keepalive or SILENT
        self._nursery.start_soon(
            partial(
                self._carrier.carry,
                session,
                pause,
                2 * pause + PATIENCE,
                says_goodbye=wanted.side == "client",
            )
        )


_MAY_CHANGE: dict[str, Any] = {
    "port": 0, "targets": (), "keepalive": 0, "proxy_ca": "", "quiet": False, "mark": 0,
}  # fmt: skip
"""Fields of the request that may change without an end of the session, with their defaults."""


def _fixed(wanted: Wanted) -> Wanted:
    """A request without the fields that may change."""
    return msgspec.structs.replace(wanted, **_MAY_CHANGE)
