"""An exchange and its replica, which are written at the same time, and what fails in between."""

import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.errors import Unreachable
from liqod.kube.client import Client
from liqod.resources.exchanges import SERVICE_EXCHANGES
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import (
    both,
    export,
    imported,
    sharing,
    until_backends,
)

pytestmark = [pytest.mark.long, pytest.mark.clusterset]


class Gate:
    """Holds what rome writes of its own exchanges, or refuses it, and counts all such writes."""

    def __init__(self, monkeypatch):
        self.free = trio.Event()
        self.free.set()
        self.broken = False
        self.writes = {"rome": 0, "milan": 0}
        """By the cluster that is written to."""
        before = Client.patch

        async def patch(client, kind, name, change, namespace=None, **how):
            if kind == SERVICE_EXCHANGES and not how.get("subresource"):
                place = "rome" if namespace == "liqo-tenant-milan" else "milan"
                self.writes[place] += 1
                if place == "rome":
                    await self.free.wait()
                    if self.broken:
                        raise Unreachable("the API server is away")
            return await before(client, kind, name, change, namespace, **how)

        monkeypatch.setattr(Client, "patch", patch)


async def exported(rome, milan):
    await both(rome, milan)
    await export(rome, "10.71.0.1")
    await imported(milan, "rome")
    await until_backends(milan, {"rome": {"10.71.0.1": True}})
    await trio.sleep(5)


async def move(rome, number):
    moved = {"endpoints": [{"addresses": [f"10.71.0.{number}"], "conditions": {"ready": True}}]}
    await rome.admin.patch(ENDPOINT_SLICES, "web-1", moved, "shop")


async def told(who):
    (found,) = await who.admin.list(SERVICE_EXCHANGES)
    return found["spec"]["exports"]["web"]


async def agree(rome, milan):
    """Wait until the exchange and its replica say the same, and go on to."""

    async def same():
        return await told(rome) == await told(milan)

    await eventually(same)
    await trio.sleep(5)
    assert await same()


async def test_a_replica_is_written_beside_its_source_and_each_once(monkeypatch):
    gate = Gate(monkeypatch)
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        gate.writes.update(rome=0, milan=0)
        gate.free = trio.Event()
        await move(rome, 2)
        await until_backends(milan, {"rome": {"10.71.0.2": True}})
        assert "10.71.0.1" in await told(rome)
        gate.free.set()
        await agree(rome, milan)
        assert "10.71.0.2" in await told(rome)
        assert gate.writes == {"rome": 1, "milan": 1}
        await trio.sleep(600)
        assert gate.writes == {"rome": 1, "milan": 1}


async def test_a_replica_whose_watch_is_late_is_not_written_twice(monkeypatch):
    gate = Gate(monkeypatch)
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        gate.writes.update(rome=0, milan=0)
        late = Fault(verb="watch", path="/liqo-tenant-rome/serviceexchanges", delay=3)
        with milan.cluster.faults.during(late):
            milan.cluster.faults.cut_watches()
            await trio.sleep(1)
            await move(rome, 2)
            await trio.sleep(10)
        assert late.hits
        assert "10.71.0.2" in await told(milan)
        assert gate.writes == {"rome": 1, "milan": 1}
        await agree(rome, milan)


async def test_a_replica_ends_as_its_source_that_is_not_written(monkeypatch):
    gate = Gate(monkeypatch)
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        gate.writes.update(rome=0, milan=0)
        gate.broken = True
        await move(rome, 2)
        await trio.sleep(30)
        assert gate.writes["rome"] > 3
        assert gate.writes["milan"] <= 2  # foretold in vain, and back: not with each try
        assert "10.71.0.1" in await told(milan)
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        gate.broken = False
        await until_backends(milan, {"rome": {"10.71.0.2": True}})
        await agree(rome, milan)


async def test_a_daemon_that_is_killed_in_between_leaves_no_word_that_its_cluster_does_not_say(
    monkeypatch,
):
    gate = Gate(monkeypatch)
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        gate.free = trio.Event()
        await move(rome, 2)
        await until_backends(milan, {"rome": {"10.71.0.2": True}})
        await rome.stop()
        await move(rome, 1)
        gate.free.set()
        assert "10.71.0.1" in await told(rome)
        await rome.start()
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        await agree(rome, milan)
