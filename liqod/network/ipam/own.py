"""This cluster's own ranges, as Networks with Liqo's labels: ``liqoctl`` and peers read them there.

A range that was once announced stays: peers use it. A later one, such as that of nodes with pods
elsewhere, is announced beside it.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.cluster.context import ClusterContext
from liqod.cluster.ownnetworks import own_networks
from liqod.kube.controller import Controller
from liqod.kube.ensure import ensure
from liqod.kube.watched import Watched, always
from liqod.model.crossing.addresses import IPNetwork, overlap, within
from liqod.network.dataplane.families import addresses_of, family_of
from liqod.network.dataplane.names import OVERLAY_NETWORK
from liqod.network.ipam.networks import TOPIC
from liqod.resources import NETWORKS, Network

USUAL: Final[dict[int, int]] = {4: 16, 6: 56}
"""The prefix length of a whole cluster's pods, by family, where each node has a part of them."""
NODE: Final[dict[int, int]] = {4: 24, 6: 64}
"""The usual one of a node's; shorter ones belong to clusters that were set up with care."""


def whole(of_nodes: Iterable[str], others: Iterable[str] = ()) -> tuple[str, ...]:
    """The ranges of all pods, of each family.

    Args:
        of_nodes: the ranges that nodes name.
        others: addresses and ranges that are no pods': of nodes and services.
    """
    nodes = _networks(of_nodes)
    strange = _networks(others)
    found: list[str] = []
    for version in (4, 6):
        parts = [each for each in nodes if each.version == version]
        taken = [each for each in strange if each.version == version]
        wide = {_widened(each, taken) for each in parts}
        found += (str(each) for each in _collapsed(wide))
    return tuple(found)


def uncovered(prefixes: Iterable[str], told: Iterable[str]) -> tuple[str, ...]:
    """The prefixes that lie in none of those that were announced, in their order."""
    known = _networks(told)
    return tuple(
        text
        for text in prefixes
        for each in (ipaddress.ip_network(text, strict=False),)
        if not any(within(each, other) for other in known)
    )


def _widened(network: IPNetwork, taken: Iterable[IPNetwork]) -> IPNetwork:
    """A node's part as the usual whole, where nothing else lies in that."""
    usual = USUAL[network.version]
    if network.prefixlen < NODE[network.version] or network.prefixlen <= usual:
        return network
    wide = network.supernet(new_prefix=usual)
    return network if any(overlap(each, wide) for each in taken) else wide


def _collapsed(networks: Iterable[IPNetwork]) -> list[IPNetwork]:
    ordered = sorted(networks, key=lambda each: (int(each.network_address), each.prefixlen))
    return [
        each
        for at, each in enumerate(ordered)
        if not any(within(each, other) for other in ordered[:at])
    ]


def _networks(texts: Iterable[str]) -> list[IPNetwork]:
    return [ipaddress.ip_network(text, strict=False) for text in texts]


OWN: Final = "own"
EXTERNAL: Final = {4: "10.70.0.0/20", 6: "fd18:6c71:70::/112"}
"""The range addresses are lent from if none is configured and it is free."""
UNKNOWN_SOURCES: Final = 1
"""Addresses at its start that are not lent: hosts without an alias appear under them."""


class ExternalRange(NamedTuple):
    """A range that addresses are to be lent from.

    Attributes:
        prefix: the range.
        fixed: whether it is just that, and not another where that is taken.
        second: whether it is of the family that Liqo's tools do not look for.
    """

    prefix: str
    fixed: bool
    second: bool


def external_ranges(
    pods: Iterable[str], told: Iterable[str], configured: str
) -> list[ExternalRange]:
    """The external ranges that are to be announced: one of each family that has none.

    Args:
        pods: ranges of this cluster's pods, by which it has a family.
        told: external ranges that were announced.
        configured: ``external_cidr`` of the settings.
    """
    families = {family_of(each) for each in pods} or {4}
    found = []
    for family in sorted(families - {family_of(each) for each in told}):
        fixed = bool(configured) and family_of(configured) == family
        prefix = configured if fixed else EXTERNAL[family]
        found.append(ExternalRange(prefix, fixed, family > min(families)))
    return found


class OwnRanges(Controller[str]):
    """Keeps the Networks of this cluster's own ranges; there is one key."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._nodes = Watched(NODES, always(OWN))
        self._networks = Watched(NETWORKS, always(OWN), within=(context.namespace,))
        # There may be neither a node nor a Network yet.
        super().__init__(
            context, TOPIC, self._nodes, self._networks, name="own ranges", first=(OWN,)
        )

    async def reconcile(self, key: str) -> float | None:
        """Announce the ranges that are not announced yet."""
        context = self._context
        services = context.addressing.service_cidrs
        pods = self._pods(services)
        for prefix in pods:
            await self._ensure_network(labels.POD_CIDR, prefix)
        if services and not self._network_cidrs(labels.SERVICE_CIDR):
            for place, prefix in enumerate(services):
                await self._ensure_network(labels.SERVICE_CIDR, prefix, second=place > 0)
        for prefix in context.config.network.reserved:
            await self._ensure_network(labels.RESERVED_CIDR, prefix)
        if not self._network_cidrs(labels.INTERNAL_CIDR):
            await self._ensure_network(labels.INTERNAL_CIDR, OVERLAY_NETWORK)
        of_pods = (*pods, *self._network_cidrs(labels.POD_CIDR))
        told = self._network_cidrs(labels.EXTERNAL_CIDR)
        for each in external_ranges(of_pods, told, context.config.network.external_cidr):
            await self._ensure_network(
                labels.EXTERNAL_CIDR, each.prefix, fixed=each.fixed, second=each.second
            )
        return None

    def _pods(self, services: tuple[str, ...]) -> tuple[str, ...]:
        """The ranges of pods that are not announced yet."""
        own = own_networks(self._nodes.informer)
        configured = self._context.config.cluster.pod_cidrs
        # A Node's range may be no pods' range at all ([network] node_pods): then it is configured.
        found = tuple(configured) or whole(own.pod_cidrs, (*addresses_of(own.addresses), *services))
        return uncovered(found, self._network_cidrs(labels.POD_CIDR))

    def _network_cidrs(self, kind: str) -> tuple[str, ...]:
        return tuple(
            each.spec.cidr
            for each in self._networks.store.values(Network)
            if each.namespace == self._context.namespace and each.kind_of_range == kind
        )

    async def _ensure_network(
        self, kind: str, prefix: str, *, fixed: bool = True, second: bool = False
    ) -> None:
        wanted = network(kind, prefix, self._context.namespace, fixed=fixed, second=second)
        live = self._networks.store.get((self._context.namespace, wanted["metadata"]["name"]))
        if live is None:
            await ensure(self._context.client, NETWORKS, wanted, live=None)


def network(
    kind: str, prefix: str, namespace: str, *, fixed: bool, second: bool = False
) -> dict[str, Any]:
    """A Network of one of this cluster's own ranges.

    Args:
        kind: its kind, such as :data:`labels.POD_CIDR`.
        prefix: the range.
        namespace: liqod's own.
        fixed: whether it is just that, and not another where that is taken.
        second: whether Liqo's tools are to find another one when they look for this kind.
    """
    type_ = labels.SECOND_NETWORK_TYPE if second else labels.NETWORK_TYPE
    marks = {type_: kind, labels.MANAGED_BY_LIQOD: labels.TRUE}
    if fixed:
        marks[labels.NETWORK_NOT_REMAPPED] = labels.TRUE
    spec: dict[str, Any] = {"cidr": prefix}
    if kind == labels.EXTERNAL_CIDR:
        spec["preAllocated"] = UNKNOWN_SOURCES
    name = f"{kind}-{escaped(prefix)}"
    return {"metadata": {"name": name, "namespace": namespace, "labels": marks}, "spec": spec}


def escaped(prefix: str) -> str:
    """A range as a part of an object's name."""
    return re.sub("[/.:]", "-", prefix.lower())
