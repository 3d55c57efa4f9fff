"""The cost of placing pods where they fit, beside liqod with all of that switched off.

Two pairs of clusters run side by side. In one the provider tells what is free on its nodes and pods
that cannot start return; in the other neither is so. The same pods go to both by turns, and the
medians are compared as ratios. Then the writes of what is free are counted, at rest and while it
changes, and the memory that it takes of a peer with many nodes.

Last, three providers whose nodes are nearly full and fragmented get Deployments that just fit. For
each way of showing their room it prints the share of the pods that had to return, and the seconds
until the last one runs.
"""

from __future__ import annotations

import argparse
import functools
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import trio

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
    run,
    say,
    stage,
)
from benchmarks.watching import Watcher, watching
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.kube.cache.store import StoreChange
from liqod.model.objects import podreturns
from liqod.model.peering import freecapacity
from tests.testbed.api import wait_until
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member
from tests.testbed.workloads import CONTAINER, core, deployment, deployments, group, is_ready, pod

COUNTS = (100, 1000)
NAMESPACE = "shop"
THERE = f"{NAMESPACE}-{CONSUMER}"
REMOTE_PODS = core(THERE, "pods"), group("offloading.liqo.io/v1beta1", THERE, "shadowpods")
OF_A_POD = ("pods", "shadowpods", "events")
"""Resources whose requests are a pod's."""
TRUTH, SLICES = "resourceslices", "authentication.liqo.io/v1beta1"
WRITES = ("POST", "PUT", "PATCH")
NODES = 10
MANY_NODES = 1000
COPIES = 3
"""Objects in a consumer's memory that have it: the slice there and here, and the VirtualNode."""

TIME = Aim("time of {} pods, as a multiple of that with it off", "", 1.05)
CPU = Aim("CPU of daemons and API servers for {} pods, as a multiple", "", 1.05)
MORE = Aim("further requests per pod ({} pods)", "", 0.05)
MEMORY = Aim("memory for what is free at a peer with 1,000 nodes, kB", "", 20.0)
AT_REST = Aim("writes of what is free, at rest", "", 0.0)
CHANGING = Aim("writes of what is free in 5 s, while it changes", "", 1.0)


@dataclass(frozen=True)
class Mode:
    """A way of showing a provider's room to its consumer.

    Attributes:
        provider, consumer: tables of the configuration of each.
        parts: the virtual nodes that a slice asks for; empty for one as a whole.
    """

    provider: Mapping[str, Any] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=dict)
    parts: str = ""


POOL = "example.org/pool"
RETURNS = {"return_unschedulable": 2, "return_back_off": 10}
"""Seconds; as long as an administrator gives them, all that is measured would be waiting."""
OFF = Mode(consumer={"return_unschedulable": 0, "return_image": 0, "return_refused": 0})
ON = Mode(provider={"show_free": True})
MODES: Final = {
    "one node, its sum": Mode(consumer=RETURNS),
    "one node, what is free told": Mode(provider={"show_free": True}, consumer=RETURNS),
    "one for each group, with unlike machines": Mode({"show_free": True}, RETURNS, "groups"),
    "one for each group": Mode({"show_free": True, "show_labels": [POOL]}, RETURNS, "groups"),
    "one for each machine": Mode({"show_free": True}, RETURNS, "nodes"),
}
"""The ways that are compared where nodes are fragmented."""


def join(made: Stage, name: str, mode: Mode, *, nodes: int, pods: int) -> Member:
    """A cluster with the settings of a mode."""
    lent = {"max_resources": {"pods": str(nodes * pods)}}
    more = {"provider": dict(mode.provider), "consumer": dict(mode.consumer), "guests": lent}
    return made.join(name, nodes=nodes, pods=pods, more=more)


def measure(chosen: argparse.Namespace) -> Report:
    """Each part that is asked for."""
    report = Report("Placement")
    if chosen.pods:
        with stage(embedded=chosen.embedded) as off, stage(embedded=chosen.embedded) as on:
            for made, mode in ((off, OFF), (on, ON)):
                _pair(made, mode, max(chosen.pods))
            for count in chosen.pods:
                _compare(off, on, count, chosen.rounds, report)
            _writes(on, chosen.seconds, report)
    _memory(report)
    for name in chosen.modes:
        say(f"fragmented: {name}")
        with stage(embedded=chosen.embedded) as made:
            _fragmented(made, name, chosen, report)
    return report


# -- what it costs where there is room -----------------------------------------------------------


def _pair(made: Stage, mode: Mode, most: int) -> None:
    """A consumer and a provider of several nodes, with room for so many pods."""
    made.start(CONSUMER, PROVIDER)
    rome = join(made, CONSUMER, mode, nodes=1, pods=110)
    milan = join(made, PROVIDER, mode, nodes=NODES, pods=2 * most)
    asked = {"cpu": str(most), "memory": f"{most}Gi", "pods": str(2 * most)}
    made.federation.peer(rome, milan, **asked)
    offloaded(rome, NAMESPACE)


@dataclass
class Run:
    """One run: seconds until all pods were Ready, and the cost until then."""

    seconds: float
    cost: Cost

    @property
    def cpu(self) -> float:
        """Seconds of the daemons and the API servers."""
        return self.cost.cpu_of("liqod", *API_SERVERS)

    @property
    def requests(self) -> int:
        """The requests for kinds that a pod is made of."""
        known = self.cost.requests.items()
        return sum(count for (_, _, what), count in known if what.split("/")[0] in OF_A_POD)


def _once(made: Stage, count: int) -> Run:
    ready: list[Sample] = []
    before = made.sample()
    rome, milan = (made.federation.members[name] for name in (CONSUMER, PROVIDER))

    def settled() -> None:
        ready.append(made.sample())

    timing = load.run(rome.plane.kubeconfig, NAMESPACE, PROVIDER, count, settled)

    def empty() -> bool:
        return not any(milan.names(f"{path}?limit=1") for path in REMOTE_PODS)

    wait_until("remote pods that are gone", empty, load.DEADLINE, pause=0.5)
    time.sleep(1.0)
    return Run(timing.wall, made.cost(before, ready[0]))


def _compare(off: Stage, on: Stage, count: int, rounds: int, report: Report) -> None:
    """The same pods in both pairs, by turns; the one that begins is the other each time."""
    runs: dict[bool, list[Run]] = {False: [], True: []}
    for turn in range(rounds):
        for is_on in (bool(turn % 2), not turn % 2):
            say(f"{count} pods, {'on' if is_on else 'off'}")
            runs[is_on].append(_once(on if is_on else off, count))

    def medians(of: Callable[[Run], float]) -> tuple[float, float]:
        without, with_ = (statistics.median(map(of, runs[key])) for key in (False, True))
        return without, with_

    if not report.rows:
        report.rows.append(("", "off", "on", "ratio"))
    times = medians(lambda run: run.seconds)
    cpu = medians(lambda run: run.cpu / count * 1e3)
    requests = medians(lambda run: run.requests / count)
    for what, (without, with_) in (
        (f"{count} pods until all are Ready, s", times),
        ("  CPU per pod, ms", cpu),
        ("  requests per pod", requests),
    ):
        report.rows.append((what, number(without), number(with_), f"{with_ / without:.3f}"))
    for aim, value in (
        (TIME, times[1] / times[0]),
        (CPU, cpu[1] / cpu[0]),
        (MORE, max(0.0, requests[1] - requests[0])),
    ):
        report.aims.append((Aim(aim.what.format(count), aim.liqo, aim.aim), value))
    report.figures.setdefault("cost", {})[str(count)] = {
        "seconds": times,
        "cpu_ms_per_pod": cpu,
        "requests_per_pod": requests,
    }


def _writes(made: Stage, seconds: float, report: Report) -> None:
    """The provider's writes of what is free, with nothing to do and with a pod more or less."""
    say(f"nothing happens for {seconds:.0f} s, then pods come and go for as long")
    time.sleep(10.0)  # what the last run has changed is told
    rest = _written(made.idle(seconds))
    milan = made.federation.members[PROVIDER]
    before, until, turns = made.sample(), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        name = f"own-{turns}"
        milan.create(core("default", "pods"), _filling(name, f"{PROVIDER}-{turns % NODES}", 3))
        time.sleep(0.5)
        if turns % 3:
            milan.api.call("DELETE", core("default", "pods", name))
        turns += 1
    changing = _written(made.cost(before, made.sample()))
    report.rows += [("", "", "", ""), (f"writes of what is free in {seconds:.0f} s", "", "", "")]
    report.rows.append(("  at rest", "", str(rest), ""))
    report.rows.append((f"  while {turns} pods come and go", "", str(changing), ""))
    report.aims += [(AT_REST, rest), (CHANGING, changing * 5.0 / max(seconds, 5.0))]
    report.figures["writes"] = {"seconds": seconds, "rest": rest, "changing": changing}


def _written(cost: Cost) -> int:
    return sum(
        count
        for (where, verb, what), count in cost.requests.items()
        if where == PROVIDER and verb in WRITES and what.split("/")[0] == TRUTH
    )


def _filling(name: str, node: str, cpu: int) -> dict[str, Any]:
    """A pod of the provider's own that takes so much of one node."""
    container = {**CONTAINER, "resources": {"requests": {"cpu": str(cpu)}}}
    return pod(name, nodeName=node, containers=[container])


def _memory(report: Report) -> None:
    """The bytes that a consumer keeps of what a large provider tells."""
    chance = random.Random(1)
    names = ("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi")
    nodes = [
        freecapacity.FreeNode(
            {"zone": f"zone-{chance.randrange(3)}", "gpu": chance.choice(("a100", "h100", ""))},
            chance.choice(((), (), ("gpu=true:NoSchedule",))),
            {name: chance.randrange(1, 10**6) * 10**9 for name in names},
        )
        for _ in range(MANY_NODES)
    ]
    text = freecapacity.tell(nodes, ("zone", "gpu"))
    if not text:
        raise TestbedError("a provider with many nodes tells nothing")
    written = len(msgspec.json.encode(text))  # as it is kept, within the JSON of an object
    report.rows.append((f"what {MANY_NODES} nodes have free, kB", "", number(written / 1e3), ""))
    report.rows.append((f"  in {COPIES} objects", "", number(COPIES * written / 1e3), ""))
    report.aims.append((MEMORY, COPIES * written / 1e3))
    report.figures["memory"] = {"written": written, "copies": COPIES}


# -- where it is full and fragmented -------------------------------------------------------------

MACHINE = 16
"""CPUs of a node, and the pods that it takes."""
HOLES: Final = {
    "milan": (7, 3, 3, 3, 3, 3, 3, 3),
    "turin": (7, 7, 5, 5, 2, 2, 2, 2),
    "genoa": (4, 4, 4, 4, 4, 4, 4, 4),
}
"""The CPUs that are free on each node of each provider."""
POOLS: Final = {7: "large", 5: "middle", 4: "middle", 3: "small", 2: "small"}
WANTED: Final = (("large", 6, 3), ("middle", 4, 10), ("small", 2, 8))
"""Deployments in the order of their creation: name, CPUs of a pod, and replicas. There is a place
for each pod, and the sum of any provider has room for several that no node of it has."""


class Seen:
    """The pods of the namespace, as they come and go.

    Attributes:
        returned: the UIDs of those that were ended at their peer to return.
    """

    def __init__(self) -> None:
        self.returned: set[str] = set()
        self._ready: set[str] = set()

    def see(self, change: StoreChange) -> None:
        """A pod has changed."""
        name = change.key[1]
        self._ready.discard(name)
        if change.new is None:
            return
        if is_ready(change.new):
            self._ready.add(name)
        found = msgspec.json.decode(change.new)
        if podreturns.begun(found):
            self.returned.add(found["metadata"]["uid"])

    def ready(self, name: str) -> int:
        """The number of Ready pods of a Deployment."""
        return sum(1 for each in self._ready if each.startswith(f"{name}-"))


def _fragmented(made: Stage, name: str, chosen: argparse.Namespace, report: Report) -> None:
    mode, deadline = MODES[name], chosen.deadline
    made.start(CONSUMER, *HOLES)
    rome = join(made, CONSUMER, mode, nodes=1, pods=110)
    for provider, holes in HOLES.items():
        member = join(made, provider, mode, nodes=len(holes), pods=MACHINE)
        _fill(member, holes)
        asked = {"cpu": str(sum(holes)), "memory": "100Gi", "pods": str(MACHINE * len(holes))}
        made.federation.peer(rome, member, **asked)
        notes = {"metadata": {"annotations": {labels.VIRTUAL_NODES: mode.parts or None}}}
        rome.patch(group(SLICES, f"liqo-tenant-{provider}", TRUTH, provider), notes)
    offloaded(rome, NAMESPACE)
    time.sleep(10.0)  # what is free is told
    seen = Seen()
    took = trio.run(functools.partial(_placed, rome, seen, deadline, chosen.pause))
    wanted = sum(count for _, _, count in WANTED)
    share = len(seen.returned) / wanted
    report.rows += [("", "", "", ""), (f"{wanted} pods, fragmented: {name}", "", "", "")]
    report.rows.append(("  share that had to return", "", f"{share:.2f}", ""))
    report.rows.append(("  until the last one runs, s", "", number(took) if took else "-", ""))
    report.figures.setdefault("fragmented", {})[name] = {"returned": share, "seconds": took}


def _fill(member: Member, holes: Iterable[int]) -> None:
    """Leave so many CPUs free on each node."""
    names = []
    for index, hole in enumerate(holes):
        name, node = f"own-{index}", f"{member.name}-{index}"
        member.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {POOL: POOLS[hole]}}})
        member.create(core("default", "pods"), _filling(name, node, MACHINE - hole))
        names.append(name)
    wait_until("own pods", lambda: member.ready_pods("default") >= set(names), 60)


async def _placed(rome: Member, seen: Seen, deadline: float, pause: float) -> float | None:
    """Seconds until the last pod runs, each Deployment made a pause after the one before runs."""
    async with watching(rome.plane.kubeconfig, PODS, NAMESPACE) as pods:
        pods.informer.subscribe(seen.see)
        began = trio.current_time()
        for name, cpu, count in WANTED:
            await trio.sleep(pause)
            body = deployment(name, count)
            template = body["spec"]["template"]["spec"]
            template["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}}
            await trio.to_thread.run_sync(rome.create, deployments(NAMESPACE), body)
            left = began + deadline - trio.current_time()
            if not await _all_ready(pods, seen, name, count, left):
                return None
        return trio.current_time() - began


async def _all_ready(pods: Watcher, seen: Seen, name: str, count: int, left: float) -> bool:
    with suppress(TestbedError):
        await pods.until(name, lambda: seen.ready(name) >= count, max(left, 0.0))
    return seen.ready(name) >= count


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("placement", __doc__ or "")
    made.add_argument(
        "--pods",
        type=int,
        nargs="*",
        default=list(COUNTS),
        help="numbers of pods; default 100 1000; none leaves that part out",
    )
    made.add_argument("--rounds", type=int, default=3, help="runs of each number, on and off")
    made.add_argument("--seconds", type=float, default=30.0, help="for which writes are counted")
    made.add_argument(
        "--modes",
        nargs="*",
        default=list(MODES),
        choices=list(MODES),
        help="ways of showing room that are compared; none leaves that part out",
    )
    made.add_argument("--pause", type=float, default=0.0, help="seconds before each Deployment")
    made.add_argument("--deadline", type=float, default=300.0, help="seconds for the last pod")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
