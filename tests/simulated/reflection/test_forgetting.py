"""Memory of removed objects is released: a daemon does not grow over months."""

from collections.abc import Awaitable, Callable, Set
from functools import partial
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS, SECRETS, SERVICES
from liqod.consumer.webhook.missedpods import MissedPods
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.inspect.inspector import Inspector
from liqod.kube.selection import Selection
from liqod.plugins import loader
from liqod.resources import NAMESPACE_OFFLOADINGS, RESOURCE_SLICES, VIRTUAL_NODES
from liqod.runtime.account import Account
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import SETTINGS, Member, members
from tests.simulated.reflection.remembered import holders

NAME = "bazaar"
THERE = f"{NAME}-rome"
BOUNDED = {"CertificateIssuer._signed", "KeyedQueue._heap", "Seldom._logged_at"}
"""Held until the next is signed, or until there are some more of them."""
LINGERS = {"Context._names", "Context.unmapped", "KeyedQueue._due"}
"""Held for some seconds after the last pod of a namespace, or until another is mapped."""
PODS_OF_IT = ("stall-runs", "stall-ends")
DATA = ((CONFIG_MAPS, "stall-conf"), (SECRETS, "stall-key"), (SERVICES, "stall-web"))
QUIET = f"{SETTINGS}[inspector]\nenabled = false\n"


@pytest.mark.long
async def test_nothing_is_kept_of_a_namespace_or_a_peer_that_went(nursery):
    plugins = loader.load(sources=loader.built_in())
    others = holders("milan") | holders("rome")  # of tests before this one
    async with members("rome", "milan", plugins=plugins, settings=QUIET) as [rome, milan]:
        for each in (rome, milan):
            await nursery.start(Inspector(each.context, each.components, each.host, Account()).run)
            await nursery.start(
                MissedPods(each.context, PodWebhook(each.context, Account()).doubt).run
            )
        await rome.peer(milan)
        await lend_and_take_back(rome, milan)
        await forgotten("booth")

        await map_namespace(rome, milan)
        await fill(rome, milan)
        await clear(rome)
        await forgotten("stall-")
        await fill(rome, milan)
        assert {"IndexedStore._namespaces", "Context.namespaces"} <= holders(NAME)
        await empty(rome, milan)
        await forgotten(NAME, but=LINGERS)

        await rome.unpeer(milan)
        await milan.unpeer(rome)
        for each, tenant in ((rome, "liqo-tenant-milan"), (milan, "liqo-tenant-rome")):
            await each.gone(NAMESPACES, tenant)
        await forgotten("milan", but=others)
        await forgotten("rome", but=others)


async def forgotten(text: str, but: Set[str] = frozenset()) -> None:
    """Wait until nobody (else) holds anything under such a name; says who does."""
    left: set[str] = set()

    async def look() -> bool:
        nonlocal left
        await trio.sleep(0.5)
        left = holders(text) - BOUNDED - but
        return not left

    try:
        await eventually(look, seconds=20)
    except trio.TooSlowError:
        raise AssertionError(f"still held under a name with {text}: {sorted(left)}") from None


async def lend_and_take_back(rome: Member, milan: Member) -> None:
    """A slice beside the one that there is, and its node."""
    tenant, name = "liqo-tenant-milan", "booth"
    (other,) = await rome.admin.list(RESOURCE_SLICES, Selection(tenant))
    marks = {key: other["metadata"][key] for key in ("labels", "annotations")}
    wanted = {"metadata": {"name": name, **marks}, "spec": other["spec"]}
    await rome.admin.create(RESOURCE_SLICES, wanted, tenant)
    await rome.until(NODES, name, None, lambda found: True)
    await rome.admin.delete(RESOURCE_SLICES, name, tenant)
    await rome.admin.delete(VIRTUAL_NODES, name, tenant)
    for kind, namespace in ((NODES, None), (VIRTUAL_NODES, tenant), (RESOURCE_SLICES, tenant)):
        await rome.gone(kind, name, namespace)
    await milan.gone(RESOURCE_SLICES, name, "liqo-tenant-rome")


async def map_namespace(rome: Member, milan: Member) -> None:
    """Offload it, where somebody at milan has a ConfigMap of a name that is wanted."""
    await offload(rome.admin, NAME)
    await eventually(lambda: milan.admin.find(NAMESPACES, THERE))
    foreign: dict[str, Any] = {"metadata": {"name": "stall-taken"}, "data": {"whose": "milan's"}}
    await milan.admin.create(CONFIG_MAPS, foreign, THERE)


async def fill(rome: Member, milan: Member) -> None:
    """Work in all states, and what milan does not take."""
    for name in ("stall-taken", "stall-conf"):
        await rome.admin.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {}}, NAME)
    await rome.admin.create(SECRETS, {"metadata": {"name": "stall-key"}}, NAME)
    spec: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    await rome.admin.create(SERVICES, {"metadata": {"name": "stall-web"}, "spec": spec}, NAME)
    for name in PODS_OF_IT:
        await rome.admin.create(PODS, pod(name), NAME)
        await eventually(there(milan, name))
        await become(milan, name, "Running")
    await become(milan, "stall-ends", "Succeeded")
    for name, phase in zip(PODS_OF_IT, ("Running", "Succeeded"), strict=True):
        await rome.until(PODS, name, NAME, partial(is_at, phase))
    for kind, name in DATA:
        await milan.until(kind, name, THERE, lambda found: True)


async def clear(rome: Member) -> None:
    """Delete all of that, and leave the namespace."""
    for kind, name in ((CONFIG_MAPS, "stall-taken"), *DATA, *((PODS, pod) for pod in PODS_OF_IT)):
        await rome.admin.delete(kind, name, NAME)
    for name in PODS_OF_IT:
        await rome.gone(PODS, name, NAME)


async def empty(rome: Member, milan: Member) -> None:
    """Bring it back while all of that is in it, then delete it."""
    await rome.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", NAME)
    await milan.gone(NAMESPACES, THERE)
    await rome.gone(NAMESPACE_OFFLOADINGS, "offloading", NAME)
    await rome.admin.delete(NAMESPACES, NAME)
    for name in PODS_OF_IT:
        await rome.gone(PODS, name, NAME)
    await rome.gone(NAMESPACES, NAME)


def is_at(phase: str, pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["phase"] == phase)


def pod(name: str) -> dict[str, Any]:
    tolerated = [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}]
    containers = [{"name": "web", "image": "web"}]
    spec = {"nodeName": "milan", "containers": containers, "tolerations": tolerated}
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}


def there(milan: Member, name: str) -> Callable[[], Awaitable[Any]]:
    return lambda: milan.admin.find(PODS, name, THERE)


async def become(milan: Member, name: str, phase: str) -> None:
    """Be milan's kubelet."""
    status = {"status": {"phase": phase}}
    await milan.admin.patch(PODS, name, status, THERE, subresource="status")
