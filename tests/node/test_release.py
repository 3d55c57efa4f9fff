"""The chart on real nodes: its pods run, change with an upgrade, and its Job leaves the peers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.chart import CHART
from liqod.install.departurerights import ACCOUNT
from tests.cluster.test_chart import Helm
from tests.testbed import inventory, ownimages, programs
from tests.testbed.api import wait_until
from tests.testbed.clusters import FOREIGN_CLUSTERS
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Member
from tests.testbed.fixtures import give_up
from tests.testbed.joined import traces
from tests.testbed.node import node_pod
from tests.testbed.podded import LEFT_DEADLINE, SETTINGS, Podded
from tests.testbed.workloads import core

pytestmark = [pytest.mark.node, pytest.mark.release]


class Released(Podded):
    """Clusters with a node each, of which rome has a release of the chart.

    Args:
        helm: makes the release.
        images: liqod's.
    """

    def __init__(self, helm: Helm, images: ownimages.Images) -> None:
        super().__init__(images, "rome", "milan")
        self._helm = helm

    def install(self, member: Member) -> None:
        """Installs liqod into a cluster: as a release into rome, by its command into milan."""
        if member.plane.name == "rome":
            self.release(member, "install", "--create-namespace")
        else:
            super().install(member)

    def release(self, member: Member, verb: str, *arguments: str) -> None:
        """`helm install` or `helm upgrade` with the values of the cluster."""
        values = {
            "clusterID": member.plane.name,
            "image": ownimages.NAME,
            "apiServer": {"address": member.plane.server},
            "config": SETTINGS,
        }
        file = member.folder / "values.json"
        file.write_text(json.dumps(values))
        self._helm.at(member, verb, "liqod", str(CHART), "--values", str(file), *arguments)


@pytest.fixture(scope="module")
def helm(helms: dict[int, str], tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm of the newest major version."""
    return Helm(helms[max(programs.HELMS)], tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def clusters(helm: Helm, own_images: ownimages.Images) -> Iterator[Released]:
    try:
        made = Released(helm, own_images)
    except Unavailable as reason:
        give_up(reason)
    made.start()
    try:
        yield made
    finally:
        made.destroy()


def test_a_release_peers_is_upgraded_and_leaves_all_peers(
    clusters: Released, helm: Helm, tmp_path: Path
) -> None:
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    rome.plane.kubectl("rollout", "status", "deployment/liqod", "--namespace", "liqo")
    clusters.peer(rome, milan)
    rome.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    rome.liqod("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")
    rome.create(core("shop", "pods"), node_pod("till"))
    wait_until("the pod runs at milan", lambda: "till" in rome.ready_pods("shop"), 90)
    began = rome.pods("shop")["till"]["status"]["startTime"]

    before = rome.pods("liqo").keys()
    clusters.release(rome, "upgrade", "--set", "resources.requests.memory=100Mi", "--wait")
    [daemon] = [each for each in rome.ready_pods("liqo") - before if "node" not in each]
    [container] = rome.pods("liqo")[daemon]["spec"]["containers"]
    assert container["resources"]["requests"]["memory"] == "100Mi"
    wait_until("the node", lambda: rome.node_is_ready("milan"), 40)
    assert rome.pods("shop")["till"]["status"]["startTime"] == began

    helm.at(rome, "uninstall", "liqod")
    said = rome.plane.kubectl("get", "events", "--namespace", "liqo", "-o", "name", check=False)
    assert ACCOUNT in said
    assert rome.names(FOREIGN_CLUSTERS) == set()
    rome.plane.kubectl("delete", "namespace", "shop")
    rome.liqod("uninstall", "--yes", "--purge")
    rome.plane.kubectl("delete", "namespace", "liqo")
    wait_until("nothing left on the node", lambda: not traces(clusters, "rome"), 30)
    inventory.wait_for(rome.api, clusters.before["rome"], LEFT_DEADLINE)
