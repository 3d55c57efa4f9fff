"""`liqod node` of the version before beside the gateway of this one, and the way there and back.

It is marked as what may be left out: a copy of the project without git has no version before.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from tests.netns.lab import Pod
from tests.netns.nodes import Nodes, Pinging, running
from tests.netns.test_liqod_node import (  # noqa: F401 - pytest finds fixtures by these names
    THERE,
    led,
    nodes,
    ours,
    reaches,
    says,
    since,
    theirs,
)

pytestmark = [pytest.mark.long, pytest.mark.network]


async def test_a_node_is_upgraded_after_its_gateway_and_goes_back_without_a_lost_packet(
    nodes: Nodes,  # noqa: F811
    ours: Pod,  # noqa: F811
    theirs: Pod,  # noqa: F811
    version_before: Path,
) -> None:
    async with running(nodes) as made:
        made.start(1, packages=version_before)
        await made.lead(0)
        await made.says(1, "Applied")
        await made.says(1, "GatewayReachable")
        assert reaches(ours)
        pinging = Pinging(ours.namespace, THERE)
        log = made.agents[1].log
        for packages in (None, version_before):
            made.agents[1].stop()
            size = len(since(log))
            made.start(1, packages=packages)
            await made.heals(partial(says, log, size, "of the gateway first"))
            await trio.sleep(1.0)
            await made.says(1, "Applied")
        assert await trio.to_thread.run_sync(pinging.end) == 0
        assert pinging.sent > 20
