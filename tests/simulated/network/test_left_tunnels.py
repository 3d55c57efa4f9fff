"""What an earlier program left of the gateway that a node was, and who ends it."""

import trio

from liqod.network.overlay import agent as agents
from tests.simulated.borrower import eventually
from tests.simulated.network.test_node_agent import SPEC, Tunnels, make, two


async def test_tunnels_that_an_earlier_program_left_are_ended_once_no_daemon_came():
    left = Tunnels(busy=2)
    async with two(tunnels=left) as node:
        await node.applied(1)
        await trio.sleep(agents.DIALLED - 1)
        assert left.asked == [], "a daemon that stands by may yet order them"

        await trio.sleep(1 + 6 * agents.RETRY)
        assert left.asked == [SPEC["cluster"]] * (left.busy + 1)


async def test_tunnels_that_this_program_was_ordered_are_ended_by_itself():
    left = Tunnels(ordered=True)
    async with two(tunnels=left) as node:
        await node.applied(1)
        await node.says("Applied", "Applied")
        await trio.sleep(agents.DIALLED + 2 * agents.RETRY)
        assert left.asked == []


async def test_the_gateway_keeps_its_own():
    left = Tunnels()
    async with two(made=False, tunnels=left) as node:
        gateway = {**SPEC["gateway"], "node": "two", "index": 2}
        await make(node.client, gateway=gateway)
        await eventually(lambda: any("this is the gateway" in state for state, _ in node.states))
        await trio.sleep(agents.DIALLED + 2 * agents.RETRY)
        assert left.asked == []
