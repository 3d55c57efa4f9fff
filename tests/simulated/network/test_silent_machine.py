"""A peer's network is not shown as one that works while the machine's side does not report it."""

import pytest

from liqod.network import tunnelcontroller
from liqod.tunnel.probes.messages import ProbeResult
from tests.simulated.borrower import eventually
from tests.simulated.network.noting import joined, stand


async def test_a_report_counts_no_more_once_none_follows_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tunnelcontroller, "SILENT", 0.3)
    async with joined(monkeypatch) as site:
        await stand(site)
        heard, network = await site.listens(), site.lender.peer.network
        heard(ProbeResult(True, 0.001))
        await eventually(
            network.facts,
            lambda found: found is not None and "has reported nothing for" in found.device,
        )
        await site.shows("Connecting")
        shown = network.facts()
        assert shown is not None
        assert (shown.stands, shown.answers) == (None, False)
        assert network.connected, "nobody has seen that it does not stand"
        monkeypatch.setattr(tunnelcontroller, "SILENT", 60.0)
        heard(ProbeResult(True, 0.001))
        await site.shows("Connected")
        shown = network.facts()
        assert shown is not None
        assert (shown.stands, shown.device) == (True, "")
