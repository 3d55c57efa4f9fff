"""The cost of offloading, compared with running locally.

Two clusters with a daemon and a fake node each. The same pods run first on the consumer's own node,
then on the virtual node; for each run this prints the time, the CPU of the daemons and of the API
servers, memory, the bytes between the consumer and the peer, and the requests. CPU per pod is the
portable figure: on two cores the time is the sum of everybody's CPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks import load
from benchmarks.embedded import CONSUMER
from benchmarks.report import Aim, Report, number
from benchmarks.stage import (
    API_SERVERS,
    PROVIDER,
    Cost,
    Sample,
    Stage,
    offloaded,
    parser,
    peered,
    run,
    say,
    stage,
)
from tests.testbed.api import wait_until
from tests.testbed.workloads import core, group

COUNTS = (10, 100, 500, 1000)
FEW, REPEATED = 10, 3
"""So few pods are run so often, and the run with the median time is shown."""
LOCAL, REMOTE = "local", "remote"
THERE = f"{REMOTE}-{CONSUMER}"
REMOTE_PODS = core(THERE, "pods"), group("offloading.liqo.io/v1beta1", THERE, "shadowpods")
CALM = 2.0
"""Seconds between two runs, in which controllers finish what they put off."""
RESIDENT_AT = 500
"""Pods whose memory is looked at after a pause."""
HOLD = 5.0
"""Seconds after the last Ready at which resident memory is read."""

LOCAL_POD = "times the local run's API server's"
"""Machines differ by two: what a pod costs the API server of its own cluster shows how fast this
one is. The baseline's machine took 7 to 9 ms, by which Liqo's figures are divided."""
OWN = Aim(f"CPU of both daemons, {LOCAL_POD} ({{}} pods)", "3.6-4.0", 0.35)
SERVERS = Aim(f"CPU of both API servers, {LOCAL_POD} ({{}} pods)", "11.5-12.8", 2.0)
RATIO = Aim("time of {} pods, as a multiple of the local run's", "7-11", 2.2)
TEN = Aim("10 pods created until all are Ready, s", "1.2-1.8", 0.3)
RESIDENT = Aim("resident with 500 offloaded pods, MiB, {}", "320 / 213", 90.0)
TO_PEER = Aim("bytes to the peer per offloaded pod ({} pods)", "15000", 5000.0)
FROM_PEER = Aim("bytes from the peer per offloaded pod ({} pods)", "44000", 10000.0)


@dataclass
class Run:
    """One run of so many pods: when what happened, what it cost until all were Ready."""

    count: int
    timing: load.Timing
    cost: Cost
    deletion: Cost = field(default_factory=Cost)
    gone: float = 0.0
    """Seconds from the first delete until nothing is left at the peer either."""

    def as_json(self) -> dict[str, Any]:
        """For another program."""
        return {
            "pods": self.count,
            "ready_seconds": self.timing.wall,
            "median_seconds": self.timing.median,
            "deleted_seconds": self.timing.deleted,
            "gone_seconds": self.gone,
            "until_ready": self.cost.as_json(),
            "until_deleted": self.deletion.as_json(),
        }


@dataclass
class Pair:
    """The same pods at the consumer and on the peer."""

    local: Run
    remote: Run


def measure(chosen: argparse.Namespace) -> Report:
    """Every number of pods, one after another."""
    with stage(embedded=chosen.embedded) as made:
        made.events, made.tells = chosen.events or "none", bool(chosen.events)
        rome, _ = peered(made, pods=2 * max(chosen.pods))
        rome.create("/api/v1/namespaces", {"metadata": {"name": LOCAL}})
        offloaded(rome, REMOTE)
        pairs = [compare(made, count) for count in chosen.pods]
    return report(pairs)


def compare(made: Stage, count: int) -> Pair:
    """So many pods at the consumer and on the peer; of a few, the median of several tries."""
    tries = []
    for _ in range(REPEATED if count <= FEW else 1):
        say(f"{count} pods, locally and offloaded")
        local = once(made, LOCAL, f"{CONSUMER}-0", count)
        tries.append(Pair(local, once(made, REMOTE, PROVIDER, count)))
    return sorted(tries, key=lambda pair: pair.remote.timing.wall)[len(tries) // 2]


def once(made: Stage, namespace: str, node: str, count: int) -> Run:
    """Create pods, wait until all are Ready, delete them, and wait until none is left there."""
    ready: list[Sample] = []
    made.forget_peaks()
    before = made.sample()

    def settled() -> None:
        ready.append(made.sample())
        if count >= RESIDENT_AT:
            time.sleep(HOLD)
            ready.append(made.sample())

    rome = made.federation.members[CONSUMER]
    timing = load.run(rome.plane.kubeconfig, namespace, node, count, settled)
    if namespace == REMOTE:
        emptied(made)
    after = made.sample()
    cost = made.cost(before, ready[0])
    cost.resident = made.cost(before, ready[-1]).resident
    gone = after.at - ready[-1].at
    time.sleep(CALM)
    return Run(count, timing, cost, made.cost(ready[-1], after), gone)


def emptied(made: Stage) -> None:
    """Wait until the peer has nothing of the pods: the next run is not to pay for this one."""
    milan = made.federation.members[PROVIDER]

    def empty() -> bool:
        return not any(milan.names(f"{path}?limit=1") for path in REMOTE_PODS)

    wait_until("remote pods that are gone", empty, load.DEADLINE, pause=0.5)


# -- the report ----------------------------------------------------------------------------------


def report(pairs: list[Pair]) -> Report:
    """A column for each run."""
    made = Report("Offloading", figures={"runs": []})
    runs = [run for pair in pairs for run in (pair.local, pair.remote)]
    heads = [f"{pair.local.count} {where}" for pair in pairs for where in ("local", "offloaded")]
    made.rows.append(("", *heads))

    def row(what: str, of: Callable[[Run], float | None]) -> None:
        values = [of(each) for each in runs]
        if any(values):
            cells = ("" if value is None else number(value) for value in values)
            made.rows.append((what, *cells))

    for pair in pairs:
        both = {"local": pair.local.as_json(), "offloaded": pair.remote.as_json()}
        made.figures["runs"].append(both)
    row("all ready, s", lambda run: run.timing.wall)
    ratios = {id(pair.remote): pair.remote.timing.wall / pair.local.timing.wall for pair in pairs}
    row("  as a multiple of local", lambda run: ratios.get(id(run)))
    row("median of a pod, s", lambda run: run.timing.median)
    row("all deleted, s", lambda run: run.timing.deleted)
    row("  and gone at the peer, s", lambda run: run.gone)
    local = {id(pair.remote): _api_server(pair.local) for pair in pairs}

    def times(what: str, *processes: str) -> None:
        row(
            what,
            lambda run: per_pod(run, *processes) / local[id(run)] if id(run) in local else None,
        )

    times(f"both API servers, {LOCAL_POD}", *API_SERVERS)
    times(f"both daemons, {LOCAL_POD}", "liqod")
    _cpu_rows(row, runs[-1].cost)
    for name in (f"{CONSUMER}/liqod", f"{PROVIDER}/liqod"):
        row(f"{name}: peak, MiB", partial(_peak, name))
        row(f"{name}: resident, MiB", partial(_resident, name))
    row("bytes to the peer, per pod", lambda run: run.cost.bytes_out / run.count)
    row("bytes from the peer, per pod", lambda run: run.cost.bytes_in / run.count)
    _request_rows(row, runs)
    for pair in pairs:
        made.aims += reached(pair)
    return made


Row = Callable[[str, Callable[[Run], float | None]], None]


def _cpu_rows(row: Row, cost: Cost) -> None:
    row("CPU per pod, ms", lambda run: per_pod(run, *_processes(cost)))
    row("  both daemons", lambda run: per_pod(run, "liqod"))
    row("  both API servers", lambda run: per_pod(run, *API_SERVERS))
    for name in cost.cpu:
        row(f"  {name}", partial(_cpu, name))
    row(
        "CPU per deleted pod, ms: both daemons",
        lambda run: run.deletion.cpu_of("liqod") / run.count * 1e3,
    )


def _request_rows(row: Row, runs: list[Run]) -> None:
    row("requests per pod", lambda run: sum(run.cost.requests.values()) / run.count)
    keys = {
        key
        for run in runs
        for key, count in run.cost.requests.items()
        if count >= run.count / 20 and run.count > FEW
    }
    for key in sorted(keys):
        row(f"  {' '.join(key)}", partial(_requests, key))


def _peak(name: str, run: Run) -> float:
    return run.cost.peak[name] / 2**20


def _resident(name: str, run: Run) -> float:
    return run.cost.resident[name] / 2**20


def _cpu(name: str, run: Run) -> float:
    return run.cost.cpu[name] / run.count * 1e3


def _requests(key: tuple[str, str, str], run: Run) -> float:
    return run.cost.requests[key] / run.count


def _processes(cost: Cost) -> set[str]:
    return {name.split("/")[1] for name in cost.cpu}


def per_pod(run: Run, *processes: str) -> float:
    """CPU ms per pod."""
    return run.cost.cpu_of(*processes) / run.count * 1e3


def _api_server(run: Run) -> float:
    """CPU ms per pod of the API server that the pods were created at."""
    cpu = (run.cost.cpu.get(f"{CONSUMER}/{name}", 0.0) for name in API_SERVERS)
    return sum(cpu) / run.count * 1e3


def reached(pair: Pair) -> list[tuple[Aim, float]]:
    """The aims that a run of this size speaks of."""
    remote, cost, count = pair.remote, pair.remote.cost, pair.remote.count

    def of(aim: Aim, what: object) -> Aim:
        return Aim(aim.what.format(what), aim.liqo, aim.aim)

    if count == FEW:
        return [(TEN, remote.timing.wall)]
    found: list[tuple[Aim, float]] = []
    if count == RESIDENT_AT:
        for name, whose in ((CONSUMER, "consumer"), (PROVIDER, "provider")):
            size = cost.resident[f"{name}/liqod"] / 2**20
            found.append((of(RESIDENT, whose), size))
    if count >= 100:
        own, servers = per_pod(remote, "liqod"), per_pod(remote, *API_SERVERS)
        local = _api_server(pair.local)
        found += [
            (of(OWN, count), own / local),
            (of(SERVERS, count), servers / local),
            (of(RATIO, count), remote.timing.wall / pair.local.timing.wall),
            (of(TO_PEER, count), cost.bytes_out / count),
            (of(FROM_PEER, count), cost.bytes_in / count),
        ]
    return found


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("offload", __doc__ or "")
    made.add_argument(
        "--pods",
        type=int,
        nargs="+",
        default=list(COUNTS),
        metavar="N",
        help=f"numbers of pods; default {' '.join(map(str, COUNTS))}",
    )
    made.add_argument(
        "--events",
        choices=("all", "warnings", "none"),
        default="",
        help="have nodes write Events of pods, of which those are told at home; otherwise none",
    )
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
