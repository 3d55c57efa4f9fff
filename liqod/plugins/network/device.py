"""A WireGuard interface as a value, and the changes for it to match a spec.

Both protocols for one (:mod:`.uapi`, :mod:`.wgnetlink`) read the one and write the other.
"""

import hmac

import msgspec

from liqod.plugins.providers import TunnelSpec

EVERYTHING = ("0.0.0.0/0", "::/0")
"""All addresses: packets of one peer alone are taken, and filters before and behind it decide."""


class WireGuardPeer(msgspec.Struct, frozen=True, kw_only=True):
    """The other side, as the interface has it.

    Attributes:
        public_key: 32 bytes.
        endpoint: ``address:port`` or ``[v6]:port``; empty where it has none.
        keepalive: seconds; 0 for none.
        allowed: prefixes, sorted.
        handshake: Unix time of the last one; 0 where there was none.
        received, sent: bytes.
    """

    public_key: bytes
    endpoint: str = ""
    keepalive: int = 0
    allowed: tuple[str, ...] = ()
    handshake: float = 0.0
    received: int = 0
    sent: int = 0


class WireGuardDevice(msgspec.Struct, frozen=True, kw_only=True):
    """The interface. Its private key is compared while it is read, and not kept.

    Attributes:
        keyed: whether its private key is the one in question.
        port: UDP port; 0 while it has none.
        mark: firewall mark of its packets; 0 for none.
        peers: the other sides.
    """

    keyed: bool = False
    port: int = 0
    mark: int = 0
    peers: tuple[WireGuardPeer, ...] = ()


class PeerChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one peer of the interface.

    Attributes:
        public_key: 32 bytes.
        remove: it goes; a change that follows may make it anew.
        endpoint: None leaves it.
        keepalive: None leaves it.
        allowed: replaces the prefixes; None leaves them.
    """

    public_key: bytes
    remove: bool = False
    endpoint: str | None = None
    keepalive: int | None = None
    allowed: tuple[str, ...] | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the interface; its parts are done in this order.

    Attributes:
        private_key: None leaves it.
        port: None leaves it.
        mark: None leaves it.
        peers: in order.
    """

    private_key: bytes | None = None
    port: int | None = None
    mark: int | None = None
    peers: tuple[PeerChange, ...] = ()

    def __repr__(self) -> str:
        return f"Change(port={self.port}, mark={self.mark}, peers={self.peers})"


def same_key(one: bytes, other: bytes) -> bool:
    """True if two private keys are the same; compared in constant time.

    Interfaces show theirs as X25519 uses it, some bits of it set and others not.
    """
    return len(one) == len(other) == 32 and hmac.compare_digest(_as_used(one), _as_used(other))


def _as_used(key: bytes) -> bytes:
    return bytes((key[0] & 248, *key[1:31], key[31] & 127 | 64))


def change(
    device: WireGuardDevice, spec: TunnelSpec, endpoint: str | None, asking: bytes = b""
) -> Change | None:
    """The change that brings an interface to a spec; None where it matches.

    Args:
        device: its present state, read with the spec's private key.
        spec: its desired state.
        endpoint: where to send to; None leaves the one that was configured or learned.
        asking: public key of the one that may probe it, and send nothing; empty for none.
    """
    wanted = next((each for each in device.peers if each.public_key == spec.peer_public_key), None)
    peers = [
        PeerChange(public_key=each.public_key, remove=True)
        for each in device.peers
        # Without a peer it sends nothing, and accepts nothing.
        if spec.quiet or each.public_key not in (spec.peer_public_key, asking)
    ]
    here = wanted or WireGuardPeer(public_key=spec.peer_public_key)
    made = PeerChange(
        public_key=spec.peer_public_key,
        endpoint=endpoint if endpoint != here.endpoint else None,
        keepalive=spec.keepalive if spec.keepalive != here.keepalive else None,
        allowed=EVERYTHING if set(EVERYTHING) != set(here.allowed) else None,
    )
    if not spec.quiet and (wanted is None or made != PeerChange(public_key=spec.peer_public_key)):
        peers.append(made)
    asks = next((each for each in device.peers if each.public_key == asking), None)
    if asking and not spec.quiet and (asks is None or asks.allowed or asks.keepalive):
        peers.append(PeerChange(public_key=asking, keepalive=0, allowed=()))
    found = Change(
        private_key=None if device.keyed else spec.private_key,
        port=spec.listen_port if spec.listen_port not in (0, device.port) else None,
        mark=spec.mark if spec.mark != device.mark else None,
        peers=tuple(peers),
    )
    return None if found == Change() else found


def afresh(spec: TunnelSpec, endpoint: str) -> Change:
    """Has the sides agree on keys at once: the peer is made anew, with that endpoint."""
    return Change(
        peers=(
            PeerChange(public_key=spec.peer_public_key, remove=True),
            PeerChange(
                public_key=spec.peer_public_key,
                endpoint=endpoint or None,
                keepalive=spec.keepalive,
                allowed=EVERYTHING,
            ),
        )
    )
