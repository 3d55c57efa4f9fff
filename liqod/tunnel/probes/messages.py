"""Liqo's probe as it goes through a tunnel, and the findings of probes. Pure.

A probe is a datagram of JSON to UDP port 12345 of the other side's tunnel address, from that port:
``{"clusterID", "msgType": "PING", "timeStamp"}``. The answer is the same with ``PONG``. The
cluster that it names is the one that is probed; the answer repeats the request.

A side that has sent a field of liqod's alone gets a third one now and then, ``TELL``, with this
cluster's own ranges: it carries those that came after the networks were joined.
"""

from datetime import UTC, datetime
from math import inf
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from liqod.model.network.ranges import ClusterCidrs

LARGEST: Final = 512
"""Bytes of a probe that are looked at; Liqo's have about a hundred."""
MOST_RANGES: Final = 4
"""Ranges of which one side says how it sees them, the first ones: a question with more is none to
older liqods."""
MOST_OWN: Final = 8
"""Ranges of its own that it may report, of pods, and external ones."""

Prefix = Annotated[str, Meta(max_length=64, pattern=r"^[0-9A-Fa-f:.]+/[0-9]{1,3}\Z")]
"""An address range; nothing that a terminal would obey."""


class PeerHello(msgspec.Struct, frozen=True):
    """The facts that one side's gateway reports to the other's.

    Attributes:
        pod_address: an address among its pods at which it answers echoes; empty where it has none.
        seen_as: the aliases under which it sees the other side's ranges, in the order of
            :class:`liqod.model.network.ranges.ClusterCidrs`: pods' first.
        own: its cluster's own ranges; none where it has not reported them.
        websocket: whether it takes the tunnel in a websocket, too; None where not reported.
    """

    pod_address: str = ""
    seen_as: tuple[str, ...] = ()
    own: ClusterCidrs = ClusterCidrs()
    websocket: bool | None = None


class ProbeResult(msgspec.Struct, frozen=True):
    """The findings of probes through a tunnel.

    Attributes:
        alive: whether the other side answers.
        latency: seconds of a round trip, smoothed; None where none was answered.
        lost: part of the last probes that was not answered.
        why: why it is not alive, a sentence.
        last_request: when the other side's own probes were last here, by Trio's clock; ``-inf``
            for never.
        hello: the other side's report about itself; empty where it runs Liqo.
    """

    alive: bool
    latency: float | None = None
    lost: float = 0.0
    why: str = ""
    last_request: float = -inf
    hello: PeerHello = PeerHello()


class Message(msgspec.Struct, frozen=True, omit_defaults=True, rename={"cluster_id": "clusterID"}):
    """A probe or its answer; fields of others are passed over.

    Attributes:
        cluster_id: the one that is probed.
        msgType: ``PING``, ``PONG`` or ``TELL``.
        timeStamp: time of the request, in RFC 3339.
        podAddress: liqod's own: as :attr:`PeerHello.pod_address`.
        seenAs: liqod's own: as :attr:`PeerHello.seen_as`.
        pod, external: the same: ranges of the cluster that sends it, in a ``TELL``.
        websocket: the same: as :attr:`PeerHello.websocket`.
    """

    cluster_id: str = ""
    msgType: str = ""
    timeStamp: str = ""
    podAddress: str = ""
    seenAs: Annotated[tuple[Prefix, ...], Meta(max_length=MOST_RANGES)] = ()
    pod: Annotated[tuple[Prefix, ...], Meta(max_length=MOST_OWN)] = ()
    external: Annotated[tuple[Prefix, ...], Meta(max_length=MOST_OWN)] = ()
    websocket: bool | None = None


_decoder = msgspec.json.Decoder(Message)


def stamp(nanoseconds: int) -> str:
    """A Unix time in nanoseconds as Go writes it: without zeros at the end."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    part = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{whole}{part}Z"


def read(data: bytes) -> Message | None:
    """A datagram as a message; None where it is none."""
    if len(data) > LARGEST:
        return None
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
