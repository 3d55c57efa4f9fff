"""Faults of clusters beside those in scripts, for the table of reports on them."""

from collections.abc import Awaitable, Callable

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    PODS,
)
from liqod.procedures import unpeering
from liqod.resources import NAMESPACE_OFFLOADINGS, RESOURCE_SLICES
from simulator.faults import Fault
from tests.stateful.world import SHOP, World

Act = Callable[[World], Awaitable[None]]
DAY = 86400.0


async def kill_milan(made: World) -> None:
    made["milan"].kill()


async def kill_rome(made: World) -> None:
    made["rome"].kill()


async def kill_one(made: World) -> None:
    made["milan"].kill_one()


async def replace_rome(made: World) -> None:
    made["rome"].kill()
    await made.start()


async def anew(made: World) -> None:
    """Milan is another cluster of that name, with another authority."""
    made["milan"].kill()
    await made.begin("milan")


async def days(made: World) -> None:
    """More days than certificates last, of which the providers' daemons sleep."""
    made["milan"].kill()
    made["turin"].kill()
    made.wall.start += 8 * DAY


async def leave(made: World) -> None:
    with trio.move_on_after(30):
        await unpeering.unpeer(made["rome"].admin, "milan", progress=lambda _: None)


async def drop_policy(made: World) -> None:
    admin = made["milan"].admin
    found = await admin.list(ADMISSION_POLICIES)
    await admin.delete(ADMISSION_POLICIES, found[0]["metadata"]["name"])


async def weaken(made: World) -> None:
    """The binding of a policy at milan only warns from now on."""
    weak = {"spec": {"validationActions": ["Warn"]}}
    await made["milan"].admin.patch(ADMISSION_POLICY_BINDINGS, "liqod-shadowpods", weak)
    await trio.sleep(10)


async def more(made: World) -> None:
    await ask(made, "default")


async def rename(made: World) -> None:
    other = {"data": {labels.CLUSTER_ID_FIELD: "roma"}}
    await made["rome"].hand.patch(CONFIG_MAPS, labels.CLUSTER_ID_CONFIG_MAP, other, "liqo")


async def unshown(made: World) -> None:
    """The provider shows no Lease, as Liqo: neither does its daemon take part in an election."""
    site = made["milan"]
    site.kill()
    await site.hand.delete(LEASES, labels.LEADER_LEASE, "liqo")
    site.elects = False
    await made.start()
    await kill_rome(made)
    await made.start()


async def ask(made: World, kind: str) -> None:
    marks = {
        labels.REMOTE_CLUSTER_ID: "milan",
        labels.REMOTE_ID: "milan",
        labels.REPLICATION: "true",
    }
    spec = {"class": kind, "providerClusterID": "milan", "consumerClusterID": "rome"}
    where = "liqo-tenant-milan"
    meta = {"name": "extra", "namespace": where, "labels": marks}
    whole = {"metadata": meta, "spec": {**spec, "resources": {"cpu": "1"}}}
    await made["rome"].hand.create(RESOURCE_SLICES, whole, where)


async def ask_in_vain(made: World) -> None:
    await ask(made, "gold")


async def deny(made: World) -> None:
    """Denies a slice of a class at milan, as the controller of that class does."""
    await ask(made, "gold")
    await trio.sleep(10)
    denied = {"type": "Resources", "status": "Denied", "reason": "No", "message": "too much"}
    status = {"status": {"conditions": [denied]}}
    await made["milan"].hand.patch(
        RESOURCE_SLICES, "extra", status, "liqo-tenant-rome", subresource="status"
    )


async def take_name(made: World) -> None:
    """The name of a namespace is taken at milan."""
    await made["milan"].hand.create(NAMESPACES, {"metadata": {"name": "shop2-rome"}})
    await made["rome"].hand.create(NAMESPACES, {"metadata": {"name": "shop2"}})
    offloading = {"metadata": {"name": "offloading", "namespace": "shop2"}, "spec": {}}
    await made["rome"].hand.create(NAMESPACE_OFFLOADINGS, offloading, "shop2")


async def fill(made: World) -> None:
    """More is asked for than the slice has."""
    requests = {"resources": {"requests": {"cpu": "7", "memory": "1Gi"}}}
    tolerated = [{"key": labels.VIRTUAL_NODE_TAINT, "operator": "Exists"}]
    spec = {"nodeName": "milan", "tolerations": tolerated}
    for name in ("a", "b"):
        containers = [{"name": "a", "image": "a", **requests}]
        pod = {"metadata": {"name": name}, "spec": {**spec, "containers": containers}}
        await made["rome"].hand.create(PODS, pod, SHOP)


async def refuse_pods(made: World) -> None:
    """Milan answers, and makes no ShadowPods: a webhook there is down."""
    made["milan"].cluster.faults.add(Fault(verb="create", path="shadowpods", status=500))
    await fill(made)


def answers(status: int) -> Act:
    async def act(made: World) -> None:
        faults = made["milan"].cluster.faults
        faults.add(Fault(status=status))
        faults.cut_watches()

    return act
