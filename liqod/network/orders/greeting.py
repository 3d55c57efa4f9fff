"""The first messages of a connection: a daemon greets, the machine's side admits or denies it.

A generation fences: a daemon of an older one than the newest that was admitted is denied. One of
the same generation is the same daemon, whose connection before this one is lost.
"""

from typing import Final

import msgspec

VERSION: Final = 1
"""Of the messages that this program writes."""
OLDEST: Final = 1
"""The oldest version of them that it reads."""


class Greeting(msgspec.Struct, frozen=True, tag=True):
    """The daemon's first message.

    Attributes:
        oldest: version of the messages that it reads.
        newest: version of the messages that it writes.
        cluster: id of its cluster.
        generation: of the daemon, higher for each later one on this machine.
    """

    oldest: int
    newest: int
    cluster: str
    generation: int


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


def answer(greeting: Greeting, cluster: str, newest: int) -> Admitted | Denied:
    """The answer to a greeting.

    Args:
        cluster: id of the machine's cluster.
        newest: generation of the daemons that were admitted before.
    """
    version = min(greeting.newest, VERSION)
    if version < max(greeting.oldest, OLDEST):
        spoken = f"{greeting.oldest} to {greeting.newest}"
        return Denied(
            f"the daemon speaks versions {spoken} of the messages, and this machine's side "
            f"{OLDEST} to {VERSION}: upgrade the older one"
        )
    if greeting.cluster != cluster:
        return Denied(f"this machine is of the cluster {cluster}: the daemon is another cluster's")
    if greeting.generation < newest:
        return Denied("a later daemon orders this machine: end this one, or start it again")
    return Admitted(version)
