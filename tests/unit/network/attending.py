"""The tunnels' process as tasks of a test's own, which may do anything."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from liqod.network.dataplane.datapath import KernelDatapath
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.tunnel.wanted import TunnelRequest

Work = Callable[[trio.SocketStream], Awaitable[object]]


class Process(MachineProcess):
    """The tunnels' process, as tasks of the test's own.

    Args:
        works: what is done for each order in turn, the last one for all that follow.
    """

    def __init__(self, *works: Work) -> None:
        super().__init__(KernelDatapath("rome"), Path("/nowhere"))
        self.works, self.requests = list(works), list[TunnelRequest]()

    @asynccontextmanager
    async def attended(
        self, request: TunnelRequest, files: Sequence[int] = ()
    ) -> AsyncIterator[trio.SocketStream]:
        self.requests.append(request)
        one, other = map(trio.socket.from_stdlib_socket, socket.socketpair())
        near, far = trio.SocketStream(one), trio.SocketStream(other)
        async with trio.open_nursery() as nursery, near:
            nursery.start_soon(self.work, far, request, [os.dup(each) for each in files])
            yield near
            nursery.cancel_scope.cancel()

    async def work(self, far: trio.SocketStream, request: TunnelRequest, files: list[int]) -> None:
        """Do what an order says, with copies of the files that came with it."""
        for each in files:
            os.close(each)
        work = self.works.pop(0) if len(self.works) > 1 else self.works[0]
        async with far:
            await work(far)
