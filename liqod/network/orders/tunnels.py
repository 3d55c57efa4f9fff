"""Messages of peers' tunnels: the daemon has the objects and the keys, the machine has the kernel.

The newest :class:`TunnelOrder` of a peer counts, and goes on counting while no daemon is connected:
only :class:`EndTunnel` takes a tunnel away, and :class:`ReleaseTunnels` leaves all of them as they
are. A request has a number, which its answer repeats. All of it may be repeated, to a side that has
begun anew.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from liqod.model.network.pathfigures import PathFigures
from liqod.model.network.podpath import NOT_TRIED, PodPath
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.network.dataplane.names import Side

PORT: Final = 51840
"""Port of the first gateway of a machine where none is configured: Liqo's."""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """How a backend's servers listen.

    Attributes:
        transport: ``UDP`` or ``TCP``.
        port: the default.
        shared: whether those of several peers listen at one port.
        carried: whether its packets can go in a websocket.
    """

    transport: Literal["UDP", "TCP"] = "UDP"
    port: int = PORT
    shared: bool = False
    carried: bool = False


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """This cluster's end of a tunnel, as an object requests it.

    Attributes:
        side: whether it is dialled, or dials.
        backend: what makes the tunnel.
        name, uid: of the object.
        mtu: in bytes.
        port: where it listens; 0 for any.
        transport: ``UDP`` or ``TCP``.
        endpoints: ``address:port`` of the other side, the preferred one first.
        websocket: TCP port at which a server takes the tunnel in a websocket, too; 0 for none.
    """

    side: Side
    backend: str
    name: str
    uid: str
    mtu: int
    port: int = 0
    transport: Literal["UDP", "TCP"] = "UDP"
    endpoints: tuple[str, ...] = ()
    websocket: int = 0


State = Literal["Connected", "Connecting", "Error"]


class TunnelState(msgspec.Struct, frozen=True):
    """How a tunnel is.

    Attributes:
        state: in Liqo's words.
        why: the reason, a sentence; empty where there is none.
        latency: seconds of a round trip; None where none has been made.
        pods: the path from pod to pod; one that is not tried where there is no tunnel.
    """

    state: State = "Connecting"
    why: str = ""
    latency: float | None = None
    pods: PodPath = NOT_TRIED


# From the daemon.


class Surroundings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts on which a machine's capabilities depend that only the daemon knows.

    Attributes:
        address: of the machine's Node; empty where it is none.
        server: URL of this cluster's API server for peers; empty where no peer is led to it.
        reached: URL at which this machine reaches it.
        others: whether there may be other candidates for the gateway.
    """

    address: str = ""
    server: str = ""
    reached: str = ""
    others: bool = False


class ReadMachine(msgspec.Struct, frozen=True, tag=True):
    """Requests the capabilities of this machine, which are looked for anew.

    Attributes:
        number: repeated in the answer.
        around: the machine's surroundings.
    """

    number: int
    around: Surroundings = Surroundings()


class TunnelOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Orders the tunnel and the data path of one peer.

    Attributes:
        peer: its id.
        ranges: of both clusters.
        gateway: this end of the tunnel.
        private_key, public_key: this end's, 32 bytes each.
        peer_key: the peer's public key, 32 bytes.
    """

    peer: str
    ranges: PeerRanges
    gateway: Gateway
    private_key: bytes
    public_key: bytes
    peer_key: bytes

    def __repr__(self) -> str:
        return f"TunnelOrder({self.peer}, {self.gateway}, {self.ranges})"


class EndTunnel(msgspec.Struct, frozen=True, tag=True):
    """Ends one peer's tunnel: everything of the peer's is taken away from the machine.

    Attributes:
        number: repeated in the answer.
        peer: its id.
    """

    number: int
    peer: str


class MeasureTunnel(msgspec.Struct, frozen=True, tag=True):
    """Requests fresh figures of one peer's tunnel: somebody looks.

    Attributes:
        peer: its id.
    """

    peer: str


class ReleaseTunnels(msgspec.Struct, frozen=True, tag=True):
    """Leaves all tunnels as they are, attended by nobody: another machine is the gateway."""


class FindUnknown(msgspec.Struct, frozen=True, tag=True):
    """Requests the networks on this machine that are of no known peer.

    Attributes:
        number: repeated in the answer.
        known: ids of all known peers.
    """

    number: int
    known: tuple[str, ...]


class SweepUnknown(msgspec.Struct, frozen=True, tag=True):
    """Takes away networks that still are of no known peer.

    Attributes:
        number: repeated in the answer.
        found: those that were of none before, as in :class:`UnknownFound`.
        known: ids of all known peers.
    """

    number: int
    found: tuple[str, ...]
    known: tuple[str, ...]


# From the machine.


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of this machine for the networks of peers.

    Attributes:
        problem: what it lacks, by name, a clause; empty where networks can be joined.
        unknown: nothing of it is known, and ``problem`` says why: networks stay as they are.
        addresses: where peers reach it, the preferred one first.
        backends: those that may be used and work here, and how their servers listen.
        stands_by: the backends whose tunnels can be quiet on a standby.
        undecided: the backends that could not be asked now, and why, a clause. One of these is
            among ``backends`` where it worked before.
    """

    problem: str = ""
    unknown: bool = False
    addresses: tuple[str, ...] = ()
    backends: Mapping[str, Listening] = {}
    stands_by: frozenset[str] = frozenset()
    undecided: Mapping[str, str] = {}


DISABLED: Final = MachineFacts(problem="the configuration says so ([network] enabled)")
"""The facts of a machine whose configuration excludes it."""
NO_NETWORKS: Final = MachineFacts(problem="this daemon joins no networks")
"""The facts of a machine that is not configured as a gateway."""


class BackendTrouble(msgspec.Struct, frozen=True):
    """The present fault of a tunnel backend.

    Attributes:
        reason: a clause.
        rests: seconds until it is called again; 0 where it is called.
    """

    reason: str
    rests: float = 0.0


class BackendTroubles(msgspec.Struct, frozen=True, tag=True):
    """The backends of this machine that have a fault; sent every few seconds while there is one.

    Attributes:
        troubles: by the backends' names.
    """

    troubles: Mapping[str, BackendTrouble] = {}


class MachineRead(msgspec.Struct, frozen=True, tag=True):
    """Answers :class:`ReadMachine`.

    Attributes:
        number: of the request.
        facts: as they are now.
    """

    number: int
    facts: MachineFacts


class TunnelEnded(msgspec.Struct, frozen=True, tag=True):
    """Answers :class:`EndTunnel`.

    Attributes:
        number: of the request.
        problem: why something is left; empty where all is gone.
    """

    number: int
    problem: str = ""


class UnknownFound(msgspec.Struct, frozen=True, tag=True):
    """Answers :class:`FindUnknown`.

    Attributes:
        number: of the request.
        found: the hashes in the names of the networks.
        problem: why the kernel cannot be asked; empty where it was.
    """

    number: int
    found: tuple[str, ...] = ()
    problem: str = ""


class UnknownSwept(msgspec.Struct, frozen=True, tag=True):
    """Answers :class:`SweepUnknown`.

    Attributes:
        number: of the request.
        marks: of the networks that are gone.
        problem: why something is left; empty where all is gone.
    """

    number: int
    marks: tuple[str, ...] = ()
    problem: str = ""


class PodsTrip(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest packet from a pod's address here to one of the peer's, and back.

    Attributes:
        ago: seconds since.
        way: from where to where.
        took: seconds; None where nothing came back.
    """

    ago: float
    way: str
    took: float | None = None


class TunnelFigures(PathFigures, frozen=True, kw_only=True, omit_defaults=True):
    """The measured part of the facts about one peer's network, with ages at the time it is sent.

    Attributes:
        alive: whether probes are answered: the last sign of life is of just now.
        seen_as: the aliases under which the peer sees this cluster's ranges, pods' first.
        trip: the newest from pod to pod; None: none yet.
    """

    alive: bool = False
    seen_as: tuple[str, ...] = ()
    trip: PodsTrip | None = None


class TunnelReport(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The present state of one peer's tunnel; sent when something turns, and for each new order.

    At rest it comes each few seconds: with the probes' latency, and with each measurement.

    Attributes:
        peer: its id.
        state: of the tunnel.
        judged: whether the probes, or a failure, have judged it; a new one is not judged yet.
        told: the peer's own ranges, as its gateway reports them; none where it has not.
        figures: as measured last.
    """

    peer: str
    state: TunnelState
    judged: bool = True
    told: ClusterCidrs = ClusterCidrs()
    figures: TunnelFigures = TunnelFigures()


TunnelAnswer = MachineRead | TunnelEnded | UnknownFound | UnknownSwept
MachineRequest = ReadMachine | EndTunnel | FindUnknown | SweepUnknown
TunnelMessage = MachineRequest | TunnelOrder | MeasureTunnel | ReleaseTunnels
TunnelNews = TunnelReport | TunnelAnswer | BackendTroubles
