"""EndpointSlices become ShadowEndpointSlices, from which the peer makes EndpointSlices again.

As in Liqo, endpoints on the peer's own nodes stay out, since they are found there natively; of an
endpoint only what means the same over there is kept. Addresses are written as this cluster uses
them; the peer translates them (:mod:`liqod.model.network.remapping`). Where none cross
(``pod_network`` is ``none``) nothing is written. A slice that has no endpoints yet is written as it
is; one whose endpoints all stay out is not. The Service may ask that the peer's clients use the
endpoints there first or alone, or a share of them; it decides whether its slices follow, unless a
slice says so itself.
"""

from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.model.crossing.fields import ENDPOINT, copied
from liqod.model.crossing.preference import (
    NO_PREFERENCE,
    OWN_ONLY,
    Preference,
    is_ready,
    preference,
    told,
)
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
ELSEWHERE = "EndpointElsewhere"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
"""Annotation that changes with each change, also of endpoints that do not cross."""
NOT_TOLD = "EndpointsNotTold"
UNTOLD = f"clients at {{}} use endpoints there alone, by {labels.ENDPOINT_PREFERENCE}: {OWN_ONLY}"
KEPT = copied(ENDPOINT)


def outgoing(endpoint_slice: Json, view: View) -> Plan:
    """The slice with the endpoints that are not there already."""
    if not view.names.crosses:
        return NOTHING
    if endpoint_slice.get("addressType") == "FQDN":
        return Plan(reasons=(Reason(REFUSED, "endpoints that are names (FQDN) do not cross"),))
    found = endpoint_slice.get("endpoints") or ()
    away = sorted({e["nodeName"] for e in found if e.get("nodeName") in view.names.elsewhere})
    stays = {*view.names.nodes, *away}
    leaving = [endpoint for endpoint in found if endpoint.get("nodeName") not in stays]
    asked = _asked(endpoint_slice, view)
    natives = sum(is_ready(each) for each in found if each.get("nodeName") in view.names.nodes)
    if leaving and asked.order == OWN_ONLY:
        return Plan(reasons=(Reason(NOT_TOLD, UNTOLD.format(view.names.peer), expected=True),))
    leaving = told(asked, view.names.peer, natives, leaving)
    crossed = _crossed(leaving, view)
    endpoints = [
        _endpoint(endpoint, crossed, view)
        for endpoint in leaving
        if not any(crossed[each].problem for each in endpoint.get("addresses") or ())
    ]
    reasons = (
        *(
            Reason(REFUSED, f"the address {address} does not cross: {each.problem}")
            for address, each in crossed.items()
            if each.problem
        ),
        *(_elsewhere(node, view.names.peer) for node in away),
    )
    if found and not endpoints:
        return Plan(reasons=reasons)
    template: dict[str, Any] = {
        "addressType": endpoint_slice.get("addressType", "IPv4"),
        "endpoints": endpoints,
    }
    if endpoint_slice.get("ports"):
        template["ports"] = list(endpoint_slice["ports"])
    remote = manifest(
        SHADOW_ENDPOINT_SLICES,
        endpoint_slice["metadata"]["name"],
        endpoint_slice,
        view,
        spec={"template": template},
    )
    remote["metadata"]["labels"][labels.ENDPOINT_SLICE_MANAGED_BY] = labels.ENDPOINT_SLICE_REFLECTOR
    remote["metadata"]["annotations"].pop(TRIGGER_TIME, None)
    if len(msgspec.json.encode(remote)) > MAX_ENDPOINT_BYTES:
        why = f"it has more than {MAX_ENDPOINT_BYTES >> 20} MiB; make several slices of it"
        reasons += (Reason(TOO_LARGE, f"{view.names.peer} does not read it: {why}"),)
    return Plan(remote=(remote,), reasons=reasons)


def _asked(endpoint_slice: Json, view: View) -> Preference:
    """The wish of the Service that a slice is of."""
    name = (endpoint_slice["metadata"].get("labels") or {}).get(labels.SERVICE_NAME)
    service = view.get(SERVICES, name) if name else None
    if service is None:
        return NO_PREFERENCE
    asked = preference(service["metadata"].get("annotations"))
    headless = (service.get("spec") or {}).get("clusterIP") == "None"
    # Names of its pods are found by what is told.
    return NO_PREFERENCE if headless and asked.order != OWN_ONLY else asked


def _crossed(endpoints: list[Json], view: View) -> dict[str, Remapped]:
    """The address that the peer is given for each one."""
    addresses = (each for endpoint in endpoints for each in endpoint.get("addresses") or ())
    return {address: remap_sent(address, view.names.ranges) for address in addresses}


def _elsewhere(node: str, peer: str) -> Reason:
    """Endpoints at another peer stay out, which is how several peers are meant to be."""
    said = f"what runs at another peer ({node}) is not told to {peer}, whose pods do not reach it"
    return Reason(ELSEWHERE, said, expected=True)


def _endpoint(endpoint: Json, crossed: dict[str, Remapped], view: View) -> Json:
    kept: Json = {field: endpoint[field] for field in KEPT if endpoint.get(field) is not None}
    if "addresses" in kept:
        kept["addresses"] = [crossed[address].address for address in kept["addresses"]]
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
