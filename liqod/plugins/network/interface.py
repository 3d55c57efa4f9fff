"""A tunnel's interface: made where its packets travel, then moved into the peer's namespace.

Every backend does that with its own, and those that have a program begin it in the same way.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import trio

from liqod.errors import NetworkError
from liqod.plugins.network import links, processes
from liqod.plugins.network.links import Link
from liqod.plugins.providers import Host, Place

R = TypeVar("R")


class Interface:
    """The interface of one tunnel.

    Args:
        host: the machine.
        place: where the interface is to be.

    Everything here raises :class:`~liqod.netlink.Refused`, or OSError, where the kernel refuses.
    """

    def __init__(self, host: Host, place: Place) -> None:
        self._host = host
        self._place = place

    async def make(self, kind: str, *data: bytes, mac: str = "") -> None:
        """Make it where its packets travel, as :func:`.links.make`."""
        make = partial(links.make, self._place.interface, kind, *data, mac=mac)
        await self._host.within(self._place.underlay, make)

    async def move(self) -> None:
        """Move it from there to its namespace."""
        move = partial(links.move, self._place.interface, self._place.namespace)
        await self._host.within(self._place.underlay, move)

    async def settle(self, mtu: int, *, segments: int = 0) -> None:
        """Have it in its namespace, set up.

        Args:
            mtu: in bytes.
            segments: as :func:`.links.raise_`'s.
        """
        interface, namespace = self._place.interface, self._place.namespace

        def settled() -> bool:
            link = links.find(interface)
            if link is not None and not (link.up and link.mtu == mtu):
                links.raise_(interface, mtu, segments=segments)
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
            delete = partial(links.delete, self._place.interface)
            await self._within(namespace, delete, missing=False)

    async def begin(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        ready: Callable[[], Awaitable[bool]],
        deadline: float,
        who: str,
        late: str,
    ) -> None:
        """Begin the program that makes the interface, and wait until it has.

        Args:
            command, environment: as :func:`.processes.start`'s.
            ready: says whether it is ready.
            deadline: seconds after which it is killed.
            who: the program, in words.
            late: what is raised then.

        Raises:
            NetworkError: it has ended, or was not ready in time.
            OSError: it cannot be begun.
        """
        start = partial(processes.start, command, environment)
        child = await self._host.within(self._place.underlay, start)
        with trio.move_on_after(deadline):
            while not await ready():
                if child.poll() is not None:
                    raise NetworkError(
                        f"{who} ended with status {child.returncode}; "
                        f"`{' '.join(command)}` on this host says why"
                    )
                await trio.sleep(0.01)
            return
        child.kill()
        raise NetworkError(late)

    async def _find_in(self, namespace: str, kind: str) -> Link | None:
        find = partial(links.find, self._place.interface)
        link = await self._within(namespace, find, missing=None)
        return link if link is not None and kind in ("", link.kind) else None

    async def _within(self, namespace: str, function: Callable[[], R], *, missing: R) -> R:
        """As the host's; ``missing`` where there is no such namespace."""
        if namespace and not links.is_namespace(namespace):
            return missing
        return await self._host.within(namespace, function)
