"""Resolves host names, each in threads of its own: an unanswered lookup delays no other.

A lookup cannot be interrupted: after a cancellation its thread remains until the resolver's own
time-outs. In Trio's common threads a few peers whose zone is dead would soon use all of them, and
then no other name could be resolved, that of this cluster's API server included.
"""

import socket
from functools import partial
from typing import Any

import trio

AT_ONCE = 2
"""Concurrent lookups of one name, cancelled ones included."""


class HostResolver(trio.abc.HostnameResolver):
    """Resolves names for :mod:`trio.socket`, once it is set there."""

    def __init__(self) -> None:
        self._limits: dict[bytes | None, trio.CapacityLimiter] = {}

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """As :func:`socket.getaddrinfo`; of more than two lookups of one name the others wait."""
        limit = self._limits.setdefault(host, trio.CapacityLimiter(AT_ONCE))
        look = partial(socket.getaddrinfo, host, port, family, type, proto, flags)
        try:
            return await trio.to_thread.run_sync(look, abandon_on_cancel=True, limiter=limit)
        finally:
            now = limit.statistics()
            if not now.borrowed_tokens and not now.tasks_waiting:
                self._limits.pop(host, None)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """As :func:`socket.getnameinfo`."""
        look = partial(socket.getnameinfo, sockaddr, flags)
        return await trio.to_thread.run_sync(look, abandon_on_cancel=True)
