"""The checks of the exports that a peer tells."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from liqod.model.clusterset import admission
from liqod.model.clusterset.admission import admit
from liqod.model.clusterset.exports import Endpoint, Port, Slice
from tests.unit.model.clusterset.values import (
    HTTP,
    SCOPE,
    WEB,
    endpoints,
    export,
    exports,
)


def told(found: Any, wanted=WEB):
    return admit(msgspec.json.encode(found).decode(), wanted, SCOPE)


@given(exports("rome"))
def test_an_honest_export_is_taken_with_its_addresses_as_they_are_reached_from_here(found):
    found = msgspec.structs.replace(found, slices=(endpoints("10.71.0.1"),))
    here = msgspec.structs.replace(found, slices=(endpoints("10.81.0.1"),))
    assert told(found).export == here
    assert told(found).refused == ()


def test_a_peer_speaks_for_itself_alone():
    result = told(export("milan"))
    assert (result.export, result.broken) == (None, True)
    assert result.refused == ("rome may not speak for the cluster 'milan'",)


def test_a_namespace_that_the_peer_may_not_is_refused_before_the_rest_is_read():
    result = told("nonsense", ("kube-system", "web"))
    assert (result.export, result.broken) == (None, False)
    assert result.refused == ("rome may not export to the namespace 'kube-system'",)


@pytest.mark.parametrize(
    "address", ["10.96.0.1", "127.0.0.1", "169.254.169.254", "nonsense", "", "10.81.0.1"]
)
def test_addresses_that_are_not_its_own_are_left_out(address):
    result = told(export(slices=(endpoints(address, "10.71.0.1"),)))
    (slice_,) = result.export.slices
    assert [each.addresses for each in slice_.endpoints] == [("10.81.0.1",)]
    assert result.refusals == 1


def test_an_endpoint_without_any_address_is_none():
    (slice_,) = told(export(slices=(endpoints("10.96.0.1"),))).export.slices
    assert slice_.endpoints == ()


def test_an_address_of_the_other_family_is_left_out():
    wrong = msgspec.structs.replace(endpoints("10.71.0.1"), family="IPv6")
    (slice_,) = told(export(slices=(wrong,))).export.slices
    assert slice_.endpoints == ()


def test_a_peer_names_no_node_of_this_cluster():
    (slice_,) = told(export(slices=(endpoints("10.71.0.1", node="n1"),))).export.slices
    assert slice_.endpoints[0].node == ""


def test_a_hostname_or_zone_that_the_api_server_would_refuse_is_left_out():
    odd = endpoints("10.71.0.1", hostname="Web_0", zone="a zone")
    (slice_,) = told(export(slices=(odd,))).export.slices
    assert slice_.endpoints == (Endpoint(("10.81.0.1",)),)


REFUSED = [
    {"created": "yesterday"},
    {"created": ""},
    {"type": "ExternalName"},
    {"families": ()},
    {"families": ("IPv4", "IPv4")},
    {"families": ("IPv5",)},
    {"session_affinity": "Cookie"},
    {"session_affinity": "ClientIP", "affinity_timeout": 0},
    {"session_affinity": "ClientIP", "affinity_timeout": 86401},
    {"affinity_timeout": 60},
    {"internal_traffic_policy": "Near"},
    {"traffic_distribution": "Far"},
    {"ports": ()},
    {"ports": (Port(0, "http"),)},
    {"ports": (Port(65536, "http"),)},
    {"ports": (Port(80, "HTTP"),)},
    {"ports": (Port(80, "http", "ICMP"),)},
    {"ports": (Port(80, "http", app_protocol="a b"),)},
    {"ports": (Port(80, "http", app_protocol="a..b/http"),)},
    {"ports": (Port(80, "http", app_protocol="a-.b/x"),)},
    {"ports": (Port(80, "http", app_protocol="/x"),)},
    {"ports": (Port(80, "http", app_protocol="a/b/x"),)},
    {"ports": (Port(80, "a"), Port(80, "b"))},
    {"ports": (Port(80, "a"), Port(81, "a"))},
    {"ports": (Port(80), Port(81, "a"))},
    {"ports": tuple(Port(each, f"p{each}") for each in range(1, 102))},
    {"labels": {"a": "x" * (16 << 10)}},
    {"slices": (endpoints("10.71.0.1"), endpoints("10.71.0.2"))},
]


@pytest.mark.parametrize("more", REFUSED, ids=[str(each)[:40] for each in REFUSED])
def test_what_cannot_be_imported_is_refused_and_does_not_say_that_it_has_ended(more):
    result = told(export(**more))
    assert (result.export, result.broken) == (None, True)
    assert len(result.refused) == 1


@pytest.mark.parametrize("protocol", ["http", "kubernetes.io/h2c", "Mine_1", "a-b.c/X"])
def test_a_protocol_of_kubernetes_form_is_taken(protocol):
    found = export(ports=(Port(80, "http", app_protocol=protocol),))
    assert told(found).export == found


def test_a_headless_service_needs_no_port():
    assert told(export(type="Headless", ports=())).export is not None


@pytest.mark.parametrize("name", ["", "a.b", "../x", "W", "a" * 64])
def test_a_name_that_no_service_has_is_refused(name):
    result = told(export(name=name), ("shop", name))
    assert (result.export, result.refusals) == (None, 1)


@pytest.mark.parametrize("odd", [7, [], {}, {"cluster": 1, "namespace": "shop", "name": "web"}])
def test_an_export_without_a_key_is_left_out(odd):
    result = told(odd)
    assert (result.export, result.broken, result.refusals) == (None, True, 1)


@pytest.mark.parametrize("start", ["", '{"cluster":"rome","namespace":"shop","name":"web","x":'])
def test_an_export_that_is_nested_too_deeply_is_left_out(start):
    result = admission.admit(start + "[" * 50_000, WEB, SCOPE)
    assert (result.export, result.broken, result.refusals) == (None, True, 1)


@pytest.mark.parametrize("more", [{"name": "api"}, {"namespace": "kube-system"}])
def test_an_export_is_the_one_under_whose_name_it_is_told(more):
    result = told(export(**more))
    assert (result.export, result.refusals) == (None, 1)


BROKEN = [
    Slice("Web", "IPv4"),
    Slice("web-x", "FQDN"),
    Slice("web-x", "IPv4", (Port(0, "http"),)),
    Slice("web-x", "IPv4", (Port(1, "a"), Port(2, "a"))),
    Slice("web-x", "IPv4", (), tuple(Endpoint(("10.71.0.1",)) for _ in range(1001))),
]


@pytest.mark.parametrize("broken", BROKEN, ids=["name", "family", "port", "twice", "many"])
def test_a_slice_that_cannot_be_written_is_left_out(broken):
    good = endpoints("10.71.0.1", name="web-y")
    result = told(export(slices=(broken, good)))
    assert [each.name for each in result.export.slices] == ["web-y"]
    assert result.refusals == 1


def test_of_too_many_slices_the_first_are_kept(monkeypatch):
    monkeypatch.setattr(admission, "MOST_SLICES", 2)
    slices = tuple(endpoints("10.71.0.1", name=name) for name in ("z", "y", "x"))
    result = told(export(slices=slices))
    assert [each.name for each in result.export.slices] == ["x", "y"]
    assert result.refusals == 1


def test_few_refusals_are_kept_and_all_are_counted():
    result = told(export(slices=(endpoints(*(f"10.9.0.{each}" for each in range(100))),)))
    assert (len(result.refused), result.refusals) == (64, 100)


def test_ports_of_the_wire_are_small():
    assert msgspec.json.encode(HTTP) == b'{"port":80,"name":"http"}'
