"""Budgets hold evictions at peers that take them: by the controllers of embedded clusters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
)
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.failures import EvictionBlocked
from liqod.kube.selection import Selection
from liqod.plugins.loader import OWN
from liqod.plugins.reflectors import disruptionbudgets
from liqod.plugins.reflectors.disruptionbudgets import OPT_IN
from liqod.provider.namespaces.namespacemaps import NamespaceMaps
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.reflection.statuscleanup import Retractions
from liqod.resources import NAMESPACE_MAPS, TENANTS, VIRTUAL_NODES
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.lender import CONSUMER, TENANT, Lender, lender
from tests.simulated.reflecting import SHOP, THERE, Pair, beside, pair
from tests.simulated.reflection.test_reflection_plans import only

Json = dict[str, Any]

APP = {"app": "shop"}
TAKES = "[guests]\ndisruption_budgets = true\n"
REPLICA = {"liqo.io/replicated": "true", "liqo.io/originID": CONSUMER}
MAPPED = f"shop-{CONSUMER}"
BINDING = OPT_IN.binding(TENANT)


async def takes(at: Pair, value: str | None) -> None:
    """Writes the annotation about budgets on the peer's virtual node."""
    notes = {"metadata": {"annotations": {OPT_IN.mark: value}}}
    await at.here.patch(VIRTUAL_NODES, at.name, notes, at.tenant)


async def runs(client: Client, name: str, node: str, namespace: str) -> None:
    """A pod that is Ready on a node, as its kubelet says."""
    spec = {"containers": [{"name": "web", "image": "web"}], "nodeName": node}
    await client.create(PODS, {"metadata": {"name": name, "labels": APP}, "spec": spec}, namespace)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(PODS, name, {"status": ready}, namespace, subresource="status")


async def shares(milan: Pair, turin: Pair) -> None:
    """Two pods at each peer, which rome sees on its virtual nodes."""
    for at in (milan, turin):
        await milan.here.create(NODES, {"metadata": {"name": at.name}})
        for number in range(2):
            name = f"{at.name}-{number}"
            await runs(milan.here, name, at.name, SHOP)
            await runs(at.there, name, "nowhere", THERE)


@asynccontextmanager
async def spread() -> AsyncIterator[tuple[Pair, Pair]]:
    """Rome with two peers, of which each takes budgets and has two pods of one."""
    async with (
        pair(plugins=only(disruptionbudgets.REFLECTOR, package=OWN)) as milan,
        beside(milan, "turin") as turin,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(Retractions(milan.context, milan.arbiter).run)
        for at in (milan, turin):
            await takes(at, labels.TRUE)
            await at.start(nursery)
        await shares(milan, turin)
        yield milan, turin
        nursery.cancel_scope.cancel()


async def says(at: Pair, least: int) -> None:
    """Until the budget there asks for so many, and the controller there has taken that up."""

    def so(found: Json) -> bool:
        status = found.get("status") or {}
        counted = status.get("observedGeneration") == found["metadata"]["generation"]
        return bool(counted and found["spec"]["minAvailable"] == least)

    await at.comes(POD_DISRUPTION_BUDGETS, "shop", so)


async def make(at: Pair, **spec: Any) -> None:
    wanted = {"metadata": {"name": "shop"}, "spec": {"selector": {"matchLabels": APP}, **spec}}
    await at.here.create(POD_DISRUPTION_BUDGETS, wanted, SHOP)


async def evicted(at: Pair, name: str) -> bool:
    """True if an eviction there is allowed."""
    try:
        eviction = {"metadata": {"name": name, "namespace": THERE}}
        await at.there.create_subresource(PODS, name, THERE, "eviction", eviction, decode=dict)
    except EvictionBlocked:
        return False
    return True


async def test_what_is_allowed_here_is_allowed_at_two_peers_and_no_more():
    async with spread() as (milan, turin):
        await make(milan, minAvailable=4)
        for at in (milan, turin):
            await says(at, 2)
            assert not await evicted(at, f"{at.name}-0")
        patch = {"spec": {"minAvailable": 2}}
        await milan.here.patch(POD_DISRUPTION_BUDGETS, "shop", patch, SHOP)
        for at in (milan, turin):
            await says(at, 1)
        assert await evicted(milan, "milan-0")
        assert not await evicted(milan, "milan-1")
        await milan.here.delete(PODS, "milan-0", SHOP, grace=0)  # as its end is told here
        await milan.here.patch(POD_DISRUPTION_BUDGETS, "shop", {"spec": {"minAvailable": 3}}, SHOP)
        await says(turin, 2)
        assert not await evicted(turin, "turin-0"), "milan's eviction counts at turin"
        await milan.here.delete(POD_DISRUPTION_BUDGETS, "shop", SHOP)
        for at in (milan, turin):
            await at.goes(POD_DISRUPTION_BUDGETS, "shop")
        assert await evicted(turin, "turin-0")


async def test_a_peer_that_takes_none_is_not_asked_and_one_that_begins_to_is_told():
    async with (
        pair(plugins=only(disruptionbudgets.REFLECTOR, package=OWN)) as milan,
        trio.open_nursery() as nursery,
    ):
        await milan.start(nursery)
        await milan.here.create(NODES, {"metadata": {"name": "milan"}})
        await runs(milan.here, "milan-0", "milan", SHOP)
        await runs(milan.there, "milan-0", "nowhere", THERE)
        await make(milan, minAvailable=1)
        before = milan.requests()
        await trio.sleep(0.3)
        assert not [each for each in milan.since(before) if "budget" in each[1].lower()]
        await takes(milan, labels.TRUE)
        await says(milan, 1)
        assert not await evicted(milan, "milan-0")
        await takes(milan, None)
        await trio.sleep(0.1)
        patch = {"spec": {"minAvailable": 0}}
        before = milan.requests()
        await milan.here.patch(POD_DISRUPTION_BUDGETS, "shop", patch, SHOP)
        await trio.sleep(0.3)
        assert not [each for each in milan.since(before) if "budget" in each[1].lower()]
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def milan_lends() -> AsyncIterator[tuple[Client, str]]:
    """A provider; its administrator, and the kubeconfig."""
    async with (
        EmbeddedCluster("milan") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        await install.install(client, install.Options(cluster_id="milan"), lambda _: None)
        yield client, cluster.kubeconfig


@asynccontextmanager
async def lending(
    admin: Client, kubeconfig: str, text: str, timings: ProviderTimings = ORDINARY
) -> AsyncIterator[Lender]:
    """Its component for namespaces at work, with these settings, and a consumer that has one."""
    async with lender(admin, kubeconfig, text) as made, trio.open_nursery() as nursery:
        if await admin.find(NAMESPACE_MAPS, "milan", TENANT) is None:
            spec = {"clusterID": CONSUMER, "authzPolicy": "TolerateNoHandshake"}
            await admin.create(TENANTS, {"metadata": {"name": CONSUMER}, "spec": spec}, TENANT)
            status = {"status": {"tenantNamespace": TENANT}}
            await admin.patch(TENANTS, CONSUMER, status, TENANT, subresource="status")
            meta = {"name": "milan", "labels": REPLICA}
            wanted = {"desiredMapping": {"shop": MAPPED}}
            await admin.create(NAMESPACE_MAPS, {"metadata": meta, "spec": wanted}, TENANT)
        made.guest_policies.known = True
        await nursery.start(NamespaceMaps(made.peer, made.guest_policies, timings).run)
        yield made
        nursery.cancel_scope.cancel()


async def bound(admin: Client) -> bool:
    live = await admin.find(ROLE_BINDINGS, BINDING, MAPPED)
    return live is not None and live["roleRef"]["name"] == OPT_IN.role


@pytest.mark.long
async def test_it_is_given_and_taken_back_with_what_was_made_by_it():
    """At the provider: the role that a consumer has, and then no more, and its budgets."""
    async with milan_lends() as (client, kubeconfig):

        async def gone() -> bool:
            left = await client.list(POD_DISRUPTION_BUDGETS, Selection(MAPPED))
            live = await client.find(NAMESPACES, MAPPED)
            notes = live["metadata"]["annotations"] if live else {OPT_IN.mark: "?"}
            return not (await bound(client) or left or OPT_IN.mark in notes)

        async with lending(client, kubeconfig, TAKES):
            await eventually(lambda: bound(client))
            subjects = (await client.get(ROLE_BINDINGS, BINDING, MAPPED))["subjects"]
            assert [each["name"] for each in subjects] == [CONSUMER]
            wanted = {"metadata": {"name": "blocks"}, "spec": {"minAvailable": 1000}}
            await client.create(POD_DISRUPTION_BUDGETS, wanted, MAPPED)
        async with lending(client, kubeconfig, ""):
            await eventually(gone)
            assert await client.find(ROLE_BINDINGS, TENANT, MAPPED) is not None, "the others stay"
        async with lending(client, kubeconfig, TAKES):
            await eventually(lambda: bound(client))


async def test_it_is_taken_back_while_a_policy_is_missing():
    async with (
        milan_lends() as (client, kubeconfig),
        lending(client, kubeconfig, TAKES, ProviderTimings(policies_missing=0.1)) as made,
    ):
        await eventually(lambda: bound(client))
        made.guest_policies.missing = ("liqod-guest-budgets",)

        async def unbound() -> bool:
            return not await bound(client)

        await eventually(unbound)
        made.guest_policies.missing = ()
        await eventually(lambda: bound(client))
