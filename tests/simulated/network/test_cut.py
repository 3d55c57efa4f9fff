"""Connections to a peer are cut in its silence, whatever becomes of the tunnel itself."""

import pytest
import trio

from liqod.network.dataplane import peerplan
from liqod.network.dataplane.names import PeerNames
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import Namespace
from liqod.network.machine import tunnelcontrol
from liqod.tunnel.probes.messages import ProbeResult
from tests.simulated.network.noting import joined, stand


@pytest.mark.long
async def test_connections_are_cut_and_let_be_while_the_tunnel_cannot_be_brought_up(
    monkeypatch: pytest.MonkeyPatch,
):
    async with joined(monkeypatch) as site:
        laid: list[bool] = []

        def plan(names: PeerNames, *_: object, cut: bool, **__: object) -> PeerPlan:
            laid.append(cut)
            return PeerPlan(names, Namespace(), Namespace())

        monkeypatch.setattr(peerplan, "plan", plan)
        await stand(site)
        hear = await site.listens()
        site.machine.broken = "up"
        hear(ProbeResult(False))
        await trio.sleep(tunnelcontrol.CUT + 60.0)
        assert laid == [False, True], "once, however often it is tried"
        hear(ProbeResult(True, latency=0.001))
        await trio.sleep(60.0)
        assert laid == [False, True, False]
