"""The measured facts about the network of one peer, as its gateway's machine has them. Pure."""

from typing import Final

import msgspec

from liqod.model.view.figures import counted, measured

LEAST_MTU: Final = 1280
"""Bytes of a packet that every network of IPv6 has to let pass."""


class TransitFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The path of a peer's pods to endpoints at another peer, through this cluster.

    Attributes:
        owner: id of the peer that has the endpoints.
        addresses: number of endpoints that are opened.
        packets: number of packets that passed, there and back.
        bytes: number of bytes of these.
    """

    owner: str
    addresses: int = 0
    packets: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        endpoints = counted(self.addresses, "endpoint")
        passed = f"{counted(self.packets, 'packet')}, {measured(self.bytes, 'bytes')}"
        return f"{endpoints} at {self.owner} ({passed})"


class PathFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The measured part of the facts about the network of one peer.

    Attributes:
        encrypted: whether the tunnel's backend encrypts.
        transport: ``UDP`` or ``TCP``.
        path: kernel, userspace, websocket …; with the name of the cluster that passes packets on,
            where one does, such as ``userspace, relayed by hub``.
        endpoint: the present one of the other gateway; empty where that is unknown.
        device: the reason why there is no tunnel on this machine (its process, its interface);
            empty where there is one.
        underlay: the error of sending to the other gateway; empty for none.
        heard: seconds since the last packet of the other gateway; None: none yet.
        arrived: seconds since datagrams came to this machine that may be the other gateway's and
            were not good, as with a wrong key; None where none did, or that is not checked.
        received: bytes from it.
        sent: bytes to it.
        handshake: seconds since keys were last agreed on; None: never, or not applicable.
        echo: seconds since the last probe through the tunnel came back; None: none yet.
        rtt: seconds it took.
        loss: part of the last hundred probes that were lost; None: unknown.
        passes: size of the largest packet that has come back; None: not tried yet.
        missing: links, addresses, routes and rules that this machine lacks, or that another program
            removes again and again, as text.
        translation: the same of the packet filter's tables.
        mended: links, addresses, routes and rules that were put back within the last minute, as
            text.
        translated: the same of the packet filter's tables.
        spoofed: packets dropped since their source was not the peer's.
        strangers: packets dropped since their destination is not to be reached.
        flooded: packets dropped since there were too many for the gateway itself.
        guards: chains of this machine's own that drop forwarded packets, unless a rule of theirs
            accepts them, such as ``ip filter FORWARD``.
        untried: the reason why there is no trip from pod to pod, a clause; empty where one is under
            way.
        transit: its pods' paths to endpoints at other peers, for each that the configuration
            allows, or has allowed.
    """

    encrypted: bool = True
    transport: str = "UDP"
    path: str = ""
    endpoint: str = ""
    device: str = ""
    underlay: str = ""
    heard: float | None = None
    arrived: float | None = None
    received: int = 0
    sent: int = 0
    handshake: float | None = None
    echo: float | None = None
    rtt: float | None = None
    loss: float | None = None
    passes: int | None = None
    missing: tuple[str, ...] = ()
    translation: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    translated: tuple[str, ...] = ()
    spoofed: int = 0
    strangers: int = 0
    flooded: int = 0
    guards: tuple[str, ...] = ()
    untried: str = ""
    transit: tuple[TransitFacts, ...] = ()
