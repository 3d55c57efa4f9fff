"""The clusters of the end-to-end tests on real control planes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testbed.clusters import Clusters
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import FAILED, give_up


@pytest.fixture(scope="session")
def kept_clusters() -> Iterator[Clusters]:
    """The clusters of the whole run; tests take `clusters`."""
    clusters = Clusters()
    yield clusters
    clusters.destroy()


@pytest.fixture
def clusters(kept_clusters: Clusters, request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """Three clusters with liqod and nothing between them, which the test leaves like that."""
    try:
        kept_clusters.start()
    except Unavailable as reason:
        give_up(reason)
    yield kept_clusters
    if request.node.stash.get(FAILED, False):
        kept_clusters.destroy()
        return
    try:
        kept_clusters.clean()
    except BaseException:
        kept_clusters.destroy()
        raise
