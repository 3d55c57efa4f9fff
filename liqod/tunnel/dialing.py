"""A client's part: have a session with the server, by the first endpoint that can be had."""

import random
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

import trio

from liqod.runtime.gather import either, first_of
from liqod.tunnel.dialsockets import DialSockets
from liqod.tunnel.proxying import HttpProxy, connect
from liqod.tunnel.tunnelsession import ConnectionFailed, TunnelSession, tuned, written
from liqod.tunnel.wanted import Target

HEAD_START: Final = 0.5
"""Seconds that an endpoint is ahead of the next one."""
DEADLINE: Final = 10.0
"""Seconds until an endpoint must have proved itself."""
FIRST_PAUSE, LAST_PAUSE = 0.25, 15.0
"""Seconds between tries, at first and at most."""
STABLE: Final = 10.0
"""Seconds that a session must have lasted for the next try to come at once."""

Carry = Callable[[TunnelSession], None]


class Dialer:
    """Keeps a session with the server.

    Args:
        how: TLS.
        name: that is called.
        targets: where, the preferred one first.
        proxy_ca: as :class:`.wanted.Wanted` has it.
        sockets: to dial by.
        carry: takes an open session until it is over.

    Attributes:
        why: why there is no session; empty while there is one, or none was tried.
    """

    def __init__(
        self,
        how: ssl.SSLContext,
        name: str,
        targets: tuple[Target, ...],
        proxy_ca: str,
        sockets: DialSockets,
        carry: Carry,
    ) -> None:
        self.why = ""
        self._how, self._name, self._targets = how, name, targets
        self._proxy_ca, self._sockets, self._carry = proxy_ca, sockets, carry
        self._hurry = trio.Event()

    def hurry(self) -> None:
        """Have another session at once: nothing comes by the present one."""
        self._hurry.set()

    async def run(self, *, stands: bool = False) -> NoReturn:
        """Dial until cancelled.

        Args:
            stands: whether there is a session already that need not be replaced.
        """
        pause = 0.0
        if stands:
            await self._hurry.wait()
        while True:
            self._hurry = trio.Event()
            try:
                session = await self.dial()
            except ConnectionFailed as error:
                self.why = str(error)
                pause = min(max(2 * pause, FIRST_PAUSE), LAST_PAUSE)
            else:
                self.why = ""
                self._carry(session)
                # Until it is over, or another is wanted beside it.
                await either(session.closed.wait, self._hurry.wait)
                lived = trio.current_time() - session.opened
                # One that ends at once would end so again: both ends may have what the other
                # one does not take.
                pause = 0.0 if lived > STABLE else max(2 * pause, FIRST_PAUSE)
                if session.closed.is_set():
                    self.why = session.why
            with trio.move_on_after(pause * random.uniform(0.75, 1.25)):
                await self._hurry.wait()
        raise AssertionError("dialling ends by cancellation only")

    async def dial(self) -> TunnelSession:
        """A session with whichever endpoint is first to prove itself.

        Raises:
            Failed: none does; the failure of each.
        """
        if not self._targets:
            raise ConnectionFailed("no address of the server is known")
        wrong: dict[Target, str] = {}

        async def attempt(target: Target) -> TunnelSession | None:
            try:
                with trio.fail_after(DEADLINE):
                    return await self._session(target)
            except trio.TooSlowError:
                wrong[target] = f"it does not answer within {DEADLINE:.0f} s"
            except (ConnectionFailed, OSError) as error:
                wrong[target] = str(error)
            return None

        attempts = [partial(attempt, target) for target in self._targets]
        won = await first_of(attempts, HEAD_START, lambda late: late.discard())
        if won is not None:
            return won
        raise ConnectionFailed(
            "; ".join(f"{each.host}:{each.port}: {why}" for each, why in wrong.items())
        )

    async def _session(self, target: Target) -> TunnelSession:
        try:
            proxy = HttpProxy(target.proxy) if target.proxy else None
        except ValueError as error:
            raise ConnectionFailed(str(error)) from None
        to = (proxy.host, proxy.port) if proxy else (target.host, target.port)
        try:
            tcp, give_back = await self._sockets.connect(*to)
        except OSError as error:
            raise ConnectionFailed(_unreached(error, proxy)) from None
        stream: trio.abc.Stream = tcp
        try:
            tuned(tcp.socket)
            if proxy is not None:
                stream = await connect(tcp, proxy, target.host, target.port, self._proxy_ca)
            where = f"{target.host}:{target.port}" if proxy else written(tcp.socket.getpeername())
            # As a name below the one that is dialled, where that is a name: some firewalls look.
            named = f"{self._name}.{target.host if _is_name(target.host) else 'liqod.internal'}"
            session = TunnelSession("client", self._how, named, stream, tcp.socket, where)
            session.way, session.released = target, give_back
            await session.open()
        except BaseException:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(tcp)
            give_back()
            raise
        return session


def _unreached(error: OSError, proxy: HttpProxy | None) -> str:
    """The reason a connection failed, with the proxy that was to carry it."""
    said = error.strerror or str(error)
    return f"the proxy {proxy}: {said}" if proxy is not None else said


def _is_name(host: str) -> bool:
    return ":" not in host and not host.replace(".", "").isdecimal()
