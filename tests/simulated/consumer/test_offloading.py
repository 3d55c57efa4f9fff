"""Offloaded namespaces in an embedded cluster: maps, labels and status, without any peer."""

from functools import partial

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.cluster.context import ClusterContext
from liqod.consumer.namespaces import offloadingcontroller
from liqod.consumer.namespaces.offloadingcontroller import OffloadingController
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import NotFound
from liqod.kube.deletion import set_finalizers
from liqod.resources import NAMESPACE_MAPS, NAMESPACE_OFFLOADINGS, VIRTUAL_NODES
from simulator import EmbeddedCluster
from tests.simulated.borrower import borrower, eventually, offload, peer_of, virtual_node
from tests.simulated.consumer.offloaded import answer, label, mapped, mapping, phase, selector
from tests.simulated.prepared import defined


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("rome", state=await defined("rome")) as embedded:
        yield embedded


async def test_life_of_an_offloaded_namespace(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        await offload(context.client, "shop")
        status = await phase(context, "shop", "NoClusterSelected")
        assert status["remoteNamespaceName"] == "shop-rome"
        assert await label(context, "shop") == "true"
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        await phase(context, "shop", "InProgress")
        await mapped(context, "milan", {"shop": "shop-rome"})
        found = await context.client.get(NAMESPACE_MAPS, "milan", "liqo-tenant-milan")
        assert found["metadata"]["labels"] == {
            "liqo.io/remote-cluster-id": "milan",
            "liqo.io/remoteID": "milan",
            "liqo.io/replication": "true",
        }
        await answer(context, "milan", "shop", "shop-rome")
        status = await phase(context, "shop", "Ready")
        reasons = [c["reason"] for c in status["remoteNamespacesConditions"]["milan"]]
        assert reasons == ["ClusterSelected", "NamespaceCreated"]
        await context.client.delete(NAMESPACE_OFFLOADINGS, "offloading", "shop")

        async def ended():
            return await context.client.find(NAMESPACE_OFFLOADINGS, "offloading", "shop") is None

        await eventually(ended)
        assert await mapping(context, "milan") == {}
        assert await label(context, "shop") is None


async def test_many_namespaces_never_overwrite_each_other(cluster, nursery):
    async with borrower(cluster) as context:
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        await nursery.start(OffloadingController(context).run)
        names = [f"ns-{number}" for number in range(12)]
        async with trio.open_nursery() as many:
            for name in names:
                many.start_soon(offload, context.client, name)
        await mapped(context, "milan", {name: f"{name}-rome" for name in names})


async def test_selector_over_several_clusters_and_slices(cluster, nursery):
    async with borrower(cluster) as context:
        for name, region in (("milan", "eu"), ("turin", "us")):
            await peer_of(context, name)
            await virtual_node(context, name, labels={"region": region})
        # A second slice that does not match takes nothing away from the first.
        await virtual_node(context, "milan", "milan-2", labels={"region": "us"})
        await nursery.start(OffloadingController(context).run)
        await offload(context.client, "shop", **selector(region="eu"))
        await mapped(context, "milan", {"shop": "shop-rome"})
        await answer(context, "milan", "shop", "shop-rome")
        status = await phase(context, "shop", "Ready")
        conditions = status["remoteNamespacesConditions"]["turin"]
        assert [c["reason"] for c in conditions] == ["ClusterNotSelected"]
        assert await mapping(context, "turin") == {}
        change = {"spec": selector(region="us")}
        change["spec"]["clusterSelector"]["nodeSelectorTerms"][0]["matchExpressions"].append(
            {"key": "liqo.io/remote-cluster-id", "operator": "In", "values": ["turin"]}
        )
        await context.client.patch(NAMESPACE_OFFLOADINGS, "offloading", change, "shop")
        await mapped(context, "turin", {"shop": "shop-rome"})
        await mapped(context, "milan", {})


async def test_failures_are_told_per_cluster(cluster, nursery):
    async with borrower(cluster) as context:
        for name in ("milan", "turin"):
            await peer_of(context, name)
            await virtual_node(context, name)
        await nursery.start(OffloadingController(context).run)
        await offload(context.client, "shop")
        for name in ("milan", "turin"):
            await mapped(context, name, {"shop": "shop-rome"})
        await answer(context, "milan", "shop", "shop-rome")
        await answer(context, "turin", "shop", "shop-rome", "CreationLoopBackOff")
        status = await phase(context, "shop", "SomeFailed")
        failed = status["remoteNamespacesConditions"]["turin"][1]
        assert (failed["type"], failed["status"]) == ("Ready", "False")
        assert "shop-rome" in failed["message"]
        await offload(context.client, "n" * 60)
        status = await phase(context, "n" * 60, "AllFailed")
        assert status["remoteNamespacesConditions"]["milan"][1]["reason"] == "NameTooLong"
        assert "n" * 60 not in (await mapping(context, "milan"))


async def spread(
    context: ClusterContext, nursery: trio.Nursery, timings: ConsumerTimings = ORDINARY
) -> None:
    """The namespace shop is at milan, and all is well."""
    await peer_of(context, "milan")
    await virtual_node(context, "milan")
    await nursery.start(OffloadingController(context, timings).run)
    await offload(context.client, "shop")
    await mapped(context, "milan", {"shop": "shop-rome"})
    await answer(context, "milan", "shop", "shop-rome")
    await phase(context, "shop", "Ready")


@pytest.mark.parametrize("holds", [False, True])
async def test_it_ends_after_its_namespaces_at_peers_that_answer(holds: bool, cluster, nursery):
    """Liqo's own case, and `liqoctl unoffload`, take its end for that of the remote namespace."""
    # Where it holds, something at the peer keeps it for ever.
    timings = ConsumerTimings(gone_within=1.0) if holds else ORDINARY
    async with borrower(cluster) as context:
        await spread(context, nursery, timings)
        marks = {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan"}
        await context.client.create(NODES, {"metadata": {"name": "milan", "labels": marks}})
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await context.client.patch(NODES, "milan", ready, subresource="status")
        await context.client.delete(NAMESPACE_OFFLOADINGS, "offloading", "shop")
        await mapped(context, "milan", {})

        async def told():
            found = await context.client.get(NAMESPACE_OFFLOADINGS, "offloading", "shop")
            conditions = found["status"]["remoteNamespacesConditions"]["milan"]
            return any(each["reason"] == "Terminating" for each in conditions)

        await eventually(told)
        if not holds:
            gone = {"status": {"currentMapping": None}}
            where = (NAMESPACE_MAPS, "milan", gone, "liqo-tenant-milan")
            await context.client.patch(*where, subresource="status")

        async def ended():
            return await context.client.find(NAMESPACE_OFFLOADINGS, "offloading", "shop") is None

        await eventually(ended)


async def test_at_rest_nothing_is_written(cluster, nursery):
    async with borrower(cluster) as context:
        await spread(context, nursery)
        await trio.sleep(0.2)

        async def versions():
            return [
                (await context.client.get(kind, name, where))["metadata"]["resourceVersion"]
                for kind, name, where in (
                    (NAMESPACE_OFFLOADINGS, "offloading", "shop"),
                    (NAMESPACE_MAPS, "milan", "liqo-tenant-milan"),
                    (NAMESPACES, "shop", None),
                )
            ]

        before = await versions()
        patch = {"metadata": {"annotations": {"touched": "yes"}}}
        await context.client.patch(VIRTUAL_NODES, "milan", patch, "liqo-tenant-milan")
        await trio.sleep(0.3)
        assert await versions() == before


async def test_namespace_that_goes_takes_its_entry_along(cluster, nursery):
    async with borrower(cluster) as context:
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        await nursery.start(OffloadingController(context).run)
        await offload(context.client, "shop")
        await mapped(context, "milan", {"shop": "shop-rome"})
        await context.client.delete(NAMESPACES, "shop")
        await mapped(context, "milan", {})

        async def gone():
            try:
                await context.client.get(NAMESPACES, "shop")
            except NotFound:
                return True
            return False

        await eventually(gone)


async def test_an_offloading_deleted_without_its_finalizer_leaves_nothing(
    cluster, nursery, monkeypatch
):
    async def too_late(client, kind, meta, *, add=(), remove=()):
        """Somebody takes the finalizer off and deletes at once."""
        return await set_finalizers(client, kind, meta, remove=remove)

    monkeypatch.setattr(offloadingcontroller, "set_finalizers", too_late)
    async with borrower(cluster) as context:
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        working = await nursery.start(running, context)
        for name in ("shop", "bank", "farm"):
            await offload(context.client, name)
        await mapped(context, "milan", {name: f"{name}-rome" for name in ("shop", "bank", "farm")})
        await context.client.delete(NAMESPACE_OFFLOADINGS, "offloading", "shop")
        await mapped(context, "milan", {name: f"{name}-rome" for name in ("bank", "farm")})

        async def unlabelled():
            return await label(context, "shop") is None

        await eventually(unlabelled)

        # Neither does one that goes while nobody works here.
        working.cancel()
        await context.client.delete(NAMESPACE_OFFLOADINGS, "offloading", "bank")
        await nursery.start(running, context)
        await mapped(context, "milan", {"farm": "farm-rome"})


async def running(context, task_status=trio.TASK_STATUS_IGNORED):
    """The component, until the scope that it reports is cancelled."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as own:
            await own.start(OffloadingController(context).run)
            task_status.started(scope)


async def test_namespaces_that_hold_keys_are_never_offloaded(cluster, nursery):
    async with borrower(cluster) as context:
        await peer_of(context, "milan")
        await peer_of(context, "turin")
        await virtual_node(context, "milan")
        await offload(context.client, "shop")
        # Pods of the last one are a peer's: Liqo has them go on to a third cluster, or wait for it.
        kept = ("liqo", "kube-system", "liqo-tenant-turin", "farm-turin")
        for name in kept:
            await offload(context.client, name)
        before = {"metadata": {"labels": {"liqo.io/scheduling-enabled": "true"}}}
        await context.client.patch(NAMESPACES, "liqo", before)  # of a daemon that allowed it
        guests = {"metadata": {"labels": {"liqo.io/remote-cluster-id": "turin"}}}
        await context.client.patch(NAMESPACES, "farm-turin", guests)
        await nursery.start(OffloadingController(context).run)
        await mapped(context, "milan", {"shop": "shop-rome"})
        for name in kept:
            status = await phase(context, name, "AllFailed")
            ready = status["remoteNamespacesConditions"]["milan"][1]
            assert ready["reason"] == "NamespaceStaysHome"
            assert f"the namespace {name} cannot be offloaded" in ready["message"]
            assert await label(context, name) is None
        assert await mapping(context, "milan") == {"shop": "shop-rome"}


async def test_a_namespace_that_was_offloaded_and_may_no_longer_be_comes_back(cluster, nursery):
    async with borrower(cluster) as context:
        await spread(context, nursery)
        tenant = {"metadata": {"labels": {"liqo.io/tenant-namespace": "true"}}}
        await context.client.patch(NAMESPACES, "shop", tenant)
        await mapped(context, "milan", {})
        await phase(context, "shop", "AllFailed")
        assert await label(context, "shop") is None
        await context.client.delete(NAMESPACE_OFFLOADINGS, "offloading", "shop")

        async def ended():
            return await context.client.find(NAMESPACE_OFFLOADINGS, "offloading", "shop") is None

        await eventually(ended)


async def test_a_name_that_is_given_up_goes_to_who_waits_for_it(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        chosen = {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": "market"}
        await offload(context.client, "first", **chosen)
        await mapped(context, "milan", {"first": "market"})
        await offload(context.client, "second", **chosen)
        status = await phase(context, "second", "AllFailed")
        ready = status["remoteNamespacesConditions"]["milan"][1]
        assert ready["reason"] == "RemoteNameTaken"
        await context.client.delete(NAMESPACE_OFFLOADINGS, "offloading", "first")
        await mapped(context, "milan", {"second": "market"})
        await answer(context, "milan", "second", "market")
        await phase(context, "second", "Ready")


async def test_of_two_that_want_one_name_at_once_one_gets_it(cluster, nursery):
    async with borrower(cluster) as context:
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        await nursery.start(OffloadingController(context).run)
        await mapped(context, "milan", {})
        chosen = {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": "market"}
        for name in ("first", "second"):
            await context.client.create(NAMESPACES, {"metadata": {"name": name}})
        async with trio.open_nursery() as users:
            for name in ("first", "second"):
                users.start_soon(partial(offload, context.client, name, **chosen))

        async def settled():
            status = [
                (await context.client.get(NAMESPACE_OFFLOADINGS, "offloading", name)).get(
                    "status", {}
                )
                for name in ("first", "second")
            ]
            return {each.get("offloadingPhase") for each in status} == {"InProgress", "AllFailed"}

        await eventually(settled)
        assert list((await mapping(context, "milan")).values()) == ["market"]
