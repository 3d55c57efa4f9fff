"""Reflected objects that are changed and deleted by hand at a provider: put right, or explained.

What a change by hand leaves in the fields' ownership is a real API server's matter; edits of other
objects are tried on embedded clusters (`simulated/peering/test_hand_edits.py`).
"""

from __future__ import annotations

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.workloads import core, group, service, slices

pytestmark = pytest.mark.cluster

OFFLOADING = "offloading.liqo.io/v1beta1"


def test_reflected_objects_are_put_right(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    there = f"{shop}-rome"
    rome.create(core(shop, "services"), service("web"))
    rome.create(core(shop, "secrets"), {"metadata": {"name": "web"}, "stringData": {"a": "b"}})
    path = core(there, "services", "web")
    milan.comes_to(path, lambda one: True)
    ports = [{"name": "http", "port": 9999, "targetPort": 1}]
    milan.patch(path, {"spec": {"ports": ports}, "metadata": {"labels": {"note": "kept"}}})
    milan.comes_to(path, lambda one: [p["port"] for p in one["spec"]["ports"]] == [80])
    milan.api.call("DELETE", path)
    milan.comes_to(path, lambda one: [p["port"] for p in one["spec"]["ports"]] == [80])

    # A local endpoint crosses as a ShadowEndpointSlice, from which milan makes its own.
    endpoint = {"addresses": ["10.201.7.7"], "nodeName": "rome-0", "conditions": {"ready": True}}
    marks = {"kubernetes.io/service-name": "web"}
    made = {"metadata": {"name": "web-home", "labels": marks}, "addressType": "IPv4"}
    rome.create(slices(shop), {**made, "endpoints": [endpoint], "ports": [{"port": 8080}]})
    shadow_slice = group(OFFLOADING, there, "shadowendpointslices", "web-home")
    its_slice = slices(there, "web-home")

    def as_it_was() -> None:
        for one in (shadow_slice, its_slice):
            milan.comes_to(one, lambda found: "10.201.7.7" in str(found))
            milan.comes_to(one, lambda found: "10.99.0.1" not in str(found))

    as_it_was()
    wrong = [{"addresses": ["10.99.0.1"]}]
    milan.patch(its_slice, {"endpoints": wrong})
    as_it_was()
    milan.patch(shadow_slice, {"spec": {"template": {"endpoints": wrong}}})
    as_it_was()
    for one in (its_slice, shadow_slice):
        milan.api.call("DELETE", one)
        as_it_was()

    # One that loses its marks is nobody's any more, and is left alone and named.
    secret = core(there, "secrets", "web")
    unmarked = {"offloading.liqo.io/origin": None, "offloading.liqo.io/destination": None}
    milan.comes_to(secret, lambda one: True)
    milan.patch(secret, {"metadata": {"labels": unmarked}})

    def told() -> bool:
        events = rome.api.get(core(shop, "events"))["items"]
        return any("is left alone" in one["message"] for one in events)

    wait_until("an event about the secret", told, 40)
    milan.api.call("DELETE", secret)
    rome.patch(core(shop, "secrets", "web"), {"metadata": {"labels": {"look": "again"}}})
    milan.comes_to(secret, lambda one: "offloading.liqo.io/origin" in one["metadata"]["labels"])
