"""The exports that a cluster makes of its own Services."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.model.clusterset.exports import (
    EndpointSlice,
    Export,
    Port,
    Refusal,
    Service,
    own_export,
    sent,
)
from liqod.resources.multicluster import SOURCE_CLUSTER, ServiceExport, served_version
from tests.unit.model.clusterset.values import endpoints, export

META = {"name": "web", "namespace": "shop", "creationTimestamp": "2026-11-28T10:00:00Z"}


def wish(version: str = "v1beta1", **more: Any) -> ServiceExport:
    found = {"apiVersion": f"multicluster.x-k8s.io/{version}", "kind": "ServiceExport"}
    return msgspec.convert({**found, "metadata": META, **more}, ServiceExport)


def service(spec: Any = None, **meta: Any) -> Service:
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}]
    known = {"clusterIP": "10.96.0.7", "ipFamilies": ["IPv4"], "ports": ports}
    return msgspec.convert(
        {"metadata": {**META, **meta}, "spec": {**known, **(spec or {})}}, Service
    )


def found(endpoint: Any, *, address_type: str = "IPv4", **marks: str) -> EndpointSlice:
    return msgspec.convert(
        {
            "metadata": {"name": "web-x", "namespace": "shop", "labels": marks},
            "addressType": address_type,
            "endpoints": [endpoint],
            "ports": [{"name": "http", "port": 8080}],
        },
        EndpointSlice,
    )


def made(*slices: EndpointSlice, spec: Any = None, said: ServiceExport | None = None) -> Export:
    result = own_export(said or wish(), service(spec), slices, "rome")
    assert isinstance(result, Export)
    return result


POD = {"addresses": ["10.71.0.1"], "conditions": {"ready": True}, "nodeName": "n1", "zone": "z1"}


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_a_service_is_exported_alike_in_both_versions(version):
    spec = {"exportedLabels": {"a": "1"}, "exportedAnnotations": {"b": "2"}}
    assert made(said=wish(version, spec=spec)) == export(labels={"a": "1"}, annotations={"b": "2"})


def test_an_old_export_has_no_spec():
    assert made(said=wish("v1alpha1")) == export()


@pytest.mark.parametrize(
    ("served", "version"),
    [
        (("v1alpha1", "v1beta1"), "v1beta1"),
        (("v1alpha1",), "v1alpha1"),
        (("v1",), None),
        ((), None),
    ],
)
def test_the_newest_version_that_is_served_is_spoken(served, version):
    assert served_version(served) == version


def test_a_service_that_is_gone_is_not_exported_and_is_again_when_it_is_back():
    gone = own_export(wish(), None, (), "rome")
    assert isinstance(gone, Refusal)
    assert gone.reason == "NoService"
    assert own_export(wish(), service(uid="another"), (), "rome") == export()


def test_an_export_that_is_being_deleted_is_none():
    leaving = wish(metadata={**META, "deletionTimestamp": "2026-11-28T11:00:00Z"})
    assert isinstance(own_export(leaving, service(), (), "rome"), Refusal)


def test_an_external_name_is_not_exported():
    refused = own_export(wish(), service({"type": "ExternalName"}), (), "rome")
    assert isinstance(refused, Refusal)
    assert refused.reason == "InvalidServiceType"


@pytest.mark.parametrize(
    "marks",
    [{labels.ORIGIN: "milan"}, {labels.REMOTE_CLUSTER_ID: "milan"}, {labels.MANAGED: "true"}],
)
def test_a_reflected_service_is_exported_by_its_home_alone(marks):
    refused = own_export(wish(), service(labels=marks), (), "rome")
    assert isinstance(refused, Refusal)
    assert refused.reason == "ReflectedService"


@pytest.mark.parametrize("type_", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_the_types_with_an_address_are_one(type_):
    assert made(spec={"type": type_}).type == "ClusterSetIP"


def test_a_service_without_an_address_is_headless():
    assert made(spec={"clusterIP": "None"}).type == "Headless"


def test_a_headless_service_without_a_selector_has_the_families_of_its_endpoints():
    """Kubernetes gives it both in every cluster: no conflict with others comes of that."""
    four, six = found(POD), found({"addresses": ["fd00:71::1"]}, address_type="IPv6")
    spec = {"clusterIP": "None", "ipFamilies": ["IPv4", "IPv6"]}
    assert made(four, spec=spec).families == made(spec=spec).families == ("IPv4",)
    assert made(six, spec=spec).families == ("IPv6",)
    assert made(six, four, spec=spec).families == ("IPv4", "IPv6")
    chosen = {**spec, "selector": {"app": "web"}}
    assert made(four, spec=chosen).families == ("IPv4", "IPv6")
    assert made(four, spec={**spec, "clusterIP": "10.96.0.7"}).families == ("IPv4", "IPv6")


def test_what_the_metadata_has_is_not_exported():
    said = wish(metadata={**META, "labels": {"a": "1"}, "annotations": {"b": "2"}})
    result = own_export(said, service(labels={"c": "3"}, annotations={"d": "4"}), (), "rome")
    assert result == export()


def test_an_affinity_that_names_no_time_has_the_usual_one():
    named = {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}
    sticky = {"sessionAffinity": "ClientIP"}
    assert made(spec=sticky) == made(spec={**sticky, **named})
    assert made(spec=sticky).affinity_timeout == 10800
    assert made(spec={"sessionAffinity": "None"}).affinity_timeout == 0


def test_an_endpoint_keeps_its_hostname_zone_and_conditions():
    conditions = {"ready": False, "serving": True, "terminating": True}
    (slice_,) = made(found({**POD, "hostname": "web-0", "conditions": conditions})).slices
    (endpoint,) = slice_.endpoints
    assert (endpoint.hostname, endpoint.zone, endpoint.node) == ("web-0", "z1", "n1")
    assert (endpoint.ready, endpoint.serving, endpoint.terminating) == (False, True, True)
    assert slice_.ports == (Port(8080, "http"),)


@pytest.mark.parametrize(
    ("conditions", "ready", "serving"),
    [(None, True, True), ({}, True, True), ({"ready": False}, False, False)],
)
def test_an_endpoint_that_says_nothing_is_ready(conditions, ready, serving):
    (slice_,) = made(found({**POD, "conditions": conditions})).slices
    assert (slice_.endpoints[0].ready, slice_.endpoints[0].serving) == (ready, serving)


@pytest.mark.parametrize(
    "marks",
    [
        {SOURCE_CLUSTER: "milan"},
        {labels.ORIGIN: "milan"},
        {labels.MANAGED: "true", labels.MANAGED_BY: labels.MANAGED_BY_SHADOW_ENDPOINT_SLICE},
    ],
    ids=["imported", "reflected", "shadow"],
)
def test_slices_of_other_clusters_are_not_exported_again(marks):
    assert made(found(POD, **marks)).slices == ()


def test_names_and_endpoints_without_addresses_are_left_out():
    assert made(found(POD, address_type="FQDN")).slices == ()
    (slice_,) = made(found({"addresses": []})).slices
    assert slice_.endpoints == ()


def test_no_node_of_this_cluster_is_named_to_others():
    here = export(slices=(endpoints("10.71.0.1", node="n1"),))
    assert sent(here) == export(slices=(endpoints("10.71.0.1"),))
