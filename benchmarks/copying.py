"""`kubectl cp` to and from a pod at a peer, beside the same with the peer's own API server.

A consumer without nodes of its own, and a provider with a real kubelet and containerd (this needs
root). One pod there; so many MiB are copied to it and from it, by SPDY and by WebSocket: by the
consumer's API server and its daemon, and by the provider's API server alone, in turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.report import Aim, Report
from benchmarks.stage import parser, run, say
from benchmarks.starting import CONSUMER, NAMESPACE, peered, pod
from tests.testbed.api import wait_until
from tests.testbed.federation import Member
from tests.testbed.workloads import core

SLOWER = Aim("bytes a second of kubectl cp, times slower than to a pod at home", "-", 2.0)
WAYS = {
    name: dict.fromkeys(
        ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"), value
    )
    for name, value in (("SPDY", "false"), ("WebSocket", "true"))
}


def copied(member: Member, namespace: str, way: str, source: str, target: str) -> float:
    """Seconds of one `kubectl cp`."""
    words = ("--namespace", namespace, "cp", "--retries=0", source, target)
    began = time.monotonic()
    member.plane.kubectl(*words, settings=WAYS[way], within=600)
    return time.monotonic() - began


def measure(chosen: argparse.Namespace) -> Report:
    """Each in turn."""
    return report(chosen.mebibytes, seconds(chosen.mebibytes, chosen.rounds))


def seconds(size: int, rounds: int) -> dict[str, Any]:
    """Seconds of each, by direction, way and place."""
    found: dict[str, Any] = {}
    with peered() as (rome, naples):
        body = pod("sleep 1000000")
        body["metadata"]["name"] = "files"
        rome.create(core(NAMESPACE, "pods"), body)
        wait_until("the pod to be ready", lambda: "files" in rome.ready_pods(NAMESPACE), 60)
        file = Path(rome.plane.folder) / "file"
        with file.open("wb") as made:
            for _ in range(size):
                made.write(os.urandom(1 << 20))
        places = {"at home": (naples, f"{NAMESPACE}-{CONSUMER}"), "at a peer": (rome, NAMESPACE)}
        copied(naples, f"{NAMESPACE}-{CONSUMER}", "SPDY", str(file), "files:/tmp/file")
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for way in WAYS:
                for place, (member, namespace) in places.items():
                    for what, ends in (
                        ("to it", (str(file), "files:/tmp/file")),
                        ("from it", ("files:/tmp/file", f"{file}.back")),
                    ):
                        took = copied(member, namespace, way, *ends)
                        found.setdefault(f"{what}, {way}", {}).setdefault(place, []).append(took)
                assert Path(f"{file}.back").stat().st_size == size << 20
    return found


def report(size: int, found: dict[str, Any]) -> Report:
    """All of it."""
    made = Report(f"kubectl cp of {size} MiB")
    made.rows = [("MiB/s", "at home", "at a peer", "times slower")]
    slowest = 0.0
    for what, each in found.items():
        here, there = (statistics.median(each[place]) for place in ("at home", "at a peer"))
        slowest = max(slowest, there / here)
        rates = (f"{size / here:.0f}", f"{size / there:.0f}", f"{there / here:.2f}")
        made.rows.append((what, *rates))
    made.aims = [(SLOWER, slowest)]
    made.figures = {"seconds": found, "mebibytes": size}
    return made


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("copying", __doc__ or "")
    made.add_argument("--mebibytes", type=int, default=100, help="of each copy; default 100")
    made.add_argument("--rounds", type=int, default=3, help="default 3")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
