"""EndpointSlices become ShadowEndpointSlices, from which the peer makes EndpointSlices again.

As in Liqo, endpoints on the peer's own nodes stay out, since they are found there natively; of an
endpoint only what means the same over there is kept. Addresses are written as this cluster uses
them; the peer translates them (:mod:`liqod.model.network.remapping`). Where none cross
(``pod_network`` is ``none``) nothing is written. A slice that has no endpoints yet is written as it
is; one whose endpoints all stay out is not. The Service may ask that the peer's clients use the
endpoints there first or alone, or a share of them, or keep those of this cluster while it is
silent; it decides whether its slices follow, unless a slice says so itself.

Endpoints at a third cluster are told where there is a way to them
(:mod:`liqod.model.crossing.thirdclusters`): by way of this cluster among its own; directly in a
slice of each such cluster beside it, so that a peer that cannot read one of these still has the
others.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.model.clusterset.keeping import keeping
from liqod.model.crossing.annotations import bool_value
from liqod.model.crossing.fields import ENDPOINT, copied
from liqod.model.crossing.preference import (
    NO_PREFERENCE,
    OWN_ONLY,
    Preference,
    is_ready,
    preference,
    told,
)
from liqod.model.crossing.thirdclusters import Way, annotations_for, offered
from liqod.model.ids import NAME_LIMIT
from liqod.model.network.remapping import Remapped, remap_sent
from liqod.plugins.contracts import (
    NOTHING,
    READ,
    Governor,
    Grant,
    Json,
    Plan,
    Reads,
    Reason,
    Reflector,
    RemoteKind,
    Right,
    View,
)
from liqod.plugins.crossing import manifest
from liqod.plugins.hookspecs import hookimpl
from liqod.resources.base import MAX_ENDPOINT_BYTES
from liqod.resources.offloading import SHADOW_ENDPOINT_SLICES

TOO_LARGE = "TooLarge"
REFUSED = "AddressRefused"
ELSEWHERE: Final = "EndpointElsewhere"
_DIGITS: Final = 10
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
"""Annotation that changes with each change, also of endpoints that do not cross."""
NOT_TOLD = "EndpointsNotTold"
UNTOLD = f"clients at {{}} use endpoints there alone, by {labels.ENDPOINT_PREFERENCE}: {OWN_ONLY}"
KEPT = copied(ENDPOINT)


class _Third(NamedTuple):
    """The way to an endpoint at a third cluster.

    Attributes:
        owner: id of that cluster.
        way: the way to its first address, which is the one that proxies use.
        keys: those by which this cluster knows it.
    """

    owner: str
    way: Way
    keys: frozenset[str]


class _Asked(NamedTuple):
    """The wishes of the Service that a slice is of.

    Attributes:
        preference: the endpoints that clients at the peer use.
        direct: whether endpoints at third clusters are to be reached directly.
        last: whether endpoints that nothing gets through to are used where no other is ready.
    """

    preference: Preference = NO_PREFERENCE
    direct: bool = False
    last: bool = False


_Ways = dict[tuple[str, str], _Third]
"""The ways to endpoints at third clusters, by their node and first address."""


def outgoing(endpoint_slice: Json, view: View) -> Plan:
    """The slice with the endpoints that are not there already."""
    if not view.names.crosses:
        return NOTHING
    if endpoint_slice.get("addressType") == "FQDN":
        return Plan(reasons=(Reason(REFUSED, "endpoints that are names (FQDN) do not cross"),))
    found = endpoint_slice.get("endpoints") or ()
    leaving = [endpoint for endpoint in found if endpoint.get("nodeName") not in view.names.nodes]
    wishes = _asked(endpoint_slice, view)
    asked = wishes.preference
    natives = sum(is_ready(each) for each in found if each.get("nodeName") in view.names.nodes)
    if leaving and asked.order == OWN_ONLY:
        return Plan(reasons=(Reason(NOT_TOLD, UNTOLD.format(view.names.peer), expected=True),))
    ways = _ways(leaving, view, asked=wishes.direct)
    away = {key for key, each in ways.items() if each.way.problem}
    reached = [each for each in leaving if _key(each) not in away]
    leaving = told(asked, view.names.peer, natives, reached)
    crossed = _crossed([each for each in leaving if _key(each) not in ways], view)
    reasons = [
        *(
            Reason(REFUSED, f"the address {address} does not cross: {each.problem}")
            for address, each in crossed.items()
            if each.problem
        ),
        *_elsewhere(ways, view.names.peer),
    ]
    endpoints = list(_here(leaving, ways, crossed, view))
    remote = [_shadow(endpoint_slice, view, endpoints)] if endpoints or not found else []
    owners = sorted({each.owner for each in ways.values() if each.way.direct})
    remote += [_of_third(endpoint_slice, view, owner, leaving, ways) for owner in owners]
    for each in remote:
        if wishes.last:
            each["metadata"]["annotations"][labels.KEEP_LAST_ENDPOINTS] = labels.TRUE
        if len(msgspec.json.encode(each)) > MAX_ENDPOINT_BYTES:
            why = f"it has more than {MAX_ENDPOINT_BYTES >> 20} MiB; make several slices of it"
            reasons.append(Reason(TOO_LARGE, f"{view.names.peer} does not read it: {why}"))
    return Plan(remote=tuple(remote), reasons=tuple(reasons))


def _key(endpoint: Json) -> tuple[str, str]:
    return endpoint.get("nodeName") or "", next(iter(endpoint.get("addresses") or ()), "")


def _ways(endpoints: list[Json], view: View, *, asked: bool) -> _Ways:
    """The ways to those of the endpoints that are at third clusters."""
    found: _Ways = {}
    for node, address in dict.fromkeys(map(_key, endpoints)):
        owner = view.names.elsewhere.get(node)
        if owner is not None:
            transit = view.transit(owner.id, address)
            way = offered(owner, view.names.peer, address, asked=asked, transit=transit)
            found[node, address] = _Third(owner.id, way, owner.keys)
    return found


def _here(
    endpoints: list[Json], ways: _Ways, crossed: dict[str, Remapped], view: View
) -> Iterator[Json]:
    """The endpoints that are told as this cluster's own, as they are told."""
    for endpoint in endpoints:
        third = ways.get(_key(endpoint))
        addresses = [crossed[each] for each in endpoint.get("addresses") or ()] if not third else ()
        if third and not third.way.direct:
            yield _endpoint(endpoint, [third.way.by_way], view)
        elif not third and not any(each.problem for each in addresses):
            yield _endpoint(endpoint, [each.address for each in addresses], view)


def _of_third(
    endpoint_slice: Json, view: View, owner: str, leaving: list[Json], ways: _Ways
) -> Json:
    """The slice of the endpoints that are told as one third cluster's."""
    endpoints, by_way, keys = [], {}, frozenset[str]()
    for endpoint in leaving:
        third = ways.get(_key(endpoint))
        if third is not None and third.owner == owner and third.way.direct:
            endpoints.append(_endpoint(endpoint, [third.way.direct], view))
            by_way[third.way.direct] = third.way.by_way
            keys = third.keys
    made = _shadow(endpoint_slice, view, endpoints)
    name = made["metadata"]["name"]
    digest = hashlib.sha256(f"{name}/{owner}".encode()).hexdigest()[:_DIGITS]
    made["metadata"]["name"] = f"{name[: NAME_LIMIT - _DIGITS - 1].rstrip('.-')}-{digest}"
    made["metadata"]["annotations"] |= annotations_for(owner, by_way, keys)
    return made


def _shadow(endpoint_slice: Json, view: View, endpoints: list[Json]) -> Json:
    template: dict[str, Any] = {
        "addressType": endpoint_slice.get("addressType", "IPv4"),
        "endpoints": endpoints,
    }
    if endpoint_slice.get("ports"):
        template["ports"] = list(endpoint_slice["ports"])
    made = manifest(
        SHADOW_ENDPOINT_SLICES,
        endpoint_slice["metadata"]["name"],
        endpoint_slice,
        view,
        spec={"template": template},
    )
    made["metadata"]["labels"][labels.ENDPOINT_SLICE_MANAGED_BY] = labels.ENDPOINT_SLICE_REFLECTOR
    made["metadata"]["annotations"].pop(TRIGGER_TIME, None)
    return made


def _asked(endpoint_slice: Json, view: View) -> _Asked:
    """The wishes of the Service that a slice is of."""
    name = (endpoint_slice["metadata"].get("labels") or {}).get(labels.SERVICE_NAME)
    service = view.get(SERVICES, name) if name else None
    if service is None:
        return _Asked()
    notes = service["metadata"].get("annotations") or {}
    direct = bool_value(notes, labels.DIRECT_CONNECTIONS) is True
    asked = preference(notes)
    headless = (service.get("spec") or {}).get("clusterIP") == "None"
    if not headless:
        return _Asked(asked, direct, keeping(notes).last)
    # Names of its pods are found by what is told.
    return _Asked(asked if asked.order == OWN_ONLY else NO_PREFERENCE, direct)


def _crossed(endpoints: list[Json], view: View) -> dict[str, Remapped]:
    """The address that the peer is given for each one."""
    addresses = (each for endpoint in endpoints for each in endpoint.get("addresses") or ())
    return {address: remap_sent(address, view.names.ranges) for address in addresses}


def _elsewhere(ways: _Ways, peer: str) -> Iterator[Reason]:
    """Endpoints at a third cluster that there is no way to; that may be as it is meant to be."""
    away = [each for each in ways.values() if each.way.problem and not each.way.awaited]
    said = {each.owner: each.way.problem for each in away}
    for owner, problem in sorted(said.items()):
        text = f"endpoints at {owner} are not told to {peer}: {problem}"
        yield Reason(ELSEWHERE, text, expected=True, governor=True)


def _endpoint(endpoint: Json, addresses: list[str], view: View) -> Json:
    kept: Json = {field: endpoint[field] for field in KEPT if endpoint.get(field) is not None}
    if "addresses" in kept:
        kept["addresses"] = addresses
    kept["conditions"] = {"ready": is_ready(endpoint)}
    if endpoint.get("hints") is not None:
        kept["hints"] = endpoint["hints"]
    kept["nodeName"] = view.names.consumer
    target = endpoint.get("targetRef")
    if target is not None:
        kept["targetRef"] = {
            field: target[field] for field in ("name", "namespace", "uid") if field in target
        }
        kept["targetRef"]["kind"] = f"Remote{target.get('kind', '')}"
    return kept


REFLECTOR = Reflector(
    name="endpointslices",
    kind=ENDPOINT_SLICES,
    outgoing=outgoing,
    remote=(RemoteKind(kind=SHADOW_ENDPOINT_SLICES),),
    reads=(Reads(SERVICES),),
    governor=Governor(reflector="services", kind=SERVICES, label=labels.SERVICE_NAME),
    rights=(
        Right(
            group=ENDPOINT_SLICES.group,
            resources=("endpointslices",),
            verbs=READ,
            why="EndpointSlices of offloaded namespaces are reflected",
        ),
        Right(
            group="",
            resources=("services",),
            verbs=READ,
            why="the Service of a slice decides whether it follows",
        ),
    ),
    grant=Grant(quota={"count/shadowendpointslices.offloading.liqo.io": "5000"}),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """EndpointSlices."""
    return [REFLECTOR]
