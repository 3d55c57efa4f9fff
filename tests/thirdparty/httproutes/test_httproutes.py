"""The package's own tests: the contract that liqod ships, and what its functions say."""

from typing import Any

import pytest
from liqod_httproutes import (  # type: ignore[import-not-found]
    GATEWAYS,
    HTTP_ROUTES,
    MOST,
    REFLECTOR,
    Settings,
    combine,
    incoming,
    outgoing,
)

from liqod.plugins.contracts import Kind, Plan
from simulator.suites import ReflectorContract, StaticView

Json = dict[str, Any]

RULES = [{"backendRefs": [{"name": "web", "port": 80}]}]
CHOSEN = Settings(gateways={"public": "edge/shared", "turin/public": "edge/own"})
ACCEPTED = {
    "type": "Accepted",
    "status": "True",
    "reason": "Accepted",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "observedGeneration": 3,
}


def manifest(kind: Kind, name: str, **more: Any) -> Json:
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "generation": 3}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **more}


def route(*parents: Json, **status: Any) -> Json:
    spec = {"hostnames": ["shop.example"], "rules": RULES, "parentRefs": list(parents)}
    return manifest(HTTP_ROUTES, "web", spec=spec, **({"status": status} if status else {}))


def said(
    gateway: str,
    controller: str = "example.com/gateway",
    section: str = "https",
    **condition: Any,
) -> Json:
    ref = {"name": gateway, "namespace": "edge", "sectionName": section}
    conditions = [{**ACCEPTED, **condition}]
    return {"parentRef": ref, "controllerName": controller, "conditions": conditions}


def view(settings: Any = CHOSEN, **options: Any) -> StaticView:
    return StaticView(REFLECTOR, settings=settings, **options)


HERE = route({"name": "public", "sectionName": "https"})


class TestRoutes(ReflectorContract):
    reflector = REFLECTOR
    sources = (HERE, route())
    settings = CHOSEN
    local = (manifest(GATEWAYS, "other"),)
    remote = (route({"name": "shared", "namespace": "edge"}, parents=[said("shared")]),)
    elsewhere = (route({"name": "own", "namespace": "edge"}, parents=[said("own")]),)


def test_hosts_and_rules_cross_and_the_gateway_is_the_peer_s() -> None:
    (remote,) = outgoing(HERE, view()).remote
    assert remote["spec"] == {
        "hostnames": ["shop.example"],
        "rules": RULES,
        "parentRefs": [{"name": "shared", "namespace": "edge", "sectionName": "https"}],
    }
    (bare,) = outgoing(HERE, view(Settings())).remote
    assert "parentRefs" not in bare["spec"]


def test_what_each_peer_says_is_shown_with_its_name_and_once() -> None:
    milan = incoming(HERE, (route(parents=[said("shared"), said("elsewhere")]),), view()).status
    assert milan is not None
    (entry,) = milan["parents"]
    assert entry["parentRef"] == {"name": "public", "sectionName": "https"}
    assert entry["controllerName"] == "example.com/gateway/at/milan"
    assert entry["conditions"][0]["observedGeneration"] == 3
    turin = {"parents": [{**entry, "controllerName": "example.com/gateway/at/turin"}]}
    both = combine(HERE, {"turin": turin, "milan": milan})
    assert both == combine(HERE, {"milan": milan, "turin": turin})
    names = [each["controllerName"] for each in both["parents"]]
    assert names == ["example.com/gateway/at/milan", "example.com/gateway/at/turin"]


def test_each_section_of_a_gateway_has_its_own_answer() -> None:
    both = route(*({"name": "public", "sectionName": each} for each in ("http", "https")))
    parents = [said("shared", section="http"), said("shared", status="False")]
    status = incoming(both, (route(parents=parents),), view()).status
    assert status is not None
    shown = {
        each["parentRef"]["sectionName"]: each["conditions"][0]["status"]
        for each in combine(both, {"milan": status})["parents"]
    }
    assert shown == {"http": "True", "https": "False"}


def test_gateways_of_one_name_are_told_apart_by_their_namespaces() -> None:
    settings = Settings(gateways={"a": "x/shared", "b": "edge/shared"})
    two = route({"name": "a", "sectionName": "https"}, {"name": "b", "sectionName": "https"})
    status = incoming(two, (route(parents=[said("shared")]),), view(settings)).status
    assert status is not None
    assert [each["parentRef"]["name"] for each in status["parents"]] == ["b"]


def test_an_answer_to_an_earlier_route_is_not_shown_as_one_to_the_newest() -> None:
    old = incoming(HERE, (route(parents=[said("shared", observedGeneration=2)]),), view()).status
    assert old is not None
    assert old["parents"][0]["conditions"][0]["observedGeneration"] == 2


def test_where_a_gateway_here_has_a_say_peers_have_none() -> None:
    remote = route(parents=[said("shared")])
    own = manifest(GATEWAYS, "public")
    assert incoming(HERE, (remote,), view(local=[own])) == Plan()


@pytest.mark.parametrize(
    "parents",
    [
        ["x"],
        {"a": 1},
        [{"parentRef": "shared", "controllerName": "a/b"}],
        [{"parentRef": {"name": ["shared"]}, "controllerName": "a/b"}],
        [said("shared", controller="no-slash")],
        [said("other")],
    ],
)
def test_what_is_no_word_of_a_gateway_is_not_shown(parents: Any) -> None:
    assert incoming(HERE, (route(parents=parents),), view()) == Plan()


def test_a_peer_says_so_much_and_no_more() -> None:
    many = [said("shared", controller=f"example.com/{number}") for number in range(100)]
    status = incoming(HERE, (route(parents=many),), view()).status
    assert status is not None
    assert len(status["parents"]) == MOST
    (entry,) = incoming(
        HERE, (route(parents=[said("shared", message="x" * 9999, status="True")]),), view()
    ).status["parents"]
    assert len(entry["conditions"][0]["message"]) == 1024
