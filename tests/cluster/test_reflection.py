"""Reflection of a namespace to a peer: created, changed, put right and deleted there."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import core, deployment, deployments, group, service, slices

pytestmark = pytest.mark.cluster


@pytest.fixture
def shop(peered: Clusters) -> str:
    """A namespace of rome that is offloaded to milan."""
    name = peered.namespace(peered.rome)
    peered.rome.liqod("offload", "namespace", name, "--pod-offloading-strategy", "Remote")
    return name


@pytest.mark.parametrize("resource", ["configmaps", "secrets"])
def test_data_follows_changes_and_deletion(peered: Clusters, shop: str, resource: str) -> None:
    rome, milan = peered.rome, peered.milan
    here, there = core(shop, resource, "web"), core(f"{shop}-rome", resource, "web")
    value = "Ym9uZ2lvcm5v"
    rome.create(core(shop, resource), {"metadata": {"name": "web"}, "data": {"greeting": value}})
    milan.comes_to(there, lambda one: one["data"] == {"greeting": value})

    rome.patch(here, {"data": {"greeting": None, "other": value}})
    milan.comes_to(there, lambda one: one["data"] == {"other": value})

    # A hand edit over there is put right.
    milan.patch(there, {"data": {"other": "c2FsdmU="}})
    milan.comes_to(there, lambda one: one["data"] == {"other": value})

    # So is a deletion over there.
    milan.api.call("DELETE", there)
    milan.comes_to(there, lambda one: one["data"] == {"other": value})

    rome.api.call("DELETE", here)
    milan.goes(there)


def test_annotated_objects_stay_at_home(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    annotated = {"name": "private", "annotations": {"liqo.io/skip-reflection": "true"}}
    rome.create(core(shop, "configmaps"), {"metadata": annotated, "data": {"a": "b"}})
    rome.create(core(shop, "configmaps"), {"metadata": {"name": "public"}, "data": {"a": "b"}})
    milan.comes_to(core(f"{shop}-rome", "configmaps", "public"), lambda one: True)
    assert not milan.api.exists(core(f"{shop}-rome", "configmaps", "private"))

    rome.patch(
        core(shop, "configmaps", "public"),
        {"metadata": {"annotations": {"liqo.io/skip-reflection": "true"}}},
    )
    milan.goes(core(f"{shop}-rome", "configmaps", "public"))


def test_a_service_finds_its_pods_on_both_sides(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    rome.create(core(shop, "services"), service("web"))
    rome.create(deployments(shop), deployment("web", 3))
    there = core(f"{shop}-rome", "services", "web")
    milan.comes_to(there, lambda one: one["spec"]["ports"][0]["port"] == 80)

    def addresses(member: Member, namespace: str) -> set[str]:
        found = member.api.get(slices(namespace))["items"]
        return {
            address
            for one in found
            if one["metadata"].get("labels", {}).get("kubernetes.io/service-name") == "web"
            for endpoint in one["endpoints"] or ()
            for address in endpoint["addresses"]
        }

    wait_until("three endpoints at home", lambda: len(addresses(rome, shop)) == 3, 40)
    wait_until(
        "the same over there",
        lambda: addresses(milan, f"{shop}-rome") == addresses(rome, shop),
        40,
    )
    rome.patch(core(shop, "services", "web"), {"spec": {"ports": [{"name": "http", "port": 81}]}})
    milan.comes_to(there, lambda one: one["spec"]["ports"][0]["port"] == 81)
    rome.api.call("DELETE", core(shop, "services", "web"))
    milan.goes(there)


def test_what_is_there_before_the_namespace_is_offloaded_follows(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    rome.create(core(shop, "configmaps"), {"metadata": {"name": "old"}, "data": {"a": "b"}})
    rome.liqod("offload", "namespace", shop)
    milan.comes_to(core(f"{shop}-rome", "configmaps", "old"), lambda one: one["data"] == {"a": "b"})


def test_what_changed_while_the_daemon_was_down_follows(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    maps, there = core(shop, "configmaps"), f"{shop}-rome"
    for name in ("kept", "gone"):
        rome.create(maps, {"metadata": {"name": name}, "data": {"a": "b"}})
        milan.comes_to(core(there, "configmaps", name), lambda one: True)
    rome.crash()
    rome.api.call("DELETE", f"{maps}/gone")
    rome.patch(f"{maps}/kept", {"data": {"a": "c"}})
    rome.create(maps, {"metadata": {"name": "new"}, "data": {"a": "d"}})
    rome.daemon.start(60)
    milan.comes_to(core(there, "configmaps", "kept"), lambda one: one["data"] == {"a": "c"})
    milan.comes_to(core(there, "configmaps", "new"), lambda one: one["data"] == {"a": "d"})
    milan.goes(core(there, "configmaps", "gone"))


def test_an_ingress_is_served_by_the_peer_where_its_host_is_for_guests(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    rome.liqod("offload", "namespace", shop)
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    spec = {
        "ingressClassName": "peers",
        "rules": [{"host": "shop.example", "http": {"paths": [path]}}],
    }
    api = "networking.k8s.io/v1"
    rome.create(group(api, shop, "ingresses"), {"metadata": {"name": "web"}, "spec": spec})

    def refused() -> bool:
        events = rome.api.get(core(shop, "events"))["items"]
        return any("ingress_hosts under [guests]" in each["message"] for each in events)

    wait_until("the refusal to be told", refused, 30)
    spec["rules"] = [{"host": "shop.rome.example", "http": {"paths": [path]}}]
    rome.patch(group(api, shop, "ingresses", "web"), {"spec": spec})
    there = group(api, f"{shop}-rome", "ingresses", "web")
    found = milan.comes_to(there, lambda one: one["spec"]["rules"] == spec["rules"])
    assert "ingressClassName" not in found["spec"]
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}
    milan.patch(f"{there}/status", {"status": status})
    rome.comes_to(
        group(api, shop, "ingresses", "web"),
        lambda one: one["status"]["loadBalancer"].get("ingress") == [{"ip": "192.0.2.7"}],
    )


def test_an_ingress_shows_where_two_peers_serve_it(two_providers: Clusters) -> None:
    """Each by its own class; and what a controller of this cluster writes is left to it."""
    clusters, rome = two_providers, two_providers.rome
    shop, api = clusters.namespace(rome), "networking.k8s.io/v1"
    rome.liqod("offload", "namespace", shop)
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rules = [{"host": "shop.rome.example", "http": {"paths": [path]}}]
    spec = {"ingressClassName": "mapped", "rules": rules}
    here, there = group(api, shop, "ingresses", "web"), group(api, f"{shop}-rome", "ingresses")
    rome.create(group(api, shop, "ingresses"), {"metadata": {"name": "web"}, "spec": spec})
    wanted = (
        (clusters.milan, "milans", "192.0.2.1"),
        (clusters.turin, "theirs", "192.0.2.2"),
    )
    for member, name, address in wanted:
        at = f"{there}/web"
        member.comes_to(at, lambda one, name=name: one["spec"].get("ingressClassName") == name)  # type: ignore[misc]
        serves(member, at, address)

    rome.comes_to(here, lambda one: served(one) == ["192.0.2.1", "192.0.2.2"])
    classes = "/apis/networking.k8s.io/v1/ingressclasses"
    own = {"metadata": {"name": "mapped"}, "spec": {"controller": "example.com/own"}}
    rome.create(classes, own)
    try:
        rome.comes_to(here, lambda one: served(one) == [])
        serves(rome, here, "10.9.9.9")
        for member, _, address in wanted:  # a peer has news, and this cluster's word stays
            serves(member, f"{there}/web", address, "192.0.2.9")
        time.sleep(1.0)
        assert served(rome.api.get(here)) == ["10.9.9.9"]
    finally:
        rome.api.call("DELETE", f"{classes}/mapped")
    rome.comes_to(here, lambda one: served(one) == ["192.0.2.1", "192.0.2.9", "192.0.2.2"])
    rome.api.call("DELETE", here)
    for member, _, _ in wanted:
        member.goes(f"{there}/web")


def serves(member: Member, path: str, *addresses: str) -> None:
    """Writes the load balancer's addresses into an Ingress, as its controller does."""
    found = [{"ip": each} for each in addresses]
    member.patch(f"{path}/status", {"status": {"loadBalancer": {"ingress": found}}})


def served(ingress: dict[str, Any]) -> list[str]:
    """Under which addresses an Ingress is said to be served."""
    return [each["ip"] for each in ingress["status"]["loadBalancer"].get("ingress") or ()]
