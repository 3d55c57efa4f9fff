"""What is known of the network that is joined with one peer, for whoever judges or shows it. Pure.

The room that keeps the network fills this from memory; the doctor's layers
(:mod:`liqod.plugins.checks.network`) say by it which part fails first.
"""

import msgspec


class NodeWay(msgspec.Struct, frozen=True):
    """A node's way to the gateway.

    Attributes:
        name: of the Node.
        missing: what it lacks, such as ``route to 10.71.0.0/16``.
        told: seconds since it last said so; None: never.
        problem: why it cannot be set up; empty where nothing hinders it.
    """

    name: str
    missing: tuple[str, ...] = ()
    told: float | None = None
    problem: str = ""


class PodTrip(msgspec.Struct, frozen=True):
    """A packet from a pod here to a pod there, and back.

    Attributes:
        ago: seconds since.
        took: seconds it took.
        error: why it did not come back; empty where it did.
        way: from where to where, as text.
    """

    ago: float
    took: float = 0.0
    error: str = ""
    way: str = ""


class NetworkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the network of one peer.

    Attributes:
        problem: what this daemon lacks to join networks (a right, a program); empty for nothing.
        waits: what is waited for before there can be a tunnel; empty for nothing.
        aliases: ranges of the peer's and how they are seen here, such as
            ``10.244.0.0/16 as 10.71.0.0/16``.
        backend: name of the tunnel's backend.
        encrypted: whether it encrypts.
        side: ``server`` or ``client``.
        path: kernel, userspace, websocket …; ``relayed`` where a third cluster passes packets on.
        candidates: where the other gateway may be reached, the preferred one first.
        endpoint: where it is reached now; empty where that is not known.
        port: at which this side listens; 0 where it does not.
        transport: ``UDP`` or ``TCP``.
        device: why there is no tunnel on this machine (its process, its interface); empty where
            there is one.
        underlay: what sending to the other gateway fails with; empty where it does not.
        heard: seconds since anything came from the other gateway; None: nothing yet.
        received: bytes from it.
        sent: bytes to it.
        handshake: seconds since keys were last agreed on; None: never, or not applicable.
        echo: seconds since the last probe through the tunnel came back; None: none yet.
        rtt: seconds it took.
        loss: part of the last hundred probes that were lost; None: not known.
        mtu: of the tunnel, in bytes.
        passes: size of the largest packet that has come back; None: not tried yet.
        missing: links, addresses, routes and rules that this machine lacks, as text.
        translation: what of the packet filter's tables is missing, as text.
        gateway: name of the node with the active gateway.
        standbys: names of the others that could be.
        nodes: the ways of the other nodes.
        spoofed: packets dropped since their source was not the peer's.
        strangers: packets dropped since their destination is not to be reached.
        pods: the newest trip from pod to pod; None: none yet.
    """

    problem: str = ""
    waits: str = ""
    aliases: tuple[str, ...] = ()
    backend: str = ""
    encrypted: bool = True
    side: str = ""
    path: str = ""
    candidates: tuple[str, ...] = ()
    endpoint: str = ""
    port: int = 0
    transport: str = "UDP"
    device: str = ""
    underlay: str = ""
    heard: float | None = None
    received: int = 0
    sent: int = 0
    handshake: float | None = None
    echo: float | None = None
    rtt: float | None = None
    loss: float | None = None
    mtu: int = 0
    passes: int | None = None
    missing: tuple[str, ...] = ()
    translation: tuple[str, ...] = ()
    gateway: str = ""
    standbys: tuple[str, ...] = ()
    nodes: tuple[NodeWay, ...] = ()
    spoofed: int = 0
    strangers: int = 0
    pods: PodTrip | None = None
