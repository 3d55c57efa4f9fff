"""The first messages of a connection: a daemon greets, the machine's side admits or denies it.

A generation fences: a daemon of an older one than the newest that was admitted is denied. One of
the same generation is the same daemon, whose connection before this one is lost. The newest one
counts as long as its daemon is connected, and :data:`FENCED` seconds beyond that: by then any
daemon that it replaced has noticed that it leads no more, and a Lease whose numbers have gone back
(made anew where the clock was set back, restored with an older state) denies nobody for good.
"""

from typing import Final

import msgspec

from liqod.model import ids
from liqod.model.peering.intervals import SILENT_AFTER

VERSION: Final = 1
"""Of the messages that this program writes."""
OLDEST: Final = 1
"""The oldest version of them that it reads."""
FOLDER: Final = "/run/liqod-node"
"""Of the socket at which the machine's side listens, where no other is configured."""
SOCKET: Final = "machine.sock"
CALLS: Final = "calls.sock"
"""The socket in that folder by which the daemon is handed the connections that call it at the port
of the tunnels."""
FENCED: Final = SILENT_AFTER
"""Seconds for which a generation counts after the connection of its daemon has ended."""
TELL_EVERY: Final = 5.0
"""Seconds after which a daemon sends its generation again, by which it is known to be alive."""
HEARD_WITHIN: Final = 20.0
"""Seconds without a message after which a daemon counts as stopped: its connection ends."""


class Generation(msgspec.Struct, frozen=True, order=True, tag=True):
    """The place of a daemon among those of its cluster that order one machine, oldest first.

    A daemon sends it in its greeting, and alone whenever it changes and every few seconds.

    Attributes:
        made: Unix time at which the leader's Lease was made, by the API server's clock: one that
            was made anew counts its holders from 0. 0 where there is no Lease.
        term: the Lease's count of holders, as the daemon saw it last.
        leads: whether the daemon is the holder.
        started: when the daemon was started, in nanoseconds of a clock of the machine that is
            never set; for daemons that lead equally.
    """

    made: int = 0
    term: int = 0
    leads: bool = False
    started: int = 0


class Greeting(msgspec.Struct, frozen=True, tag=True):
    """The daemon's first message.

    Attributes:
        oldest: version of the messages that it reads.
        newest: version of the messages that it writes.
        cluster: id of its cluster.
        generation: of the daemon.
    """

    oldest: int
    newest: int
    cluster: str
    generation: Generation


class Admitted(msgspec.Struct, frozen=True, tag=True):
    """The machine's answer to a daemon that may order: all orders are sent anew from here on.

    Attributes:
        version: of the messages, in both directions.
    """

    version: int


class Denied(msgspec.Struct, frozen=True, tag=True):
    """The machine's answer to a daemon that may not order.

    Attributes:
        problem: why, and how that is mended.
    """

    problem: str


GREETINGS: Final[msgspec.json.Decoder[Greeting]] = msgspec.json.Decoder(Greeting)
ANSWERS: Final[msgspec.json.Decoder[Admitted | Denied]] = msgspec.json.Decoder(Admitted | Denied)


def answer(greeting: Greeting, cluster: str, newest: Generation) -> Admitted | Denied:
    """The answer to a greeting.

    Args:
        cluster: id of the machine's cluster; empty while it has none.
        newest: generation that counts; the lowest for none.
    """
    version = min(greeting.newest, VERSION)
    if version < max(greeting.oldest, OLDEST):
        spoken = f"{greeting.oldest} to {greeting.newest}"
        return Denied(
            f"the daemon speaks versions {spoken} of the messages, and this machine's side "
            f"{OLDEST} to {VERSION}: upgrade the older one"
        )
    if (problem := ids.cluster_id_problem(greeting.cluster)) is not None:
        return Denied(problem)
    if cluster and greeting.cluster != cluster:
        return Denied(
            f"this machine is of the cluster {cluster}, and the daemon is another cluster's: where "
            "the cluster has another id now, restart liqod node"
        )
    if greeting.generation < newest:
        return Denied("a daemon that leads, or was started later, orders this machine")
    return Admitted(version)
