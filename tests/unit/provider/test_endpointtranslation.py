"""The treatment of a consumer's endpoints at the provider."""

from typing import Any

import msgspec
import pytest

from liqod.provider.workloads.endpointtranslation import Reached, translate
from liqod.resources import ShadowEndpointSlice
from tests.unit.model.clusterset.proxying import used


def shadow(*endpoints: Any, **more: Any) -> ShadowEndpointSlice:
    return msgspec.convert(
        {
            "metadata": {
                "name": "web-p2nkh",
                "namespace": "shop-rome",
                "uid": "u1",
                "labels": {"kubernetes.io/service-name": "web"},
                "annotations": {"note": "a"},
                **more,
            },
            "spec": {
                "template": {
                    "addressType": "IPv4",
                    "endpoints": list(endpoints),
                    "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                }
            },
        },
        ShadowEndpointSlice,
    )


def cross(address: str) -> Reached:
    own = address.startswith("10.96.")
    return Reached(problem="it is this cluster's") if own else Reached(address, "rome")


def down(address: str) -> Reached:
    return Reached(address, "rome", up=False)


KEEP = "liqod.io/keep-last-endpoints"
READY = {"ready": True, "serving": None, "terminating": None}
SILENT = {"ready": False, "serving": None, "terminating": None}
USED_LAST = {"ready": False, "serving": True, "terminating": True}
TARGET = {"kind": "RemotePod", "name": "web-1", "namespace": "shop"}


def test_an_endpoint_is_relayed_under_the_consumers_name():
    endpoint = {
        "addresses": ["10.200.0.1"],
        "conditions": {"ready": True, "serving": True},
        "nodeName": "worker-1",
        "hostname": "web-0",
        "targetRef": TARGET,
    }
    made = translate(shadow(endpoint), cross)
    assert made.refused == {}
    assert made.manifest["endpoints"] == [
        {
            "addresses": ["10.200.0.1"],
            "conditions": READY,
            "nodeName": "rome",
            "hostname": "web-0",
            "hints": None,
            "targetRef": TARGET,
        }
    ]
    assert made.manifest["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert made.manifest["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_addresses_of_this_cluster_are_left_out_by_name():
    mixed = {"addresses": ["10.96.0.1"]}, {"addresses": ["10.200.0.1", "10.96.0.2", 7]}
    made = translate(shadow(*mixed), cross)
    assert [one["addresses"] for one in made.manifest["endpoints"]] == [["10.200.0.1"]]
    assert set(made.refused) == {"10.96.0.1", "10.96.0.2", "7"}


def test_nothing_is_ready_where_the_consumer_does_not_answer():
    endpoints = {"addresses": ["10.200.0.1"]}, {"addresses": ["10.200.0.2"], "conditions": "no"}
    made = translate(shadow(*endpoints), down)
    assert [one["conditions"] for one in made.manifest["endpoints"]] == [SILENT] * 2
    made = translate(shadow(*endpoints), cross)
    assert [one["conditions"] for one in made.manifest["endpoints"]] == [READY] * 2


@pytest.mark.parametrize(
    ("asked", "wanted"), [("true", USED_LAST), ("false", SILENT), ("yes", SILENT)]
)
def test_those_of_a_silent_consumer_that_were_ready_are_used_last_where_it_asks_for_it(
    asked, wanted
):
    ready, unready = {"addresses": ["10.200.0.1"]}, {"addresses": ["10.200.0.2"]}
    source = shadow(ready, {**unready, "conditions": {"ready": False}}, annotations={KEEP: asked})
    made = translate(source, down)
    assert [one["conditions"] for one in made.manifest["endpoints"]] == [wanted, SILENT]
    assert made.kept == ({"rome"} if wanted == USED_LAST else set())
    assert made.manifest["metadata"]["annotations"] == {}
    made = translate(source, cross)
    assert [one["conditions"] for one in made.manifest["endpoints"]] == [READY, SILENT]
    assert made.kept == set()


def test_clients_use_them_while_no_other_endpoint_is_ready_and_then_no_more():
    source = shadow({"addresses": ["10.200.0.1"]}, annotations={KEEP: "true"})
    kept = translate(source, down).manifest

    def own(ready):
        conditions = {"ready": ready, "serving": ready, "terminating": False}
        endpoint = {"addresses": ["10.96.0.1"], "conditions": conditions}
        return {"addressType": "IPv4", "endpoints": [endpoint]}

    assert used([kept], "") == used([kept, own(ready=False)], "") == {"10.200.0.1"}
    assert used([kept, own(ready=True)], "") == {"10.96.0.1"}
    silent = translate(shadow({"addresses": ["10.200.0.1"]}), down).manifest
    assert used([silent, own(ready=False)], "") == set()


def test_no_controller_of_this_cluster_takes_it_for_its_own():
    forged = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    target = {"kind": "Pod", "name": "etcd", "namespace": "kube-system"}
    slice_ = shadow({"addresses": ["10.200.0.1"], "targetRef": target}, labels=forged)
    made = translate(slice_, cross).manifest
    managed = made["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
    assert managed == "endpointslice.reflection.liqo.io"
    assert "targetRef" not in made["endpoints"][0]


def test_none_at_all():
    assert translate(shadow(), cross).manifest["endpoints"] == []


def test_an_endpoint_is_relayed_under_its_alias():
    endpoint = {"addresses": ["10.244.0.1"], "nodeName": "worker-1"}
    made = translate(shadow(endpoint), lambda _: Reached("10.71.0.1", "rome"))
    assert made.manifest["endpoints"][0]["addresses"] == ["10.71.0.1"]
    assert made.refused == {}


def test_each_endpoint_is_ready_and_named_by_the_cluster_that_it_is_reached_by():
    found = {
        "10.71.0.1": Reached("10.81.0.1", "rome"),
        "10.72.0.1": Reached("10.82.0.1", "turin", up=False),
        "10.73.0.1": Reached(problem="endpoints at genoa: not permitted", expected=True),
    }
    told = {"liqo.io/direct-connections-data": "{}", "liqod.io/transit-addresses": "{}", "a": "b"}
    source = shadow(*({"addresses": [each]} for each in found), annotations=told)
    made = translate(source, found.__getitem__)
    assert [(each["nodeName"], each["conditions"]) for each in made.manifest["endpoints"]] == [
        ("rome", READY),
        ("turin", SILENT),
    ]
    assert made.left_out == {"endpoints at genoa: not permitted"}
    assert made.refused == {}
    assert made.manifest["metadata"]["annotations"] == {"a": "b"}
