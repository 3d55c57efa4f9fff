"""EndpointSlices become ShadowEndpointSlices, from which the peer makes EndpointSlices again.

As in Liqo, endpoints on the peer's own nodes stay out, since they are found there natively; of an
endpoint only what means the same over there is kept. Where pods' own addresses do not cross
(``pod_network`` is ``none``) nothing is written. The Service decides whether its slices follow,
unless a slice says so itself.
"""

from typing import Any

from liqod.kube.kinds import ENDPOINT_SLICES, SERVICES
from liqod.model import addresses, labels
from liqod.plugins.contracts import (
    NOTHING,
    Governor,
    Json,
    Plan,
    Reads,
    Reason,
    Reflector,
    There,
    View,
)
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.reflectors.common import manifest
from liqod.resources.offloading import SHADOW_ENDPOINT_SLICES

TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
"""Annotation that changes with each change, also of endpoints that do not cross."""
KEPT = ("addresses", "hostname", "zone", "hints")


def outgoing(endpoint_slice: Json, view: View) -> Plan:
    """The slice with the endpoints that are not there already."""
    if view.names.pod_network == "none":
        return NOTHING
    native = [
        endpoint
        for endpoint in endpoint_slice.get("endpoints") or ()
        if endpoint.get("nodeName") not in view.names.nodes
    ]
    refused = {} if endpoint_slice.get("addressType") == "FQDN" else _refused(native)
    endpoints = [
        _endpoint(endpoint, view)
        for endpoint in native
        if refused.keys().isdisjoint(endpoint.get("addresses") or ())
    ]
    reasons = tuple(
        Reason("AddressRefused", f"the address {address} does not cross: {why}")
        for address, why in refused.items()
    )
    if not endpoints:
        return Plan(reasons=reasons)
    template: dict[str, Any] = {
        "addressType": endpoint_slice.get("addressType", "IPv4"),
        "endpoints": endpoints,
    }
    if endpoint_slice.get("ports"):
        template["ports"] = list(endpoint_slice["ports"])
    twin = manifest(
        SHADOW_ENDPOINT_SLICES,
        endpoint_slice["metadata"]["name"],
        endpoint_slice,
        view,
        spec={"template": template},
    )
    twin["metadata"]["labels"][labels.ENDPOINT_SLICE_MANAGED_BY] = labels.ENDPOINT_SLICE_REFLECTOR
    twin["metadata"]["annotations"].pop(TRIGGER_TIME, None)
    return Plan(there=(twin,), reasons=reasons)


def _refused(endpoints: list[Json]) -> dict[str, str]:
    """The addresses that mean nothing in another cluster, and why."""
    named = (address for endpoint in endpoints for address in endpoint.get("addresses") or ())
    return {address: why for address in named if (why := addresses.refuse(address)) is not None}


def _endpoint(endpoint: Json, view: View) -> Json:
    kept: Json = {field: endpoint[field] for field in KEPT if endpoint.get(field) is not None}
    ready = (endpoint.get("conditions") or {}).get("ready")
    # An endpoint that says nothing is ready (discovery/v1 EndpointConditions).
    kept["conditions"] = {"ready": ready is not False}
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
    there=(There(kind=SHADOW_ENDPOINT_SLICES),),
    reads=(Reads(SERVICES),),
    governor=Governor(reflector="services", kind=SERVICES, label=labels.SERVICE_NAME),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """EndpointSlices."""
    return [REFLECTOR]
