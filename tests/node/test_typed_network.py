"""`liqod test network` as pages show it: typed as soon as a peering has begun, with no option.

Its image comes from a registry that stands in for the one it names, and the address outside of the
clusters is that of a machine beside each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from liqod.cli.commands.test import OUTSIDE
from tests.netns.lab import echo
from tests.testbed import image, joined, pages, shownblocks
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up
from tests.testbed.joined import Joined
from tests.testbed.machine import run
from tests.testbed.pages import Terminal
from tests.testbed.registry import Registry

pytestmark = [pytest.mark.node, pytest.mark.pods]


@pytest.fixture
def clusters() -> Iterator[Joined]:
    """rome and milan, which are no peers, each with a machine that has the address outside."""
    try:
        made = Joined("rome", "milan")
    except Unavailable as reason:
        give_up(reason)
    made.start()
    registry = Registry([image.layer()], {"Env": ["PATH=/bin"]})
    address, _, port = OUTSIDE.rpartition(":")
    try:
        with ExitStack() as machines:
            for name, cluster in made.clusters.items():
                cluster.mirror("docker.io", registry.port)
                beside = made.neighbour(name)
                run("ip", "-n", beside, "address", "add", f"{address}/32", "dev", "lo")
                made.inside(name, "ip", "route", "add", address, "via", joined.OUTSIDE["IPv4"])
                machines.enter_context(echo(beside, int(port)))
            yield made
    finally:
        registry.close()
        made.destroy()


@pytest.fixture
def terminal(clusters: Joined, tmp_path: Path) -> Terminal:
    """A shell beside the kubeconfigs of both; rome's is exported."""
    made = pages.terminal(tmp_path, *(each.plane for each in clusters.members.values()))
    made.environment["KUBECONFIG"] = str(tmp_path / "rome.kubeconfig")
    return made


def test_the_network_is_tested_as_soon_as_it_is_joined(terminal: Terminal) -> None:
    terminal.section(shownblocks.commands("how-to/peering", "1. Let rome in", "2. Peer"))
    *_, first = terminal.section(shownblocks.commands("how-to/peering", "3. Look"))
    again = terminal.section(
        [
            *shownblocks.commands("how-to/diagnose", "4. Whether packets pass", only="liqod test"),
            *shownblocks.commands("how-to/expose", "Look", only="liqod test"),
        ]
    )
    for said in (first, *again):
        print(said)
        assert f"outside {OUTSIDE}" in said
        assert "failed" not in said
