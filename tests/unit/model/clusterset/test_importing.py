"""The objects of an import: ServiceImport, derived Service and EndpointSlices."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.clusterset.exports import Endpoint, Port, Slice
from liqod.model.clusterset.importing import (
    derived_name,
    derived_service,
    import_manifest,
    owned_by,
    slice_manifests,
    slice_name,
    without_address,
)
from liqod.model.ids import is_dns_label, is_dns_subdomain
from liqod.resources.multicluster import (
    DERIVED_SERVICE,
    SERVICE_IMPORTS,
    SERVICE_NAME,
    SOURCE_CLUSTER,
)
from tests.unit.model.clusterset.values import (
    BOTH,
    HTTP,
    OWNER,
    TARGETS,
    WEB,
    endpoints,
    export,
    merged,
    sets,
)

STICKY: dict[str, Any] = {"session_affinity": "ClientIP", "affinity_timeout": 60}
PODS = (endpoints("10.81.0.1", hostname="web-0", zone="z1"),)
DERIVED = derived_name(WEB)


def slices(*found, of=None, reached=True, families=BOTH):
    return slice_manifests(merged(*found), of or found[0], families, OWNER, reached=reached)


def test_an_import_is_as_the_oldest_export_with_the_ports_of_all():
    old = export("rome", 1, **STICKY, traffic_distribution="PreferClose")
    young = export("milan", 2, ports=(Port(443, "https", app_protocol="https"),))
    made = import_manifest(merged(old, young), BOTH, ["10.96.0.9"])
    assert made["spec"] == {
        "type": "ClusterSetIP",
        "ports": [
            {"name": "http", "protocol": "TCP", "port": 80},
            {"name": "https", "protocol": "TCP", "port": 443, "appProtocol": "https"},
        ],
        "ips": ["10.96.0.9"],
        "ipFamilies": ["IPv4"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
        "internalTrafficPolicy": "Cluster",
        "trafficDistribution": "PreferClose",
    }
    assert made["metadata"] == {
        "name": "web",
        "namespace": "shop",
        "labels": {labels.MANAGED_BY_LIQOD: "true"},
        "annotations": {DERIVED_SERVICE: DERIVED},
    }


def test_a_route_finds_its_backend_in_each_way_that_gateways_look():
    """By the derived Service, by the EndpointSlices of the import, or by its address."""
    found = merged(export(slices=PODS))
    made = import_manifest(found, BOTH, ["10.96.0.9"])
    service = derived_service(found, BOTH, OWNER, ["10.96.0.9"])
    (slice_,) = slices(export(slices=PODS))
    ports = [(each.get("name"), each["port"]) for each in made["spec"]["ports"]]
    # Cilium: the Service that the annotation names, in the import's namespace, with its ports.
    assert service is not None
    assert service["metadata"]["name"] == made["metadata"]["annotations"][DERIVED_SERVICE]
    assert service["metadata"]["namespace"] == made["metadata"]["namespace"]
    assert [(each.get("name"), each["port"]) for each in service["spec"]["ports"]] == ports
    # Envoy Gateway to 1.6: EndpointSlices by their label, whose ports have the names of the
    # import's. From 1.7 on those with a Service are its alone: the Service, or the address.
    assert slice_["metadata"]["labels"][SERVICE_NAME] == made["metadata"]["name"]
    assert {each["name"] for each in slice_["ports"]} == {name for name, _ in ports}
    assert slice_["metadata"]["labels"][labels.SERVICE_NAME] == service["metadata"]["name"]
    assert made["spec"]["ips"] == service["spec"]["clusterIPs"]
    for each in (service, slice_):
        assert each["metadata"]["namespace"] == "shop"


def test_an_early_schema_takes_one_address():
    made = merged(export(families=BOTH))
    ips = ["10.96.0.9", "fd00::9"]
    assert import_manifest(made, BOTH, ips)["spec"]["ips"] == ips
    assert import_manifest(made, BOTH, ips, most_ips=1)["spec"]["ips"] == ["10.96.0.9"]


def test_a_headless_import_has_no_address_no_affinity_and_no_derived_service():
    made = merged(export(type="Headless", ports=(), **STICKY))
    manifest = import_manifest(made, BOTH, ["10.96.0.9"])
    assert manifest["spec"] == {
        "type": "Headless",
        "ports": [],
        "ipFamilies": ["IPv4"],
        "internalTrafficPolicy": "Cluster",
    }
    assert manifest["metadata"]["annotations"] == {}
    assert derived_service(made, BOTH, OWNER) is None


@given(sets())
def test_the_affinity_is_the_oldests_and_not_that_of_any_other(found):
    made = merged(*found)
    spec = import_manifest(made, BOTH)["spec"]
    wanted = None if made.headless else made.oldest.session_affinity
    assert spec.get("sessionAffinity") == wanted


def test_labels_and_annotations_are_the_oldests_as_a_whole():
    old = export("rome", 1, labels={"a": "1"}, annotations={"b": "1"})
    young = export("milan", 2, labels={"c": "1"}, annotations={"d": "1"})
    metadata = import_manifest(merged(old, young), BOTH)["metadata"]
    assert metadata["labels"] == {"a": "1", labels.MANAGED_BY_LIQOD: "true"}
    assert metadata["annotations"] == {"b": "1", DERIVED_SERVICE: DERIVED}


@pytest.mark.parametrize(
    "key",
    [
        labels.MANAGED_BY_LIQOD,
        labels.MANAGED,
        labels.APPLIED_HASH,
        DERIVED_SERVICE,
        "example.com/a",
        "a key",
        "/a",
        "",
        "a" * 64,
    ],
)
def test_an_export_brings_no_key_by_which_others_act_or_that_is_none(key):
    made = merged(export(labels={key: "stolen"}, annotations={key: "stolen"}))
    assert import_manifest(made, BOTH) == import_manifest(merged(export()), BOTH)


@pytest.mark.parametrize("type_", ["ClusterSetIP", "Headless"])
@pytest.mark.parametrize(
    "key", [labels.MANAGED_BY_LIQOD, labels.MANAGED, labels.ORIGIN, DERIVED_SERVICE]
)
def test_where_all_keys_are_allowed_those_of_controllers_are_not(key, type_):
    made = merged(export(type=type_, labels={key: "stolen"}, annotations={key: "stolen"}))
    every = (("*/*",), ("*/*",))
    plain = import_manifest(merged(export(type=type_)), BOTH, keys=every)
    assert import_manifest(made, BOTH, keys=every) == plain


def test_keys_of_domains_are_brought_where_they_are_allowed():
    made = merged(export(labels={"example.com/a": "1"}, annotations={"example.com/b": "a text"}))
    allowed = (("example.com/*",), ("example.com/*",))
    metadata = import_manifest(made, BOTH, keys=allowed)["metadata"]
    assert metadata["labels"]["example.com/a"] == "1"
    assert metadata["annotations"]["example.com/b"] == "a text"


def test_a_label_whose_value_no_label_has_is_left_out():
    made = merged(export(labels={"a": "two words", "b": ""}))
    found = import_manifest(made, BOTH)["metadata"]["labels"]
    assert found == {"b": "", labels.MANAGED_BY_LIQOD: "true"}


def test_the_address_of_an_import_is_that_of_a_service_without_a_selector():
    made = derived_service(merged(export(**STICKY)), BOTH, OWNER)
    assert made is not None
    assert made["metadata"] == {
        "name": DERIVED,
        "namespace": "shop",
        "labels": {labels.MANAGED_BY_LIQOD: "true", SERVICE_NAME: "web"},
        "annotations": {labels.SKIP_REFLECTION: "true"},
        "ownerReferences": [OWNER],
    }
    assert made["spec"] == {
        "type": "ClusterIP",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
    }


def test_a_derived_service_that_is_made_again_has_the_addresses_that_clients_know():
    made = merged(export(families=BOTH))
    service = derived_service(made, BOTH, OWNER, ["10.96.0.9", "fd00::9"])
    assert service is not None
    assert service["spec"]["clusterIP"] == "10.96.0.9"
    assert service["spec"]["clusterIPs"] == ["10.96.0.9", "fd00::9"]
    assert without_address(service) == derived_service(made, BOTH, OWNER)


@pytest.mark.parametrize("exported", [BOTH, BOTH[::-1]], ids=["IPv4-first", "IPv6-first"])
def test_an_import_that_gets_a_second_family_keeps_its_address_as_the_first(exported):
    """The first family of a Service never changes."""
    made = merged(export(families=exported))
    service = derived_service(made, BOTH, OWNER, ["10.96.0.9"])
    assert service is not None
    assert service["spec"]["clusterIPs"] == ["10.96.0.9"]
    assert service["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    assert service["spec"]["ipFamilyPolicy"] == "RequireDualStack"
    manifest = import_manifest(made, BOTH, ["10.96.0.9", "fd00::9"])
    assert manifest["spec"]["ips"] == ["10.96.0.9", "fd00::9"]
    assert manifest["spec"]["ipFamilies"] == ["IPv4", "IPv6"]


def test_an_import_of_another_family_than_before_has_none_of_its_addresses():
    made = merged(export(families=("IPv6",)))
    service = derived_service(made, BOTH, OWNER, ["10.96.0.9"])
    assert service is not None
    assert "clusterIP" not in service["spec"]
    assert service["spec"]["ipFamilies"] == ["IPv6"]


@pytest.mark.parametrize(
    ("exported", "here", "found", "policy"),
    [
        (BOTH, BOTH, ["IPv4", "IPv6"], "RequireDualStack"),
        (BOTH[::-1], BOTH, ["IPv6", "IPv4"], "RequireDualStack"),
        (BOTH, ("IPv6",), ["IPv6"], "SingleStack"),
    ],
)
def test_families_are_those_of_the_export_that_this_cluster_has(exported, here, found, policy):
    made = merged(export(families=exported))
    assert import_manifest(made, here)["spec"]["ipFamilies"] == found
    service = derived_service(made, here, OWNER)
    assert service is not None
    assert (service["spec"]["ipFamilies"], service["spec"]["ipFamilyPolicy"]) == (found, policy)


def test_without_a_family_in_common_there_is_no_derived_service_and_no_slice():
    found = export(families=("IPv6",), slices=(Slice("web-x", "IPv6"),))
    assert derived_service(merged(found), ("IPv4",), OWNER) is None
    assert slices(found, families=("IPv4",)) == []


def test_a_slice_belongs_to_the_import_and_tells_its_cluster():
    (made,) = slices(export(slices=PODS))
    assert made["metadata"] == {
        "name": slice_name(export(), "web-x"),
        "namespace": "shop",
        "labels": {
            labels.MANAGED_BY_LIQOD: "true",
            labels.ENDPOINT_SLICE_MANAGED_BY: "clusterset.liqod.io",
            labels.SERVICE_NAME: DERIVED,
            SERVICE_NAME: "web",
            SOURCE_CLUSTER: "rome",
        },
        "annotations": {labels.SKIP_REFLECTION: "true"},
        "ownerReferences": [OWNER],
    }
    assert made["addressType"] == "IPv4"
    assert made["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
    assert made["endpoints"] == [
        {
            "addresses": ["10.81.0.1"],
            "hostname": "web-0",
            "zone": "z1",
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "hints": None,
        }
    ]


def test_a_slice_of_a_headless_import_is_not_kube_proxys():
    (made,) = slices(export(type="Headless", slices=PODS))
    assert labels.SERVICE_NAME not in made["metadata"]["labels"]
    assert made["metadata"]["labels"][SERVICE_NAME] == "web"
    assert made["endpoints"][0]["hostname"] == "web-0"


def test_pods_of_one_name_in_two_clusters_are_in_slices_of_their_own():
    found = [export(cluster, type="Headless", slices=PODS) for cluster in ("rome", "milan")]
    made = [each for one in found for each in slices(*found, of=one)]
    assert [each["metadata"]["labels"][SOURCE_CLUSTER] for each in made] == ["rome", "milan"]
    assert {each["endpoints"][0]["hostname"] for each in made} == {"web-0"}
    assert len({each["metadata"]["name"] for each in made}) == 2


def test_names_of_slices_are_their_own_and_fit():
    sources = [
        (export(cluster, namespace=namespace, name=name), source)
        for cluster in ("a", "b" * 51)
        for namespace in ("x", "y" * 63)
        for name in ("web", "w" * 63)
        for source in ("web-x", "s" * 253)
    ]
    names = [slice_name(*each) for each in sources]
    assert len(set(names)) == len(names)
    assert all(is_dns_subdomain(each) for each in names)
    assert is_dns_label(derived_name(("y" * 63, "w" * 63)))
    assert derived_name(("a", "b")) != derived_name(("b", "a"))


def test_a_slice_has_only_the_ports_of_its_exporter_under_the_names_of_the_set():
    targets = (Port(8080, "web"), Port(9090, "metrics"))
    old = export("rome", 1)
    young = export(
        "milan",
        2,
        ports=(Port(80, "web"), Port(90, "metrics")),
        slices=(endpoints("10.81.0.1", ports=targets),),
    )
    (made,) = slices(old, young, of=young)
    assert made["ports"] == [
        {"name": "http", "protocol": "TCP", "port": 8080},
        {"name": "metrics", "protocol": "TCP", "port": 9090},
    ]
    assert slices(old, young, of=old) == []


def test_a_target_that_is_no_port_of_the_service_is_left_out():
    found = export(slices=(endpoints("10.81.0.1", ports=(*TARGETS, Port(1, "debug"))),))
    (made,) = slices(found)
    assert [each["name"] for each in made["ports"]] == ["http"]


@pytest.mark.parametrize("ready", [True, False])
def test_the_conditions_of_an_endpoint_are_told_and_nothing_is_ready_at_a_silent_peer(ready):
    found = export(slices=(endpoints("10.81.0.1", ready=ready, serving=True, terminating=True),))
    (made,) = slices(found)
    assert made["endpoints"][0]["conditions"] == {
        "ready": ready,
        "serving": True,
        "terminating": True,
    }
    (made,) = slices(found, reached=False)
    assert made["endpoints"][0]["conditions"] == {
        "ready": False,
        "serving": False,
        "terminating": True,
    }


@pytest.mark.parametrize(
    ("close", "hints"),
    [
        ("", None),
        ("PreferClose", {"forZones": [{"name": "z1"}]}),
        ("PreferSameZone", {"forZones": [{"name": "z1"}]}),
        ("PreferSameNode", {"forZones": [{"name": "z1"}], "forNodes": [{"name": "n1"}]}),
    ],
)
def test_traffic_that_is_to_stay_near_is_given_hints(close, hints):
    near = endpoints("10.244.0.1", zone="z1", node="n1")
    (made,) = slices(export(slices=(near,), traffic_distribution=close))
    assert made["endpoints"][0].get("hints") == hints
    assert made["endpoints"][0]["nodeName"] == "n1"
    unknown = Endpoint(("10.81.0.1",))
    (made,) = slices(
        export(slices=(Slice("s", "IPv4", (), (unknown,)),), traffic_distribution=close)
    )
    assert made["endpoints"][0]["hints"] is None


def test_slices_of_a_family_that_the_import_has_not_are_left_out():
    six = Slice("web-6", "IPv6", TARGETS, (Endpoint(("fd00::1",)),))
    found = export(slices=(*PODS, six))
    assert [each["addressType"] for each in slices(found)] == ["IPv4"]
    both = msgspec.structs.replace(found, families=BOTH)
    assert [each["addressType"] for each in slices(both)] == ["IPv4", "IPv6"]


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_what_an_import_owns_names_it_in_the_version_that_is_served(version):
    assert owned_by(SERVICE_IMPORTS[version], ObjectMeta(name="web", uid="u1")) == {
        "apiVersion": f"multicluster.x-k8s.io/{version}",
        "kind": "ServiceImport",
        "name": "web",
        "uid": "u1",
    }


def test_an_unnamed_port_is_unnamed_in_all_objects_while_it_is_alone():
    found = export(ports=(Port(80),), slices=(endpoints("10.81.0.1", ports=(Port(8080),)),))
    (made,) = slices(found)
    assert made["ports"] == [{"protocol": "TCP", "port": 8080}]
    beside = export("zurich", 9, ports=(HTTP, Port(81, "b")))
    (made,) = slices(found, msgspec.structs.replace(beside, ports=(Port(81, "b"),)))
    assert made["ports"] == [{"name": "tcp-80", "protocol": "TCP", "port": 8080}]
    service = derived_service(merged(found, beside), BOTH, OWNER)
    assert service is not None
    assert {each["name"] for each in service["spec"]["ports"]} == {"tcp-80", "b"}
