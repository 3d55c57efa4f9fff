"""What offloading costs beside running locally: `python -m benchmarks.offload [--pods 100]`.

Two real control planes with a daemon and a fake node each. The same pods run first on the
consumer's own node, then on the virtual node; for each run this prints the time, the CPU of every
process, the peak of resident memory, and the requests that each API server served. CPU per pod is
the portable figure: on two cores the wall time is the sum of everybody's CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks import load
from tests.testbed import programs
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import start_all
from tests.testbed.processes import Usage

CONSUMER, PROVIDER = "rome", "milan"
POD_CIDRS = {CONSUMER: "10.201.0.0/16", PROVIDER: "10.202.0.0/16"}
Requests = Counter[tuple[str, str, str]]
"""Requests by cluster, verb and resource."""


@dataclass
class Cost:
    """What one run took, by `cluster/process` and by request."""

    timing: load.Timing
    cpu: dict[str, float] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    requests: Requests = field(default_factory=Counter)


class Bench:
    """The two clusters and their measures."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self.rome = federation.members[CONSUMER]
        self.milan = federation.members[PROVIDER]

    def usage(self) -> dict[str, Usage]:
        """What every process has cost so far."""
        found: dict[str, Usage] = {}
        for name, member in self._federation.members.items():
            found[f"{name}/liqod"] = member.daemon.usage()
            found |= {f"{name}/{one}": use for one, use in member.plane.usage().items()}
            found[f"{name}/nodes"] = member.nodes.usage()
        return found

    def requests(self) -> Requests:
        """What every API server has served so far."""
        served: Requests = Counter()
        for name, member in self._federation.members.items():
            for (verb, resource), count in member.plane.requests().items():
                served[name, verb, resource] = count
        return served

    def run(self, namespace: str, node: str, pods: int) -> Cost:
        """Runs `pods` pods of a namespace on a node; the cost until all are Ready."""
        asked, used = self.requests(), self.usage()
        after: list[tuple[Requests, dict[str, Usage]]] = []

        def settled() -> None:
            after.append((self.requests(), self.usage()))

        timing = load.run(self.rome.plane.kubeconfig, namespace, node, pods, settled)
        requests, usage = after[0]
        return Cost(
            timing,
            {name: use.cpu - used[name].cpu for name, use in usage.items()},
            {name: use.peak for name, use in usage.items()},
            Counter({key: count - asked[key] for key, count in requests.items()}),
        )


def set_up(federation: Federation, planes: list[ControlPlane], pods: int) -> Bench:
    """liqod in both clusters, the consumer peered with the provider, a namespace offloaded."""
    start_all(planes)
    for plane in planes:
        settings = {
            "cluster": {"pod_cidrs": [POD_CIDRS[plane.name]]},
            "peer_defaults": {"pod_network": "routed"},
        }
        federation.join(plane, settings, pods=2 * pods)
    bench = Bench(federation)
    room = str(2 * pods)
    federation.peer(bench.rome, bench.milan, cpu=room, memory=f"{room}Gi", pods=room)
    for name in ("local", "remote"):
        bench.rome.create("/api/v1/namespaces", {"metadata": {"name": name}})
    bench.rome.liqod("offload", "namespace", "remote", "--pod-offloading-strategy", "Remote")
    return bench


def report(local: Cost, remote: Cost, pods: int) -> str:
    """The table that is printed."""
    rows = [
        ("", "local", "offloaded"),
        ("all ready, s", f"{local.timing.wall:.2f}", f"{remote.timing.wall:.2f}"),
        ("median of a pod, s", f"{local.timing.median:.2f}", f"{remote.timing.median:.2f}"),
        ("all deleted, s", f"{local.timing.deleted:.2f}", f"{remote.timing.deleted:.2f}"),
        ("CPU per pod, ms", *(f"{sum(c.cpu.values()) / pods * 1e3:.2f}" for c in (local, remote))),
        *(
            (f"  {name}", *(f"{c.cpu[name] / pods * 1e3:.2f}" for c in (local, remote)))
            for name in remote.cpu
        ),
        ("peak resident, MiB", "", ""),
        *(
            (f"  {name}", *(f"{c.peak[name] / 2**20:.0f}" for c in (local, remote)))
            for name in remote.peak
            if name.endswith(("liqod", "kube-apiserver"))
        ),
        ("requests per pod", *(f"{sum(c.requests.values()) / pods:.2f}" for c in (local, remote))),
        *(
            (
                f"  {' '.join(key)}",
                *(f"{c.requests[key] / pods:.2f}" for c in (local, remote)),
            )
            for key in sorted(remote.requests | local.requests)
            if max(remote.requests[key], local.requests[key]) >= pods / 20
        ),
    ]
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"{a:<{width}}  {b:>9}  {c:>9}".rstrip() for a, b, c in rows)


def as_json(cost: Cost) -> dict[str, Any]:
    """One run's figures for another program."""
    return {
        "ready_seconds": cost.timing.wall,
        "median_seconds": cost.timing.median,
        "deleted_seconds": cost.timing.deleted,
        "cpu_seconds": cost.cpu,
        "peak_bytes": cost.peak,
        "requests": {" ".join(key): count for key, count in cost.requests.items() if count},
    }


def main(arguments: list[str]) -> int:
    """Measures and prints; 1 where it cannot."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offload", description=__doc__)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="print figures instead of a table")
    chosen = parser.parse_args(arguments)
    federation = Federation()
    planes: list[ControlPlane] = []
    try:
        planes += [
            ControlPlane(name, Settings(pod_cidr=pod_cidr)) for name, pod_cidr in POD_CIDRS.items()
        ]
        programs.say("starting two control planes with liqod")
        bench = set_up(federation, planes, chosen.pods)
        programs.say(f"{chosen.pods} pods, locally and offloaded")
        local = bench.run("local", node_of(bench.rome), chosen.pods)
        remote = bench.run("remote", PROVIDER, chosen.pods)
    except TestbedError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    finally:
        federation.close()
        for plane in planes:
            plane.destroy()
    if chosen.json:
        print(json.dumps({"local": as_json(local), "offloaded": as_json(remote)}, indent=2))
    else:
        print(report(local, remote, chosen.pods))
    return 0


def node_of(member: Member) -> str:
    """The fake node of a cluster."""
    return f"{member.name}-0"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
