"""The cost of a peering while nothing happens, and how soon a peer that is gone is noticed.

With one peer and one namespace mapped to it, for a minute: resident memory and CPU of both daemons
and of both API servers, requests, and bytes to and from the peer. Then the peer's API server
freezes (it accepts and answers nothing), is killed, and, where this runs as root, its host
vanishes (packets are lost without a word); noticed is when the virtual node is no longer Ready.

With --peers also so many peers, all embedded in one process, beside a consumer of the chosen kind.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import trio

from benchmarks.embedded import CONSUMER, Farm
from benchmarks.peers import PEER_CPU, PEER_MEMORY, peer
from benchmarks.report import Aim, Report, mib, number
from benchmarks.stage import (
    API_SERVERS,
    PROVIDER,
    SECOND_HOST,
    Cost,
    Stage,
    offloaded,
    parser,
    peered,
    route,
    run,
    say,
    stage,
)
from benchmarks.watching import watching
from liqod.apimachinery.kinds import NODES
from tests.testbed.federation import Member
from tests.testbed.workloads import is_ready

NAMESPACE = "shop"
NOTICED, BACK = 60.0, 60.0
"""Seconds within which a failure, and its end, is noticed in any case."""
WAYS = FREEZING, VANISHING, DYING = "frozen", "vanished", "killed"
MANY = 128

RESIDENT = Aim("resident, one peering, nothing offloaded, MiB, {}", "222 / 156", 75.0)
TRAFFIC = Aim("idle traffic to a peer, one namespace mapped, bytes a minute", "2200", 6000.0)
GONE = Aim("a peer that is gone noticed, s", "", 5.0)
FROZEN = Aim("a peer that is frozen noticed, s", "", 25.0)


def measure(chosen: argparse.Namespace) -> Report:
    """One peer, and many where they are asked for."""
    report = Report("At rest", rows=[("", "one peer")])
    with stage(embedded=chosen.embedded) as made:
        rome, milan = peered(made, host=SECOND_HOST)
        one = resting(made, chosen, rome, report)
        say("waiting for the failures to be noticed")
        noticed = trio.run(functools.partial(vanishing, rome, milan, chosen.ways))
    report.figures |= {"one": one.as_json(), "noticed_seconds": noticed}
    add_rows(report, one, noticed)
    many = MANY if chosen.peers is None else chosen.peers
    if many > 1:
        with stage(embedded=chosen.embedded) as made:
            many_peers(made, many, chosen, report, one)
    return report


def resting(made: Stage, chosen: argparse.Namespace, rome: Member, report: Report) -> Cost:
    """Nothing offloaded; then one namespace mapped, which is what is measured."""
    time.sleep(chosen.settle)
    bare = made.cost(made.sample(), made.sample())
    report.figures["unmapped_resident_bytes"] = bare.resident
    for name in (CONSUMER, PROVIDER):
        size = bare.resident[f"{name}/liqod"] / 2**20
        whose = "consumer" if name == CONSUMER else "provider"
        aim = Aim(RESIDENT.what.format(whose), RESIDENT.liqo, RESIDENT.aim)
        report.aims.append((aim, size))
        report.rows.append((f"{whose}, nothing mapped, MiB", number(size)))
    offloaded(rome, NAMESPACE)
    time.sleep(chosen.settle)
    say(f"one namespace mapped: nothing happens for {chosen.seconds:.0f} s")
    return made.idle(chosen.seconds)


def add_rows(report: Report, one: Cost, noticed: dict[str, float]) -> None:
    """The rows and aims of one peer."""
    minute = 60 / one.seconds
    for name, size in one.resident.items():
        if name.endswith("/liqod"):
            report.rows.append((f"{name}, MiB", mib(size)))
    for name, cpu in one.cpu.items():
        if name.split("/")[1] in ("liqod", *API_SERVERS):
            report.rows.append((f"{name}, CPU s a minute", f"{cpu * minute:.3f}"))
    total = (one.bytes_out + one.bytes_in) * minute
    report.rows += [
        ("bytes to the peer a minute", f"{one.bytes_out * minute:.0f}"),
        ("bytes from it", f"{one.bytes_in * minute:.0f}"),
    ]
    report.rows += [
        (f"requests a minute: {' '.join(key)}", number(count * minute))
        for key, count in sorted(one.requests.items())
        if count * minute >= 2
    ]
    report.rows += [(f"noticed: {what}, s", f"{took:.1f}") for what, took in noticed.items()]
    report.aims.append((TRAFFIC, total))
    if FREEZING in noticed:
        report.aims.append((FROZEN, noticed[FREEZING]))
    gone = [took for what, took in noticed.items() if what != FREEZING]
    if gone:
        report.aims.append((GONE, max(gone)))


async def vanishing(rome: Member, milan: Member, ways: list[str]) -> dict[str, float]:
    """Seconds until the virtual node is no longer Ready, for each way of being gone."""
    found: dict[str, float] = {}
    async with watching(rome.plane.kubeconfig, NODES) as nodes:

        def up() -> bool:
            return nodes.has("", PROVIDER, is_ready)

        async def notice(what: str, vanish: Callable[[], Any]) -> None:
            began = trio.current_time()
            vanish()
            took = await nodes.until(f"{what} noticed", lambda: not up(), NOTICED)
            found[what] = took - began

        await nodes.until("a Ready node", up, BACK)
        if FREEZING in ways:
            with contextlib.ExitStack() as stack:
                stack.callback(milan.plane.thaw)
                await notice(FREEZING, milan.plane.freeze)
            await nodes.until("a Ready node again", up, BACK)
        if VANISHING in ways and route("add", SECOND_HOST):
            try:
                await notice(VANISHING, lambda: None)
            finally:
                route("del", SECOND_HOST)
            await nodes.until("a Ready node again", up, BACK)
        if DYING in ways:
            await notice(DYING, milan.plane.kill)
    return found


def many_peers(
    made: Stage, count: int, chosen: argparse.Namespace, report: Report, one: Cost
) -> None:
    """The same with many embedded peers, and what each further one costs."""
    say(f"starting {count} embedded providers")
    farm = Farm(count)
    try:
        made.start(CONSUMER)
        made.meter = farm.meter
        rome = made.join(CONSUMER)
        for lender in farm.lenders:
            user = farm.user(lender)
            trio.run(peer, rome, lender.name, "--remote-kubeconfig", str(user))
        offloaded(rome, NAMESPACE)
        time.sleep(chosen.settle + count / 4)
        say(f"{count} peers: nothing happens for {chosen.seconds:.0f} s")
        many = made.idle(chosen.seconds)
    finally:
        made.meter = None
        farm.close()
    report.figures["many"] = {"peers": count, **many.as_json()}
    minute, name = 60 / many.seconds, f"{CONSUMER}/liqod"
    memory = (many.resident[name] - one.resident[name]) / 2**20 / (count - 1)
    cpu = (many.cpu[name] * minute - one.cpu[name] * 60 / one.seconds) / (count - 1)
    total = (many.bytes_out + many.bytes_in) * minute / count
    report.rows += [
        (f"with {count} peers: {name}, MiB", mib(many.resident[name])),
        (f"with {count} peers: {name}, CPU s a minute", f"{many.cpu[name] * minute:.3f}"),
        (f"with {count} peers: bytes to and from each a minute", f"{total:.0f}"),
    ]
    report.aims += [(PEER_MEMORY, memory), (PEER_CPU, cpu)]


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("rest", __doc__ or "")
    made.add_argument("--seconds", type=float, default=60.0, help="how long nothing happens")
    made.add_argument(
        "--settle", type=float, default=15.0, help="seconds until a change has settled"
    )
    made.add_argument(
        "--ways", nargs="*", default=list(WAYS), choices=WAYS, help="how the peer is gone"
    )
    made.add_argument("--peers", type=int, help=f"how many are many; default {MANY}, 1 for none")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
