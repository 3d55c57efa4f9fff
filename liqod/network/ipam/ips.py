"""IPs: other hosts get an address of this cluster's external range, by which peers reach them.

An IP in a tenant namespace is the peer's request: it gets an address only for hosts that this
cluster's administrator lets it have (``lendable`` under ``[network]``), and no Service. Others are
this cluster's own. A Service that an IP requests has no more than ports: the right to make an IP
does not include the right to make any Service.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, SERVICES, Kind
from liqod.apimachinery.meta import Partial, owner_reference
from liqod.apimachinery.rawobjects import UNREADABLE
from liqod.cluster.context import ClusterContext
from liqod.cluster.ownnetworks import own_networks
from liqod.errors import ConfigError, NotFound
from liqod.kube.cache.memoryquota import drop_excess
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_key
from liqod.model.crossing.addresses import family, parse
from liqod.model.network import rangechecks
from liqod.model.network.apiaddress import place_of
from liqod.network.ipam.networks import TOPIC
from liqod.network.ipam.pools import Addresses
from liqod.resources import IP, IPS, NETWORKS, Network

SERVICE_FIELDS: Final = ("ports", "sessionAffinity", "sessionAffinityConfig")
"""Fields of its Service that an IP may set; the rest is as it is for one of a host outside."""
UNKNOWN_YET: Final = 1.0
"""Seconds until an IP is looked at again whose namespace the watch has not reported."""
MANAGER: Final = "liqod"
MOST_BYTES: Final = 1 << 15
"""Bytes of a Service or an EndpointSlice that is an IP's: its ports, and little more."""
PORT_FIELDS: Final = ("name", "protocol", "port", "appProtocol")


class IPs(Controller[Key]):
    """Gives each IP its address; a key is its namespace and name."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._client = context.client
        self._given: dict[str, Addresses[Key]] = {}
        self._networks = Watched(NETWORKS, self._on_network, within=(context.namespace,))
        self._ips = Watched(IPS, self._on_ip)
        self._namespaces: Watched[Key] = Watched(NAMESPACES, self._in_namespace)
        self._nodes: Watched[Key] = Watched(NODES)
        # Anybody may give an object that label: one that is no IP's is not held, and the rest
        # counts as all does that lies in its namespace.
        of_ip = partial(
            Watched, keys=by_key, selection=Selection(labels=labels.OF_IP), keep=is_of_ip
        )
        self._services: Watched[Key] = of_ip(SERVICES, counted=drop_excess)
        self._slices: Watched[Key] = of_ip(ENDPOINT_SLICES, counted=drop_excess)
        super().__init__(
            context,
            TOPIC,
            self._nodes,
            self._namespaces,
            self._networks,
            self._services,
            self._slices,
            self._ips,
            name="IPs",
            tasks=(partial(self.whenever, self._nodes_change, self._all),),
        )

    async def _nodes_change(self) -> None:
        await own_networks(self._nodes.informer).changed()

    def _all(self) -> tuple[Key, ...]:
        return tuple(self._ips.store)

    def _on_network(self, change: StoreChange) -> Iterator[Key]:
        yield from self._all()

    def _on_ip(self, change: StoreChange) -> Iterator[Key]:
        # An address that was given and is not yet written stays taken until the object is gone.
        if change.new is None:
            for each in self._given.values():
                each.free(change.key)
        else:
            self._note(change.key, msgspec.json.decode(change.new, type=IP))
        yield change.key

    def _in_namespace(self, change: StoreChange) -> Iterator[Key]:
        yield from self._ips.store.indexed("namespace", change.key[1])

    def _note(self, key: Key, found: IP) -> Key | None:
        """Record the address that an IP has; its owner, where it has one already."""
        cidr = found.status.cidr
        if not found.status.ip or rangechecks.malformed(cidr):
            return None
        try:
            return self._of(cidr).take(key, found.status.ip)
        except ValueError as error:
            raise ConfigError(f"IP {key[0]}/{key[1]}: {error}") from error

    def _of(self, cidr: str) -> Addresses[Key]:
        if cidr not in self._given:
            self._given[cidr] = Addresses(cidr, self._reserved(cidr))
        return self._given[cidr]

    def _reserved(self, cidr: str) -> int:
        found = (each for each in self._external() if each.status.cidr == cidr)
        return max((each.spec.pre_allocated or 0 for each in found), default=0)

    def _external(self) -> list[Network]:
        """The Networks that addresses are lent from."""
        return sorted(
            (
                each
                for each in self._networks.store.values(Network)
                if each.namespace == self._context.namespace
                and each.kind_of_range == labels.EXTERNAL_CIDR
                and each.status.cidr
            ),
            key=lambda each: each.name,
        )

    async def reconcile(self, key: Key) -> float | None:
        """Give an address, and make the requested Service."""
        found = self._ips.store.decode(key, IP)
        if found is None or found.leaving:
            return None
        if ("", key[0]) not in self._namespaces.store:
            return UNKNOWN_YET  # nothing is lent or taken back until the owner is known
        problem = self._problem(found)
        if problem:
            await self._withdraw(key, found)
            raise ConfigError(f"IP {key[0]}/{key[1]} is not lent: {problem}")
        if not found.status.ip:
            await self._give(key, found)
        elif (other := self._note(key, found)) is not None:
            raise ConfigError(f"IP {key[0]}/{key[1]} has the address of {other[0]}/{other[1]}")
        await self._serve(key, found)
        return None

    def _problem(self, found: IP) -> str:
        """Why peers may not reach it."""
        if is_opened((found.namespace, found.name), found.metadata.labels, self._context.namespace):
            return ""  # It is lent to nobody.
        nodes = own_networks(self._nodes.informer).addresses
        server, _ = place_of(self._context.endpoint.server)
        problem = rangechecks.refuse_lent(found.spec.ip, nodes, server)
        if problem or not self._is_tenants(found):
            return problem
        return unlendable(found, self._context.config.network.lendable)

    def _is_tenants(self, found: IP) -> bool:
        namespace = self._namespaces.store.decode(("", found.namespace), Partial)
        return namespace is None or labels.TENANT_NAMESPACE in namespace.metadata.labels

    async def _give(self, key: Key, found: IP) -> None:
        """Have it take the first address that is free of the range of its family."""
        wanted = family(found.spec.ip)
        ranges = [each for each in self._external() if family(_first(each)) == wanted]
        reference = found.spec.network_ref
        if reference is not None and reference.name:
            ranges = [each for each in ranges if each.name == reference.name]
        if not ranges:
            raise ConfigError(
                f"IP {key[0]}/{key[1]}: there is no external range of {wanted} for it"
            )
        cidr = ranges[0].status.cidr
        # No checkpoint before it is noted: two IPs never get the same.
        address = self._of(cidr).allocate(key)
        patch = {"status": {"ip": address, "cidr": cidr}}
        try:
            await self._client.patch(IPS, key[1], patch, key[0], subresource="status")
        except NotFound:
            self._of(cidr).free(key)

    async def _withdraw(self, key: Key, found: IP) -> None:
        """Take back addresses that may be lent no more: peers reach hosts with an address."""
        if not found.status.ip:
            return
        patch = {"status": {"ip": None, "cidr": None}}
        with suppress(NotFound):
            await self._client.patch(IPS, key[1], patch, key[0], subresource="status")
        for each in self._given.values():
            each.free(key)

    async def _serve(self, key: Key, found: IP) -> None:
        template = found.spec.service_template
        for kind, watched, make in (
            (SERVICES, self._services, service),
            (ENDPOINT_SLICES, self._slices, endpoint_slice),
        ):
            if template:
                wanted = make(found, template)
                await ensure(self._client, kind, wanted, live=watched.store.get(key))
            else:
                await self._take_back(kind, watched.store.decode(key, Partial), found)

    async def _take_back(self, kind: Kind, live: Partial | None, found: IP) -> None:
        if live is not None and any(
            owner.uid == found.metadata.uid for owner in live.metadata.owner_references
        ):
            await delete_all(self._client, kind, [live])


def unlendable(found: IP, lendable: Iterable[str]) -> str:
    """The reason why a peer's own IP is not lent to it, by the settings; empty where it is.

    Args:
        found: the IP, of a tenant namespace.
        lendable: the ranges of hosts that peers may have lent to them.
    """
    if not rangechecks.covered(found.spec.ip, lendable):
        return f"{found.spec.ip} lies in nothing that [network] lendable names"
    return "a peer makes no Service here" if found.spec.service_template else ""


def is_of_ip(body: bytes) -> bool:
    """True if an object names an IP as its owner, and is no larger than such an object can be."""
    if len(body) > MOST_BYTES:
        return False
    try:
        owners = msgspec.json.decode(body, type=Partial).metadata.owner_references
    except UNREADABLE:
        return False
    return any(each.kind == IPS.name for each in owners)


def server_ip(namespace: str) -> Key:
    """Namespace and name of the IP object of the API server."""
    return namespace, labels.API_SERVER_PROXY


def is_opened(key: Key, marks: Mapping[str, str], namespace: str) -> bool:
    """True if an IP is no host's: it opens something to single peers, and is not lent.

    Args:
        key: its namespace and name.
        marks: its labels.
        namespace: liqod's own.
    """
    kinds = (labels.API_SERVER_PROXY, labels.RELAY, labels.TRANSIT)
    ours = key[0] == namespace and marks.get(labels.IP_TYPE, "") in kinds
    return ours or key == server_ip(namespace)


def service(found: IP, template: Mapping[str, Any]) -> dict[str, Any]:
    """The Service of an IP: without selector, its endpoints are ours."""
    said = template.get("spec") or {}
    spec = {name: said[name] for name in SERVICE_FIELDS if name in said}
    # A cluster of both families would give it an address of the first, which leads nowhere.
    spec["ipFamilies"] = [family(found.spec.ip)]
    if said.get("clusterIP") == "None":
        spec["clusterIP"] = "None"
    return {"metadata": _metadata(found, template), "spec": {**spec, "type": "ClusterIP"}}


def endpoint_slice(found: IP, template: Mapping[str, Any]) -> dict[str, Any]:
    """The EndpointSlice of that Service: the host itself."""
    metadata = _metadata(found, template)
    metadata["labels"][labels.SERVICE_NAME] = found.name
    metadata["labels"][labels.ENDPOINT_SLICE_MANAGED_BY] = MANAGER
    ports = [
        {
            **{name: each[name] for name in PORT_FIELDS if name in each},
            **({"port": each["targetPort"]} if isinstance(each.get("targetPort"), int) else {}),
        }
        for each in (template.get("spec") or {}).get("ports") or ()
    ]
    return {
        "metadata": metadata,
        "addressType": family(found.spec.ip),
        "endpoints": [{"addresses": [str(parse(found.spec.ip))], "conditions": {"ready": True}}],
        "ports": ports,
    }


def _metadata(found: IP, template: Mapping[str, Any]) -> dict[str, Any]:
    said = template.get("metadata") or {}
    return {
        "name": found.name,
        "namespace": found.namespace,
        "labels": {**(said.get("labels") or {}), labels.OF_IP: labels.TRUE},
        "annotations": dict(said.get("annotations") or {}),
        "ownerReferences": [owner_reference(IPS, found.metadata)],
    }


def _first(network: Network) -> str:
    return network.status.cidr.partition("/")[0]
