"""The public key of a peer's end of the tunnel: which PublicKey has it, and if it is taken. Pure.

The keys come from the other side, by ``liqod peer``, ``liqoctl`` or a manifest. A key identifies
one peer: of two that have the same, the one that had it first keeps it, and the other has no
tunnel.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.identity import tunnelkeys
from liqod.network.gateway.gatewayplan import GatewayRefusal
from liqod.resources.networking import PublicKey

NONE_YET: Final = "NoPublicKey"
"""The reason where there is no PublicKey: it may still come."""


class PeerKey(msgspec.Struct, frozen=True):
    """The outcome of a peer's PublicKeys.

    Attributes:
        key: 32 bytes; empty where there is none.
        refusal: why there is none.
    """

    key: bytes = b""
    refusal: GatewayRefusal | None = None


def taken(
    every: Iterable[PublicKey],
    peer: str,
    namespace: str,
    own: bytes,
    strays: Iterable[PublicKey] = (),
) -> PeerKey:
    """The key of a peer.

    Args:
        every: those of all peers, in their tenant namespaces.
        peer: its id.
        own: this cluster's public key at that tunnel.
        strays: those in other namespaces, where any writer could take a peer's place: they
            count for nobody and against nobody.
    """
    known = [one for one in every if not one.leaving]
    found = sorted(
        (one for one in known if one.namespace == namespace and peer_of(one) == peer), key=_age
    )
    if not found:
        waits = f"there is no PublicKey of {peer} in the namespace {namespace} yet"
        stray = min((one for one in strays if peer_of(one) == peer), key=_age, default=None)
        if stray is not None:
            waits += (
                f"; that in {stray.namespace} counts for nobody: delete it, and make it there "
                f"(liqoctl create publickey … -n {namespace})"
            )
        return PeerKey(refusal=GatewayRefusal(NONE_YET, waits))
    one = found[0]
    key = one.spec.public_key
    problem = tunnelkeys.problem_of(key)
    if problem is not None:
        return PeerKey(refusal=GatewayRefusal("BadPublicKey", f"PublicKey {one.name}: {problem}"))
    if key == own:
        return PeerKey(
            refusal=GatewayRefusal("OwnPublicKey", f"PublicKey {one.name} is this cluster's own")
        )
    before = min((each for each in known if each.spec.public_key == key), key=_age)
    if before.namespace != namespace:
        message = f"PublicKey {one.name} is that of {peer_of(before) or before.namespace} already"
        return PeerKey(refusal=GatewayRefusal("AnothersPublicKey", message))
    return PeerKey(key)


def peer_of(one: PublicKey) -> str:
    """The id of the peer that has the key, by its label."""
    return one.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")


def _age(one: PublicKey) -> tuple[str, str, str]:
    return (one.metadata.creation_timestamp or "", one.namespace, one.name)
