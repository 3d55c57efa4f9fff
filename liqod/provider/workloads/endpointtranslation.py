"""The EndpointSlice that is made from a ShadowEndpointSlice. Pure.

A consumer names addresses that pods here will connect to, so every one is checked: not one that
lies in this cluster's own networks, is a node's, loopback or link-local. The others are relayed,
as they came or translated into the addresses under which they are reached from here
(:mod:`liqod.model.network.remapping`), under the name of the cluster that they are reached by as
node, and never as an endpoint that this cluster's own controllers would take for theirs.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.model.clusterset.keeping import keeping
from liqod.resources import ShadowEndpointSlice

Json = dict[str, Any]


class Reached(NamedTuple):
    """How an address that a consumer names is reached from here.

    Attributes:
        address: the address here; empty where it is left out.
        node: the id of the cluster that it is reached by.
        up: whether anything gets through to that cluster's pods; if not, nothing is ready.
        problem: the reason why it is left out, as a clause.
        expected: whether that is as the operators have it.
    """

    address: str = ""
    node: str = ""
    up: bool = True
    problem: str = ""
    expected: bool = False


Cross = Callable[[str], Reached]
"""How an address that the consumer names is reached from here."""

_RELAYED = ("hostname", "zone", "hints")
_REMOTE = "Remote"
_READ_HERE: Final = frozenset(
    {
        labels.DIRECT_CONNECTIONS_DATA,
        labels.TRANSIT_ADDRESSES,
        labels.DIRECT_CONNECTIONS_KEYS,
        labels.KEEP_LAST_ENDPOINTS,
    }
)
"""Annotations that say how the slice is to be read."""
MOST: Final = 10
"""Addresses of an endpoint that are read: each takes time, and kube-proxy uses the first."""


class Translated(msgspec.Struct, frozen=True):
    """The EndpointSlice for a ShadowEndpointSlice, with the addresses refused.

    Attributes:
        manifest: the EndpointSlice.
        refused: the reasons, by address that was left out.
        left_out: the reasons of those that are left out as the operators have it.
        kept: the silent clusters whose endpoints are used where no other is ready.
    """

    manifest: Json
    refused: dict[str, str] = {}
    left_out: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()


def translate(shadow: ShadowEndpointSlice, cross: Cross) -> Translated:
    """The EndpointSlice for a ShadowEndpointSlice.

    Args:
        shadow: the consumer's object.
        cross: finds how an address is reached.
    """
    refused: dict[str, str] = {}
    left_out: set[str] = set()
    kept: set[str] = set()
    last = keeping(shadow.metadata.annotations).last
    endpoints: list[Json] = []
    for endpoint in shadow.spec.template.endpoints or ():
        found = _allowed(endpoint.get("addresses"), cross, refused, left_out)
        if found:
            made = _endpoint(endpoint, found, last=last)
            endpoints.append(made)
            if made["conditions"]["serving"]:
                kept.update(each.node for each in found if not each.up)
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
            "annotations": {
                key: text for key, text in metadata.annotations.items() if key not in _READ_HERE
            },
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
    return Translated(manifest, refused, frozenset(left_out), frozenset(kept))


def _allowed(
    addresses: Any, cross: Cross, refused: dict[str, str], left_out: set[str]
) -> list[Reached]:
    found: list[Reached] = []
    named = addresses if isinstance(addresses, list) else []
    if len(named) > MOST:
        refused[str(named[MOST])[:64]] = f"an endpoint has {MOST} addresses at the most here"
    for address in named[:MOST]:
        here = cross(address) if isinstance(address, str) else Reached(problem="it is no text")
        if not here.problem:
            found.append(here)
        elif here.expected:
            left_out.add(here.problem)
        else:
            refused[str(address)[:64]] = here.problem
    return found


def _endpoint(endpoint: Json, found: list[Reached], *, last: bool) -> Json:
    conditions, up = endpoint.get("conditions"), all(each.up for each in found)
    told = not isinstance(conditions, dict) or conditions.get("ready", True) is not False
    # kube-proxy uses endpoints that serve and terminate where no other of the Service is ready.
    kept = True if last and told and not up else None
    made: Json = {
        "addresses": [each.address for each in found],
        "conditions": {"ready": up and told, "serving": kept, "terminating": kept},
        "nodeName": found[0].node,
    }
    made |= {name: endpoint[name] for name in _RELAYED if endpoint.get(name) is not None}
    made.setdefault("hints", None)  # those that were there before are to go
    target = endpoint.get("targetRef")
    if isinstance(target, dict) and str(target.get("kind", "")).startswith(_REMOTE):
        made["targetRef"] = target
    return made
