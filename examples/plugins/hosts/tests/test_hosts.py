"""The contract of discoveries."""

from pathlib import Path

import pytest
from liqod_hosts.plugin import DISCOVERY, NAME

from liqod.plugins.providers import Sighting
from simulator.suites import DiscoveryContract

EVERY = 0.05


class TestHosts(DiscoveryContract):
    provider = DISCOVERY
    expected = (
        Sighting(cluster_id="milan", plugin=NAME, addresses=("milan.example:6446",), ttl=3 * EVERY),
    )

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        path = tmp_path / "clusters.toml"
        path.write_text('milan = ["milan.example:6446"]\n')
        type(self).settings = {"file": str(path), "every": EVERY}

    def lose(self) -> None:
        Path(type(self).settings["file"]).write_text("")
