"""A cluster's id that is another one all of a sudden, under a daemon at work and at its start."""

from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, NODES, PODS
from liqod.kube.selection import Selection
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES, TENANTS
from tests.simulated.borrower import eventually
from tests.simulated.daemon.test_daemon import said, wait_until_said
from tests.simulated.daemon.test_health import probe
from tests.simulated.processes import Site, sites
from tests.simulated.shops import SHOP, THERE, deployment, is_ready
from tests.testbed.processes import free_ports

SAID = "this cluster is rome to its peers, and cannot become roma"


async def identities(rome: Site, milan: Site) -> dict[str, tuple[str, int]]:
    """UID and generation of a peering's objects on both sides, and of the node."""
    found = {"node": ((await rome.admin.get(NODES, "milan"))["metadata"]["uid"], 0)}
    for site in (rome, milan):
        for kind in (TENANTS, RESOURCE_SLICES, NAMESPACE_MAPS):
            for one in await site.admin.list(kind):
                meta = one["metadata"]
                key = f"{site.name} {kind.plural} {meta['namespace']}/{meta['name']}"
                found[key] = (meta["uid"], meta.get("generation", 0))
    return found


async def remote_pods(milan: Site) -> dict[str, str]:
    """The UIDs of the pods that are Ready at milan, by name."""
    found = await milan.admin.list(PODS, Selection(THERE))
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found if is_ready(each)}


async def scaled(rome: Site, milan: Site, replicas: int) -> None:
    """Change the Deployment's size, and wait until so many pods are Ready at milan."""
    await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, SHOP)
    await eventually(lambda: remote_pods(milan), lambda found: len(found) == replicas)


@pytest.mark.long
async def test_the_daemon_goes_on_under_the_one_that_its_peers_know(tmp_path: Path) -> None:
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        [port] = free_ports(1)
        rome.daemon.settings["health"] = {"port": port}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rome.start)
            nursery.start_soon(milan.start)
        await rome.liqod("peer", "--remote-kubeconfig", str(await milan.user_for("rome")))
        await rome.admin.create(NAMESPACES, {"metadata": {"name": SHOP}})
        await rome.liqod("offload", "namespace", SHOP, "--pod-offloading-strategy", "Remote")
        await rome.admin.create(DEPLOYMENTS, deployment(2, runtimeClassName="liqo"), SHOP)
        await eventually(lambda: remote_pods(milan), lambda found: len(found) == 2)
        before, pods = await identities(rome, milan), await remote_pods(milan)
        changed = {"data": {labels.CLUSTER_ID_FIELD: "roma"}}
        await rome.admin.patch(CONFIG_MAPS, labels.CLUSTER_ID_CONFIG_MAP, changed, "liqo")
        await eventually(lambda: said(rome.daemon, SAID))
        assert SAID in " ".join((await rome.liqod("status")).out.split())
        await scaled(rome, milan, 3)

        # One that starts does nothing before it is repaired.
        await rome.stop()
        rome.daemon.launch()
        await trio.to_thread.run_sync(wait_until_said, rome.daemon, f"STATUS=waiting: {SAID}")
        status, why = await trio.to_thread.run_sync(probe, rome.daemon, "/readyz")
        assert (status, SAID in why) == (503, True)
        peer = ("peer", "--remote-kubeconfig", str(rome.kubeconfig))
        refused = await rome.liqod(*peer, check=False)
        assert (refused.status != 0, SAID in refused.err) == (True, True)
        assert await identities(rome, milan) == before

        await rome.liqod("install", "--cluster-id", "rome")
        await trio.to_thread.run_sync(wait_until_said, rome.daemon, "STATUS=leading")
        await scaled(rome, milan, 4)
        assert (await remote_pods(milan)).items() >= pods.items()
        assert await identities(rome, milan) == before
        assert SAID not in " ".join((await rome.liqod("status")).out.split())
