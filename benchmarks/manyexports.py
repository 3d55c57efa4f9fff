"""Many exports of two peers: when all are told and imported, and what they cost from then on."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import trio

from benchmarks.embedded import CONSUMER
from benchmarks.load import each
from benchmarks.report import Aim, Report, mib
from benchmarks.stage import PROVIDER, Cost, Stage, pod_cidr, say
from benchmarks.watching import Changes, Watcher, watching
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, SERVICES
from liqod.kube.cache.store import Key, StoreChange
from liqod.model.clusterset import verdicts
from liqod.resources.exchanges import MOST_EXPORTS, SERVICE_EXCHANGES, ServiceExchange
from liqod.resources.multicluster import SERVICE_EXPORTS, SERVICE_IMPORTS, ServiceExport
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member

EXPORTS: Final = SERVICE_EXPORTS["v1beta1"]
IMPORTS: Final = SERVICE_IMPORTS["v1beta1"]
ENDPOINTS: Final = 10
DEADLINE: Final = 600.0
"""Seconds until all is there; one more for each export."""
SHARED: Final = tuple(
    f"{kind}{part}"
    for kind in ("serviceexports", "serviceimports", "serviceexchanges", "endpointslices")
    for part in ("", "/status")
)
WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
REST: Final = Aim("writes of {} exports with ten endpoints each, at rest", "", 0.0)

Json = dict[str, Any]


@dataclass(frozen=True)
class Took:
    """Seconds from the first request until all exports are made, imported by their own cluster,
    told the peer or left out by a bound, imported by the peer, and until each says so; and the
    number of those that are told."""

    made: float
    own: float
    told: float
    peer: float
    said: float
    count: int


def measure(made: Stage, report: Report, exports: int, settle: float, seconds: float) -> None:
    """Make the exports, wait for rest, and add what is found.

    Args:
        made: the stage.
        report: for the rows and the aim.
        exports: their number.
        settle: seconds without a write before rest.
        seconds: of rest.
    """
    rome, milan = (made.federation.members[name] for name in (CONSUMER, PROVIDER))
    say(f"{exports} exports of {ENDPOINTS} endpoints")
    share(rome, milan, *names_of(exports))
    time.sleep(settle)
    bare, used = made.idle(1.0), made.sample()
    took = trio.run(functools.partial(_many, rome, milan, exports))
    cost = made.cost(used, made.sample())
    _settle(made, settle, DEADLINE + exports)
    say(f"nothing happens for {seconds:.0f} s")
    _add(report, exports, took, (bare, cost, made.idle(seconds)))


def share(rome: Member, milan: Member, *names: str) -> None:
    """Have both clusters share namespaces with each other."""
    for member, peer in ((rome, milan), (milan, rome)):
        for name in names:
            marks = {labels.SHARE_SERVICES: peer.name}
            member.create("/api/v1/namespaces", {"metadata": {"name": name, "annotations": marks}})


def names_of(exports: int) -> list[str]:
    """The namespaces of so many exports, each with as many as a peer is told."""
    return [f"many-{number}" for number in range(-(-exports // MOST_EXPORTS))]


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


class _Sums(Changes):
    """The numbers that the objects of kinds add up to, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.now: Counter[str] = Counter()
        self._parts: dict[tuple[str, Key], int] = {}

    def follow(self, name: str, by: Watcher, count: Callable[[bytes], int]) -> None:
        """Add up the parts of all objects that are followed."""

        def see(change: StoreChange) -> None:
            part = count(change.new) if change.new is not None else 0
            self.now[name] += part - self._parts.pop((name, change.key), 0)
            self._parts[name, change.key] = part
            self.notify()

        by.informer.subscribe(see)

    async def until_now(
        self, what: str, happens: Callable[[Counter[str]], bool], late: float
    ) -> float:
        """As :meth:`until`, of the numbers, which are told where it is late."""
        try:
            return await self.until(what, lambda: happens(self.now), late)
        except TestbedError as error:
            raise TestbedError(f"{error}: {dict(self.now)}") from error


def _told(body: bytes) -> int:
    found = msgspec.json.decode(body, type=ServiceExchange)
    return len(found.spec.exports) if found.spec.namespace.startswith("many-") else 0


def _says(body: bytes, status: str, reason: str) -> bool:
    """True if one of the exports, or its import, has that condition; others are left out."""
    if b'"name":"many-' not in body:
        return False
    said = msgspec.json.decode(body, type=ServiceExport).status.conditions
    return any(
        (each.type, each.status, each.reason) == (verdicts.READY, status, reason) for each in said
    )


async def _many(rome: Member, milan: Member, exports: int) -> Took:
    """Export so many Services; returns when all is as it stays."""
    spaces = names_of(exports)
    keys = [f"{spaces[number // MOST_EXPORTS]}/many-{number}" for number in range(exports)]
    async with AsyncExitStack() as stack:
        here, there = rome.plane.kubeconfig, milan.plane.kubeconfig
        at = await stack.enter_async_context(watching(here, NAMESPACES, connections=16))
        rooms = await stack.enter_async_context(watching(here, SERVICE_EXCHANGES))
        marks = await stack.enter_async_context(watching(here, EXPORTS))
        own = await stack.enter_async_context(watching(here, IMPORTS))
        peer = await stack.enter_async_context(watching(there, IMPORTS))
        sums = _Sums()
        sums.follow("known", marks, lambda body: _says(body, "True", verdicts.EXPORTED))
        sums.follow("left out", marks, lambda body: _says(body, "False", verdicts.FAILED))
        sums.follow("told", rooms, _told)
        for name, imports in (("own", own), ("peer", peer)):
            sums.follow(name, imports, lambda body: _says(body, "True", verdicts.READY))
        found: dict[str, float] = {}
        began = trio.current_time()

        async def until(what: str, happens: Callable[[Counter[str]], bool]) -> None:
            found[what] = await sums.until_now(what, happens, DEADLINE + exports) - began
            say(f"{what}: {found[what]:.0f} s")

        async with trio.open_nursery() as nursery:
            start = nursery.start_soon
            start(until, "own", lambda now: now["own"] == exports)
            start(until, "told", lambda now: now["told"] + now["left out"] == exports)
            start(until, "said", lambda now: now["known"] + now["left out"] == exports)
            start(until, "peer", lambda now: now["peer"] + now["left out"] == exports)
            await each(keys, functools.partial(_make_key, at))
            found["made"] = trio.current_time() - began
            say(f"made: {found['made']:.0f} s")
        return Took(**found, count=sums.now["told"])


async def _make_key(at: Watcher, key: str) -> None:
    """Write and export the Service of a key."""
    namespace, _, name = key.partition("/")
    await make(at, name, namespace, exported=True)


def _settle(made: Stage, seconds: float, deadline: float) -> None:
    """Wait until so many seconds have gone by without a write of what is shared."""
    until = time.monotonic() + deadline
    while _writes(made.idle(seconds)):
        if time.monotonic() > until:
            raise TestbedError("what is shared does not come to rest")


def _writes(cost: Cost) -> dict[str, int]:
    """The writes of what is shared, by cluster, verb and resource."""
    return {
        " ".join(key): count
        for key, count in cost.requests.items()
        if key[1] in WRITES and key[2] in SHARED and count
    }


def _add(report: Report, exports: int, took: Took, costs: tuple[Cost, Cost, Cost]) -> None:
    """The rows and the aims of many exports, by the costs before, of making them, and of rest."""
    bare, made, rest = costs
    written = _writes(rest)
    report.figures |= {
        "exports": msgspec.to_builtins(took),
        "made": made.as_json(),
        "rest": rest.as_json(),
        "written": written,
    }
    report.rows.append((f"{exports} exports of {ENDPOINTS} endpoints", CONSUMER, PROVIDER))
    names = [f"{name}/liqod" for name in (CONSUMER, PROVIDER)]
    grown = [(rest.resident[name] - bare.resident[name]) / 1024 / exports for name in names]
    minute = 60 / rest.seconds
    report.rows += [
        ("told, of them; a bound leaves out the others, as each says", str(took.count)),
        ("seconds until all are made", f"{took.made:.1f}"),
        ("seconds until all are told", f"{took.told:.1f}"),
        ("seconds until all are imported", f"{took.own:.1f}", f"{took.peer:.1f}"),
        ("seconds until each says so", f"{took.said:.1f}"),
        ("CPU of the daemon, s", *(f"{made.cpu[name]:.1f}" for name in names)),
        ("memory of the daemon, MiB", *(mib(rest.resident[name]) for name in names)),
        ("memory of the daemon, kB for each", *(f"{each:.1f}" for each in grown)),
        ("at rest, CPU s a minute", *(f"{rest.cpu[name] * minute:.3f}" for name in names)),
    ]
    report.aims.append(
        (Aim(REST.what.format(f"{exports:,}"), "", REST.aim), float(sum(written.values())))
    )
