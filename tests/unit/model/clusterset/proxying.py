"""A model of kube-proxy: the endpoints of some EndpointSlices that the clients on a node get.

By ``pkg/proxy/topology.go`` of Kubernetes 1.35, for a Service of internal traffic policy Cluster.
"""

from collections.abc import Iterable
from typing import Any


def used(manifests: Iterable[dict[str, Any]], zone: str, family: str = "IPv4") -> set[str]:
    """The addresses that the clients on a node of a zone are led to; an empty zone: of none."""
    every = [
        each for made in manifests if made["addressType"] == family for each in made["endpoints"]
    ]
    found = [each for each in every if each["conditions"]["ready"]]
    if not found:  # then those that serve and end, without regard to hints
        return {
            each["addresses"][0]
            for each in every
            if each["conditions"].get("serving") and each["conditions"].get("terminating")
        }
    hints = [_zones(each) for each in found]
    near = all(hints) and any(zone in each for each in hints)
    return {
        each["addresses"][0]
        for each, zones in zip(found, hints, strict=True)
        if not near or zone in zones
    }


def _zones(endpoint: dict[str, Any]) -> set[str]:
    return {each["name"] for each in (endpoint.get("hints") or {}).get("forZones", ())}
