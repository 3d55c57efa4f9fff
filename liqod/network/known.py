"""The address ranges of one peer, as its Configuration has them, told to the rooms that use them.

``spec.remote`` is the peer's word, ``spec.local`` and ``status.remote`` are this cluster's: nothing
is believed of the first until the last says under which aliases it is seen. IPs with an alias are
what this cluster lends to peers.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from liqod.kube.cache.store import Change
from liqod.kube.controller import Controller
from liqod.kube.watched import Watched
from liqod.model.network.ranges import PeerRanges, Ranges
from liqod.peer import Peer
from liqod.peernetwork import NOT_JOINED
from liqod.resources import CONFIGURATIONS, IPS, Configuration
from liqod.resources.networking import RANGES_REFUSED, ClusterRanges

RANGES: Final = "ranges"
CONDITION: Final = "NetworkCIDRsConfigured"


class _Lent(msgspec.Struct):
    ip: str = ""


class _IP(msgspec.Struct):
    spec: _Lent = msgspec.field(default_factory=_Lent)
    status: _Lent = msgspec.field(default_factory=_Lent)


class KnownRanges(Controller[str]):
    """Keeps ``peer.network.ranges`` as the Configuration and the IPs say; there is one key.

    Args:
        peer: the peer.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        within = (peer.tenant_namespace,)
        self._configurations = Watched(CONFIGURATIONS, self._on_configuration, within=within)
        self._ips = Watched(IPS, lambda change: (RANGES,))
        super().__init__(peer, "network", self._configurations, self._ips, name="known ranges")

    def _on_configuration(self, change: Change) -> Iterator[str]:
        if change.key[1] == self._peer.id:
            yield RANGES

    async def reconcile(self, key: str) -> float | None:
        """Say what is so now."""
        at = (self._peer.tenant_namespace, self._peer.id)
        found = self._configurations.store.decode(at, Configuration)
        if found is None:
            self._peer.network.know(None, NOT_JOINED)
            return None
        waits = waited_for(found)
        lent = {} if waits else dict(self._lent())
        self._peer.network.know(None if waits else ranges_of(found, lent), waits)
        return None

    def _lent(self) -> Iterator[tuple[str, str]]:
        for key in sorted(self._ips.store):
            found = self._ips.store.decode(key, _IP)
            if found is not None and found.spec.ip and found.status.ip:
                yield found.status.ip, found.spec.ip


def waited_for(found: Configuration) -> str:
    """What a Configuration lacks before addresses can be translated by it; empty for nothing."""
    name = found.metadata.name
    if not found.spec.remote.cidr.pod:
        return f"Configuration {name} does not say the peer's ranges (spec.remote)"
    if found.spec.local is None or not found.spec.local.cidr.pod:
        return f"Configuration {name} does not have this cluster's own ranges yet (spec.local)"
    told = next((each for each in found.status.conditions if each.type == CONDITION), None)
    if told is not None and told.status == "False" and told.reason == RANGES_REFUSED:
        return f"the ranges of Configuration {name} are refused: {told.message or told.reason}"
    if told is not None and told.observed_generation not in (None, found.metadata.generation):
        # Aliases stand in the order of the ranges, which may be others by now.
        return f"the ranges of Configuration {name} have changed, and their aliases not yet"
    seen = found.status.remote.cidr if found.status.remote is not None else ClusterRanges().cidr
    wanted = found.spec.remote.cidr
    if (len(seen.pod), len(seen.external)) != (len(wanted.pod), len(wanted.external)):
        return f"Configuration {name} does not have aliases for the peer's ranges yet (status)"
    return ""


def ranges_of(found: Configuration, lent: dict[str, str]) -> PeerRanges:
    """The ranges that a complete Configuration has."""
    return PeerRanges(
        own=_ranges(found.spec.local),
        peer=_ranges(found.spec.remote),
        seen=_ranges(found.status.remote),
        lent=lent,
    )


def _ranges(side: ClusterRanges | None) -> Ranges:
    return Ranges() if side is None else Ranges(side.cidr.pod, side.cidr.external)
