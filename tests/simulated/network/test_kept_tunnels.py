"""What a keeper still has of the gateway that a node was, and who ends it."""

from liqod.network.overlay import agent as agents
from tests.simulated.addressed import until
from tests.simulated.network.test_node_agent import SPEC, make, two


class Kept:
    """A keeper beside which a daemon still is for the first times that it is asked."""

    def __init__(self, busy: int) -> None:
        self.busy = busy
        self.asked = 0

    def forsake(self) -> bool:
        self.asked += 1
        return self.asked > self.busy


async def test_tunnels_that_are_kept_where_the_gateway_was_are_ended(monkeypatch):
    kept = Kept(busy=2)
    monkeypatch.setattr(agents, "keeper", lambda: kept)
    async with two() as node:
        await node.applied(1)

        async def ended() -> bool | None:
            return True if node.kernel.left else None

        # And with them what led into them, which would swallow what is for the other gateway.
        await until(ended)
        assert kept.asked > kept.busy
        assert node.kernel.left[0] == SPEC["cluster"]


async def test_tunnels_that_this_program_was_ordered_are_ended_by_itself(monkeypatch):
    kept = Kept(busy=0)
    monkeypatch.setattr(agents, "keeper", lambda: kept)
    async with two(ordered=True) as node:
        await node.applied(1)
        await node.says("Applied", "Applied")
        assert (kept.asked, node.kernel.left) == (0, [])


async def test_the_gateway_keeps_its_own(monkeypatch):
    kept = Kept(busy=0)
    monkeypatch.setattr(agents, "keeper", lambda: kept)
    async with two(made=False) as node:
        gateway = {**SPEC["gateway"], "node": "two", "index": 2}
        await make(node.client, gateway=gateway)

        async def stands_back() -> bool | None:
            return True if any("this is the gateway" in state for state, _ in node.states) else None

        await until(stands_back)
        assert kept.asked == 0
