"""What an earlier program left of the gateway that a node was, and who ends it."""

import trio

from liqod.errors import NetworkError
from liqod.network.overlay import agent as agents
from tests.simulated.addressed import until
from tests.simulated.network.test_node_agent import SPEC, make, two


class Left:
    """An earlier program's tunnels, which do not go for the first times that it is asked."""

    def __init__(self, busy: int = 0) -> None:
        self.busy = busy
        self.asked: list[str] = []

    async def end(self, cluster: str) -> list[str]:
        self.asked.append(cluster)
        if len(self.asked) <= self.busy:
            raise NetworkError("it is busy")
        return ["link liqod-1 deleted"]


async def test_tunnels_that_an_earlier_program_left_are_ended_once_no_daemon_came():
    left = Left(busy=2)
    async with two(end_left=left.end) as node:
        await node.applied(1)
        await trio.sleep(agents.DIALLED - 1)
        assert left.asked == [], "a daemon that stands by may yet order them"

        await trio.sleep(1 + 6 * agents.RETRY)
        assert left.asked == [SPEC["cluster"]] * (left.busy + 1)


async def test_tunnels_that_this_program_was_ordered_are_ended_by_itself():
    left = Left()
    async with two(ordered=True, end_left=left.end) as node:
        await node.applied(1)
        await node.says("Applied", "Applied")
        await trio.sleep(agents.DIALLED + 2 * agents.RETRY)
        assert left.asked == []


async def test_the_gateway_keeps_its_own():
    left = Left()
    async with two(made=False, end_left=left.end) as node:
        gateway = {**SPEC["gateway"], "node": "two", "index": 2}
        await make(node.client, gateway=gateway)

        async def stands_back() -> bool | None:
            return True if any("this is the gateway" in state for state, _ in node.states) else None

        await until(stands_back)
        await trio.sleep(agents.DIALLED + 2 * agents.RETRY)
        assert left.asked == []
