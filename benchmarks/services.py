"""The cost of Services of the set, beside the same work inside one cluster.

Two peered clusters share namespaces. Milliseconds from the first of the requests that make a
Service with ten endpoints and export it, until the peer has all that a client's first call needs:
the import's address, and a ready endpoint behind it. Beside it stand the same requests without the
export, until the cluster itself shows its Service and its endpoint. Then one endpoint changes again
and again: milliseconds until its own cluster shows it, and until the peer does, of the same change;
and, between the two, until the exporter has written it for the peer, and until the peer has that.

Last, many exports of ten endpoints each: seconds until all are told and imported, the memory of
both daemons that they take, and what is written while nothing happens. A bound leaves some out
where they are of more than 31 namespaces with 128 exports: each of these has to say so.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import trio

from benchmarks import manyexports
from benchmarks.embedded import CONSUMER
from benchmarks.manyexports import endpoint_slice, make
from benchmarks.report import Aim, Report
from benchmarks.stage import PROVIDER, Stage, parser, run, say, stage
from benchmarks.watching import Watcher, watching
from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.model.clusterset.importing import derived_name
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.resources.multicluster import SERVICE_IMPORTS
from tests.testbed.federation import Member

IMPORTS = SERVICE_IMPORTS["v1beta1"]
NAMESPACE, ALONE = "shop", "alone"
"""A namespace that both share, and one that neither does."""
CHANGED: Final = ("home changed", "told", "heard", "peer changed")
"""What a changed endpoint is seen in, one after the other."""
DEADLINE: Final = 600.0
PAUSE: Final = 0.5
"""Seconds between rounds, so that each finds everything at rest."""

FIRST = Aim("from an export to the first call that a peer's pod can make, s", "", 1.0)
CHANGE = Aim("a changed endpoint at the peer, times as long as at home", "", 1.5)

Json = dict[str, Any]


@dataclass(frozen=True)
class Sights:
    """What is seen: the exporter's objects, those of the peer's imports, its imports, and what the
    exporter tells, as it has it and as the peer does."""

    rome: Watcher
    milan: Watcher
    imports: Watcher
    told: Watcher
    heard: Watcher


def measure(chosen: argparse.Namespace) -> Report:
    """The times, and then what lasts."""
    report = Report("Services of the set")
    with stage(embedded=chosen.embedded) as made:
        rome, milan = sharing(made)
        say(f"{chosen.rounds} rounds")
        took = trio.run(functools.partial(timed, rome, milan, chosen.rounds))
        add_times(report, took)
        many = chosen.exports, chosen.settle, chosen.seconds
        manyexports.measure(made, report, *many)
    return report


def sharing(made: Stage) -> tuple[Member, Member]:
    """Two clusters of which one borrows from the other, with the namespace that they share."""
    say("starting two clusters with liqod")
    made.start(CONSUMER, PROVIDER)
    more = {"services": {"enabled": True}}
    rome, milan = (made.join(name, more=more) for name in (CONSUMER, PROVIDER))
    for member in (rome, milan):
        member.liqod("install", "--services")
        member.create("/api/v1/namespaces", {"metadata": {"name": ALONE}})
    manyexports.share(rome, milan, NAMESPACE)
    made.federation.peer(rome, milan, cpu="1", memory="1Gi", pods="10")
    return rome, milan


async def timed(rome: Member, milan: Member, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each round."""
    found: dict[str, list[float]] = {"home": [], "peer": [], **{each: [] for each in CHANGED}}
    async with AsyncExitStack() as stack:
        here, there = rome.plane.kubeconfig, milan.plane.kubeconfig
        sights = Sights(
            await stack.enter_async_context(watching(here, ENDPOINT_SLICES)),
            await stack.enter_async_context(watching(there, ENDPOINT_SLICES)),
            await stack.enter_async_context(watching(there, IMPORTS)),
            await stack.enter_async_context(watching(here, SERVICE_EXCHANGES)),
            await stack.enter_async_context(watching(there, SERVICE_EXCHANGES)),
        )
        for number in range(rounds):
            name = f"bench-{number}"
            for where, namespace in (("home", ALONE), ("peer", NAMESPACE)):
                found[where].append(await first(sights, name, namespace))
                await trio.sleep(PAUSE)
            for where, took in (await change(sights, name, number)).items():
                found[where].append(took)
            await trio.sleep(PAUSE)
    return found


async def first(sights: Sights, name: str, namespace: str) -> float:
    """Milliseconds from the first request until a client's call has a place to go."""
    exported = namespace == NAMESPACE
    at = began = trio.current_time()

    def has_address() -> bool:
        return sights.imports.has(NAMESPACE, name, lambda body: b'"ips":["' in body)

    async def look(by: Watcher, seen: Callable[[], bool]) -> None:
        nonlocal at
        at = max(at, await by.until(f"{name} in {namespace}", seen, DEADLINE))

    async with trio.open_nursery() as nursery:
        if exported:
            nursery.start_soon(look, sights.imports, has_address)
            nursery.start_soon(look, sights.milan, lambda: placed(sights.milan, name))
        else:
            home = sights.rome.informer.store
            nursery.start_soon(look, sights.rome, lambda: (ALONE, f"{name}-x") in home)
        await make(sights.rome, name, namespace, exported=exported)
    return (at - began) * 1e3


def placed(peer: Watcher, name: str, address: str = "") -> bool:
    """True if the peer's Service of an import has ready endpoints, and this address."""
    wanted = (derived_name((NAMESPACE, name)).encode(), b'"ready":true', address.encode())
    store = peer.informer.store
    bodies = (store.get(key) for key in store.indexed("namespace", NAMESPACE))
    return any(body is not None and all(each in body for each in wanted) for body in bodies)


async def change(sights: Sights, name: str, number: int) -> dict[str, float]:
    """Milliseconds until a changed endpoint is seen at home, and at the peer."""
    body = endpoint_slice(name, 2 + number % 200)
    address = f'"{body["endpoints"][0]["addresses"][0]}"'
    as_told = address.replace('"', '\\"').encode()  # an export is a text in an object's JSON
    began = trio.current_time()
    found: dict[str, float] = {}

    async def look(where: str, by: Watcher, seen: Callable[[], bool]) -> None:
        found[where] = (await by.until(f"the change of {name}", seen, DEADLINE) - began) * 1e3

    def at_home() -> bool:
        return sights.rome.has(NAMESPACE, f"{name}-x", lambda body: address.encode() in body)

    def has_exchange(by: Watcher) -> bool:
        return any(as_told in (by.informer.store.get(key) or b"") for key in by.informer.store)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look, "home changed", sights.rome, at_home)
        for where, by in (("told", sights.told), ("heard", sights.heard)):
            nursery.start_soon(look, where, by, functools.partial(has_exchange, by))
        nursery.start_soon(
            look, "peer changed", sights.milan, lambda: placed(sights.milan, name, address)
        )
        patch = {"endpoints": body["endpoints"]}
        await sights.rome.client.patch(ENDPOINT_SLICES, f"{name}-x", patch, NAMESPACE)
    return found


def add_times(report: Report, took: dict[str, list[float]]) -> None:
    """The rows and the aims of what was timed."""
    report.figures["milliseconds"] = took
    middle = {what: statistics.median(found[1:] or found) for what, found in took.items()}
    report.rows.append(("ms, the median", "at home", "at the peer", "times"))
    for what, home, peer in (
        ("a Service until it can be called", "home", "peer"),
        ("one endpoint changes", "home changed", "peer changed"),
    ):
        times = middle[peer] / middle[home]
        report.rows.append((what, f"{middle[home]:.1f}", f"{middle[peer]:.1f}", f"{times:.1f}"))
    report.rows.append(("  of it, the exchange", f"{middle['told']:.1f}", f"{middle['heard']:.1f}"))
    report.aims.append((FIRST, middle["peer"] / 1e3))
    report.aims.append((CHANGE, middle["peer changed"] / middle["home changed"]))


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("services", __doc__ or "")
    made.add_argument("--rounds", type=int, default=12, help="Services that are made one by one")
    made.add_argument("--exports", type=int, default=1000, help="exports that stay")
    made.add_argument("--seconds", type=float, default=60.0, help="of rest")
    made.add_argument(
        "--settle", type=float, default=15.0, help="seconds without a write before rest"
    )
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
