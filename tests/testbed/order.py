"""In which order the files of tests are given to workers: those that take long come first.

A worker has a file to itself, so a long one that begins last is what everybody else waits for.
Files that change the same clusters in turn go to one worker, one after the other. Clusters that
many files share are each worker's own; so a file goes to the worker that has those it needs, as
long as there is other work for the others. They end before its next file that needs none of them
(`sharedclusters`).

Tests on embedded clusters in virtual time only compute. In a whole run one worker more is theirs,
the one apart; it has what the others, which wait for Kubernetes most of the time, leave of the
processor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

TESTS = Path(__file__).parents[1]
LONGEST = (
    "cluster/test_start_pages.py",
    "node/test_pods.py",
    "simulated/provider/test_hostile_peers.py",
    "node/peered/test_network.py",
    "node/peered/test_near.py",
    "node/peered/test_worker.py",
    "node/peered/test_takeover.py",
    "node/peered/test_unpeering.py",
    "node/test_typed_network.py",
    "netns/test_faults.py",
    "netns/test_parts.py",
    "netns/test_releases.py",
    "cluster/test_chart.py",
    "netns/test_fallback.py",
    "netns/test_machine_pages.py",
    "simulated/install/test_made_pages.py",
    "cluster/test_node_parts.py",
    "cluster/test_rights.py",
    "stateful/test_truth.py",
    "stateful/test_stateful.py",
    "stateful/test_mutants.py",
    "simulated/reflection/test_pod_tokens.py",
    "simulated/clusterset/test_dead_peers.py",
    "simulated/cli/test_commands.py",
    "cluster/test_offloading.py",
    "simulated/simulator/test_benchmarks.py",
    "netns/test_failover.py",
    "netns/test_offline.py",
    "cluster/test_peering.py",
    "cluster/test_killed_daemons.py",
    "netns/test_hub.py",
    "netns/test_offloaded_services.py",
    "netns/test_set_services.py",
    "node/test_podstreams.py",
    "netns/test_joined_clusters.py",
    "netns/test_machine_apart.py",
    "netns/test_heal.py",
    "cluster/test_service_names.py",
    "cluster/test_lost_peers.py",
    "cluster/test_gitops.py",
    "cluster/test_meeting.py",
    "cluster/test_missing_parts.py",
    "node/test_offload.py",
    "simulated/daemon/test_daemon.py",
    "netns/test_cut.py",
    "netns/test_ipv6.py",
    "cluster/test_revocation.py",
    "cluster/test_borrowing.py",
    "node/test_returns.py",
    "simulated/consumer/test_hostile_providers.py",
    "netns/test_impaired.py",
    "cluster/test_meeting_troubles.py",
    "node/test_ends.py",
    "node/test_images.py",
    "cluster/test_wire_faults.py",
    "cluster/test_install.py",
    "viewer/test_terminal.py",
    "cluster/test_shared_services.py",
    "cluster/test_versions.py",
    "cluster/test_lending.py",
    "simulated/handshake/test_killed_meeting.py",
    "cluster/test_hostile_flood.py",
    "cluster/test_certificates.py",
    "netns/test_datapath.py",
    "netns/test_discovery.py",
    "netns/test_liqod_node.py",
    "cluster/test_clusterset.py",
    "cluster/test_crd_upgrade.py",
    "simulated/provider/test_isolation.py",
    "simulated/network/test_networking.py",
    "simulated/identity/test_rotation.py",
    "netns/test_apply.py",
    "viewer/test_browser.py",
    "viewer/test_site.py",
    "cluster/test_declarative.py",
    "cluster/test_limits.py",
    "cluster/test_hand_edits.py",
)
"""The files, longest first, as `--durations=0` tells of a whole run; all others come after them."""
TOGETHER = ("tests/node/peered/",)
"""Folders whose files share clusters that they change in turn: one worker has all of them."""


_SHARE = {
    "kept_clusters": re.compile(
        r"^from tests\.testbed\.clusters import .*\bClusters\b", re.MULTILINE
    ),
    "control_planes": re.compile(r"\bcontrol_planes?: "),
    "real_node_cluster": re.compile(r"\breal_node_cluster: "),
}
"""What the files say that share clusters with others of their worker, by the fixture of these."""
CONTRACT = "contract/"
"""The folder whose tests take a control plane by another fixture of theirs."""
APART = "TESTBED_APART"
"""The variable with the name of the worker apart, in a run that has one."""
NICE = 5
EMBEDDED = ("simulated/", "stateful/")
"""Folders of tests on embedded clusters."""
_STARTS_PROGRAMS = re.compile(
    r"^(import subprocess|from tests\.testbed)\b"
    r"|^from tests\.simulated\.(costs|daemon|processes|provider|relaying)\b",
    re.MULTILINE,
)


def give_way() -> None:
    """Lets others run before this worker, if it is the one apart."""
    if not is_apart(os.environ.get("PYTEST_XDIST_WORKER", "")):
        return
    # Where Linux groups processes by session, the others' niceness would be this one's.
    with suppress(OSError):
        os.setsid()
        Path("/proc/self/autogroup").write_text(str(NICE))
    os.nice(NICE)


def is_apart(worker: str) -> bool:
    """True if that worker has embedded clusters alone."""
    return bool(worker) and worker == os.environ.get(APART)


@cache
def is_embedded(file: str) -> bool:
    """True if a file is for the worker apart, by its path from `tests`.

    Programs beside an embedded cluster wait for it in real time, so such a file is not.
    """
    if not file.startswith(EMBEDDED):
        return False
    starts = file.startswith("simulated/") and _STARTS_PROGRAMS.search((TESTS / file).read_text())
    return not starts


@cache
def needed(file: str) -> frozenset[str]:
    """The fixtures of shared clusters that a file needs, by its path from `tests`; a folder has
    clusters of its own."""
    if file.startswith(CONTRACT):
        return frozenset(("control_planes",))
    if not (TESTS / file).is_file():
        return frozenset()
    text = (TESTS / file).read_text()
    return frozenset(name for name, says in _SHARE.items() if says.search(text))


def chosen(waiting: Iterable[str], own: frozenset[str], begun: frozenset[str]) -> str:
    """The file that a worker has next.

    The longest of those that share what it has; else of those for which nothing is started a second
    time; else of those that are not for the worker apart.

    Args:
        waiting: the files that nobody has yet, the longest first; there is one at least.
        own: the shared clusters that this worker has.
        begun: those that any worker has.
    """

    def cost(file: str) -> int:
        wanted = needed(file)
        if is_embedded(file):
            return 3
        if wanted & own and wanted <= own:
            return 0
        return 2 if (wanted - own) & begun else 1

    return min(waiting, key=cost)


class ByClusters(LoadFileScheduling):  # type: ignore[misc]
    """Gives a worker a file at a time, and a folder where its files go together."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        files = {_from_tests(scope): scope for scope in self.workqueue}
        if is_apart(node.gateway.id):
            files = {file: scope for file, scope in files.items() if is_embedded(file)}
            if not files:
                node.shutdown()  # when it has done what it was given
                return
        own = self._needed(self.assigned_work.get(node, ()))
        begun = self._needed(file for files in self.assigned_work.values() for file in files)
        self.workqueue.move_to_end(files[chosen(files, own, begun)], last=False)
        super()._assign_work_unit(node)

    def _needed(self, scopes: Iterable[str]) -> frozenset[str]:
        return frozenset[str]().union(*(needed(_from_tests(scope)) for scope in scopes))

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def _from_tests(scope: str) -> str:
    return scope.removeprefix("tests/")


def arrange(items: list[pytest.Item]) -> None:
    """Brings the longest files to the front; within a file nothing changes."""
    rank = {name: number for number, name in enumerate(LONGEST)}

    def of(item: pytest.Item) -> int:
        return rank.get(os.path.relpath(item.path, TESTS), len(rank))

    items.sort(key=of)
