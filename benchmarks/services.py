"""The cost of Services of the set, beside the same work inside one cluster.

Two peered clusters share namespaces. Milliseconds from the first of the requests that make a
Service with ten endpoints and export it, until the peer has all that a client's first call needs:
the import's address, and a ready endpoint behind it. Beside it stand the same requests without the
export, until the cluster itself shows its Service and its endpoint. Then one endpoint changes again
and again: milliseconds until its own cluster shows it, and until the peer does, of the same change;
and, between the two, until the exporter has written it for the peer, and until the peer has that.

Last, many exports of ten endpoints each: the memory of both daemons that they take, and what is
written while nothing happens.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import trio

from benchmarks.embedded import CONSUMER
from benchmarks.load import each
from benchmarks.report import Aim, Report
from benchmarks.stage import PROVIDER, Cost, Stage, parser, pod_cidr, run, say, stage
from benchmarks.watching import Watcher, watching
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, SERVICES
from liqod.model.clusterset.importing import derived_name
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.resources.multicluster import SERVICE_EXPORTS, SERVICE_IMPORTS
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member

EXPORTS, IMPORTS = SERVICE_EXPORTS["v1beta1"], SERVICE_IMPORTS["v1beta1"]
NAMESPACE, ALONE = "shop", "alone"
"""A namespace that both share, and one that neither does."""
ENDPOINTS: Final = 10
IN_ONE: Final = 100
"""Exports of one namespace, of which 128 are told."""
CHANGED: Final = ("home changed", "told", "heard", "peer changed")
"""What a changed endpoint is seen in, one after the other."""
DEADLINE: Final = 600.0
PAUSE: Final = 0.5
"""Seconds between rounds, so that each finds everything at rest."""
SHARED: Final = tuple(
    f"{kind}{part}"
    for kind in ("serviceexports", "serviceimports", "serviceexchanges", "endpointslices")
    for part in ("", "/status")
)
WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")

FIRST = Aim("from an export to the first call that a peer's pod can make, s", "", 1.0)
CHANGE = Aim("a changed endpoint at the peer, times as long as at home", "", 1.5)
REST = Aim("writes of {} exports with ten endpoints each, at rest", "", 0.0)

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
        rome, milan = sharing(made, chosen.exports)
        say(f"{chosen.rounds} rounds")
        took = trio.run(functools.partial(timed, rome, milan, chosen.rounds))
        add_times(report, took)
        say(f"{chosen.exports} exports of {ENDPOINTS} endpoints")
        time.sleep(chosen.settle)
        bare = made.idle(1.0)
        used = made.sample()
        trio.run(functools.partial(many, rome, milan, chosen.exports))
        cost = made.cost(used, made.sample())
        settle(made, chosen.settle)
        say(f"nothing happens for {chosen.seconds:.0f} s")
        add_rest(report, chosen.exports, bare, cost, made.idle(chosen.seconds))
    return report


def sharing(made: Stage, exports: int) -> tuple[Member, Member]:
    """Two clusters of which one borrows from the other, with the namespaces that they share."""
    say("starting two clusters with liqod")
    made.start(CONSUMER, PROVIDER)
    more = {"services": {"enabled": True}}
    rome, milan = (made.join(name, more=more) for name in (CONSUMER, PROVIDER))
    for member, peer in ((rome, milan), (milan, rome)):
        member.liqod("install", "--services")
        for name in (NAMESPACE, *names_of(exports)):
            marks = {labels.SHARE_SERVICES: peer.name}
            member.create("/api/v1/namespaces", {"metadata": {"name": name, "annotations": marks}})
        member.create("/api/v1/namespaces", {"metadata": {"name": ALONE}})
    made.federation.peer(rome, milan, cpu="1", memory="1Gi", pods="10")
    return rome, milan


def settle(made: Stage, seconds: float) -> None:
    """Wait until so many seconds have gone by without a write of what is shared."""
    until = time.monotonic() + DEADLINE
    while writes(made.idle(seconds)):
        if time.monotonic() > until:
            raise TestbedError("what is shared does not come to rest")


def writes(cost: Cost) -> dict[str, int]:
    """The writes of what is shared, by cluster, verb and resource."""
    return {
        " ".join(key): count
        for key, count in cost.requests.items()
        if key[1] in WRITES and key[2] in SHARED and count
    }


def names_of(exports: int) -> list[str]:
    """The namespaces of so many exports."""
    return [f"{NAMESPACE}-{number}" for number in range(-(-exports // IN_ONE))]


def service(name: str) -> Json:
    """A Service whose endpoints are written by hand."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    return {"metadata": {"name": name}, "spec": {"ports": ports}}


def endpoint_slice(name: str, host: int = 1) -> Json:
    """Its endpoints, in the exporter's pod network."""
    network = pod_cidr(0).rsplit(".", 2)[0]
    return {
        "metadata": {"name": f"{name}-x", "labels": {labels.SERVICE_NAME: name}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [f"{network}.{host}.{number}"], "conditions": {"ready": True}}
            for number in range(1, ENDPOINTS + 1)
        ],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


async def make(at: Watcher, name: str, namespace: str, *, exported: bool) -> None:
    """Write a Service with its endpoints, and its export."""
    await at.client.create(SERVICES, service(name), namespace)
    await at.client.create(ENDPOINT_SLICES, endpoint_slice(name), namespace)
    if exported:
        await at.client.create(EXPORTS, {"metadata": {"name": name}}, namespace)


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


async def many(rome: Member, milan: Member, exports: int) -> None:
    """Export so many Services; returns when the peer has the endpoints of all."""
    spaces = names_of(exports)
    keys = [f"{spaces[number // IN_ONE]}/many-{number}" for number in range(exports)]
    async with (
        watching(rome.plane.kubeconfig, NAMESPACES, connections=16) as at,
        watching(milan.plane.kubeconfig, ENDPOINT_SLICES) as peer,
    ):
        await each(keys, functools.partial(make_key, at))

        def all_there() -> bool:
            found = peer.informer.store
            return sum(len(found.indexed("namespace", each)) for each in spaces) >= exports

        await peer.until("the endpoints of all", all_there, DEADLINE)


async def make_key(at: Watcher, key: str) -> None:
    """Write and export the Service of a key."""
    namespace, _, name = key.partition("/")
    await make(at, name, namespace, exported=True)


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


def add_rest(report: Report, exports: int, bare: Cost, made: Cost, rest: Cost) -> None:
    """The rows and the aims of many exports."""
    written = writes(rest)
    report.figures |= {"made": made.as_json(), "rest": rest.as_json(), "written": written}
    report.rows.append((f"{exports} exports of {ENDPOINTS} endpoints", CONSUMER, PROVIDER))
    names = [f"{name}/liqod" for name in (CONSUMER, PROVIDER)]
    grown = [(rest.resident[name] - bare.resident[name]) / 1024 / exports for name in names]
    minute = 60 / rest.seconds
    report.rows += [
        ("seconds until the peer has all", "", f"{made.seconds:.1f}"),
        ("CPU of the daemon, s", *(f"{made.cpu[name]:.1f}" for name in names)),
        ("memory of the daemon, kB for each", *(f"{each:.1f}" for each in grown)),
        ("at rest, CPU s a minute", *(f"{rest.cpu[name] * minute:.3f}" for name in names)),
    ]
    report.aims.append(
        (Aim(REST.what.format(f"{exports:,}"), "", REST.aim), float(sum(written.values())))
    )


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
