"""Two daemons of different versions as peers, each of the other, on real control planes.

A daemon neither reads nor removes a field that it does not know; a field that an older one does not
set has its default. Until there is an earlier release, `tests.testbed.otherwise` stands in for
both.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cluster.test_offloading import offload, scale, settle
from tests.testbed.api import wait_until
from tests.testbed.clusters import SLICES, Clusters
from tests.testbed.federation import Member
from tests.testbed.fixtures import FAILED
from tests.testbed.otherwise import EXTENSION, FIELD, NEWS
from tests.testbed.workloads import deployment, deployments

pytestmark = [pytest.mark.cluster, pytest.mark.kubernetes]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE_MAPS = "/apis/offloading.liqo.io/v1beta1/namespacemaps"
CROSSING = (
    "tenants.authentication",
    "resourceslices.authentication",
    "renews.authentication",
    "namespacemaps.offloading",
    "shadowpods.offloading",
)


@pytest.fixture
def versions(clusters: Clusters, request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """The clusters, with definitions at rome that know more than this version."""
    rome = clusters.rome
    before = {each: rome.api.get(path(each))["spec"] for each in CROSSING}
    for each in CROSSING:
        change(rome, each, loosened(before[each]))
    yield clusters
    if request.node.stash.get(FAILED, False):
        return
    # It unpeers as what it is.
    clusters.clean()
    for each, spec in before.items():
        change(rome, each, spec)
    run(rome, ("-m", "liqod"))


def path(definition: str) -> str:
    return f"{DEFINITIONS}/{definition}.liqo.io"


def change(member: Member, definition: str, spec: Any) -> None:
    live = member.api.get(path(definition))
    member.api.call("PUT", path(definition), {**live, "spec": spec})


def loosened(spec: Any) -> Any:
    """A definition that knows more than ours: any field, verdict and phase."""
    if isinstance(spec, list):
        return [loosened(each) for each in spec]
    if not isinstance(spec, dict):
        return spec
    made = {key: loosened(value) for key, value in spec.items() if key != "enum"}
    if made.get("type") == "object" and "properties" in made:
        made["x-kubernetes-preserve-unknown-fields"] = True
    return made


def run(member: Member, program: tuple[str, ...]) -> None:
    member.daemon.stop()
    member.daemon.program = program
    member.daemon.start(60)


def test_peers_of_another_version(versions: Clusters) -> None:
    """Each borrows from the other, while one is of a later version, and then of an earlier one."""
    rome, milan = versions.rome, versions.milan
    pairs = ((rome, milan), (milan, rome))
    run(rome, ("-m", "tests.testbed.otherwise", "future"))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda pair: versions.peer(*pair), pairs))
    work(versions, pairs)
    said_and_kept(rome, milan)
    asleep(versions, milan)
    run(rome, ("-m", "tests.testbed.otherwise", "past"))
    work(versions, pairs)


def work(versions: Clusters, pairs: tuple[tuple[Member, Member], ...]) -> None:
    """Pods go from each to the other, more of them, and less."""
    shops = {}
    for consumer, provider in pairs:
        wait_until("the node", lambda c=consumer, p=provider: c.node_is_ready(p.name), 30)
        shop = shops[consumer.name] = versions.namespace(consumer)
        offload(consumer, shop, "--pod-offloading-strategy", "Remote")
        consumer.create(deployments(shop), deployment("web", 2))
    for consumer, provider in pairs:
        shop = shops[consumer.name]
        settle(consumer, shop, 2)
        scale(consumer, shop, "web", 3)
        scale(consumer, shop, "web", 1)
        assert set(consumer.pods(shop)) <= set(provider.pods(f"{shop}-{consumer.name}"))
        quiet = lambda c=consumer: "problems" not in c.liqod("status").stdout  # noqa: E731
        wait_until("a quiet status", quiet, 40)


def said_and_kept(rome: Member, milan: Member) -> None:
    """Asserts that the later version's fields still exist on both sides, where they can be held."""
    mark = f"{EXTENSION}{NEWS}"
    ours = [one for one in milan.api.get(SLICES)["items"] if mark in one["metadata"]["labels"]]
    assert ours, "rome's replica at milan has its label"
    lent = [one for one in rome.api.get(SLICES)["items"] if FIELD in one.get("status", {})]
    assert lent, "rome's verdict on milan's slice has its field"
    (asked,) = [one for one in milan.api.get(SLICES)["items"] if one not in ours]
    verdicts = {one["type"]: one["status"] for one in asked["status"]["conditions"]}
    assert verdicts == {"Authentication": "Accepted", "Resources": "Accepted"}
    assert phases(milan) == {None}, "a namespace that milan did not ask for is not taken over"


def asleep(versions: Clusters, milan: Member) -> None:
    """Milan asks for the namespace that the later version has a phase of its own for."""
    made = {
        "apiVersion": "offloading.liqo.io/v1beta1",
        "kind": "NamespaceOffloading",
        "metadata": {"name": "offloading"},
        "spec": {"podOffloadingStrategy": "Remote"},
    }
    milan.create(offloadings(versions.namespace(milan, name=NEWS)), made)
    not_ready = lambda: "CreationLoopBackOff" in phases(milan)  # noqa: E731
    wait_until("a phase that milan does not know to be not ready", not_ready, 30)


def offloadings(namespace: str) -> str:
    return f"/apis/offloading.liqo.io/v1beta1/namespaces/{namespace}/namespaceoffloadings"


def phases(member: Member) -> set[str | None]:
    """Returns the phases of that namespace in the NamespaceMaps of a cluster."""
    maps = [one.get("status", {}) for one in member.api.get(NAMESPACE_MAPS)["items"]]
    return {one.get("currentMapping", {}).get(NEWS, {}).get("phase") for one in maps}
