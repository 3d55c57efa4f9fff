"""Pods of two clusters with the same addresses reach each other, on real kubelets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up
from tests.testbed.joined import Joined

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def clusters() -> Iterator[Joined]:
    """rome and milan, both with 10.244.0.0/16."""
    try:
        made = Joined("rome", "milan")
    except Unavailable as reason:
        give_up(reason)
    made.start()
    yield made
    made.destroy()


def test_nodes_reach_each_other(clusters: Joined) -> None:
    for here, there in (("rome", "milan"), ("milan", "rome")):
        address = clusters.clusters[there].machine.address
        clusters.inside(here, "busybox", "ping", "-c", "1", "-W", "2", address)
