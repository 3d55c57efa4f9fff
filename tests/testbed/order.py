"""In which order the files of tests are given to workers: those that take long come first.

A worker has a file to itself, so a long one that begins last is what everybody else waits for.
Files that share their clusters go to one worker, one after the other.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parents[1]
LONGEST = (
    "node/peered/test_network.py",
    "node/peered/test_worker.py",
    "node/peered/test_takeover.py",
    "node/peered/test_unpeering.py",
    "node/test_pods.py",
    "cluster/test_lost_peers.py",
    "cluster/test_wire_faults.py",
    "cluster/test_offloading.py",
    "cluster/test_killed_daemons.py",
    "netns/test_failover.py",
    "cluster/test_peering.py",
    "cluster/test_start_pages.py",
    "stateful/test_mutants.py",
    "node/test_offload.py",
    "stateful/test_stateful.py",
    "stateful/test_truth.py",
    "simulated/handshake/test_killed_meeting.py",
    "cluster/test_missing_parts.py",
    "cluster/test_meeting.py",
    "cluster/test_rights.py",
    "cluster/test_hostile_flood.py",
    "cluster/test_borrowing.py",
    "cluster/test_revocation.py",
    "simulated/provider/test_isolation.py",
    "cluster/test_install.py",
    "cluster/test_versions.py",
    "cluster/test_certificates.py",
    "simulated/simulator/test_benchmarks.py",
    "simulated/network/test_networking.py",
    "simulated/daemon/test_daemon.py",
    "simulated/identity/test_rotation.py",
    "viewer/test_browser.py",
    "cluster/test_declarative.py",
    "cluster/test_limits.py",
    "cluster/test_hand_edits.py",
    "cluster/test_lending.py",
    "viewer/test_terminal.py",
)
"""The files, longest first, as `--durations=0` tells of a whole run; all others come after them."""
TOGETHER = ("tests/node/peered/",)
"""Folders whose files share clusters that they change in turn: one worker has all of them."""


class ByClusters(LoadFileScheduling):  # type: ignore[misc]
    """Gives a worker a file at a time, and a folder where its files go together."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def arrange(items: list[pytest.Item]) -> None:
    """Brings the longest files to the front; within a file nothing changes."""
    rank = {name: number for number, name in enumerate(LONGEST)}

    def of(item: pytest.Item) -> int:
        return rank.get(os.path.relpath(item.path, TESTS), len(rank))

    items.sort(key=of)
