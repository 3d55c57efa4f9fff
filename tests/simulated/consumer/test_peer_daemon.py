"""A provider whose daemon dies while its API server answers: seen by its Lease, and undone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NODES, PODS
from liqod.consumer.nodes import pendingpods
from liqod.consumer.timings import ConsumerTimings
from liqod.model.peering.freecapacity import read
from liqod.plugins import loader
from liqod.provider.slices.freenodes import FreeNodes
from liqod.provider.timings import ProviderTimings
from liqod.resources import FOREIGN_CLUSTERS, RESOURCE_SLICES
from tests.simulated.borrower import Json, condition, offload
from tests.simulated.members import AT_MILAN, SETTINGS, Member, members

TOLD = "8"
"""CPUs of milan's node."""
SHUT = {"key": labels.CLOSED_TAINT, "value": "true", "effect": "NoSchedule"}


def daemon_of(node):
    return condition(node, labels.PEER_DAEMON_READY).get("status"), SHUT in node["spec"]["taints"]


@pytest.mark.long
async def test_new_pods_are_kept_from_it_until_it_is_back():
    often = ConsumerTimings(probe_every=0.2, peer_daemon_every=0.5, silent_after=4.0)
    async with members("rome", "milan", leads=True, consumer_timings=often) as [rome, milan]:
        await rome.peer(milan)
        await rome.until(NODES, "milan", None, lambda node: daemon_of(node) == ("True", False))
        noted = {labels.PEER_DAEMON: "true"}
        await rome.until(
            *(FOREIGN_CLUSTERS, "milan", None),
            lambda found: noted.items() <= found["metadata"]["annotations"].items(),
        )
        await milan.stop()
        node = await rome.until(NODES, "milan", None, lambda node: daemon_of(node)[0] == "False")
        assert condition(node, "Ready")["status"] == "True", "what runs there stays"
        await rome.until(NODES, "milan", None, lambda node: daemon_of(node) == ("False", True))
        await rome.until(
            *(FOREIGN_CLUSTERS, "milan", None),
            lambda found: (
                "renewed at" in found["metadata"]["annotations"][labels.PEER_DAEMON]
                or "stopped at" in found["metadata"]["annotations"][labels.PEER_DAEMON]
            ),
        )
        await rome.stop()
        await rome.start()
        await trio.sleep(1)
        node = await rome.admin.get(NODES, "milan")
        assert daemon_of(node) == ("False", True), "a daemon that begins anew keeps it"
        await milan.start()
        await rome.until(NODES, "milan", None, lambda node: daemon_of(node) == ("True", False))


@asynccontextmanager
async def tellers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Member]]:
    """Rome, and milan with one node, which tells that its 8 CPUs are free."""
    monkeypatch.setattr(pendingpods, "SETTLES", 1.5)
    often = ConsumerTimings(
        probe_every=0.2,
        peer_daemon_every=0.5,
        silent_after=4.0,
        waiting_every=0.2,
        sent_pause=0.2,
    )
    more: dict[str, Any] = {
        "settings": SETTINGS + "[provider]\nshow_free = true\n",
        "timings": ProviderTimings(free_every=0.3),
        "nodes": 1,
        "plugins": loader.load(sources=loader.built_in()),
    }
    async with members("rome", "milan", leads=True, consumer_timings=often, **more) as made:
        rome, milan = made
        await rome.peer(milan, resources={"cpu": "64", "memory": "8Gi", "pods": "50"})
        await offload(rome.admin, "shop", podOffloadingStrategy="Remote")
        await rome.until(NODES, "milan", None, lambda node: shows(node, TOLD))
        yield made


async def send(rome: Member, name: str, cpu: str) -> None:
    """Make a pod on milan's virtual node."""
    spec = {
        "nodeName": "milan",
        "tolerations": [{"key": labels.VIRTUAL_NODE_TAINT, "operator": "Exists"}],
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
    }
    await rome.admin.create(PODS, {"metadata": {"name": name}, "spec": spec}, "shop")


@pytest.mark.long
@pytest.mark.placement
async def test_its_last_word_on_free_room_includes_nothing_that_was_sent_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with tellers(monkeypatch) as [rome, milan]:
        await milan.stop()
        await send(rome, "web", "5")
        await rome.until(NODES, "milan", None, lambda node: daemon_of(node) == ("False", True))
        await trio.sleep(3)
        assert shows(await rome.admin.get(NODES, "milan"), TOLD), "three are left, and no eight"
        await rome.stop()
        await rome.start()
        await trio.sleep(10)  # for it to know that milan is silent, and to count
        assert shows(await rome.admin.get(NODES, "milan"), TOLD)
        assert daemon_of(await rome.admin.get(NODES, "milan")) == ("False", True)
        await milan.start()
        await rome.until(NODES, "milan", None, lambda node: daemon_of(node) == ("True", False))
        await trio.sleep(3)
        assert shows(await rome.admin.get(NODES, "milan"), TOLD)


@pytest.mark.long
@pytest.mark.placement
async def test_a_word_that_counts_fewer_pods_than_run_there_includes_nothing_that_was_sent_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with tellers(monkeypatch) as [rome, milan]:
        await send(rome, "web", "1")
        await milan.until(RESOURCE_SLICES, "milan", AT_MILAN, lambda found: counts(found) == "1")
        # Its daemon leads, and counts nothing any more, as when its watch of pods hangs.
        monkeypatch.setattr(FreeNodes, "refresh", lambda *_: None)
        await send(rome, "late", "5")
        await rome.until(PODS, "late", "shop", lambda pod: pod["status"]["phase"] == "Running")
        await trio.sleep(10)
        [slice_] = await milan.admin.list(RESOURCE_SLICES)
        assert counts(slice_) == "1"
        assert daemon_of(await rome.admin.get(NODES, "milan")) == ("True", False)
        assert shows(await rome.admin.get(NODES, "milan"), TOLD)


def counts(found: Json) -> str | None:
    """The number of pods that a slice says it counts."""
    told = read(found["metadata"].get("annotations", {}).get(labels.FREE_CAPACITY))
    return None if told is None else told.counted.get("pods")


def shows(node: Json, cpu: str) -> bool:
    return bool(node["status"]["allocatable"]["cpu"] == cpu)


@pytest.mark.long
@pytest.mark.placement
async def test_a_peer_that_does_not_show_its_daemon_has_neither_condition_nor_taint():
    often = ConsumerTimings(probe_every=0.1)
    # No Lease, as with Liqo.
    async with members("rome", "milan", consumer_timings=often) as [rome, milan]:
        await rome.peer(milan)
        await trio.sleep(1)
        assert daemon_of(await rome.admin.get(NODES, "milan")) == (None, False)
        assert rome.components.peers["milan"].link.daemon.verdict.state == "untold"
        assert await milan.admin.find(LEASES, labels.LEADER_LEASE, "liqo") is None
