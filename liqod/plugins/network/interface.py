"""A tunnel's interface: made where its packets travel, then moved into the peer's namespace.

Every backend does that with its own.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from liqod.netlink import Attribute
from liqod.plugins.network import rtnetlink
from liqod.plugins.network.rtnetlink import Link
from liqod.plugins.providers import Host, Place

R = TypeVar("R")


class Interface:
    """The interface of one tunnel.

    Args:
        host: the machine.
        place: where the interface is to be.

    Everything here raises :class:`~liqod.netlink.NetlinkRefused`, or OSError, where the kernel
    refuses.
    """

    def __init__(self, host: Host, place: Place) -> None:
        self._host = host
        self._place = place

    async def make(self, kind: str, *data: Attribute, mac: str = "") -> None:
        """Make it where its packets travel, as :func:`.rtnetlink.make`."""
        make = partial(rtnetlink.make, self._place.interface, kind, *data, mac=mac)
        await self._host.within(self._place.underlay, make)

    async def move(self) -> None:
        """Move it from there to its namespace."""
        move = partial(rtnetlink.move, self._place.interface, self._place.namespace)
        await self._host.within(self._place.underlay, move)

    async def settle(self, mtu: int, *, segments: int = 0) -> None:
        """Have it in its namespace, set up.

        Args:
            mtu: in bytes.
            segments: as :func:`.rtnetlink.raise_`'s.
        """
        interface, namespace = self._place.interface, self._place.namespace

        def settled() -> bool:
            link = rtnetlink.find(interface)
            if link is not None and not (link.up and link.mtu == mtu):
                rtnetlink.raise_(interface, mtu, segments=segments)
            return link is not None

        if not await self._host.within(namespace, settled):
            await self.move()
            await self._host.within(namespace, settled)

    async def find(self, kind: str = "") -> Link | None:
        """The interface in its namespace; None where it is not there, or of another kind."""
        return await self._find_in(self._place.namespace, kind)

    async def find_anywhere(self, kind: str = "") -> Link | None:
        """The same, also where it was made and has not been moved yet."""
        return await self.find(kind) or await self._find_in(self._place.underlay, kind)

    async def delete(self) -> None:
        """Delete it, wherever it is: of a program that was killed it may live on for a moment."""
        for namespace in (self._place.underlay, self._place.namespace):
            delete = partial(rtnetlink.delete, self._place.interface)
            await self._within(namespace, delete, missing=False)

    async def _find_in(self, namespace: str, kind: str) -> Link | None:
        find = partial(rtnetlink.find, self._place.interface)
        link = await self._within(namespace, find, missing=None)
        return link if link is not None and kind in ("", link.kind) else None

    async def _within(self, namespace: str, function: Callable[[], R], *, missing: R) -> R:
        """As the host's; ``missing`` where there is no such namespace."""
        if namespace and not rtnetlink.is_namespace(namespace):
            return missing
        return await self._host.within(namespace, function)
