"""The EndpointSlice that is made from a ShadowEndpointSlice. Pure.

A consumer names addresses that pods here will connect to, so every one is checked: not one that
lies in this cluster's own networks, is a node's, loopback or link-local. The others are relayed,
as they came or translated into the addresses under which they are reached from here
(:mod:`liqod.model.network.remapping`), under the consumer's name as node, and never as an endpoint
that this cluster's own controllers would take for theirs.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.network.remapping import Remapped
from liqod.resources import ShadowEndpointSlice

Json = dict[str, Any]
Cross = Callable[[str], Remapped]
"""The address under which one of the consumer's is reached from here, or the refusal."""

_RELAYED = ("hostname", "zone", "hints")
_REMOTE = "Remote"
MOST: Final = 10
"""Addresses of an endpoint that are read: each takes time, and kube-proxy uses the first."""


class Translated(msgspec.Struct, frozen=True):
    """The EndpointSlice for a ShadowEndpointSlice, with the addresses refused.

    Attributes:
        manifest: the EndpointSlice.
        refused: the reasons, by address that was left out.
    """

    manifest: Json
    refused: dict[str, str] = {}


def translate(shadow: ShadowEndpointSlice, consumer: str, *, up: bool, cross: Cross) -> Translated:
    """The EndpointSlice for a ShadowEndpointSlice.

    Args:
        shadow: the consumer's object.
        consumer: its cluster id.
        up: whether anything gets through to the consumer's pods; if not, nothing is ready.
        cross: translates or refuses an address.
    """
    refused: dict[str, str] = {}
    endpoints: list[Json] = []
    for endpoint in shadow.spec.template.endpoints or ():
        addresses = _allowed(endpoint.get("addresses"), cross, refused)
        if addresses:
            endpoints.append(_endpoint(endpoint, addresses, consumer, up))
    template = shadow.spec.template
    metadata = shadow.metadata
    manifest: Json = {
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": {
                **metadata.labels,
                labels.ENDPOINT_SLICE_MANAGED_BY: labels.ENDPOINT_SLICE_REFLECTOR,
                labels.MANAGED: labels.TRUE,
                labels.MANAGED_BY: labels.MANAGED_BY_SHADOW_ENDPOINT_SLICE,
            },
            "annotations": dict(metadata.annotations),
            "ownerReferences": [
                {
                    "apiVersion": shadow.KIND.api_version,
                    "kind": shadow.KIND.name,
                    "name": metadata.name,
                    "uid": metadata.uid,
                    "controller": True,
                }
            ],
        },
        "addressType": template.address_type,
        "endpoints": endpoints,
        "ports": [msgspec.to_builtins(port) for port in template.ports],
    }
    return Translated(manifest, refused)


def _allowed(addresses: Any, cross: Cross, refused: dict[str, str]) -> list[str]:
    found: list[str] = []
    named = addresses if isinstance(addresses, list) else []
    if len(named) > MOST:
        refused[str(named[MOST])[:64]] = f"an endpoint has {MOST} addresses at the most here"
    for address in named[:MOST]:
        here, problem = (
            cross(address) if isinstance(address, str) else Remapped("", "it is no text")
        )
        if not problem:
            found.append(here)
        else:
            refused[str(address)[:64]] = problem
    return found


def _endpoint(endpoint: Json, addresses: list[str], consumer: str, up: bool) -> Json:
    conditions = endpoint.get("conditions")
    ready = conditions.get("ready", True) if isinstance(conditions, dict) else True
    made: Json = {
        "addresses": addresses,
        "conditions": {"ready": up and ready is not False},
        "nodeName": consumer,
    }
    made |= {name: endpoint[name] for name in _RELAYED if endpoint.get(name) is not None}
    made.setdefault("hints", None)  # those that were there before are to go
    target = endpoint.get("targetRef")
    if isinstance(target, dict) and str(target.get("kind", "")).startswith(_REMOTE):
        made["targetRef"] = target
    return made
