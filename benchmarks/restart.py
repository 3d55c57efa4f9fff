"""The cost of a start into a peering that is full: each daemon, with many offloaded pods there.

So many pods run on the virtual node; then each daemon in turn is stopped and started again, with
one more pod created in between. For each this prints the seconds until the daemon leads, until it
takes up the new pod (the consumer: there is a ShadowPod; the provider: there is a Pod) and until
that is Ready at the consumer; the CPU, the peak and the resident memory; the bytes between consumer
and peer; and the requests. That no remote pod was made anew is checked.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from benchmarks import load
from benchmarks.embedded import CONSUMER
from benchmarks.report import Report, mib, number
from benchmarks.stage import (
    API_SERVERS,
    PROVIDER,
    Cost,
    Requests,
    Stage,
    offloaded,
    parser,
    peered,
    run,
    say,
    stage,
)
from benchmarks.watching import watching
from liqod.apimachinery.kinds import PODS, Kind
from liqod.resources import SHADOW_PODS
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member
from tests.testbed.workloads import core, is_ready, pod

NAMESPACE = "full"
THERE = f"{NAMESPACE}-{CONSUMER}"
NEW = "new-"
DEADLINE = 600.0
SETTLE = 10.0
"""Seconds after the new pod is Ready whose cost counts: what was put off comes in them."""
TOLERATES = [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}]
"""The toleration that the webhook would put into a pod: a daemon that is away does not."""
SHOWN = 14
"""How many kinds of requests are printed, those most often made first."""


@dataclass
class Start:
    """One daemon's start: seconds, and what it cost."""

    leads: float = 0.0
    taken: float = 0.0
    ready: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    resident: int = 0
    resident_before: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    requests: Requests = field(default_factory=Requests)

    def as_json(self) -> dict[str, Any]:
        """For another program."""
        requests = {" ".join(key): count for key, count in self.requests.items() if count}
        return {**vars(self), "requests": requests}


def measure(chosen: argparse.Namespace) -> Report:
    """So many pods, both daemons."""
    starts: dict[str, Start] = {}
    filling: list[Cost] = []
    with stage(embedded=chosen.embedded) as made:
        rome, milan = peered(made, pods=chosen.pods + 50)
        offloaded(rome, NAMESPACE)

        before = made.sample()

        def settled() -> None:
            filling.append(made.cost(before, made.sample()))
            # In a thread of its own: the load's loop holds this one.
            worker = threading.Thread(target=each, args=(made, rome, milan, starts))
            worker.start()
            worker.join()

        say(f"{chosen.pods} pods")
        timing = load.run(rome.plane.kubeconfig, NAMESPACE, PROVIDER, chosen.pods, settled)
        if len(starts) < 2:
            raise TestbedError("a daemon did not start as it should; see above")
    return report(chosen.pods, timing, filling[0], starts)


def each(made: Stage, rome: Member, milan: Member, starts: dict[str, Start]) -> None:
    """Start both anew, one after the other."""
    try:
        for member, kind in ((rome, SHADOW_PODS), (milan, PODS)):
            name = member.plane.name
            say(f"liqod of {name} is started again")
            starts[name] = start(made, member, rome, milan, kind, f"{NEW}{name}")
    except TestbedError as error:
        say(str(error))
    finally:
        for name in rome.pods(NAMESPACE):
            if name.startswith(NEW):
                path = f"{core(NAMESPACE, 'pods', name)}?gracePeriodSeconds=0"
                rome.api.call("DELETE", path)


def start(made: Stage, member: Member, rome: Member, milan: Member, kind: Kind, name: str) -> Start:
    """Stop a daemon, create a pod, start the daemon, and wait until the pod is Ready."""
    remote_pods = uids(milan)
    before = made.sample()
    member.daemon.stop()
    made.forget_peaks()
    found = Start()
    trio.run(arrive, member, rome, milan, kind, name, found)
    time.sleep(SETTLE)
    after, process = made.sample(), f"{member.plane.name}/liqod"
    cost: Cost = made.cost(before, after)
    found.cpu = after.usage[process].cpu
    found.peak, found.resident = after.usage[process].peak, after.usage[process].rss
    found.resident_before = before.usage[process].rss
    found.bytes_out, found.bytes_in, found.requests = cost.bytes_out, cost.bytes_in, cost.requests
    if uids(milan) != remote_pods:
        raise TestbedError(f"remote pods were made anew or have gone when {process} was started")
    return found


def uids(milan: Member) -> dict[str, str]:
    """The remote pods of the pods that were there first."""
    found = milan.pods(THERE).items()
    return {name: one["metadata"]["uid"] for name, one in found if not name.startswith(NEW)}


async def arrive(
    member: Member, rome: Member, milan: Member, kind: Kind, name: str, found: Start
) -> None:
    """Start the daemon with a new pod there; notes when what happened."""
    kubeconfigs = rome.plane.kubeconfig, milan.plane.kubeconfig
    async with (
        watching(kubeconfigs[0], PODS, NAMESPACE) as context,
        watching(kubeconfigs[1], kind, THERE) as peer,
    ):
        selector = {"kubernetes.io/hostname": PROVIDER}
        body = pod(name, nodeSelector=selector, tolerations=TOLERATES)
        await context.client.create(PODS, body, NAMESPACE)
        began = trio.current_time()

        async def leads() -> None:
            await trio.to_thread.run_sync(member.daemon.start)
            found.leads = trio.current_time() - began

        async def takes_up() -> None:
            there = partial(peer.has, THERE, name, lambda body: True)
            found.taken = await peer.until(f"{kind.name} {name}", there, DEADLINE) - began

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leads)
            nursery.start_soon(takes_up)
            runs = partial(context.has, NAMESPACE, name, is_ready)
            found.ready = await context.until(f"{name} Ready", runs, DEADLINE) - began


def report(count: int, timing: load.Timing, filling: Cost, starts: dict[str, Start]) -> Report:
    """A column for each daemon."""
    figures = {name: found.as_json() for name, found in starts.items()}
    made = Report(
        f"Starting into {count} offloaded pods",
        figures={
            "pods": count,
            "ready_seconds": timing.wall,
            "until_ready": filling.as_json(),
            "starts": figures,
        },
    )
    made.rows += [
        ("all Ready before, s", number(timing.wall)),
        ("  CPU per pod, ms: both daemons", number(filling.cpu_of("liqod") / count * 1e3)),
        ("  both API servers", number(filling.cpu_of(*API_SERVERS) / count * 1e3)),
        ("  bytes from the peer, per pod", number(filling.bytes_in / count)),
        ("", ""),
    ]
    made.rows.append(("", *(f"{name}/liqod" for name in starts)))

    def row(what: str, of: Callable[[Start], str]) -> None:
        made.rows.append((what, *(of(found) for found in starts.values())))

    row("leads after, s", lambda found: number(found.leads))
    row("takes up a new pod after, s", lambda found: number(found.taken))
    row("  which is Ready after, s", lambda found: number(found.ready))
    row("CPU, s", lambda found: number(found.cpu))
    row("resident before, MiB", lambda found: mib(found.resident_before))
    row("  peak, MiB", lambda found: mib(found.peak))
    row("  at the end, MiB", lambda found: mib(found.resident))
    row("bytes to the peer", lambda found: str(found.bytes_out))
    row("bytes from the peer", lambda found: str(found.bytes_in))
    total: Requests = Requests()
    for found in starts.values():
        total += found.requests
    for key, _ in total.most_common(SHOWN):
        row(f"requests: {' '.join(key)}", lambda found, key=key: str(found.requests[key]))  # type: ignore[misc]
    return made


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("restart", __doc__ or "")
    made.add_argument("--pods", type=int, default=1000, help="offloaded pods; default 1000")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
