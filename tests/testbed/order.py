"""In which order the files of tests are given to workers: those that take long come first.

A worker has a file to itself, so a long one that begins last is what everybody else waits for.
"""

from __future__ import annotations

import pytest

LONGEST = (
    "cluster/test_lost_peers.py",
    "cluster/test_wire_faults.py",
    "cluster/test_offloading.py",
    "cluster/test_killed_daemons.py",
    "cluster/test_peering.py",
    "cluster/test_readme.py",
    "node/test_offload.py",
    "stateful/test_stateful.py",
    "cluster/test_missing_parts.py",
    "cluster/test_rights.py",
    "cluster/test_hostile_flood.py",
    "cluster/test_borrowing_rooms.py",
    "cluster/test_revocation.py",
    "simulated/test_isolation.py",
    "cluster/test_install.py",
    "cluster/test_versions.py",
    "cluster/test_certificates.py",
    "simulated/test_benchmarks.py",
    "viewer/test_browser.py",
    "simulated/test_many_namespaces.py",
    "stateful/test_mutants.py",
    "simulated/test_absence.py",
    "simulated/test_tenant_namespace.py",
    "cluster/test_declarative.py",
    "cluster/test_limits.py",
    "cluster/test_hand_edits.py",
    "cluster/test_lending.py",
    "viewer/test_terminal.py",
)
"""The files, longest first, as `--durations=0` tells of a whole run; all others come after them."""


def arrange(items: list[pytest.Item]) -> None:
    """Brings the longest files to the front; within a file nothing changes."""
    rank = {name: number for number, name in enumerate(LONGEST)}

    def of(item: pytest.Item) -> int:
        return rank.get("/".join(item.path.parts[-2:]), len(rank))

    items.sort(key=of)
