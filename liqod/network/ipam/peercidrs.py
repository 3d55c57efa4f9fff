"""Hands the address ranges of one peer's Configuration to the components that use them.

``spec.remote`` comes from the peer, ``spec.local`` and ``status.remote`` from this cluster: nothing
of the first is used until the last names the aliases under which it is seen. IPs with an alias are
the addresses that this cluster lends to peers.
"""

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.cluster.transitaddresses import Passage
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.watched import Watched, always
from liqod.model.crossing.addresses import parse
from liqod.model.network import rangechecks
from liqod.model.network.apiaddress import place_of
from liqod.model.network.ranges import (
    MOST_TRANSIT,
    Entrance,
    PeerRanges,
    TransitEntrance,
    transit_problem,
)
from liqod.model.objects import conditions
from liqod.network.dataplane.entrances import (
    MEGABIT,
    ServerEntrance,
    is_named,
    of_gateways,
    of_pods,
    of_relay,
    of_server,
)
from liqod.network.gateway.gatewayobjects import ACCEPTED, reported_port
from liqod.network.ipam.configurations import CONDITION, cidrs_of
from liqod.network.ipam.ips import is_opened, server_ip
from liqod.peers.peer import Peer
from liqod.peers.peernetwork import NOT_JOINED
from liqod.resources import CONFIGURATIONS, IPS, Configuration
from liqod.resources.networking import (
    GATEWAY_SERVERS,
    RANGES_REFUSED,
    ClusterRanges,
    GatewayEndpoint,
    GatewayServer,
)

RANGES: Final = "ranges"
TOGETHER: Final = 0.1
"""Seconds in which changes of IPs are taken together: each result goes to the gateway's kernel."""


class _Lent(msgspec.Struct):
    ip: str = ""
    masquerade: bool | None = None


class _Marks(msgspec.Struct):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PeerIP(msgspec.Struct):
    """The part of an IP that maps a cluster's target to an address."""

    metadata: _Marks = msgspec.field(default_factory=_Marks)
    spec: _Lent = msgspec.field(default_factory=_Lent)
    status: _Lent = msgspec.field(default_factory=_Lent)

    def is_of(self, kind: str) -> bool:
        """True if it is no host's and of that type."""
        return self.metadata.labels.get(labels.IP_TYPE) == kind


class PeerCIDRs(Controller[str]):
    """Keeps ``peer.network.ranges`` equal to the Configuration and the IPs; there is one key.

    Attributes:
        peer: the peer.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        within = (peer.tenant_namespace,)
        self._configurations = Watched(CONFIGURATIONS, self._on_configuration, within=within)
        self._ips = Watched(IPS, self._on_ip, debounce=TOGETHER)
        self._for_transit: set[Key] = set()
        """IPs for transit, of which there may be many, and those of them by which the peer goes."""
        self._opened: dict[Key, PeerIP] = {}
        self._servers = Watched(GATEWAY_SERVERS, always(RANGES))
        peer.network.whose = self._whose
        self._last = ("", "")
        """The address looked up last, and its owner: it is looked up time and again."""
        self._relayed = is_named(peer.id, peer.context.config.network.relayed_by)
        gateways = (self._servers,) if self._relayed else ()
        super().__init__(
            peer,
            "network",
            self._configurations,
            self._ips,
            *gateways,
            name="known ranges",
            # An empty value is published, too: a task that starts waits for the first value.
            first=(RANGES,),
        )

    def _whose(self, address: str) -> str:
        """Another peer among whose aliases an address is; empty for none."""
        if address != self._last[0]:
            every = (
                (name, self._configurations.store.decode((place, name), Configuration))
                for place, name in self._configurations.store
                if name != self.peer.id
            )
            having = (
                name
                for name, found in every
                if found is not None and address in cidrs_of(found.status.remote)
            )
            self._last = address, next(having, "")
        return self._last[1]

    def _on_configuration(self, change: StoreChange) -> Iterator[str]:
        if change.key[1] == self.peer.id:
            yield RANGES

    def _on_ip(self, change: StoreChange) -> Iterator[str]:
        """One for transit concerns the peer alone whose pods it is opened to."""
        key, own = change.key, self.peer.context.namespace
        before = key in self._for_transit
        mine = self._opened.pop(key, None) is not None
        self._for_transit.discard(key)
        found = msgspec.json.decode(change.new, type=PeerIP) if change.new is not None else None
        if found is not None and key[0] == own and found.is_of(labels.TRANSIT):
            self._for_transit.add(key)
            if found.metadata.annotations.get(labels.TRANSIT_FROM) == self.peer.id:
                self._opened[key] = found
        now = key in self._for_transit
        never_another = (before or change.old is None) and (now or found is None)
        if mine or key in self._opened or not never_another:
            yield RANGES

    async def reconcile(self, key: str) -> float | None:
        """Publish the present state."""
        at = (self.peer.tenant_namespace, self.peer.id)
        found = self._configurations.store.decode(at, Configuration)
        if found is None:
            self.peer.network.set_ranges(None, NOT_JOINED)
            self.peer.context.transit.give(self.peer.id, {})
            return None
        waits = waited_for(found)
        if waits:
            self.peer.network.set_ranges(None, waits)
            return None
        assert found.spec.local is not None  # or it would be waited for
        entrances = tuple(self._entrances(found.spec.local.cidr.external))
        ranges = ranges_of(found, tuple(self._lent()), entrances)
        transit = tuple(sorted(self._transit(ranges)))[:MOST_TRANSIT]
        rate = self.peer.context.config.network.transit_rate * MEGABIT if transit else 0
        ranges = msgspec.structs.replace(ranges, transit=transit, transit_rate=rate)
        self.peer.network.set_ranges(ranges)
        given = {Passage(self.peer.id, each.owner, each.host): each.shown for each in transit}
        self.peer.context.transit.give(self.peer.id, given)
        return None

    def _entrances(self, external: tuple[str, ...]) -> Iterator[Entrance]:
        """The entrances that are open to this peer alone.

        Args:
            external: this cluster's external ranges.
        """
        context, peer = self.peer.context, self.peer.id
        settings = context.config.network
        found = self._ips.store.decode(server_ip(context.namespace), PeerIP)
        server = server_of(found) if found is not None else None
        if server is not None and is_named(peer, settings.in_band):
            yield from of_server(server)
        by_tunnel = not context.config.api_server.for_pods
        if server is not None and by_tunnel and self.peer.settings.api_server != "none":
            yield of_pods(server)
        if is_named(peer, settings.relay):
            for key, each in self._others():
                ours = key[0] == context.namespace and each.is_of(labels.RELAY)
                to = relayed(each) if ours else None
                if to is not None and to[0] != peer:
                    yield of_relay(each.status.ip, to[1], settings.relay_rate)
        if self._relayed:
            yield from of_gateways(external, self._ports())

    def _transit(self, ranges: PeerRanges) -> Iterator[TransitEntrance]:
        """Endpoints at other peers that are opened to this one.

        An address that leads elsewhere already is left out: a machine refuses an order with both.
        """
        context, peer = self.peer.context, self.peer.id
        taken = {*ranges.lent, *(each.shown for each in ranges.entrances)}
        for _, found in sorted(self._opened.items(), key=lambda each: each[0]):
            owner = found.metadata.annotations.get(labels.TRANSIT_TO, "")
            way = TransitEntrance(owner, found.spec.ip, found.status.ip)
            allowed = way.shown not in taken and context.transit.allows(peer, owner)
            if allowed and not transit_problem(ranges, way):
                taken.add(way.shown)
                yield way

    def _ports(self) -> set[int]:
        """Where this cluster's gateways listen for other peers."""
        found = (
            each
            for each in self._servers.store.values(GatewayServer)
            if each.namespace != self.peer.tenant_namespace
            and conditions.holds(each.status.conditions, ACCEPTED)
            and (each.status.endpoint or GatewayEndpoint()).protocol in ("", "UDP")
        )
        return {port for each in found if (port := reported_port(each))}

    def _lent(self) -> Iterator[PeerIP]:
        for key, found in self._others():
            if is_opened(key, found.metadata.labels, self.peer.context.namespace):
                continue
            if found.status.ip and not rangechecks.refuse_lent(found.spec.ip):
                yield found

    def _others(self) -> Iterator[tuple[Key, PeerIP]]:
        """All IPs but those for transit."""
        for key in sorted({*self._ips.store} - self._for_transit):
            found = self._ips.store.decode(key, PeerIP)
            if found is not None:
                yield key, found


def waited_for(found: Configuration) -> str:
    """The reason why addresses cannot be translated by a Configuration yet; empty for none."""
    name = found.metadata.name
    if not found.spec.remote.cidr.pod:
        return f"Configuration {name} does not say the peer's ranges (spec.remote)"
    if found.spec.local is None or not found.spec.local.cidr.pod:
        return f"Configuration {name} does not have this cluster's own ranges yet (spec.local)"
    told = next((each for each in found.status.conditions if each.type == CONDITION), None)
    if told is not None and told.status == "False" and told.reason == RANGES_REFUSED:
        return f"the ranges of Configuration {name} are refused: {told.message or told.reason}"
    if told is not None and told.observed_generation not in (None, found.metadata.generation):
        # Aliases are in the order of the ranges, which may be others by now.
        return f"the ranges of Configuration {name} have changed, and their aliases not yet"
    seen = found.status.remote.cidr if found.status.remote is not None else ClusterRanges().cidr
    wanted = found.spec.remote.cidr
    if (len(seen.pod), len(seen.external)) != (len(wanted.pod), len(wanted.external)):
        return f"Configuration {name} does not have aliases for the peer's ranges yet (status)"
    return ""


def relayed(found: PeerIP) -> tuple[str, str] | None:
    """The peer to which an IP of a relay leads, and the alias of its gateway; None: nowhere yet."""
    told = found.metadata.annotations
    peer, gateway = told.get(labels.RELAYS_TO, ""), told.get(labels.RELAYED_AT, "")
    whole = peer and parse(gateway) and parse(found.status.ip)
    return (peer, gateway) if whole else None


def server_of(found: PeerIP) -> ServerEntrance | None:
    """The API server, as in its IP object; None where that is incomplete."""
    try:
        host, port = place_of(f"//{found.metadata.annotations.get(labels.API_SERVER, '')}")
    except ValueError:
        return None
    whole = parse(found.status.ip) and parse(host)
    return ServerEntrance(found.status.ip, host, port) if whole else None


def ranges_of(
    found: Configuration, lent: Collection[PeerIP] = (), entrances: tuple[Entrance, ...] = ()
) -> PeerRanges:
    """The ranges that a complete Configuration has, with what is lent and opened."""
    real = {each.status.ip: str(parse(each.spec.ip)) for each in lent}
    # A host may have several; where one of them shows it the gateway, it may have no other path.
    masked = {real[each.status.ip] for each in lent if each.spec.masquerade is not False}
    return PeerRanges(
        entrances=entrances,
        own=cidrs_of(found.spec.local),
        peer=cidrs_of(found.spec.remote),
        seen=cidrs_of(found.status.remote),
        lent=real,
        unmasked=tuple(sorted({*real.values()} - masked)),
    )
