"""The package at work between embedded clusters, with a definition of HTTPRoutes in small."""

from collections.abc import Callable
from typing import Any

import liqod_httproutes  # type: ignore[import-not-found]
from liqod_httproutes import GATEWAYS, HTTP_ROUTES

from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.plugins import loader
from liqod.plugins.loader import Plugins, PluginSource
from liqod.resources import OVERRIDE_POLICIES
from simulator.trial import Pair, trial

Json = dict[str, Any]

SETTINGS = {"httproutes": {"gateways": {"public": "edge/shared", "turin/public": "edge/own"}}}
OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(plural: str, kind: str) -> Json:
    """Gateway API's own has a schema; what matters here is that the status is a subresource."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": OPEN},
    }
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    group = HTTP_ROUTES.group
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


ROUTES = definition("httproutes", "HTTPRoute")
GATES = definition("gateways", "Gateway")


def plugins() -> Plugins:
    """The built-in plugins, and the package."""
    ours = PluginSource("httproutes", "liqod-httproutes", "0.1.0", lambda: liqod_httproutes)
    return loader.load(settings=SETTINGS, sources=[*loader.built_in(), ours])


async def create(at: Pair) -> None:
    spec = {
        "hostnames": ["shop.example"],
        "parentRefs": [{"name": "public"}],
        "rules": [{"backendRefs": [{"name": "web", "port": 80}]}],
    }
    await at.here.create(HTTP_ROUTES, {"metadata": {"name": "web"}, "spec": spec}, at.namespace)


async def accept(at: Pair, gateway: str) -> None:
    """As the controller of the peer's Gateway does."""
    found = await at.comes(HTTP_ROUTES, "web", namespace=at.remote_namespace)
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": found["metadata"]["generation"],
    }
    parent = {
        "parentRef": {"name": gateway, "namespace": "edge"},
        "controllerName": "example.com/gateway",
        "conditions": [condition],
    }
    told = {"status": {"parents": [parent]}}
    await at.there.patch(HTTP_ROUTES, "web", told, at.remote_namespace, subresource="status")


def shows(*peers: str) -> Callable[[Json], bool]:
    def so(found: Json) -> bool:
        parents = (found.get("status") or {}).get("parents") or []
        wanted = [("public", f"example.com/gateway/at/{peer}") for peer in peers]
        return [(each["parentRef"]["name"], each["controllerName"]) for each in parents] == wanted

    return so


async def test_a_route_hangs_on_each_peer_s_gateway_and_both_are_shown() -> None:
    async with trial(plugins(), ROUTES, GATES, peers=("milan", "turin")) as milan:
        (turin,) = milan.others
        await create(milan)
        for at, gateway in (milan, "shared"), (turin, "own"):
            there = {"name": gateway, "namespace": "edge"}
            found = await at.comes(HTTP_ROUTES, "web")
            assert found["spec"]["parentRefs"] == [there]
            await accept(at, gateway)
        context: Json = {"client": milan.here, "namespace": milan.namespace}
        await milan.comes(HTTP_ROUTES, "web", shows("milan", "turin"), **context)
        await milan.desire(None)
        await milan.comes(HTTP_ROUTES, "web", shows("turin"), **context)
        # A Gateway of this cluster has a say: its controllers write the status, and peers do not.
        gate = {"metadata": {"name": "public"}, "spec": {"gatewayClassName": "ours"}}
        await milan.here.create(GATEWAYS, gate, milan.namespace)
        await milan.comes(HTTP_ROUTES, "web", shows(), **context)
        await milan.here.delete(HTTP_ROUTES, "web", milan.namespace)
        await turin.goes(HTTP_ROUTES, "web")


async def test_a_policy_changes_the_hosts_of_a_route_for_one_peer() -> None:
    async with trial(plugins(), ROUTES, GATES, peers=("milan", "turin")) as milan:
        (turin,) = milan.others
        spec = {
            "objects": [{"kind": "HTTPRoute"}],
            "peers": ["milan"],
            "hosts": {"shop.example": "milan.example"},
        }
        made = {"metadata": {"name": "site"}, "spec": spec}
        await milan.here.create(OVERRIDE_POLICIES, made, milan.namespace)
        await create(milan)
        found = await milan.comes(HTTP_ROUTES, "web")
        other = await turin.comes(HTTP_ROUTES, "web")
        assert found["spec"]["hostnames"] == ["milan.example"]
        assert other["spec"]["hostnames"] == ["shop.example"]


async def test_where_no_cluster_has_the_definitions_nothing_else_waits() -> None:
    async with trial(plugins()) as milan:
        await milan.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, milan.namespace)
        await milan.comes(CONFIG_MAPS, "conf")
