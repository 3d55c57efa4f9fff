"""The messages between the probes of a tunnel and their parent, each a line of JSON. Pure.

The parent orders the probes, opens their sockets and gives them the facts to report. The probes
want sockets and come to verdicts. They may be an attacker's some day, so that everything that comes
from them has a type and a bound, as in a datagram of the other side's.
"""

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from liqod.tunnel.probes.messages import Message, PeerHello

T = TypeVar("T")

MOST: Final = 4096
"""Bytes of a message of the probes."""
MOST_TOLD: Final = 1 << 20
"""Bytes of a message to them."""
SocketKind = Literal["probes", "echoes"]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class ProbeOrder(msgspec.Struct, frozen=True):
    """The tunnel to probe.

    Attributes:
        peer_id: the cluster at the other side.
        own, other: the addresses of both sides.
        port: UDP port of both.
        hello: the facts to report to the other side.
    """

    peer_id: str
    own: str
    other: str
    port: int
    hello: PeerHello = PeerHello()


class Given(msgspec.Struct, frozen=True, tag="given"):
    """A socket, beside the message, or the reason for none.

    Attributes:
        kind: of the socket.
        why: the reason.
    """

    kind: SocketKind
    why: str = ""


class Told(msgspec.Struct, frozen=True, tag="told"):
    """The facts to report to the other side from now on."""

    hello: PeerHello


class Wants(msgspec.Struct, frozen=True, tag="wants"):
    """The probes want a socket of a kind."""

    kind: SocketKind


class Judged(msgspec.Struct, frozen=True, omit_defaults=True, tag="judged"):
    """The probes' verdict, as :class:`.messages.ProbeResult` has it.

    Attributes:
        alive, latency, lost, why: the same.
        requested: seconds since the other side's own probes were last here; None for never.
        said: the other side's report about itself.
    """

    alive: bool
    latency: Seconds | None = None
    lost: Annotated[float, Meta(ge=0, le=1)] = 0.0
    why: Annotated[str, Meta(max_length=512)] = ""
    requested: Seconds | None = None
    said: Message = Message()


class EchoOrder(msgspec.Struct, frozen=True):
    """An echo to be requested, as often as it takes.

    Attributes:
        target: an address.
        size: of the packet in bytes, IP's header included.
        patience: seconds for an answer.
        tries: packets that are sent, one after the other, until one is answered.
    """

    target: str
    size: int
    patience: float
    tries: int


class Echoed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to that.

    Attributes:
        took: seconds of the round trip; None where nothing came back, or it does not fit.
        why: why nothing can be sent; empty where it can.
    """

    took: Seconds | None = None
    why: Annotated[str, Meta(max_length=512)] = ""


OfProbes = Wants | Judged
ToProbes = Given | Told
_of_probes: Final[msgspec.json.Decoder[OfProbes]] = msgspec.json.Decoder(OfProbes)
_to_probes: Final[msgspec.json.Decoder[ToProbes]] = msgspec.json.Decoder(ToProbes)
_echoed: Final = msgspec.json.Decoder(Echoed)


def encoded(message: OfProbes | ToProbes | Echoed) -> bytes:
    """As a line."""
    return msgspec.json.encode(message) + b"\n"


def read_line(decoder: "msgspec.json.Decoder[T]", line: bytes, problem: str) -> T:
    """The message in a line. Raises ValueError: it is none, which is the problem."""
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{problem}: {error}") from None


def of_probes(line: bytes) -> OfProbes:
    """A message of the probes. Raises ValueError: it is none."""
    return read_line(_of_probes, line, "the probes send what is no message")


def to_probes(line: bytes) -> ToProbes:
    """A message to them. Raises ValueError: it is none."""
    return read_line(_to_probes, line, "the parent sends what is no message")


def echoed(line: bytes) -> Echoed:
    """The answer in a line. Raises ValueError: it is none."""
    return read_line(_echoed, line, "it is no answer about an echo")
