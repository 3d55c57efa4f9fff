"""The treatment of a consumer's endpoints at the provider."""

from typing import Any

import msgspec

from liqod.model.network.remapping import Remapped
from liqod.provider.workloads.endpointtranslation import translate
from liqod.resources import ShadowEndpointSlice


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


def cross(address: str) -> Remapped:
    own = address.startswith("10.96.")
    return Remapped("", "it is this cluster's") if own else Remapped(address)


TARGET = {"kind": "RemotePod", "name": "web-1", "namespace": "shop"}


def test_an_endpoint_is_relayed_under_the_consumers_name():
    endpoint = {
        "addresses": ["10.200.0.1"],
        "conditions": {"ready": True, "serving": True},
        "nodeName": "worker-1",
        "hostname": "web-0",
        "targetRef": TARGET,
    }
    made = translate(shadow(endpoint), "rome", up=True, cross=cross)
    assert made.refused == {}
    assert made.manifest["endpoints"] == [
        {
            "addresses": ["10.200.0.1"],
            "conditions": {"ready": True},
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
    made = translate(shadow(*mixed), "rome", up=True, cross=cross)
    assert [one["addresses"] for one in made.manifest["endpoints"]] == [["10.200.0.1"]]
    assert set(made.refused) == {"10.96.0.1", "10.96.0.2", "7"}


def test_nothing_is_ready_where_the_consumer_does_not_answer():
    endpoints = {"addresses": ["10.200.0.1"]}, {"addresses": ["10.200.0.2"], "conditions": "no"}
    made = translate(shadow(*endpoints), "rome", up=False, cross=cross)
    assert [one["conditions"] for one in made.manifest["endpoints"]] == [{"ready": False}] * 2
    made = translate(shadow(*endpoints), "rome", up=True, cross=cross)
    assert [one["conditions"] for one in made.manifest["endpoints"]] == [{"ready": True}] * 2


def test_no_controller_of_this_cluster_takes_it_for_its_own():
    forged = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    target = {"kind": "Pod", "name": "etcd", "namespace": "kube-system"}
    slice_ = shadow({"addresses": ["10.200.0.1"], "targetRef": target}, labels=forged)
    made = translate(slice_, "rome", up=True, cross=cross).manifest
    managed = made["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
    assert managed == "endpointslice.reflection.liqo.io"
    assert "targetRef" not in made["endpoints"][0]


def test_none_at_all():
    assert translate(shadow(), "rome", up=True, cross=cross).manifest["endpoints"] == []


def test_an_endpoint_is_relayed_under_its_alias():
    endpoint = {"addresses": ["10.244.0.1"], "nodeName": "worker-1"}
    made = translate(shadow(endpoint), "rome", up=True, cross=lambda _: Remapped("10.71.0.1"))
    assert made.manifest["endpoints"][0]["addresses"] == ["10.71.0.1"]
    assert made.refused == {}
