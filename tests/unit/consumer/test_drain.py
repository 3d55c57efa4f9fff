"""The reason that blocks a drain is one sentence."""

from typing import Any

from liqod.consumer.nodes import nodedrain
from liqod.kube.failures import EvictionBlocked
from tests.unit.model.test_disruption import GONE, pod


class Server:
    """Evicts, or has a budget in the way."""

    def __init__(self, blocked: str = "") -> None:
        self.blocked = blocked
        self.evicted: list[str] = []
        self.asked = 0

    async def create_subresource(self, kind: Any, name: str, *what: Any, decode: Any) -> None:
        self.asked += 1
        if self.blocked:
            raise EvictionBlocked(self.blocked)
        self.evicted.append(name)


async def test_those_that_wait_for_others_are_counted():
    server: Any = Server()
    text, sizes = await nodedrain.advance(server, [pod("a"), pod("b"), pod("c")], [GONE], {})
    assert server.evicted == ["a"]
    assert text == "2 pods wait until what replaces others is ready"
    assert sizes["rs"].pods == 3


async def test_a_budget_is_named_before_them():
    server: Any = Server("the disruption budget web needs 3 healthy pods")
    text, _ = await nodedrain.advance(server, [pod("a"), pod("b"), pod("c")], [GONE], {})
    assert text == ("pod shop/a may not be evicted: the disruption budget web needs 3 healthy pods")


async def test_nothing_is_in_the_way_of_the_last():
    server: Any = Server()
    assert (await nodedrain.advance(server, [pod("a")], [GONE], {}))[0] == ""


async def test_a_budget_that_is_used_up_is_not_asked_for_each_of_hundreds():
    server: Any = Server("the disruption budget web needs 500 healthy pods")
    await nodedrain.advance(server, [pod(str(number)) for number in range(500)], [GONE], {})
    assert server.asked == nodedrain.REFUSALS
    others = [pod(str(number), controller=str(number)) for number in range(5)]
    await nodedrain.advance(server, others, [GONE], {})
    assert server.asked == nodedrain.REFUSALS + 5
