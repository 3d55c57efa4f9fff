"""The objects of an import: ServiceImport, EndpointSlices, and the Service that has its address.

kube-proxy does not know of ServiceImports. The address of an import is that of a Service without a
selector, the derived Service, and the EndpointSlices of all clusters carry that Service's name. A
headless import has no such Service: its EndpointSlices are for DNS alone. All manifests are without
``apiVersion``, which the writer adds, so they are the same in both versions of the API.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.clusterset.exports import CLIENT_IP, CLOSE, Endpoint, Export, Key, Port, Slice
from liqod.model.clusterset.merging import Merged
from liqod.model.crossing.addresses import family
from liqod.model.crossing.allowedkeys import GUEST_ANNOTATIONS, GUEST_LABELS, key_allowed
from liqod.resources.multicluster import (
    DERIVED_SERVICE,
    SERVICE_NAME,
    SLICE_MANAGER,
    SOURCE_CLUSTER,
)

Json = dict[str, Any]

NOTHING: Final[Mapping[str, str]] = {}
DERIVED: Final = "derived-"
"""The beginning of the names of derived Services."""
_ADDRESS: Final = ("clusterIP", "clusterIPs")
_SAME_NODE: Final = "PreferSameNode"
_DIGITS: Final = 10
_RESERVED: Final = ("liqo.io", "liqod.io", "multicluster.kubernetes.io")
"""Domains of the keys by which controllers recognise their objects, with those below them."""
_OURS: Final = {labels.MANAGED_BY_LIQOD: labels.TRUE}
_STAYS: Final = {labels.SKIP_REFLECTION: labels.TRUE}
"""Each cluster makes its own of an import: those of an offloaded namespace are not reflected."""
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def derived_name(key: Key) -> str:
    """The name of the Service that has the address of an import."""
    return f"{DERIVED}{_digest(*key)}"


def slice_name(export: Export, source: str) -> str:
    """The name of the EndpointSlice that is made of one of another cluster's.

    Names of two clusters, or of two Services, are never the same.
    """
    return f"{export.name}-{_digest(export.cluster, *export.key, source)}"


def _digest(*parts: str) -> str:
    # No part can have a slash: they are names of Kubernetes' objects, and cluster ids.
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:_DIGITS]


def import_manifest(
    merged: Merged,
    families: Collection[str],
    ips: Sequence[str] = (),
    keys: tuple[Iterable[str], Iterable[str]] = (GUEST_LABELS, GUEST_ANNOTATIONS),
    most_ips: int = 2,
    notes: Mapping[str, str] = NOTHING,
) -> Json:
    """The ServiceImport.

    Args:
        merged: the Service of the set.
        families: the IP families that this cluster has.
        ips: the addresses of the derived Service.
        keys: patterns of the labels and of the annotations that exports may bring.
        most_ips: the addresses that the served schema takes; an early ``v1alpha1`` takes one.
        notes: annotations of liqod's own; those that are empty are left out.
    """
    oldest = merged.oldest
    annotations = _allowed(oldest.annotations, keys[1], {})
    if not merged.headless:
        annotations[DERIVED_SERVICE] = derived_name(oldest.key)
    annotations |= {key: value for key, value in notes.items() if value}
    spec: Json = {
        "type": oldest.type,
        "ports": [_port(each) for each in merged.ports],
        "ipFamilies": ordered(merged, families, ips),
        "internalTrafficPolicy": oldest.internal_traffic_policy,
        **_affinity(merged),
    }
    if oldest.traffic_distribution:
        spec["trafficDistribution"] = oldest.traffic_distribution
    if not merged.headless:
        spec["ips"] = list(ips[:most_ips])
    metadata = {
        "name": oldest.name,
        "namespace": oldest.namespace,
        "labels": _allowed(oldest.labels, keys[0], _OURS, _NAME),
        "annotations": annotations,
    }
    return {"metadata": metadata, "spec": spec}


def derived_service(
    merged: Merged, families: Collection[str], owner: Json, ips: Sequence[str] = ()
) -> Json | None:
    """The Service that has the address of an import; None for one that has none.

    Args:
        merged: the Service of the set.
        families: the IP families that this cluster has.
        owner: the reference to the ServiceImport (:func:`owned_by`).
        ips: the addresses that the import has already, which clients know.
    """
    usable_here = ordered(merged, families, ips)
    if merged.headless or not usable_here:
        return None
    oldest = merged.oldest
    spec: Json = {
        "type": "ClusterIP",
        "ports": [_port(each) for each in merged.ports],
        "ipFamilies": usable_here,
        "ipFamilyPolicy": "RequireDualStack" if len(usable_here) > 1 else "SingleStack",
        "internalTrafficPolicy": oldest.internal_traffic_policy,
        **_affinity(merged),
    }
    if oldest.traffic_distribution:
        spec["trafficDistribution"] = oldest.traffic_distribution
    by_family = {family(each): each for each in ips}
    known = [by_family[each] for each in usable_here if each in by_family]
    if known:
        spec |= {"clusterIP": known[0], "clusterIPs": known}
    metadata = {
        "name": derived_name(oldest.key),
        "namespace": oldest.namespace,
        "labels": {**_OURS, SERVICE_NAME: oldest.name},
        "annotations": _STAYS,
        "ownerReferences": [owner],
    }
    return {"metadata": metadata, "spec": spec}


def without_address(service: Json) -> Json:
    """A derived Service without its addresses, as it is made where it has none yet."""
    spec = service["spec"]
    return {**service, "spec": {name: spec[name] for name in spec if name not in _ADDRESS}}


def usable(merged: Merged, families: Collection[str]) -> list[str]:
    """The IP families of an import in a cluster that has these, the first one first."""
    return [each for each in merged.oldest.families if each in families]


def ordered(merged: Merged, families: Collection[str], ips: Iterable[str]) -> list[str]:
    """The IP families of an import, those of the addresses that it has first: a Service's first
    family never changes, and a second one is added behind it."""
    here = usable(merged, families)
    held = [each for each in map(family, ips) if each in here]
    return list(dict.fromkeys([*held, *here]))


def owned_by(kind: Kind, meta: ObjectMeta) -> Json:
    """The reference to the ServiceImport, which is in the version that this cluster serves."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": meta.name,
        "uid": meta.uid,
    }


Hinted = Callable[[Export, Endpoint], tuple[str, ...] | None]
"""The zones that an endpoint is hinted for; None: by the Service's traffic distribution."""


def by_service(export: Export, endpoint: Endpoint) -> None:
    """The hints of an endpoint of which nothing else is asked: those of its Service."""


def slice_manifests(
    merged: Merged,
    export: Export,
    families: Collection[str],
    owner: Json,
    hinted: Hinted = by_service,
    *,
    reached: bool,
    by_way: str = "",
) -> list[Json]:
    """The EndpointSlices of one exporter.

    Args:
        merged: the Service of the set.
        export: what the exporter says.
        families: the IP families that this cluster has.
        owner: the reference to the ServiceImport.
        hinted: the zones that an endpoint is hinted for.
        reached: whether anything gets through to its pods; if not, none is ready, and all stay.
        by_way: the peer by way of which they are reached; empty where the exporter is a peer.
    """
    here = usable(merged, families)
    return [
        _slice(merged, export, each, owner, hinted, reached=reached, by_way=by_way)
        for each in export.slices
        if each.family in here
    ]


def _slice(
    merged: Merged,
    export: Export,
    found: Slice,
    owner: Json,
    hinted: Hinted,
    *,
    reached: bool,
    by_way: str,
) -> Json:
    marks = {
        **_OURS,
        labels.ENDPOINT_SLICE_MANAGED_BY: SLICE_MANAGER,
        SERVICE_NAME: export.name,
        SOURCE_CLUSTER: export.cluster,
        **({labels.BY_WAY: by_way} if by_way else {}),
    }
    if not merged.headless:
        marks[labels.SERVICE_NAME] = derived_name(export.key)
    names = merged.names.get(export.cluster, {})
    ports = [
        _port(msgspec.structs.replace(port, name=names[port.name]))
        for port in found.ports
        if port.name in names
    ]
    close = merged.oldest.traffic_distribution
    return {
        "metadata": {
            "name": slice_name(export, found.name),
            "namespace": export.namespace,
            "labels": marks,
            "annotations": _STAYS,
            "ownerReferences": [owner],
        },
        "addressType": found.family,
        "endpoints": [
            _endpoint(each, close, hinted(export, each), reached=reached)
            for each in found.endpoints
        ],
        "ports": ports,
    }


def _endpoint(found: Endpoint, close: str, zones: tuple[str, ...] | None, *, reached: bool) -> Json:
    made: Json = {
        "addresses": list(found.addresses),
        "conditions": {
            "ready": found.ready and reached,
            "serving": found.serving and reached,
            "terminating": found.terminating,
        },
    }
    parts = {"hostname": found.hostname, "zone": found.zone, "nodeName": found.node}
    made |= {name: value for name, value in parts.items() if value}
    if zones is not None:
        return {**made, "hints": {"forZones": [{"name": each} for each in zones]}}
    # kube-proxy goes by the hints alone, which for a Service of one cluster its controller gives.
    hints: Json = {}
    if close in CLOSE and found.zone:
        hints["forZones"] = [{"name": found.zone}]
    if close == _SAME_NODE and found.node:
        hints["forNodes"] = [{"name": found.node}]
    return {**made, "hints": hints or None}  # those that were there before are to go


def _port(port: Port) -> Json:
    made: Json = {"port": port.port, "protocol": port.protocol}
    parts = {"name": port.name, "appProtocol": port.app_protocol}
    return made | {name: value for name, value in parts.items() if value}


def _affinity(merged: Merged) -> Json:
    """The session affinity, which a headless Service has none of."""
    if merged.headless:
        return {}
    oldest = merged.oldest
    made: Json = {"sessionAffinity": oldest.session_affinity}
    if oldest.session_affinity == CLIENT_IP:
        made["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": oldest.affinity_timeout}}
    return made


def _allowed(
    found: Mapping[str, str],
    patterns: Iterable[str],
    ours: dict[str, str],
    values: re.Pattern[str] | None = None,
) -> dict[str, str]:
    """The labels or annotations that an import takes from an export, with our own.

    An API server refuses an object for one key of a wrong form, so such a key is left out.
    """
    allowed = tuple(patterns)
    brought = {
        key: value
        for key, value in found.items()
        if _is_key(key)
        and key_allowed(key, allowed)
        and (values is None or not value or values.fullmatch(value))
    }
    return brought | ours


def _is_key(key: str) -> bool:
    """True if a text is a key of labels and annotations, and not one of a controller's."""
    domain, slash, name = key.rpartition("/")
    good = not slash or (len(domain) <= 253 and _DOMAIN.fullmatch(domain) is not None)
    if any(f".{domain}".endswith(f".{each}") for each in _RESERVED):
        return False
    return good and _NAME.fullmatch(name) is not None
