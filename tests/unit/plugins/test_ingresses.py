"""An Ingress at a peer, and the addresses that come back."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery.kinds import INGRESS_CLASSES, INGRESSES
from liqod.plugins.contracts import Plan, VirtualNode
from liqod.plugins.reflectors import ingresses
from liqod.plugins.reflectors.ingresses import REFLECTOR, IngressSettings
from simulator.suites import NAMES, ReflectorContract, StaticView

Json = dict[str, Any]

BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
RULES = [{"host": "shop.example", "http": {"paths": [{"path": "/", "backend": BACKEND}]}}]
TLS = [{"hosts": ["shop.example"], "secretName": "shop"}]
NGINX = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "IngressClass",
    "metadata": {"name": "nginx"},
}


def ingress(annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": INGRESSES.api_version,
        "kind": "Ingress",
        "metadata": {
            "name": "shop",
            "namespace": "shop",
            "uid": "uid-shop",
            "labels": {"app": "shop"},
            "annotations": annotations or {},
        },
        "spec": {"rules": RULES, "tls": TLS, **spec},
    }


def there(*found: Json) -> Json:
    return {**ingress(), "status": {"loadBalancer": {"ingress": list(found)}}}


def view(**options: Any) -> StaticView:
    return StaticView(REFLECTOR, **options)


def offering(*classes: str) -> Any:
    nodes = {
        f"milan-{number}": VirtualNode(name=f"milan-{number}", slice="milan", ingress_class=each)
        for number, each in enumerate(classes)
    }
    return view(names=msgspec.structs.replace(NAMES, nodes=nodes))


def reflected(source: Json, seen: StaticView) -> Json:
    [remote] = ingresses.outgoing(source, seen).remote
    return remote


class TestIngressesKeepTheContract(ReflectorContract):
    reflector = REFLECTOR
    sources = (ingress(ingressClassName="nginx"), ingress({ingresses.CLASS: "old"}))
    local = (NGINX,)
    remote = (there({"ip": "192.0.2.7"}),)
    elsewhere = (there({"ip": "192.0.2.8"}, {"ip": "192.0.2.7"}),)


def test_rules_and_certificates_cross_and_the_class_is_the_peer_s():
    source = ingress({ingresses.CLASS: "old", "note": "a"}, defaultBackend=BACKEND)
    remote = reflected(source, view())
    assert remote["spec"] == {"rules": RULES, "tls": TLS, "defaultBackend": BACKEND}
    assert remote["metadata"]["annotations"] == {"note": "a"}
    assert "status" not in remote
    assert reflected(source, offering("", "traefik"))["spec"]["ingressClassName"] == "traefik"


@pytest.mark.parametrize(
    ("classes", "there"),
    [
        ({}, None),
        ({"nginx": "traefik"}, "traefik"),
        ({"nginx": "traefik", "milan/nginx": "haproxy"}, "haproxy"),
        ({"turin/nginx": "haproxy"}, None),
        ({"other": "traefik"}, None),
        ({"nginx": ""}, None),
    ],
)
@pytest.mark.parametrize("way", [{}, {ingresses.CLASS: "nginx"}])
def test_a_class_is_named_for_all_peers_or_for_one(
    classes: dict[str, str], there: str | None, way: Json
):
    source = ingress(way) if way else ingress(ingressClassName="nginx")
    remote = reflected(source, view(settings=IngressSettings(classes=classes)))
    assert remote["spec"].get("ingressClassName") == there


def test_addresses_of_all_peers_are_shown_each_once():
    source = ingress(ingressClassName="elsewhere")
    milan = there({"ip": "192.0.2.7"}, {"hostname": "lb.milan.example"})
    plan = ingresses.incoming(source, (milan,), view())
    shared = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}, {"ip": "2001:db8::1"}]}}
    assert plan.status is not None
    assert ingresses.combine(source, {"turin": shared, "milan": plan.status}) == {
        "loadBalancer": {
            "ingress": [
                {"ip": "192.0.2.7"},
                {"hostname": "lb.milan.example"},
                {"ip": "2001:db8::1"},
            ]
        }
    }
    assert ingresses.incoming(source, (there(),), view()) == Plan()
    assert ingresses.incoming(source, (), view()) == Plan()


def test_where_a_controller_here_serves_the_class_nobody_quarrels_with_it():
    source, milan = ingress(ingressClassName="nginx"), there({"ip": "192.0.2.7"})
    assert ingresses.incoming(source, (milan,), view(local=(NGINX,))) == Plan()
    assert view(local=(NGINX,)).get(INGRESS_CLASSES, "nginx") == NGINX


@pytest.mark.parametrize(
    "found",
    [
        {"ip": "192.0.2.7/24"},
        {"ip": "0.0.0.0"},
        {"ip": 7},
        {"ip": "fe80::1%eth0; rm"},
        {"hostname": "lb example"},
        {"hostname": "x" * 300},
        {"hostname": "UPPER.example"},
        {"hostname": ["a"]},
        {},
    ],
)
def test_what_is_no_address_is_not_shown(found: Json):
    assert ingresses.addresses(there(found)) == []


def test_a_peer_has_so_many_addresses_and_no_more():
    many = there(*({"ip": f"192.0.2.{number}"} for number in range(100)))
    assert len(ingresses.addresses(many)) == ingresses.MOST
