"""The namespaces that are shared with a peer, and the exports as it is told them."""

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.clusterset import exchange
from liqod.model.clusterset.admission import admit
from liqod.model.clusterset.exchange import (
    Told,
    confirmed,
    exchange_name,
    is_shared,
    mark,
    text,
)
from liqod.model.clusterset.exchange import (
    tell as tell_names,
)
from liqod.model.network.remapping import Remapped
from liqod.resources.exchanges import LONGEST, MOST_EXPORTS
from tests.unit.model.clusterset.values import SCOPE, endpoints, export


def namespace(name="shop", share="", **marks):
    annotations = {labels.SHARE_SERVICES: share} if share else {}
    return ObjectMeta(name=name, annotations=annotations, labels=marks)


def same(address: str) -> Remapped:
    return Remapped(address) if address.startswith("10.71.") else Remapped("", "it is no pod's")


def tell(exports, cross, virtual=frozenset()):
    """What a peer is told of these exports."""
    found = {each.name: each for each in exports}
    return tell_names(found, lambda name: text(found[name], cross, virtual))


@pytest.mark.parametrize(
    ("share", "shared"),
    [
        ("", False),
        ("milan", True),
        ("turin, milan", True),
        ("*", True),
        ("turin", False),
        ("mil", False),
        ("milan2", False),
    ],
)
def test_a_namespace_is_shared_with_the_peers_that_it_names(share, shared):
    assert is_shared(namespace(share=share), "milan", {}) is shared


@pytest.mark.parametrize(
    ("mapping", "shared"), [({"shop": "shop"}, True), ({"shop": "shop-rome"}, False), ({}, False)]
)
def test_an_offloaded_namespace_is_shared_where_it_has_its_own_name(mapping, shared):
    assert is_shared(namespace(), "milan", mapping) is shared


@pytest.mark.parametrize(("peer", "shared"), [("rome", True), ("turin", False)])
def test_a_guests_namespace_is_shared_with_that_guest(peer, shared):
    marks = {labels.MANAGED_BY_NAMESPACE_MAP: "liqo-tenant-rome/milan"}
    found = ObjectMeta(name="shop", labels={labels.REMOTE_CLUSTER_ID: "rome"}, annotations=marks)
    assert is_shared(found, peer, {}) is shared


@pytest.mark.parametrize("name", ["kube-system", "openshift-dns", "default", "liqod"])
def test_a_namespace_of_the_system_is_shared_with_nobody(name):
    assert not is_shared(namespace(name, "*"), "milan", {name: name}, ("liqod",))


def test_a_tenant_namespace_and_one_that_ends_are_shared_with_nobody():
    assert not is_shared(namespace(share="*", **{labels.TENANT_NAMESPACE: "true"}), "milan", {})
    ends = msgspec.structs.replace(namespace(share="*"), deletion_timestamp="2026-11-28T10:00:00Z")
    assert not is_shared(ends, "milan", {})


def test_what_is_told_is_read_as_it_was():
    found = export(slices=(endpoints("10.71.0.1"),))
    here = msgspec.structs.replace(found, slices=(endpoints("10.81.0.1"),))
    assert admit(tell([found], same).texts["web"], found.key, SCOPE).export == here


def test_no_node_and_no_address_of_another_cluster_is_told():
    found = export(slices=(endpoints("10.71.0.1", "10.99.0.1", node="worker-1"),))
    (text,) = tell([found], same).texts.values()
    assert "10.71.0.1" in text
    assert "10.99.0.1" not in text
    assert "worker-1" not in text


def test_no_endpoint_on_a_virtual_node_is_told():
    slices = (endpoints("10.71.0.1", node="worker-1"), endpoints("10.71.0.2", node="milan"))
    slices = (slices[0], msgspec.structs.replace(slices[1], name="web-y"))
    (text,) = tell([export(slices=slices)], same, {"milan"}).texts.values()
    assert "10.71.0.1" in text
    assert "10.71.0.2" not in text


def test_a_peer_confirms_an_export_by_the_mark_that_its_exporter_knows():
    found = export(slices=(endpoints("10.71.0.1", node="worker-1"),))
    (told,) = tell([found], same).texts.values()
    assert confirmed(told, "shop", "web", SCOPE) == mark(found)
    (moved,) = tell([export(slices=(endpoints("10.71.0.2"),))], same).texts.values()
    assert confirmed(moved, "shop", "web", SCOPE) == mark(found)


@pytest.mark.parametrize("more", [{"type": "Headless"}, {"second": 1}, {"labels": {"a": "b"}}])
def test_an_export_that_differs_has_another_mark(more):
    assert mark(export(**more)) != mark(export())


@pytest.mark.parametrize(
    "text", ["nonsense", "[" * 50_000, '{"cluster":"rome","namespace":"shop","name":"api"}']
)
def test_an_export_that_is_refused_is_not_confirmed(text):
    assert confirmed(text, "shop", "web", SCOPE) == ""
    (good,) = tell([export()], same).texts.values()
    assert confirmed(good, "other", "web", SCOPE) == ""


def test_a_field_that_the_receiver_does_not_know_counts():
    (text,) = tell([export()], same).texts.values()
    newer = text.replace("{", '{"tier":"gold",', 1)
    assert confirmed(newer, "shop", "web", SCOPE) not in ("", mark(export()))


def test_an_export_that_is_too_large_keeps_no_other_from_being_told():
    large = export(name="large", labels={"a": "x" * LONGEST})
    told = tell([large, export()], same)
    assert set(told.texts) == {"web"}
    assert told.left_out == {"large": exchange.TOO_LONG}


@pytest.mark.parametrize(
    ("bound", "most", "reason"),
    [("MOST_EXPORTS", 2, exchange.TOO_MANY), ("MOST_TOLD", 300, exchange.TOO_MUCH)],
)
def test_of_too_many_exports_the_first_are_told(monkeypatch, bound, most, reason):
    monkeypatch.setattr(exchange, bound, most)
    found = [export(name=name) for name in ("a", "b", "c")]
    told = tell(found, same)
    assert set(told.texts) == {"a", "b"}
    assert told.left_out == {"c": reason}
    assert tell(reversed(found), same) == told


def test_of_five_thousand_exports_with_ten_thousand_slices_those_within_the_bound_are_read():
    slices = (endpoints("10.71.0.1"), endpoints("10.71.0.2", name="web-y"))
    read = []

    def one(name):
        read.append(name)
        return text(export(name=name, slices=slices), same)

    names = [f"s{number:04}" for number in range(5_000)]
    told = tell_names(names, one)
    assert read == sorted(told.texts) == names[:MOST_EXPORTS]
    assert told.left_out == dict.fromkeys(names[MOST_EXPORTS:], exchange.TOO_MANY)


def test_an_export_with_ten_thousand_slices_is_too_large_and_keeps_no_other_from_being_told():
    slices = tuple(endpoints("10.71.0.1", name=f"s{number}") for number in range(10_000))
    told = tell([export(name="a", slices=slices), export()], same)
    assert set(told.texts) == {"web"}
    assert told.left_out == {"a": exchange.TOO_LONG}


def test_a_name_without_a_service_is_neither_told_nor_left_out():
    assert tell_names(["web"], lambda _: "") == Told()


def test_nothing_is_told_of_nothing():
    assert tell([], same) == Told()
    assert exchange_name("shop", "milan") == "shop.milan"
