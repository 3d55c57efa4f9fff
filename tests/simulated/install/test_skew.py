"""The version before this one as a peer, and a cluster that is upgraded and goes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES, PODS
from liqod.errors import NotFound
from tests.simulated.borrower import eventually
from tests.simulated.processes import Site, sites
from tests.testbed import former

pytestmark = pytest.mark.long

SHOP = "shop"


async def become_former(site: Site, version: Path) -> None:
    """Installs the version before as the pages say, and starts it."""
    if site.daemon.child is not None:
        await site.stop()
    words = ("install", "--cluster-id", site.name, "--kubeconfig", str(site.kubeconfig))
    await trio.to_thread.run_sync(former.command, version, *words)
    site.daemon.program, site.daemon.packages = former.PROGRAM, version
    await site.start()


async def become_new(site: Site) -> None:
    """Upgrades a cluster as the pages say."""
    await site.liqod("install")
    await site.stop()
    site.daemon.program, site.daemon.packages = ("-m", "liqod"), None
    await site.start()


def pod(name: str) -> dict[str, Any]:
    """A pod that goes to a peer also while a daemon begins, and its webhook is not called."""
    spec = {
        "containers": [{"name": "web", "image": "web"}],
        "nodeSelector": {labels.TYPE: labels.VIRTUAL_NODE_TYPE},
        "tolerations": [{"operator": "Exists"}],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def uids(consumer: Site, provider: Site, *names: str) -> dict[str, str]:
    """The UIDs of a consumer's pods as they run at a provider, once all run and are ready here."""
    found: dict[str, str] = {}

    async def run() -> bool:
        for name in names:
            ours = await consumer.admin.get(PODS, name, SHOP)
            try:
                theirs = await provider.admin.get(PODS, name, f"{SHOP}-{consumer.name}")
            except NotFound:
                return False
            found[name] = theirs["metadata"]["uid"]
            if ours.get("status", {}).get("phase") != "Running":
                return False
        return True

    await eventually(run, seconds=60)
    return found


async def lend(consumer: Site, provider: Site) -> None:
    """Peers them, and offloads a namespace."""
    user = await provider.user_for(consumer.name)
    await consumer.liqod("peer", "--remote-kubeconfig", str(user))
    await consumer.admin.create(NAMESPACES, {"metadata": {"name": SHOP}})
    await consumer.liqod("offload", "namespace", SHOP, "--pod-offloading-strategy", "Remote")


async def start_pod(consumer: Site, name: str) -> None:
    await consumer.admin.create(PODS, pod(name), SHOP)


@pytest.mark.parametrize("side", ["consumer", pytest.param("provider", marks=pytest.mark.install)])
async def test_pods_run_on_beside_the_version_before_through_an_upgrade_and_back(
    version_before: Path, tmp_path: Path, side: str
) -> None:
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        changing, other = (rome, milan) if side == "consumer" else (milan, rome)
        await other.start()
        await become_former(changing, version_before)
        await lend(rome, milan)
        await start_pod(rome, "one")
        first = await uids(rome, milan, "one")

        await become_new(changing)
        await start_pod(rome, "two")
        second = await uids(rome, milan, "one", "two")
        assert first.items() <= second.items(), "an upgrade ends no pod"

        await become_former(changing, version_before)
        await start_pod(rome, "three")
        third = await uids(rome, milan, "one", "two", "three")
        assert second.items() <= third.items(), "nor does the way back"
        [node] = [
            each for each in await rome.admin.list(NODES) if "milan" in each["metadata"]["name"]
        ]
        ready = {each["type"]: each["status"] for each in node["status"]["conditions"]}["Ready"]
        assert ready == "True"
