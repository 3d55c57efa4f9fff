"""Three daemons: pods of one Service at home and at two peers, which find each other by name."""

from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, PODS, SERVICES
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.plugins import loader
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import SETTINGS, Member, served
from tests.simulated.prepared import installed

ROUTED = f'{SETTINGS}[peer_defaults]\npod_network = "routed"\npod_cidrs = ["10.0.0.0/8"]\n'
PERMITS = ROUTED + 'direct_connections = ["turin", "milan"]\n'


@asynccontextmanager
async def clusters():
    """Rome, which offloads to milan and turin; these have peered with each other."""
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        enter, found = stack.enter_async_context, []
        for number, name in enumerate(("rome", "milan", "turin")):
            cluster = await enter(
                EmbeddedCluster(
                    name,
                    nodes=1,
                    pod_cidr=f"10.{30 + number}.0.0/16",
                    start_delay=0.05,
                    state=await installed(name),
                )
            )
            admin = await enter(Client(from_kubeconfig(cluster.kubeconfig)))
            text = ROUTED if name == "rome" else PERMITS
            more = {"settings": text, "plugins": loader.load(sources=loader.built_in())}
            found.append(await enter(served(name, cluster, admin, nursery, **more)))
        yield found
        nursery.cancel_scope.cancel()


async def member_at(rome: Member, name: str, node: str) -> None:
    """A member of the StatefulSet `db`, at a node."""
    spec: dict[str, Any] = {
        "nodeName": node,
        "hostname": name,
        "subdomain": "db",
        "containers": [{"name": "db", "image": "db"}],
        "tolerations": [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}],
    }
    meta = {"name": name, "labels": {"app": "db"}}
    await rome.admin.create(PODS, {"metadata": meta, "spec": spec}, "shop")


async def finds(where: Member, wanted: dict[str, str], namespace: str = "shop-rome") -> None:
    """Waits until clients there find these members, each once, in their clusters' ranges."""

    async def look() -> bool:
        of_it = Selection(namespace, labels="kubernetes.io/service-name=db")
        found = [
            (endpoint.get("hostname"), endpoint["addresses"][0])
            for each in await where.admin.list(ENDPOINT_SLICES, of_it)
            for endpoint in each.get("endpoints") or ()
            if endpoint["conditions"]["ready"]
        ]
        return {(name, address.split(".")[1]) for name, address in found} == set(
            wanted.items()
        ) and len(found) == len(wanted)

    await eventually(look)


@pytest.mark.long
async def test_members_of_a_set_at_two_peers_find_all_of_it_by_name():
    async with clusters() as [rome, milan, turin]:
        for provider in (milan, turin):
            await rome.peer(provider)
        await milan.peer(turin)
        await turin.peer(milan)
        await offload(rome.admin, "shop")
        for provider in (milan, turin):
            await provider.until(NAMESPACES, "shop-rome", None, bool)
            await rome.until(NODES, provider.id, None, bool)
        service = {
            "metadata": {"name": "db"},
            "spec": {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 5432}]},
        }
        await rome.admin.create(SERVICES, service, "shop")
        own = next(
            each["metadata"]["name"]
            for each in await rome.admin.list(NODES)
            if each["metadata"]["name"] not in ("milan", "turin")
        )
        for name, node in (("db-0", own), ("db-1", "milan"), ("db-2", "turin")):
            await member_at(rome, name, node)
        everybody = {"db-0": "30", "db-1": "31", "db-2": "32"}
        await finds(rome, everybody, "shop")
        await finds(milan, {"db-0": "30", "db-1": "31"})
        await finds(turin, {"db-0": "30", "db-2": "32"})
        notes = {"metadata": {"annotations": {"liqo.io/use-direct-connections": "true"}}}
        await rome.admin.patch(SERVICES, "db", notes, "shop")
        await finds(milan, everybody)
        await finds(turin, everybody)
        # A daemon that is begun anew changes nothing, and goes on.
        await milan.stop()
        await milan.start()
        await finds(milan, everybody)
        await rome.admin.delete(PODS, "db-2", "shop")
        await finds(milan, {"db-0": "30", "db-1": "31"})
