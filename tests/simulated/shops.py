"""A namespace ``shop`` of rome's that runs at its peers, with all that a daemon does for its pods.

Every cluster has one node. Pods that name the RuntimeClass ``liqo`` find virtual nodes by
themselves, so that only tests of where pods are placed need the webhook (:func:`shops`).
"""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod.apimachinery.kinds import DEPLOYMENTS, PODS
from liqod.consumer.webhook.missedpods import MissedPods
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.kube.selection import Selection
from liqod.plugins import loader
from liqod.resources import NAMESPACE_OFFLOADINGS
from liqod.runtime.account import Account
from tests.simulated.borrower import Json, condition, eventually, offload
from tests.simulated.members import SETTINGS as ALONE
from tests.simulated.members import Member, members

SETTINGS = '[webhook]\nport = 0\nhost = "127.0.0.1"\n'
SHOP, THERE = "shop", "shop-rome"
CONTAINER = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "10m"}}}
PATIENCE = 120.0
"""Seconds, of virtual time, for what has several ways back to be as it was."""


def pod(name: str, **spec: Any) -> Json:
    """A pod that finds a virtual node by itself."""
    whole = {"runtimeClassName": "liqo", "containers": [copy.deepcopy(CONTAINER)], **spec}
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": whole}


def deployment(replicas: int, **spec: Any) -> Json:
    """The Deployment ``web``; its pods are placed as its own spec says."""
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [copy.deepcopy(CONTAINER)], **spec},
    }
    selector = {"matchLabels": {"app": "web"}}
    whole = {"replicas": replicas, "selector": selector, "template": template}
    return {"metadata": {"name": "web"}, "spec": whole}


@asynccontextmanager
async def served(
    *peers: str, others: tuple[str, ...] = (), settings: str = ALONE, **more: Any
) -> AsyncIterator[list[Member]]:
    """Rome, which borrows from its peers, and others, from whom it does not; with reflectors."""
    plugins = loader.load(sources=loader.built_in())
    whole: dict[str, Any] = {"nodes": 1, "settings": settings, "plugins": plugins, **more}
    async with members("rome", *peers, *others, **whole) as made:
        for peer in made[1 : 1 + len(peers)]:
            await made[0].peer(peer)
        yield made


@asynccontextmanager
async def open_shop(*peers: str, replicas: int = 2, **more: Any) -> AsyncIterator[list[Member]]:
    """The same, where pods of a Deployment run in a shop of rome's that only its peers have."""
    async with served(*peers, **more) as made:
        await opened(made[0], replicas)
        yield made


async def opened(consumer: Member, replicas: int) -> None:
    """Have so many pods of a Deployment run at a consumer's peers."""
    await offload_shop(consumer, podOffloadingStrategy="Remote")
    await consumer.admin.create(DEPLOYMENTS, deployment(replicas, runtimeClassName="liqo"), SHOP)
    await settled(consumer, SHOP, replicas)


@asynccontextmanager
async def shops(
    *peers: str, settings: str = SETTINGS, **offloading: Any
) -> AsyncIterator[list[Member]]:
    """Rome with a shop that its peers have, to which a webhook sends pods."""
    async with served(others=peers, settings=settings) as made:
        rome = made[0]
        await admit(rome, rome.nursery)
        for peer in made[1:]:
            await rome.peer(peer)
        await offload_shop(rome, **{"podOffloadingStrategy": "Remote", **offloading})
        await eventually(lambda: admitted(rome))
        yield made


async def admit(rome: Member, tasks: trio.Nursery) -> None:
    """Start the webhook, and the care for pods that it missed, until these tasks end."""
    hook = PodWebhook(rome.context, Account())
    await tasks.start(hook.run)
    await tasks.start(hook.run_as_leader)
    await tasks.start(MissedPods(rome.context, hook.doubt).run)


async def offload_shop(rome: Member, **spec: Any) -> None:
    """Offload the shop, and wait until every peer that it is for has it."""
    await offload(rome.admin, SHOP, **spec)
    await rome.until(NAMESPACE_OFFLOADINGS, "offloading", SHOP, spread)


def spread(offloading: Json) -> bool:
    """True if every peer has the namespace."""
    return bool(offloading.get("status", {}).get("offloadingPhase") == "Ready")


async def admitted(rome: Member) -> bool:
    """True if the webhook is asked about pods of the shop."""
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [CONTAINER]}}
    made = await rome.admin.create_full(PODS, probe, SHOP, dry_run=True)
    return bool(made["spec"].get("affinity"))


async def pods_of(member: Member, namespace: str) -> dict[str, Json]:
    """The pods of a namespace by name, without those that are on their way out."""
    found = await member.admin.list(PODS, Selection(namespace))
    return {
        each["metadata"]["name"]: each
        for each in found
        if "deletionTimestamp" not in each["metadata"]
    }


async def uids(member: Member, namespace: str) -> dict[str, str]:
    """The UIDs of these pods, by name."""
    return {
        name: each["metadata"]["uid"] for name, each in (await pods_of(member, namespace)).items()
    }


def is_ready(found: Json) -> bool:
    """True if a Node or a pod is Ready."""
    return bool(condition(found, "Ready").get("status") == "True")


async def ready_pods(member: Member, namespace: str) -> set[str]:
    """The names of the pods of a namespace that are Ready."""
    return {name for name, each in (await pods_of(member, namespace)).items() if is_ready(each)}


async def settled(member: Member, namespace: str, number: int) -> None:
    """Wait until a namespace has exactly so many pods, and all are Ready."""

    async def look() -> bool:
        found = await member.admin.list(PODS, Selection(namespace))
        return len(found) == number and all(map(is_ready, found))

    try:
        await eventually(look, seconds=PATIENCE)
    except trio.TooSlowError:
        found = await member.admin.list(PODS, Selection(namespace))
        shown = "\n".join(f"{each['metadata']}: {each.get('status')}" for each in found)
        raise AssertionError(
            f"no {number} ready pods in {member.id}/{namespace}:\n{shown}"
        ) from None
