"""Explains which endpoints of a Service each peer's clients have, and changes nothing."""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, EVENTS, NAMESPACES, SERVICES
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import tenant_of
from liqod.errors import NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.crossing.annotations import bool_value
from liqod.model.crossing.thirdclusters import ThirdCluster
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.model.view.serviceways import ServiceEndpoints, ServiceWays, service_ways
from liqod.procedures.explaining import mapped
from liqod.resources import (
    CONFIGURATIONS,
    FOREIGN_CLUSTERS,
    IPS,
    NAMESPACE_MAPS,
    VIRTUAL_NODES,
    Configuration,
    ForeignCluster,
    NamespaceMap,
)
from liqod.resources.ipam import IP

Json = dict[str, Any]

LEFT_OUT: Final = "EndpointsLeftOut"
"""Reason of a peer's Event about endpoints that it leaves out."""


async def explain(client: Client, name: str, namespace: str, own: str) -> ServiceWays:
    """The answer about a Service.

    Args:
        client: of the cluster.
        name: of the Service.
        namespace: its namespace.
        own: liqod's own namespace.

    Raises:
        NotFound: it is not there.
        LiqodError: the cluster cannot be read.
    """
    service = await client.find(SERVICES, name, namespace)
    if service is None:
        raise NotFound(f"there is no Service {name} in the namespace {namespace}")
    notes = service["metadata"].get("annotations") or {}
    of_it = Selection(namespace, labels=f"{labels.SERVICE_NAME}={name}")
    slices = [
        each
        for each in await client.list(ENDPOINT_SLICES, of_it)
        if labels.ORIGIN not in (each["metadata"].get("labels") or {})
    ]
    found = ServiceEndpoints(
        namespace,
        name,
        bool_value(notes, labels.DIRECT_CONNECTIONS) is True,
        tuple(one for each in slices for one in each.get("endpoints") or ()),
        await _nodes(client),
        mapped(await client.list(NAMESPACE_MAPS, decode=NamespaceMap), namespace),
        await _transits(client, own),
        await _said(client, namespace, {each["metadata"]["name"] for each in slices}),
    )
    return service_ways(found)


async def _nodes(client: Client) -> dict[str, ThirdCluster]:
    """The cluster of each virtual node, by the peer that its namespace is of."""
    spaces = await client.list(NAMESPACES, decode=Partial)
    tenants = {each.metadata.name: tenant_of(each) for each in spaces}
    peers = {
        each.spec.cluster_id: each.metadata.annotations.get(labels.POD_NETWORK, "none")
        for each in await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
    }
    joined = {
        (each.metadata.namespace, each.name): _ranges(each)
        for each in await client.list(CONFIGURATIONS, decode=Configuration)
    }
    found = {}
    for each in await client.list(VIRTUAL_NODES):
        place, cluster = each["metadata"]["namespace"], each["spec"].get("clusterID", "")
        if tenants.get(place) != cluster:
            found[each["metadata"]["name"]] = ThirdCluster(cluster)
            continue
        way, ranges = peers.get(cluster, "none"), joined.get((place, cluster))
        kept = ranges if way == "tunnel" else None
        found[each["metadata"]["name"]] = ThirdCluster(cluster, way, kept)
    return found


def _ranges(found: Configuration) -> PeerRanges | None:
    theirs, seen = found.spec.remote, found.status.remote
    if theirs is None or seen is None:
        return None
    return PeerRanges(peer=ClusterCidrs(theirs.cidr.pod), seen=ClusterCidrs(seen.cidr.pod))


async def _transits(client: Client, own: str) -> dict[tuple[str, str, str], str]:
    """The addresses by which peers reach endpoints at others, by reader, owner and address."""
    found = {}
    of_type = Selection(own, labels=f"{labels.IP_TYPE}={labels.TRANSIT}")
    for each in await client.list(IPS, of_type, decode=IP):
        notes = each.metadata.annotations
        reader, owner = notes.get(labels.TRANSIT_FROM), notes.get(labels.TRANSIT_TO)
        if reader and owner and each.status.ip:
            found[reader, owner, each.spec.ip] = each.status.ip
    return found


async def _said(client: Client, namespace: str, slices: set[str]) -> dict[str, str]:
    """The last word of each peer about endpoints of these slices that it leaves out."""
    found: dict[str, tuple[str, str]] = {}
    for each in await client.list(EVENTS, Selection(namespace, fields=f"reason={LEFT_OUT}")):
        peer = (each["metadata"].get("labels") or {}).get(labels.REMOTE_CLUSTER_ID)
        if peer and each["involvedObject"].get("name") in slices:
            said = (str(each.get("lastTimestamp") or ""), str(each.get("message") or ""))
            found[peer] = max(said, found.get(peer, ("", "")))
    return {peer: f"{text} ({when})" for peer, (when, text) in found.items()}
