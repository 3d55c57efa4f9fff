"""The consequences of other settings of networks for the peers that are joined. Pure.

Gateways, addresses and agreements of each peer are judged under both settings by the functions by
which the daemon and ``liqod node`` judge them.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import tenant_of
from liqod.configsections import NetworkSettings
from liqod.model.network.rangechecks import malformed
from liqod.model.view.figures import listed
from liqod.network.backends import is_allowed, listening
from liqod.network.dataplane.entrances import is_named
from liqod.network.dataplane.families import family_of
from liqod.network.gateway import exposure, gatewayplan
from liqod.network.gateway.gatewayobjects import Object
from liqod.network.gateway.gatewayplan import LocalFacts
from liqod.network.ipam.book import SETTINGS, Book
from liqod.network.ipam.ips import unlendable
from liqod.network.ipam.own import external_ranges
from liqod.network.orders.tunnels import DISABLED, Listening
from liqod.network.overlay import members
from liqod.plugins.providers import TunnelProvider
from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.consequences import Action, Consequence
from liqod.resources import IP, IPS, NETWORKS, Network
from liqod.resources.networking import (
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    GatewayClient,
    GatewayServer,
)

AGREEMENTS: Final = {
    "in_band": (
        "it may reach this cluster's API server through the tunnel",
        "it reaches this cluster's API server through the tunnel no more",
    ),
    "relay": (
        "its tunnels to other peers may go by this gateway",
        "its tunnels to other peers go by this gateway no more",
    ),
    "relayed_by": (
        "tunnels of others may come by its gateway",
        "tunnels of others come by its gateway no more",
    ),
}
"""Settings that name peers: what begins for one that they name, and what ends."""
SHOWN: Final = 8
"""Nodes that one consequence names."""
Backends = Iterable[TunnelProvider]


class Settings(msgspec.Struct, frozen=True):
    """Settings of networks, and what they mean for gateways.

    Attributes:
        network: the settings.
        own: liqod's namespace.
        known: the backends that are built in.
    """

    network: NetworkSettings
    own: str
    known: tuple[TunnelProvider, ...]

    def facts(self, gateways: Iterable[Object]) -> LocalFacts:
        """The facts by which gateways are judged.

        A backend that is not built in may be used where it is named, or where none is.
        """
        network = self.network
        found = {each.name: listening(each) for each in self.known if self._allows(each)}
        built_in = {each.name for each in self.known}
        for name in filter(None, map(_backend, gateways)):
            if name not in built_in and (not network.backends or name in network.backends):
                found[name] = Listening()
        problem = "" if network.enabled else DISABLED.problem
        return LocalFacts(
            namespace=self.own, backends=found, problem=problem, websocket=network.websocket
        )

    def _allows(self, provider: TunnelProvider) -> bool:
        return is_allowed(provider, self.network.backends)


def network_consequences(
    objects: ClusterObjects,
    before: NetworkSettings,
    after: NetworkSettings,
    own: str,
    known: Backends,
) -> Iterator[Consequence]:
    """The tunnels, agreements and addresses that would begin, move, change or end.

    Args:
        objects: all objects of the cluster as they would be.
        before, after: the settings.
        own: liqod's namespace.
        known: the tunnel backends that are built in.
    """
    if before == after:
        return
    was, has = (Settings(each, own, tuple(known)) for each in (before, after))
    places = {
        peer: each.metadata.name
        for each in objects.store(NAMESPACES).values(Partial)
        if (peer := tenant_of(each))
    }
    for peer, place in sorted(places.items()):
        yield from _tunnel(objects, peer, place, was, has)
        yield from _agreements(peer, before, after)
        yield from _lent(objects, peer, place, before, after)
        yield from _aliases(objects, peer, place, before, after)
    yield from _transit(before, after)
    yield from _strangers(places.keys(), before, after)


def external_consequences(
    objects: ClusterObjects, before: NetworkSettings, after: NetworkSettings, own: str, here: str
) -> Iterator[Consequence]:
    """An external range that is asked for too late: the one that was announced stays."""
    asked = after.external_cidr
    if asked in ("", before.external_cidr):
        return
    of_kind = {
        kind: [
            each.spec.cidr
            for each in objects.store(NETWORKS).values(Network)
            if each.namespace == own and each.kind_of_range == kind
        ]
        for kind in (labels.POD_CIDR, labels.EXTERNAL_CIDR)
    }
    told = of_kind[labels.EXTERNAL_CIDR]
    would = external_ranges(of_kind[labels.POD_CIDR], told, asked)
    if told and asked not in told and asked not in {each.prefix for each in would}:
        same = [each for each in told if family_of(each) == family_of(asked)] or told
        why = f"addresses are lent from {', '.join(same)} already, which stays"
        yield Consequence("waits", here, f"[network] external_cidr {asked}: {why}")


def node_consequences(
    objects: ClusterObjects, before: NetworkSettings, after: NetworkSettings, here: str
) -> Iterator[Consequence]:
    """The nodes that may have the tunnels from then on, or no more, and one that is not there.

    Args:
        objects: all objects of the cluster as they would be, its own Nodes among them.
        before, after: the settings.
        here: the cluster's id.
    """
    nodes = objects.store(NODES)
    bodies = [body for each in nodes if (body := nodes.get(each)) is not None]
    found = [each for each in map(members.member, bodies) if each is not None]
    if after.node not in ("", before.node):
        try:
            members.address(after.node, found)
        except ValueError as error:
            yield Consequence("waits", here, f"[network] node {after.node}: {error}")
    if before.candidates == after.candidates or not after.enabled:
        return
    own = {each.name for each in found}
    had, has = (
        {
            each.metadata.name
            for each in nodes.values(Partial)
            if each.metadata.name in own
            and members.is_candidate(one.candidates, each.metadata.labels)
        }
        for one in (before, after)
    )
    if not after.candidates:
        told = "the node of the daemon that leads has the tunnels, and none stands by"
        yield Consequence("changes", here, told)
    elif not has:
        told = f"[network] candidates {after.candidates}: no node here is one, so none has tunnels"
        yield Consequence("waits", here, told)
    if more := has - had:
        told = "of these nodes one has the tunnels, and the others stand by"
        yield Consequence("begins", here, f"{told}: {listed(sorted(more), SHOWN)}")
    if after.candidates and (fewer := had - has):
        yield Consequence(
            "ends", here, f"these nodes have tunnels no more: {listed(sorted(fewer), SHOWN)}"
        )


def _tunnel(
    objects: ClusterObjects, peer: str, place: str, was: Settings, has: Settings
) -> Iterator[Consequence]:
    """The tunnel to a peer that begins, moves, changes or ends."""
    gateways = _gateways(objects, place)
    facts = [each.facts(gateways) for each in (was, has)]
    had, _ = gatewayplan.judged(gateways, peer, facts[0])
    chosen, refused = gatewayplan.judged(gateways, peer, facts[1])
    if had is not None and chosen is None:
        told = f"the tunnel between the networks: {refused[had.metadata.uid].message}"
        yield Consequence("ends", peer, told, unreached=objects.nodes_of(peer))
    elif chosen is not None and had is None:
        yield Consequence("begins", peer, "the tunnel between the networks")
    elif chosen is not None and had is not None:
        if chosen.metadata.uid != had.metadata.uid:
            told = f"the tunnel goes by {chosen.KIND.name} {chosen.metadata.name}"
            yield Consequence("moves", peer, told)
        yield from _dialled(peer, chosen, was.network, has.network)
        yield from _websocket(peer, chosen, *facts)
        yield from _annotations(peer, chosen, was.network, has.network)


def _gateways(objects: ClusterObjects, place: str) -> list[Object]:
    """The gateways of a peer that are not being deleted."""
    servers = objects.store(GATEWAY_SERVERS).values(GatewayServer)
    clients = objects.store(GATEWAY_CLIENTS).values(GatewayClient)
    found: list[Object] = [*servers, *clients]
    return [each for each in found if each.namespace == place and not each.leaving]


def _backend(one: Object) -> str:
    """The backend that a gateway's template names; empty for none."""
    if isinstance(one, GatewayServer):
        named = one.spec.server_template_ref
    else:
        named = one.spec.client_template_ref
    return named.name.rpartition("-")[0] if named is not None else ""


def _dialled(
    peer: str, chosen: Object, before: NetworkSettings, after: NetworkSettings
) -> Iterator[Consequence]:
    """Another address at which the peer dials this cluster."""
    if not isinstance(chosen, GatewayServer) or before.advertise == after.advertise:
        return
    told = chosen.status.endpoint.addresses if chosen.status.endpoint is not None else ()
    if after.advertise == tuple(told):
        return
    where = ", ".join(after.advertise) or "the address of the gateway's node"
    instead = f" instead of {', '.join(told)}" if told else ""
    yield Consequence("moves", peer, f"its gateway is to dial {where}{instead}")


def _websocket(
    peer: str, chosen: Object, was: LocalFacts, has: LocalFacts
) -> Iterator[Consequence]:
    if not isinstance(chosen, GatewayServer):
        return
    backend = _backend(chosen)
    had, port = (gatewayplan.websocket_of(chosen, backend, each) for each in (was, has))
    if had == port:
        return
    action: Action = "begins" if port else "ends"
    told = f"TCP port {port or had} takes its tunnel, too, where no UDP passes"
    yield Consequence(action, peer, told)


def _annotations(
    peer: str, chosen: Object, before: NetworkSettings, after: NetworkSettings
) -> Iterator[Consequence]:
    """Annotations that the Service of this cluster's gateway has from then on, or no more."""
    if not isinstance(chosen, GatewayServer):
        return
    had, has = (
        exposure.annotations_of(chosen, each.service_annotations).keys() for each in (before, after)
    )
    for key in sorted(had ^ has):
        action: Action = "begins" if key in has else "ends"
        yield Consequence(action, peer, f"the Service of its gateway here has the annotation {key}")


def _agreements(
    peer: str, before: NetworkSettings, after: NetworkSettings
) -> Iterator[Consequence]:
    for name, (begun, ended) in AGREEMENTS.items():
        had, has = (
            each.enabled and is_named(peer, getattr(each, name)) for each in (before, after)
        )
        if had != has:
            action: Action = "begins" if has else "ends"
            yield Consequence(action, peer, begun if has else ended)
        elif has and name == "relay" and before.relay_rate != after.relay_rate:
            told = f"{after.relay_rate} instead of {before.relay_rate} Mbit/s are carried for it"
            yield Consequence("changes", peer, told)


def _transit(before: NetworkSettings, after: NetworkSettings) -> Iterator[Consequence]:
    """Pairs of peers whose pods may reach each other's endpoints by way of this gateway."""
    had, has = (
        {
            pair
            for one, other in each.transit
            if each.enabled
            for pair in ((one, other), (other, one))
        }
        for each in (before, after)
    )
    for peer, other in sorted(had ^ has):
        action: Action = "begins" if (peer, other) in has else "ends"
        told = f"its pods reach endpoints of offloaded Services at {other} by this gateway"
        yield Consequence(action, peer, told)
    if before.transit_rate != after.transit_rate:
        told = f"{after.transit_rate} instead of {before.transit_rate} Mbit/s are carried"
        for peer, other in sorted(had & has):
            yield Consequence("changes", peer, f"{told} for its calls to {other}")


def _strangers(
    peers: Iterable[str], before: NetworkSettings, after: NetworkSettings
) -> Iterator[Consequence]:
    """Ids that are named anew, and that no peer has."""
    known = frozenset(peers)
    named = {
        name: [frozenset(getattr(each, name)) for each in (before, after)] for name in AGREEMENTS
    }
    named["transit"] = [frozenset(chain(*each.transit)) for each in (before, after)]
    for name, (had, has) in named.items():
        for each in sorted(has - had - known):
            if not set(each) & set("*?["):
                told = f"no peer has this id, so [network] {name} counts once one has"
                yield Consequence("waits", each, told)


def _lent(
    objects: ClusterObjects,
    peer: str,
    place: str,
    before: NetworkSettings,
    after: NetworkSettings,
) -> Iterator[Consequence]:
    """Hosts that a peer has asked for, and that may be lent to it, or no more."""
    for each in objects.store(IPS).values(IP):
        if each.namespace != place or each.leaving:
            continue
        had, has = (not unlendable(each, one.lendable) for one in (before, after))
        if had != has:
            action: Action = "begins" if has else "ends"
            told = f"its IP {each.name} has the host {each.spec.ip} lent to it"
            yield Consequence(action, peer, told)


def _aliases(
    objects: ClusterObjects,
    peer: str,
    place: str,
    before: NetworkSettings,
    after: NetworkSettings,
) -> Iterator[Consequence]:
    """Aliases of a peer's ranges that lie in what is reserved now: they were given, and stay."""
    was, has = (Book(each).ranges for each in (before, after))
    for each in objects.store(NETWORKS).values(Network):
        given = each.status.cidr
        if each.namespace != place or not given or each.leaving or malformed(given):
            continue
        found = has.conflict(given)
        if found is not None and found[0] == SETTINGS and was.conflict(given) is None:
            told = f"{each.spec.cidr} of it keeps the alias {given}, which lies in {found[1]}"
            yield Consequence("waits", peer, f"{told}: no alias that was given is taken back")
