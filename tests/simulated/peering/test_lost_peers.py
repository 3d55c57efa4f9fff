"""A peer whose API server is stopped for a while, or is gone and left.

While it lasts: the node is NotReady, the ForeignCluster and `status` say why, one Event and a few
log lines report it, and no pod is lost. Afterwards all is as before, by itself.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import DEPLOYMENTS, EVENTS, NAMESPACES, NODES, PODS
from liqod.kube.selection import Selection
from liqod.model.peering.intervals import FROZEN_WITHIN
from liqod.resources import FOREIGN_CLUSTERS
from tests.simulated.borrower import Json, condition, eventually
from tests.simulated.meeting import lead, run
from tests.simulated.members import Member
from tests.simulated.shops import (
    CONTAINER,
    PATIENCE,
    SHOP,
    THERE,
    is_ready,
    open_shop,
    pods_of,
    ready_pods,
    settled,
    uids,
)

pytestmark = pytest.mark.long

STOPPED = 5.0
"""Seconds within which a server that is gone is noticed."""
UNPEER = 10.0
"""Seconds that `unpeer` may take where the peer is gone."""
FEW = 20
"""Lines that an outage may cost a daemon, its end included; it has dozens of watches."""
FALTERS = 2
"""Events that an outage may cost: an API server that has just started may falter once more."""


async def lost(rome: Member) -> int:
    """How many Events say that milan does not answer."""
    found = await rome.admin.list(EVENTS, Selection("default"))
    about = [each for each in found if each["involvedObject"]["name"] == "milan"]
    return len([each for each in about if each["reason"] == "PeerUnreachable"])


async def status(rome: Member, folder: Path, *words: str) -> str:
    """What `liqod status` prints."""
    return " ".join((await run(rome, folder, "status", *words)).out.split())


def has_api(verdict: str) -> Callable[[Json], bool]:
    """True of a ForeignCluster that says that of its API server."""
    return lambda found: bool(condition(found, "APIServerStatus").get("status") == verdict)


async def noticed(rome: Member, seconds: float) -> None:
    """Wait until the node is NotReady, and everything says why."""
    began = trio.current_time()
    found = await rome.until(NODES, "milan", None, lambda node: not is_ready(node))
    assert trio.current_time() - began < seconds
    assert condition(found, "Ready")["reason"] == "PeerUnreachable"
    await rome.until(FOREIGN_CLUSTERS, "milan", None, has_api("Error"))


async def withdrawn(rome: Member) -> None:
    """Wait until no pod at milan is Ready any more: nothing but its API server reports them."""
    await eventually(lambda: ready_pods(rome, SHOP), lambda found: not found, seconds=10)
    for each in (await pods_of(rome, SHOP)).values():
        assert condition(each, "Ready")["reason"] == "RemoteUnavailable"


async def back(rome: Member, number: int) -> None:
    """Wait until all is as before."""
    await rome.until(NODES, "milan", None, is_ready)
    await settled(rome, SHOP, number)
    await rome.until(FOREIGN_CLUSTERS, "milan", None, has_api("Established"))


@pytest.mark.parametrize("way", ["stopped", "frozen"])
async def test_for_half_a_minute(
    way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "liqod")
    async with open_shop("milan", replicas=3) as [rome, milan]:
        await rome.nursery.start(lead, rome)
        here, there = await uids(rome, SHOP), await uids(milan, THERE)
        events, began = await lost(rome), time.time()
        caplog.clear()
        if way == "stopped":
            await milan.cluster.stop()
        else:
            milan.cluster.faults.freeze()
        await noticed(rome, STOPPED if way == "stopped" else FROZEN_WITHIN + STOPPED)
        await withdrawn(rome)
        shown = await status(rome, tmp_path, "milan")
        assert "its API server does not answer" in shown
        assert "virtual node milan" in shown
        assert "0/3" in shown
        # What is asked of it meanwhile waits; what runs locally is not concerned.
        await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, SHOP)
        beside = {"metadata": {"name": "beside"}, "spec": {"containers": [CONTAINER]}}
        await rome.admin.create(PODS, beside, "default")
        await eventually(lambda: ready_pods(rome, "default"), lambda found: found == {"beside"})
        await trio.sleep(max(0.0, 30 - (time.time() - began)))
        assert (await uids(rome, SHOP)).items() >= here.items()
        if way == "stopped":
            await milan.cluster.start()
        else:
            milan.cluster.faults.thaw()
        await back(rome, 5)
        assert (await uids(rome, SHOP)).items() >= here.items()
        assert (await uids(milan, THERE)).items() >= there.items()
        assert events < await lost(rome) <= events + FALTERS
        lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.INFO]
        assert len(lines) <= 2 * FEW, "\n".join(lines)
        await trio.sleep(60)
        shown = await status(rome, tmp_path, "milan")
        assert "its API server does not answer" not in shown
        assert "5/5" in shown


async def test_gone_for_ever_and_left(tmp_path: Path) -> None:
    async with open_shop("milan", replicas=3) as [rome, milan]:
        await rome.nursery.start(lead, rome)
        await milan.cluster.stop()
        await noticed(rome, STOPPED)
        with trio.fail_after(UNPEER):
            assert not (await rome.unpeer(milan)).complete
        assert await rome.admin.find(NODES, "milan") is None

        # The pods wait for a node again: milan's is no more, and their class admits no other.
        def waiting(found: dict[str, Json]) -> bool:
            return [each["spec"].get("nodeName") for each in found.values()] == [None] * 3

        await eventually(lambda: pods_of(rome, SHOP), waiting, seconds=PATIENCE)
        assert "leaving" in await status(rome, tmp_path)
        await milan.cluster.start()
        await rome.gone(FOREIGN_CLUSTERS, "milan")
        await milan.gone(NAMESPACES, THERE)
