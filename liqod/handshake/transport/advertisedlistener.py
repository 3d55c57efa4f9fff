"""Listens for other clusters' daemons, and publishes the addresses where it does.

They are published in an annotation of the Secret with this cluster's key, which makers of
invitations read.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.cluster.context import ClusterContext
from liqod.errors import LiqodError
from liqod.handshake.transport.peerlistener import PeerListener
from liqod.runtime.log import Seldom
from liqod.sharedport import SHARED, Connect

AGAIN: Final = 30.0
"""Seconds after which a port that was taken is tried again."""
SHARED_AGAIN: Final = 1.0
"""Seconds after which the program that has a shared port is asked again for what calls there."""

log = logging.getLogger(__name__)


class AdvertisedListener:
    """Listens for other clusters' daemons, and publishes the addresses where it does.

    Args:
        connect: connects to the program that hands over what calls this daemon at a port of its
            machine: at :data:`SHARED`, which tunnels have, too, and at any where the daemon is not
            in the machine's network; None where there is no such program.

    Attributes:
        port: that is listened on; 0 where none is.
        problem: why none is; empty where one is, or where none is to be.
    """

    def __init__(self, context: ClusterContext, connect: Connect | None = None) -> None:
        self._context, self._connect = context, connect
        self._seldom = Seldom()
        self._published: tuple[str | None] | None = None
        """The addresses that were last written; None for nothing yet."""
        self.port = 0
        self.problem = ""

    @property
    def advertised_address(self) -> str:
        """Its advertised address, as ``HOST:PORT`` with commas between; empty for nowhere."""
        return "" if self._published is None else self._published[0] or ""

    def reload(self, context: ClusterContext) -> None:
        """Go by another configuration from now on; what is listened on stays as it is."""
        self._context = context

    async def run(
        self,
        listener: PeerListener,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Listen until cancelled; a port that is taken is tried again.

        Args:
            listener: takes the connections.
        """
        try:
            await self._listen(listener, task_status)
        finally:
            self.problem = ""

    async def withdraw(self) -> None:
        """Remove the addresses of the last run, for a daemon that is met nowhere; until done."""
        while True:
            if await self._withdraw_addresses():
                return
            await trio.sleep(AGAIN)

    async def _listen(self, listener: PeerListener, task_status: trio.TaskStatus[None]) -> NoReturn:
        settings = self._context.config.handshake
        elsewhere = settings.port == SHARED or (self._context.apart and settings.port != 0)
        if self._connect is not None and elsewhere and not settings.host:
            await self._share(self._connect, settings.port, listener, task_status)
        while True:
            try:
                sockets = await trio.open_tcp_listeners(settings.port, host=settings.host or None)
            except OSError as error:
                self._fail(settings.port, error.strerror or str(error))
                await self._withdraw_addresses()
                task_status.started()
                await trio.sleep(AGAIN)
                task_status = trio.TASK_STATUS_IGNORED
                continue
            try:
                with self._listening_at(sockets[0].socket.getsockname()[1]):
                    await self._publish_addresses()
                    task_status.started()
                    await listener.run(sockets)
            finally:
                for each in sockets:  # else the port is taken for as long as nobody collects them
                    each.socket.close()

    async def _share(
        self,
        connect: Connect,
        port: int,
        listener: PeerListener,
        task_status: trio.TaskStatus[None],
    ) -> NoReturn:
        """Be handed what calls this daemon, by the program that has the port."""
        lost = -math.inf
        async with trio.open_nursery() as taken:
            while True:
                try:
                    stream = await connect(port)
                except LiqodError as error:
                    self._fail(port, str(error))
                    # A program that begins anew has it again in a moment.
                    if trio.current_time() - lost > AGAIN:
                        await self._withdraw_addresses()
                    task_status.started()
                else:
                    async with stream:
                        with self._listening_at(port):
                            await self._publish_addresses()
                            task_status.started()
                            await listener.share(stream, taken)
                    lost = trio.current_time()
                task_status = trio.TASK_STATUS_IGNORED
                await trio.sleep(SHARED_AGAIN)
        raise AssertionError("a port is shared until cancelled")

    def _fail(self, port: int, why: str) -> None:
        """Show why nothing is listened on."""
        self.problem = f"port {port} cannot be listened on: {why}"
        if self._seldom.allows(self.problem):
            log.warning("no other cluster can ask this one: %s", self.problem)

    @contextmanager
    def _listening_at(self, port: int) -> Iterator[None]:
        """Shows a port as the one where daemons are met, while the block lasts."""
        self.port, self.problem = port, ""
        log.info("other clusters' daemons are met at port %d", port)
        try:
            yield
        finally:
            self.port = 0

    def _host(self) -> str:
        address = self._context.config.handshake.host or self._context.machine_address
        return f"[{address}]" if ":" in address else address

    async def _publish_addresses(self) -> None:
        """Publishes the addresses of this daemon, for makers of invitations."""
        addresses = self._context.config.handshake.advertise or (f"{self._host()}:{self.port}",)
        await self._annotate(",".join(addresses))

    async def _withdraw_addresses(self) -> bool:
        """Removes the addresses of the last run: they lead nowhere, or to another host.

        Returns whether that is done; where it is not, it is said why.
        """
        try:
            await self._annotate(None)
        except LiqodError as error:
            log.warning("it still says where this daemon was met, which leads nowhere: %s", error)
            return False
        return True

    async def _annotate(self, met_at: str | None) -> None:
        if (met_at,) == self._published:
            return  # a port that is taken is tried again and again
        note = {"metadata": {"annotations": {labels.MET_AT: met_at}}}
        context = self._context
        await context.client.patch(SECRETS, labels.KEYS_SECRET, note, context.namespace)
        self._published = (met_at,)
