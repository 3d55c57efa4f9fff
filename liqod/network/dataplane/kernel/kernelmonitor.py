"""Observes changes in a network namespace by the kernel's events: at rest nothing polls or wakes.

A :class:`Monitor` has two sockets of netlink, one for links and routing and one for nftables. An
event names the object that has changed (:class:`Touched`), not its new state: the receiver looks.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Final, Literal, NoReturn, Self

import msgspec
import trio

from liqod import netlink
from liqod.errors import NetworkError
from liqod.network.dataplane.kernel import kernellinks, namespaces, routing, ruleset
from liqod.network.dataplane.values import Owned
from liqod.plugins.network import rtnetlink

# Groups of the kernel's: links, neighbours, then addresses, routes and rules of both families, and
# what sysctls say of forwarding and the check of sources.
_ROUTING = sum(1 << group - 1 for group in (1, 3, 5, 7, 8, 9, 11, 19, 24, 25))
_NFTABLES = 1 << 6
_NEW_CONFIGURATION, _DELETED_CONFIGURATION = 80, 81
_ALL_LINKS = -1
_INDEX_OF_CONFIGURATION = 1
_OF_TABLES = (0, 2, 3, 5, 6, 8, 9, 11, 12, 14, 18, 20)
BUFFER = 1 << 16
WATCH: Final = "the watch of this machine's network"
"""Its name in the log."""


class Touched(msgspec.Struct, frozen=True):
    """A change of an object in the kernel, named by its possible owner.

    Attributes:
        kind: a link or what hangs on it, a table of routes or a rule that looks into it, a table of
            nftables; or all, where the kernel had more to report than fits.
        name: of the link or of the table of nftables.
        number: of the table of routes.
        metric: of a route in it; 0 for a rule.
    """

    kind: Literal["link", "table", "nftables", "all"]
    name: str = ""
    number: int = 0
    metric: int = 0

    def is_of(self, owned: Owned) -> bool:
        """True if the object may be this owner's."""
        match self.kind:
            case "link":
                return self.name in owned.links
            case "table":
                if self.number == owned.shared != 0:
                    # A rule that leads there is everybody's.
                    return not self.metric or self.metric in owned.metrics
                return self.number in owned.tables or self.name in owned.links
            case "nftables":
                return self.name in owned.nftables
            case "all":
                return True


class Monitor:
    """Observes changes in one namespace. It keeps that alive as long as it is open."""

    def __init__(self, of_routing: socket.socket, of_nftables: socket.socket) -> None:
        self._routing = of_routing
        self._nftables = of_nftables
        self._names: dict[int, str] = {}

    @classmethod
    async def open(cls, namespace: str | None) -> Self:
        """Listens from now on.

        Raises:
            NetworkError: there is no such namespace, or the right is missing.
        """
        return await namespaces.inside(namespace, cls._open)

    @classmethod
    def _open(cls) -> Self:
        try:
            opened = cls(_listen(netlink.ROUTE, _ROUTING), _listen(netlink.NETFILTER, _NFTABLES))
        except OSError as error:
            raise NetworkError(f"cannot listen to netlink: {error}") from error
        with netlink.Netlink() as asking:
            opened._names = {link.index: link.name for link in rtnetlink.every(asking)}
        return opened

    def close(self) -> None:
        """Stop observing. A task that waits gets a :class:`trio.ClosedResourceError`."""
        for source in (self._routing, self._nftables):
            if trio.lowlevel.in_trio_run():
                trio.lowlevel.notify_closing(source)
            source.close()

    async def run(self, on_change: Callable[[Touched], None]) -> NoReturn:
        """Report each change until cancelled.

        Raises:
            trio.ClosedResourceError: in a group, the monitor was closed, also before this began.
            NetworkError: in a group, nothing can be observed any more.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, self._routing, self._of_routing, on_change)
            nursery.start_soon(self._read, self._nftables, _of_nftables, on_change)
        raise AssertionError("reading ends by cancellation only")

    async def _read(
        self,
        source: socket.socket,
        understand: Callable[[int, bytes], Iterator[Touched]],
        on_change: Callable[[Touched], None],
    ) -> NoReturn:
        while True:
            # It may be closed while this task is about to run, and nobody waits to be told.
            if source.fileno() >= 0:
                await trio.lowlevel.wait_readable(source)
            if source.fileno() < 0:
                raise trio.ClosedResourceError
            try:
                data = source.recv(BUFFER)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise NetworkError(f"netlink: {os.strerror(error.errno or 0)}") from error
                on_change(Touched("all"))
                continue
            for kind, _, _, body in netlink.messages(data):
                for touched in understand(kind, body):
                    on_change(touched)

    def _of_routing(self, kind: int, body: bytes) -> Iterator[Touched]:
        match kind:
            case kernellinks.NEW_LINK | kernellinks.DELETE_LINK:
                index, name = kernellinks.named(body)
                # Under its former name it is no longer what it was.
                former = self._names.get(index, name)
                self._names[index] = name
                if kind == kernellinks.DELETE_LINK:
                    del self._names[index]
                yield Touched("link", name)
                if former != name:
                    yield Touched("link", former)
            case (
                kernellinks.NEW_ADDRESS
                | kernellinks.DELETE_ADDRESS
                | kernellinks.NEW_NEIGHBOUR
                | kernellinks.DELETE_NEIGHBOUR
            ):
                # The link's number is at the same place in both.
                yield self._link(struct.unpack_from("=i", body, 4)[0])
            case routing.NEW_ROUTE | routing.DELETE_ROUTE | routing.NEW_RULE | routing.DELETE_RULE:
                place = routing.place(body, rule=kind >= routing.NEW_RULE)
                yield Touched("table", place.incoming, place.table, place.metric)
            case _ if kind in (_NEW_CONFIGURATION, _DELETED_CONFIGURATION):
                said = netlink.attributes(body, 4).get(_INDEX_OF_CONFIGURATION)
                index = struct.unpack("=i", said)[0] if said else _ALL_LINKS
                yield self._link(index) if index > 0 else Touched("all")

    def _link(self, index: int) -> Touched:
        return Touched("link", self._names.get(index, ""))


async def receive(
    namespace: str | None,
    report: Callable[[Touched], None],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Report each change in a namespace until cancelled; started once nothing is missed any more.

    Args:
        namespace: its name; None for the one that this process is in.
        tell: called with each change.
        task_status: of the task.

    Raises:
        NetworkError: nothing can be observed.
    """
    monitor = await Monitor.open(namespace)
    try:
        task_status.started()
        await monitor.run(report)
    finally:
        monitor.close()


def _listen(family: int, groups: int) -> socket.socket:
    made = socket.socket(
        socket.AF_NETLINK,
        socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK,
        family,
    )
    try:
        made.bind((0, groups))
    except OSError:
        made.close()
        raise
    return made


def _of_nftables(kind: int, body: bytes) -> Iterator[Touched]:
    """Every message about a part of a table names the table first."""
    if kind >> 8 == ruleset.SUBSYSTEM and kind & 0xFF in _OF_TABLES:
        name = netlink.read_text(netlink.attributes(body, 4).get(1))
        yield Touched("nftables", f"{ruleset.family(body)} {name}")
