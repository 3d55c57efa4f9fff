"""The clusters of the end-to-end tests on real control planes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testbed import evidence
from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import FAILED, give_up
from tests.testbed.workloads import deployment, deployments


@pytest.fixture(scope="session")
def kept_clusters() -> Iterator[Clusters]:
    """The clusters of the whole run; tests take `clusters` or `peered`."""
    clusters = Clusters()
    yield clusters
    try:
        if clusters.kept:
            clusters.clean()
    finally:
        clusters.destroy()


@pytest.fixture
def clusters(kept_clusters: Clusters, request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """Three clusters with liqod and nothing between them, which the test leaves like that."""
    started(kept_clusters)
    if kept_clusters.kept:
        clean(kept_clusters)
    yield kept_clusters
    if request.node.stash.get(FAILED, False):
        kept_clusters.destroy()
    else:
        clean(kept_clusters)


@pytest.fixture
def peered(kept_clusters: Clusters, request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """The same with rome borrowing from milan, which is kept for the next test."""
    yield from kept(kept_clusters, request, ("rome", "milan"))


@pytest.fixture
def two_providers(kept_clusters: Clusters, request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """The same with rome borrowing from milan and from turin."""
    yield from kept(kept_clusters, request, ("rome", "milan"), ("rome", "turin"))


@pytest.fixture
def shop(peered: Clusters) -> str:
    """A namespace of rome that runs two pods of a Deployment at milan."""
    rome = peered.rome
    name = peered.namespace(rome)
    rome.liqod("offload", "namespace", name, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(name), deployment("web", 2))
    wait_until("two ready pods", lambda: len(rome.ready_pods(name)) == 2, 40)
    return name


def kept(
    clusters: Clusters, request: pytest.FixtureRequest, *pairs: tuple[str, str]
) -> Iterator[Clusters]:
    """Clusters that stay peered, unless a test fails: it leaves who knows what."""
    started(clusters)
    try:
        clusters.keep(*pairs)
    except BaseException:
        clusters.destroy()
        raise
    yield clusters
    if request.node.stash.get(FAILED, False):
        clusters.destroy()
    else:
        clusters.tidy()


def started(clusters: Clusters) -> None:
    """Starts them unless they run; what they log is every later test's, too."""
    try:
        with evidence.owned_by("kept_clusters"):
            clusters.start()
    except Unavailable as reason:
        give_up(reason)


def clean(clusters: Clusters) -> None:
    """Cleans them; where that fails the next test gets new ones."""
    try:
        clusters.clean()
    except BaseException:
        clusters.destroy()
        raise
