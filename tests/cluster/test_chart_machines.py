"""The chart where no node is of an architecture that its image is for, by real Helm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.chart import CHART
from tests.cluster.test_chart import NODES, Helm
from tests.cluster.test_install import fresh
from tests.testbed.api import wait_until
from tests.testbed.federation import Member

pytestmark = [pytest.mark.cluster, pytest.mark.release]


@pytest.fixture
def with_a_node() -> Iterator[Member]:
    """Another one, for one test, with a node that is amd64."""
    for made in fresh("bari", 7):
        made.run_nodes()
        yield made


def test_pods_for_other_machines_wait_and_the_doctor_says_for_which(
    helms: dict[int, str], with_a_node: Member, tmp_path: Path
) -> None:
    helm, member = Helm(helms[max(helms)], tmp_path), with_a_node
    values = "clusterID=bari,architectures={arm64}"
    helm.at(member, "install", "liqod", str(CHART), "--set", values, "--create-namespace")
    words = "didn't match Pod's node affinity/selector"

    def told() -> bool:
        said = member.liqod("doctor", check=False).stdout
        return words in said and "; the image is for arm64 (kubernetes.io/arch)" in said

    wait_until("the scheduler's words", told, 60)
    wanted = member.comes_to(NODES, lambda one: one["status"].get("observedGeneration"))
    assert wanted["status"]["desiredNumberScheduled"] == 0
    # The same release, and an image that is for this node.
    same = ("upgrade", "liqod", str(CHART), "--set", "clusterID=bari")
    helm.at(member, *same)
    pods = "/api/v1/namespaces/liqo/pods"
    placed = "the daemon's pod to be placed"

    def is_placed() -> bool:
        return any("nodeName" in each["spec"] for each in member.api.get(pods)["items"])

    wait_until(placed, is_placed, 60)
    member.comes_to(NODES, lambda one: one["status"]["desiredNumberScheduled"] == 1)
