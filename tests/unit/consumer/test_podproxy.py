"""The way to the pods of a peer: where they are, and what becomes of streams when it is lost."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from liqod.consumer.nodes.podproxy import OffloadedPods, PodProxies, PodProxy
from liqod.errors import NotFound, Overloaded, Unreachable
from simulator.trial import Switch


class World:
    """A peer with one node, a namespace that is there, and two identities."""

    def __init__(self) -> None:
        self.link = Switch()
        self.proxy = ""
        self.proxies = PodProxies()
        node = SimpleNamespace(slice="fast")
        self.identities: dict[str, Any] = {"fast": "a", "slow": "b"}
        accepted = {"shop": "shop-rome"}
        nodes = {"milan": cast("Any", node)}
        offloaded = OffloadedPods(lambda: nodes, lambda: accepted, lambda: None)
        peer = SimpleNamespace(id="milan", link=self.link)
        self.way = PodProxy(cast("Any", peer), cast("Any", self), offloaded, self.proxies)

    def slice(self, name: str) -> Any:
        found = self.identities.get(name)
        return found and SimpleNamespace(client=found, credentials=self)

    def any_slice(self) -> Any:
        return self.slice(next(iter(self.identities), ""))


async def test_it_leads_with_the_identity_of_the_nodes_slice(nursery: trio.Nursery) -> None:
    world = World()
    await nursery.start(world.way.run)
    assert world.proxies == {"milan": world.way}
    assert world.way.has("milan")
    assert not world.way.has("turin")
    assert tuple(world.way.resolve("milan", "shop")) == ("a", "shop-rome")
    del world.identities["fast"]
    assert tuple(world.way.resolve("milan", "shop")) == ("b", "shop-rome")
    with pytest.raises(NotFound):
        world.way.resolve("milan", "other")
    world.identities.clear()
    with pytest.raises(NotFound):
        world.way.resolve("milan", "shop")
    world.link.set(False, "it is gone")
    with pytest.raises(Unreachable, match="it does not answer: it is gone"):
        world.way.resolve("milan", "shop")


@pytest.mark.parametrize(("proxy", "most"), [("", 1024), ("liqod://milan:6446", 256)])
async def test_there_are_so_many_at_once(nursery: trio.Nursery, proxy: str, most: int) -> None:
    world = World()
    world.proxy = proxy
    await nursery.start(world.way.run)
    world.way.streams = most
    world.way.resolve("milan", "shop")
    world.way.streams = most + 1
    with pytest.raises(Overloaded, match=f"{most} streams"):
        world.way.resolve("milan", "shop")


async def test_what_is_open_ends_with_the_way(nursery: trio.Nursery) -> None:
    world = World()
    closed: list[str] = []
    await nursery.start(world.way.run)
    await trio.testing.wait_all_tasks_blocked()
    with world.way.hold(lambda: closed.append("first")):
        world.link.set(True, "its API server answers, in-band")
        await trio.testing.wait_all_tasks_blocked()
        assert closed == []
        world.link.reconnections += 1  # found again, by another way
        world.link.set(True, "its API server answers")
        await trio.testing.wait_all_tasks_blocked()
        assert closed == ["first"]
    with world.way.hold(lambda: closed.append("second")):
        pass
    with world.way.hold(lambda: closed.append("third")):
        world.link.set(False, "it is gone")
        await trio.testing.wait_all_tasks_blocked()
        assert closed == ["first", "third"]
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
        assert closed == ["first", "third", "third"]
        assert world.proxies == {}
