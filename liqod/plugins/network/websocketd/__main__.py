"""The process: makes its interface, or none for datagrams, and does what the daemon said last."""

import json
import os
import socket
import ssl
import struct
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import trio

from liqod.plugins.network.websocketd import wanted
from liqod.plugins.network.websocketd.carrier import Carrier, Device
from liqod.plugins.network.websocketd.datagrams import Datagrams
from liqod.plugins.network.websocketd.dialing import Dialer, Marked
from liqod.plugins.network.websocketd.listening import Listener
from liqod.plugins.network.websocketd.packets import Tun
from liqod.plugins.network.websocketd.session import Session
from liqod.plugins.network.websocketd.tls import context
from liqod.plugins.network.websocketd.wanted import Wanted
from liqod.runtime import account
from liqod.runtime.connectionlimit import serve_listeners

SILENT = 10
"""Seconds between words where no keepalive is wanted, to notice all the same that the other end is
gone."""
PATIENCE = 5.0
"""Seconds, besides two keepalives, after which a connection that brings nothing is left."""
ASKED_WITHIN = 5.0


class Process:
    """All of it.

    Args:
        interface: name of the interface, or of the one whose datagrams are carried.
        folder: for its sockets.
        device: whose packets are carried.
    """

    def __init__(self, interface: str, folder: Path, device: Device) -> None:
        self._interface, self._folder = interface, folder
        self._device = device
        self._carrier = Carrier(device)
        self._factory = Marked()
        self._wanted: Wanted | None = None
        self._part: Dialer | Listener | None = None
        self._scope = trio.CancelScope()
        self._account = account.derived(account.TUNNEL_SHARES)

    async def run(self) -> NoReturn:
        """Until it is ended, or the interface is gone."""
        trio.socket.set_custom_socket_factory(self._factory)
        path = self._folder / f"{self._interface}.control"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as made:
            made.bind(os.fspath(path))
            path.chmod(0o600)
            made.listen(8)
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(made))
            try:
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._carrier.run)
                    await serve_listeners(self._asked, [listener])
            finally:
                path.unlink(missing_ok=True)
        raise AssertionError("it is ended from outside only")

    async def _asked(self, stream: trio.SocketStream) -> None:
        """Answer one request of the daemon's."""
        with suppress(OSError, trio.BrokenResourceError, trio.TooSlowError):
            async with stream:
                with trio.fail_after(ASKED_WITHIN):
                    if _user(stream) not in (0, os.geteuid()):
                        return
                    text = b""
                    while not text.endswith(b"\n") and len(text) <= wanted.MOST:
                        more = await stream.receive_some(wanted.MOST)
                        if not more:
                            return
                        text += more
                    await stream.send_all(json.dumps(await self._done(text)).encode() + b"\n")

    async def _done(self, text: bytes) -> dict[str, Any]:
        try:
            word, _, rest = text.decode().strip().partition(" ")
            if word == "be":
                await self._be(wanted.decoded(rest))
            elif word == "hurry" and isinstance(self._part, Dialer):
                self._part.hurry()
        except (ValueError, OSError, ssl.SSLError) as error:
            return {**self._status(), "error": _said(error)}
        return self._status()

    def _status(self) -> dict[str, Any]:
        newest, part = self._carrier.newest, self._part
        why = part.why if part is not None and newest is None else ""
        if self._wanted is not None and self._wanted.quiet:
            why = "it stands by"
        return {
            "version": wanted.VERSION,
            "digest": self._wanted.digest if self._wanted is not None else "",
            "endpoint": newest.where if newest is not None else "",
            "age": trio.current_time() - newest.opened if newest is not None else None,
            "why": why or ("" if newest is not None else "no connection stands yet"),
            "port": self._device.port,
            "dropped": self._carrier.dropped,
            "refused": self._carrier.refused,
        }

    async def _be(self, new: Wanted) -> None:
        """Do from now on what is wanted; of what need not end nothing does.

        Raises:
            OSError: it cannot be; what was before has ended.
        """
        old = self._wanted
        if new == old:
            return
        how = context("server" if new.side == "server" else "client", new.identity, new.peer)
        same = old is not None and old._replace(**_MAY_CHANGE) == new._replace(**_MAY_CHANGE)
        self._scope.cancel()
        if new.quiet or not same:
            await self._carrier.break_off("it stands by, or its keys are others")
        self._factory.mark = new.mark
        self._carrier.mark(new.mark)
        self._device.give_to(new.local)
        self._scope, self._wanted, self._part = trio.CancelScope(), None, None
        carry = partial(self._carry, new)
        if new.quiet:
            pass
        elif new.side == "server":
            own = (self._folder, self._interface, new.mark)
            listener = Listener(how, new.name, new.port, *own, carry, self._account)
            await self._nursery.start(self._serving, self._scope, listener)
            self._part = listener
        else:
            dialer = Dialer(how, new.name, new.targets, new.proxy_ca, new.mark, carry)
            newest = self._carrier.newest
            stands = newest is not None and newest.way in new.targets
            self._nursery.start_soon(self._dialling, self._scope, dialer, stands)
            self._part = dialer
        self._wanted = new

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

    def _carry(self, wanted: Wanted, session: Session) -> None:
        """Have packets go by a session; it lives on when where to dial or to listen changes."""
        if wanted is not self._wanted:
            # It came to stand while something else was being told.
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
    "local": 0,
}  # fmt: skip
"""Fields of the request that may change without an end of the session, with their defaults."""


def _user(stream: trio.SocketStream) -> int:
    said = stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("=iII", said)[1])


def _said(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return (
            "this process may not listen there: it needs CAP_NET_BIND_SERVICE for a port below "
            "1024, or another port (--gw-server-service-port)"
        )
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def main() -> None:
    """Run until ended."""
    interface, folder, *more = sys.argv[1:]
    device: Device = Datagrams() if more == [wanted.DATAGRAMS] else Tun(interface)
    process = Process(interface, Path(folder), device)
    with suppress(KeyboardInterrupt):
        try:
            trio.run(process.run)
        except* OSError:
            sys.exit(1)  # the interface is gone: the daemon begins another


if __name__ == "__main__":
    main()
