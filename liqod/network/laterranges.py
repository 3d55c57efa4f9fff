"""Takes up ranges that a peer's gateway reports after the networks were joined.

Its Configuration here is written by ``liqod peer`` alone, whose user may no more once its cluster
is accepted. A message through the tunnel comes from the holder of the peer's key, as that did.
It only adds: a range that was once reported stays.
"""

from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.model.network import rangechecks
from liqod.model.network.apiaddress import place_of
from liqod.model.network.ranges import ClusterCidrs
from liqod.model.objects.partial import Node
from liqod.network.ipam.configurations import cidrs_of
from liqod.peers.peer import Peer
from liqod.resources import CONFIGURATIONS, Configuration

LARGEST: Final = {4: 16, 6: 48}
"""The shortest prefix of a later range, by family, where there was none of that family before."""


async def take_up(peer: Peer, told: ClusterCidrs) -> str:
    """Add the ranges that a peer reports to its Configuration; why not, empty where they are there.

    Args:
        told: its ranges, as it reports them.

    Raises:
        LiqodError: as the client raises; Conflict where somebody else has written it meanwhile.
    """
    context, place = peer.context, peer.tenant_namespace
    found = await context.client.find(CONFIGURATIONS, peer.id, place, decode=Configuration)
    if found is None or found.leaving:
        return ""
    had = cidrs_of(found.spec.remote)
    wanted = ClusterCidrs(_added(had.pod, told.pod), _added(had.external, told.external))
    if wanted == had or not had.pod:
        return ""
    nodes = await context.client.list(NODES, decode=Node)
    addresses = {
        at.address
        for node in nodes
        if node.metadata.labels.get(labels.TYPE) != labels.VIRTUAL_NODE_TYPE
        for at in node.status.addresses
    }
    server, _ = place_of(context.endpoint.server)
    problem = too_large(had, wanted) or rangechecks.refuse_ranges(wanted, addresses, server)
    if problem:
        return problem
    cidr = {"pod": list(wanted.pod), "external": list(wanted.external)}
    version = {"resourceVersion": found.metadata.resource_version}
    patch = {"metadata": version, "spec": {"remote": {"cidr": cidr}}}
    await context.client.patch(CONFIGURATIONS, peer.id, patch, place)
    return ""


def too_large(had: ClusterCidrs, wanted: ClusterCidrs) -> str:
    """Report the reason a later range is refused: each takes its size of this cluster's pools."""
    for before, now in ((had.pod, wanted.pod), (had.external, wanted.external)):
        for text in now[len(before) :]:
            if problem := rangechecks.malformed(text):
                return problem
            network = ip_network(text)
            known = (ip_network(each) for each in before)
            same = (each.prefixlen for each in known if each.version == network.version)
            if network.prefixlen < min(same, default=LARGEST[network.version]):
                return f"{text} is larger than what was told when the networks were joined"
    return ""


def _added(had: tuple[str, ...], told: Iterable[str]) -> tuple[str, ...]:
    return (*had, *(each for each in told if each not in had))
