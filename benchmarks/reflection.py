"""The delay until what is written at the consumer is seen on the peer.

In an offloaded namespace that does nothing else: milliseconds from the start of the request that
creates a Service, a ConfigMap, a Secret or an EndpointSlice of 100 endpoints until the watch event
of its remote object at the peer; the first of each kind, whose watch is opened by it, and the
median of the rounds after it. Beside them stand two bare creates: the same object in a namespace
that is not offloaded, at the consumer and then at the peer, each until its own watch event. Then
the same for changing a ConfigMap, and the time until the last of many ConfigMaps, written side by
side, is there.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import trio

from benchmarks.embedded import CONSUMER
from benchmarks.load import each
from benchmarks.report import Aim, Report
from benchmarks.stage import offloaded, parser, peered, pod_cidr, run, say, stage
from benchmarks.watching import Watcher, watching
from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    NAMESPACES,
    SECRETS,
    SERVICES,
    Kind,
)
from tests.testbed.workloads import service

NAMESPACE = "shop"
THERE = f"{NAMESPACE}-{CONSUMER}"
DEADLINE = 30.0
PAUSE = 0.3
"""Seconds between rounds, so that each finds everything at rest."""
AIM = Aim("{} visible on the peer, ms", "{}", 12.0)
LIQO = {"Service": "23-32", "ConfigMap": "7-17", "Secret": "10-22"}
TWICE = Aim("{}, times two bare creates", "", 1.2)
TIMED = ("Service",)
"""The kinds that aim at a multiple of two bare creates."""
BARE = "bare"
"""A namespace of both clusters that is not offloaded, and what is found there."""
MANY = "many"
Json = dict[str, Any]


def configmap(name: str) -> Json:
    """A small ConfigMap."""
    return {"metadata": {"name": name}, "data": {"greeting": "buongiorno"}}


def secret(name: str) -> Json:
    """A small Secret."""
    return {"metadata": {"name": name}, "stringData": {"password": "s3cret"}}


def endpoint_slice(name: str) -> Json:
    """A slice of 100 endpoints in the consumer's own pod network."""
    network = pod_cidr(0).rsplit(".", 2)[0]
    endpoints = [
        {"addresses": [f"{network}.7.{number}"], "conditions": {"ready": True}}
        for number in range(1, 101)
    ]
    labels = {"kubernetes.io/service-name": "somewhere"}
    return {
        "metadata": {"name": name, "labels": labels},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080}],
    }


MADE: dict[Kind, Callable[[str], Json]] = {
    SERVICES: service,
    CONFIG_MAPS: configmap,
    SECRETS: secret,
    ENDPOINT_SLICES: endpoint_slice,
}


def measure(chosen: argparse.Namespace) -> Report:
    """All kinds, one after another."""
    with stage(embedded=chosen.embedded) as made:
        rome, milan = peered(made)
        offloaded(rome, NAMESPACE)
        for member in (rome, milan):
            member.create("/api/v1/namespaces", {"metadata": {"name": BARE}})
        say(f"{chosen.rounds} rounds")
        used = made.sample()
        kubeconfigs = rome.plane.kubeconfig, milan.plane.kubeconfig
        found = trio.run(functools.partial(reflect, *kubeconfigs, chosen.rounds, chosen.many))
        return report(found, made.cost(used, made.sample()).cpu, chosen.many)


async def reflect(here: Path, there: Path, rounds: int, many: int) -> dict[str, list[float]]:
    """Milliseconds for each kind and round."""
    found: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        context = await stack.enter_async_context(watching(here, NAMESPACES, connections=16))
        peer = {
            kind: await stack.enter_async_context(watching(there, kind, THERE)) for kind in MADE
        }
        bare = {
            kind: [
                await stack.enter_async_context(watching(at, kind, BARE)) for at in (here, there)
            ]
            for kind in MADE
        }
        for number in range(rounds):
            for kind, make in MADE.items():
                body = make(f"bench-{number}")
                took = await create(context, peer[kind], kind, body)
                found.setdefault(kind.name, []).append(took)
                await trio.sleep(PAUSE)
                both = [await create(one, one, kind, body, BARE, BARE) for one in bare[kind]]
                found.setdefault(f"{BARE} {kind.name}", []).append(sum(both))
                await trio.sleep(PAUSE)
            took = await change(context, peer[CONFIG_MAPS], f"bench-{number}")
            found.setdefault("ConfigMap changed", []).append(took)
            await trio.sleep(PAUSE)
        if many:
            found[MANY] = [await flood(context, peer[CONFIG_MAPS], many)]
    return found


async def create(
    context: Watcher,
    peer: Watcher,
    kind: Kind,
    body: Json,
    namespace: str = NAMESPACE,
    there: str = THERE,
) -> float:
    """Milliseconds until a new object is there; or the object itself, where that is bare."""
    name = body["metadata"]["name"]
    began = trio.current_time()
    at = began
    async with trio.open_nursery() as nursery:

        async def look() -> None:
            nonlocal at
            at = await peer.until(
                f"{kind.name} there", lambda: is_there(peer, name, there), DEADLINE
            )

        nursery.start_soon(look)
        await context.client.create(kind, body, namespace)
    return (at - began) * 1e3


async def change(context: Watcher, peer: Watcher, name: str) -> float:
    """Milliseconds until the remote object of a changed ConfigMap is the same."""
    began = trio.current_time()
    at = began

    def has_changed() -> bool:
        return peer.has(THERE, name, lambda body: b"buonasera" in body)

    async with trio.open_nursery() as nursery:

        async def look() -> None:
            nonlocal at
            at = await peer.until("the change there", has_changed, DEADLINE)

        nursery.start_soon(look)
        patch = {"data": {"greeting": "buonasera"}}
        await context.client.patch(CONFIG_MAPS, name, patch, NAMESPACE)
    return (at - began) * 1e3


async def flood(context: Watcher, peer: Watcher, count: int) -> float:
    """Milliseconds until the last of so many is there."""
    names = [f"many-{number}" for number in range(count)]
    began = trio.current_time()
    await each(names, lambda name: context.client.create(CONFIG_MAPS, configmap(name), NAMESPACE))
    at = await peer.until(
        "all of them there", lambda: all(is_there(peer, name) for name in names), DEADLINE
    )
    return (at - began) * 1e3


def is_there(peer: Watcher, name: str, namespace: str = THERE) -> bool:
    """True if an object of that name exists."""
    return (namespace, name) in peer.informer.store


def report(found: dict[str, list[float]], cpu: dict[str, float], many: int) -> Report:
    """A row for each kind."""
    report = Report("Reflection", figures={"milliseconds": found, "cpu_seconds": cpu})
    heads = ("first", "median", "slowest", "two bare creates", "times")
    report.rows.append(("ms until it is seen on the peer", *heads))
    for what, took in found.items():
        if what.startswith(BARE):
            continue
        if what == MANY:
            report.rows.append((f"{many} ConfigMaps, the last of them", "", f"{took[0]:.0f}"))
            continue
        later = took[1:] or took
        cells = [took[0], statistics.median(later), max(later)]
        if bare := found.get(f"{BARE} {what}"):
            twice = statistics.median(bare[1:] or bare)
            cells += [twice, cells[1] / twice]
            if what in TIMED:
                report.aims.append((Aim(TWICE.what.format(what), "", TWICE.aim), cells[-1]))
        report.rows.append((what, *(f"{value:.1f}" for value in cells)))
        if what in LIQO:
            aim = Aim(AIM.what.format(what), LIQO[what], AIM.aim)
            report.aims.append((aim, statistics.median(later)))
    return report


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("reflection", __doc__ or "")
    made.add_argument("--rounds", type=int, default=12, help="objects of each kind")
    made.add_argument("--many", type=int, default=200, help="ConfigMaps side by side; 0 for none")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
