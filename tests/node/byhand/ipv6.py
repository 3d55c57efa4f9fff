"""Gateways with real kubelets behind them that reach each other by IPv6 alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.testbed import image
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up
from tests.testbed.joined import Joined
from tests.testbed.node import NodeCluster

pytestmark = pytest.mark.node

NAMES = ("rome", "milan")
FILTER = "{{ type filter hook {} priority -10; }}"


class Six(Joined):
    """Clusters that publish addresses of IPv6 to their peers, and let no UDP of IPv4 in or out."""

    def _tables(self, at: NodeCluster, /, **network: str) -> dict[str, Any]:
        made = super()._tables(at, **network)
        made["network"]["advertise"] = [at.machine.address6]
        return made

    def wall(self) -> None:
        """Has them reach each other's API servers by IPv4, and nothing else."""
        for one in self.clusters.values():
            run = one.machine.run
            run("nft", "add", "table", "ip", "wall")
            for hook in ("input", "output"):
                run("nft", "add", "chain", "ip", "wall", hook, FILTER.format(hook))
                for other in self.clusters.values():
                    for way in ("saddr", "daddr") if other is not one else ():
                        rule = (way, other.machine.address, "meta", "l4proto", "udp", "drop")
                        run("nft", "add", "rule", "ip", "wall", hook, "ip", *rule)


@pytest.fixture(scope="module")
def clusters() -> Iterator[Six]:
    """rome and milan, peered and joined."""
    try:
        made = Six(*NAMES)
    except Unavailable as reason:
        give_up(reason)
    made.start()
    try:
        made.wall()
        made.peer(made.members["rome"], made.members["milan"])
        yield made
    finally:
        made.destroy()


def test_the_tunnel_goes_by_ipv6(clusters: Six) -> None:
    for name, peer in (NAMES, NAMES[::-1]):
        shown = clusters.members[name].liqod("network", "status", peer).stdout
        assert "Connected" in shown
        address = clusters.clusters["milan"].machine.address6
        assert f"[{address}]:51840" in shown, shown


def test_everything_reaches_everything(clusters: Six) -> None:
    """Pods have both families."""
    words = ("test", "network", "--image", image.NAME, "--outside", "", "-o", "json")
    rows = json.loads(clusters.members["rome"].liqod(*words, timeout=300).stdout)
    verdicts = {f"{row['source']} → {row['target']}": row["verdict"] for row in rows}
    assert set(verdicts.values()) == {"ok", "skipped"}, verdicts
    assert any("pod rome/rome → pod milan fd" in each for each in verdicts), verdicts
