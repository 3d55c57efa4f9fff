"""Three providers in processes of their own and one consumer, whose start latencies are compared
while one provider misbehaves.

Providers are embedded clusters behind relays; the consumer's daemon is a process too, so that the
event loop under test has nothing to do but its own work.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES, PODS, Kind
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.resources import SHADOW_PODS
from tests.simulated.borrower import condition, eventually
from tests.simulated.processes import Site, sites
from tests.simulated.provider.lenders import Lender
from tests.testbed.latency import Comparison, Sampler, table
from tests.testbed.processes import Child
from tests.testbed.relays import Relay
from tests.testbed.wirefaults import Trouble

__all__ = ["FAULTS", "Field", "borrowing", "table"]

BAD, GOOD = "milan", ("turin", "genoa")
NAMESPACE = "shop"
RECOVERY = 30.0
"""Seconds in which pods that waited for the bad peer run once it is well."""
BACKGROUND = 0.2
"""Seconds between two pods for the bad peer, all the while."""
OUTSTANDING = 40
"""Pods of the bad peer at most."""

Break = Callable[[Relay], None]

FAULTS: dict[str, Break] = {
    "stopped": lambda relay: relay.refuse(),
    "frozen": lambda relay: relay.freeze(),
    "frozen in answers": lambda relay: relay.be(Trouble(stall=400)),
    "429": lambda relay: relay.be(Trouble(status=429)),
    "429, retry after 1 s": lambda relay: relay.be(Trouble(status=429, retry_after=1)),
    "500": lambda relay: relay.be(Trouble(status=500)),
    "503": lambda relay: relay.be(Trouble(status=503)),
    "not HTTP": lambda relay: relay.be(Trouble(garbage="bytes")),
    "broken JSON": lambda relay: relay.be(Trouble(garbage="json")),
    "wrong kind": lambda relay: relay.be(Trouble(garbage="kind")),
    "broken chunk": lambda relay: relay.be(Trouble(garbage="chunk")),
    "watches cut each second": lambda relay: relay.be(Trouble(verb="watch", cut=1.0)),
    "410 in watches": lambda relay: relay.be(Trouble(verb="watch", expire=0.5)),
    "410 to watches": lambda relay: relay.be(Trouble(verb="watch", status=410)),
    "trickling": lambda relay: relay.be(Trouble(rate=200)),
    "latency 0.5 s": lambda relay: relay.be(Trouble(delay=0.5)),
    "flood of small events": lambda relay: relay.be(Trouble(verb="watch", flood=10)),
    "flood of 100 kB events": lambda relay: relay.be(Trouble(verb="watch", flood=100_000)),
}


@dataclass
class Field:
    """The consumer and its providers."""

    rome: Site
    lenders: dict[str, Lender]
    sampler: Sampler

    @property
    def bad(self) -> Lender:
        """The provider that misbehaves."""
        return self.lenders[BAD]

    def children(self) -> list[Child]:
        """The programs whose work is measured."""
        assert self.rome.daemon.child is not None
        return [self.rome.daemon.child, *(each.child for each in self.lenders.values())]

    async def until_empty(self) -> None:
        """Wait until nothing of any pod is left, here or at a provider. Raises TooSlowError."""
        for config in (self.rome.kubeconfig, *(each.admin for each in self.lenders.values())):
            async with Client(from_kubeconfig(config.read_bytes())) as client:
                for kind in (PODS, SHADOW_PODS):
                    # An empty list is doubted for half a minute.
                    await eventually(partial(_none, client, kind), seconds=60)

    async def compare(
        self, name: str, *, rounds: int, count: int, pace: float, bad: Break | None = None
    ) -> Comparison:
        """Windows without and with a fault in turn; waits for recovery after each."""
        made = Comparison(name)
        mark = self.rome.daemon.mark()
        for _ in range(rounds):
            waiting: list[str] = []
            async with trio.open_nursery() as nursery:
                enough = trio.Event()
                nursery.start_soon(self._come_and_go, waiting, enough)
                made.healthy += await self.sampler.window(GOOD, count, pace)
                (bad or FAULTS[name])(self.bad.relay)
                made.faulty += await self.sampler.window(GOOD, count, pace)
                enough.set()
            self.bad.relay.well()
            made.recovery = max(made.recovery, await self._recovered(waiting))
        made.lines = len(self.rome.daemon.lines(mark))
        return made

    async def _come_and_go(self, waiting: list[str], enough: trio.Event) -> None:
        """Start pods on the bad peer, and take the oldest away."""
        while not enough.is_set():
            waiting.append(await self.sampler.create(BAD))
            if len(waiting) > OUTSTANDING:
                await self.sampler.delete(waiting.pop(0))
            await trio.sleep(BACKGROUND)

    async def _recovered(self, waiting: list[str]) -> float:
        """Seconds until all that waits runs; then it is taken away."""
        began = time.monotonic()
        for name in waiting:
            await self.sampler.ready(name, RECOVERY)
        took = time.monotonic() - began
        for name in waiting:
            await self.sampler.delete(name)
        return took


@asynccontextmanager
async def borrowing(folder: Path) -> AsyncIterator[Field]:
    """The consumer peered with three providers, a namespace offloaded to all of them."""
    async with sites(folder, "rome") as (rome,), trio.open_nursery() as nursery:
        lenders: dict[str, Lender] = {}
        try:
            async with trio.open_nursery() as starting:
                starting.start_soon(rome.start)
                for name in (BAD, *GOOD):
                    starting.start_soon(_lend, lenders, name, folder)
            for name, lender in lenders.items():
                await rome.liqod(
                    *("peer", "--remote-kubeconfig", str(lender.user)),
                    *("--cpu", "200", "--memory", "200Gi", "--pods", "200"),
                )
                await eventually(partial(_up, rome, name))
            await rome.admin.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            await rome.liqod("offload", "namespace", NAMESPACE)
            sampler = Sampler(rome.admin, NAMESPACE)
            await nursery.start(sampler.run)
            await sampler.window((BAD, *GOOD), 30, 0.02)
            yield Field(rome, lenders, sampler)
        finally:
            for lender in lenders.values():
                lender.close()
        nursery.cancel_scope.cancel()


async def _lend(lenders: dict[str, Lender], name: str, folder: Path) -> None:
    lenders[name] = await trio.to_thread.run_sync(Lender, name, folder / name)


async def _none(client: Client, kind: Kind) -> bool:
    return not await client.list(kind, Selection(metadata_only=True))


async def _up(rome: Site, name: str) -> bool:
    return condition(await rome.admin.find(NODES, name), "Ready").get("status") == "True"
