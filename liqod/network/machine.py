"""What this machine can do for the networks of peers; the same for all of them.

The data path, the probes and the tunnels' backends are handed on from here, so that a peer's
network can be run with others in their place.
"""

from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

import msgspec

from liqod.network.names import Names, Side
from liqod.network.peerplan import PeerPlan
from liqod.plugins.providers import Tunnel


class Datapath(Protocol):
    """The kernel's part of peers' networks. Every call may come again, and after a crash."""

    async def begin(self, names: Names) -> None:
        """Have a peer's network namespace, in which its tunnel is to be.

        Raises:
            NetworkError: it cannot be had.
        """
        ...

    async def apply(self, plan: PeerPlan) -> list[str]:
        """Have a peer's links, routes, rules and filters be as planned; what was changed.

        Raises:
            NetworkError: the kernel refuses.
        """
        ...

    async def wait_disturbed(self, names: Names) -> None:
        """Wait until somebody else changed something of a peer's, which then is to be applied."""
        ...

    async def remove(self, names: Names) -> list[str]:
        """Have nothing of a peer's on this machine any more; what was removed.

        Raises:
            NetworkError: something does not go.
        """
        ...


class Heard(msgspec.Struct, frozen=True):
    """What probes through a tunnel have found.

    Attributes:
        alive: whether the other side answers.
        latency: seconds of a round trip, smoothed; None where none was answered.
        lost: part of the last probes that was not answered.
        why: why it is not alive, a sentence.
    """

    alive: bool
    latency: float | None = None
    lost: float = 0.0
    why: str = ""


class Probes(Protocol):
    """Asks the other side through the tunnel whether it is there, and answers when asked."""

    async def __call__(
        self, names: Names, side: Side, heard: Callable[[Heard], None], /
    ) -> NoReturn:
        """Probe until cancelled; ``heard`` is told when something notable has changed."""
        ...


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """This machine.

    Attributes:
        problem: what it lacks, by name, a clause; empty where networks can be joined.
        addresses: where peers reach it, the preferred one first.
        tunnels: of each backend that may be used and works here, how one of its tunnels is had.
        datapath, probes: what does the work.
    """

    problem: str = ""
    addresses: tuple[str, ...] = ()
    tunnels: Mapping[str, Callable[[Names], Tunnel]] = {}
    datapath: Datapath | None = None
    probes: Probes | None = None


NOWHERE = Machine(problem="this daemon joins no networks")
"""Of a daemon that was not asked to."""
