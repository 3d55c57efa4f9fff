"""Three embedded clusters in virtual time: rome borrows from milan and turin.

They are peered once (:func:`baseline`); every script begins with a copy of that.
"""

import functools
import gc
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import time_machine
import trio
import trio.testing
from trio._core import _run

from liqod import install
from liqod.apimachinery.kinds import NAMESPACES
from liqod.install import daemonkubeconfig
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.procedures import kubeconfigpeering, peeringusers
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.resources import NAMESPACE_OFFLOADINGS
from simulator import EmbeddedCluster
from simulator.cluster import State
from tests.stateful.audit import Audit, Broken
from tests.stateful.clock import Wall
from tests.stateful.network import PORT, Network
from tests.stateful.site import Site

Json = dict[str, Any]

CONSUMER = "rome"
PROVIDERS = ("milan", "turin")
NAMES = (CONSUMER, *PROVIDERS)
SHOP = "shop"
THERE = "shop-rome"
ASKED = ResourceRequest(resources={"cpu": "8", "memory": "16Gi", "pods": "20"})
QUIET = 65.0
"""Seconds without a change after which nothing more is expected."""
PATIENCE = 1200.0
"""Seconds within which it must become quiet."""
POLL = 0.1
"""Seconds between looks."""
OLD = 900.0
"""Seconds since the installation: what waits for new things to be known has been done."""


@dataclass(frozen=True)
class Baseline:
    """The peered clusters, to begin with.

    Attributes:
        states: each cluster.
        tokens: each daemon's.
        at: epoch second.
    """

    states: dict[str, State]
    tokens: dict[str, str | None]
    at: float


class World:
    """All of it."""

    def __init__(self, nursery: trio.Nursery, wall: Wall) -> None:
        self.network = Network()
        self.nursery = nursery
        self.wall = wall
        self.audit = Audit()
        self.sites = {name: Site(name, self.network) for name in NAMES}
        self.memory: dict[str, State] = {}
        """Backups."""
        self.begun: dict[str, State] = {}
        """The clusters as they were at the beginning."""
        self.undefined: set[str] = set()
        """Where a definition was deleted."""
        self.aged = False
        """True once days have passed."""
        self._clusters: dict[str, tuple[trio.CancelScope, trio.Event]] = {}

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    @property
    def context(self) -> Site:
        """The consumer."""
        return self.sites[CONSUMER]

    async def begin(self, name: str, state: State | None = None) -> None:
        """Have a cluster, new or from a backup, in place of the one that there was."""
        if name in self._clusters:
            scope, ended = self._clusters.pop(name)
            scope.cancel()
            await ended.wait()
        await self.nursery.start(self._have, name, state)

    async def _have(
        self, name: str, state: State | None, *, task_status: trio.TaskStatus[None]
    ) -> None:
        cluster = EmbeddedCluster(
            name,
            host=f"{name}.test",
            port=PORT,
            nodes=1,
            start_delay=0.1,
            pod_cidr=f"10.{50 + NAMES.index(name)}.0.0/16",
            open_listeners=self.network.listen,
            state=state,
        )
        cluster.api.handle = self.sites[name].mischief.around(cluster.api.handle)  # type: ignore[assignment,method-assign]
        cluster.api.admission.calls.dial = self.network.dialer(f"{name}.api")
        self.audit.follow(name, cluster)
        scope, ended = self._clusters[name] = (trio.CancelScope(), trio.Event())
        with scope:
            async with cluster:
                await self.sites[name].use(cluster, self.nursery)
                task_status.started()
                await trio.sleep_forever()
        ended.set()

    async def start(self) -> None:
        """Start every daemon that does not run."""
        for site in self.sites.values():
            await site.start(self.nursery)

    async def peer(self, provider: str) -> None:
        """Have rome become that cluster's consumer, as ``liqod peer`` does it."""
        there, rome = self.sites[provider], self.context
        user = await peeringusers.generate(
            there.admin,
            CONSUMER,
            here=provider,
            server=there.cluster.server,
            ca=there.cluster.ca.certificate,
        )
        dial = self.network.dialer("hand")
        async with Client(from_kubeconfig(user), dial=dial) as remote:
            await kubeconfigpeering.peer(rome.admin, remote, ASKED, progress=lambda _: None)

    def check(self) -> None:
        """Raise what has been found so far."""
        self.audit.check()
        for site in self.sites.values():
            if site.crashes:
                first = site.crashes[0]
                raise Broken(f"the daemon of {site.name} crashed: {first!r}") from first

    async def settle(self, quiet: float = QUIET) -> None:
        """Wait until nothing changes any more."""
        deadline = trio.current_time() + PATIENCE
        while trio.current_time() < deadline:
            before = self.audit.changes
            await trio.sleep(quiet)
            self.check()
            if self.audit.changes == before:
                return
        raise Broken(f"it does not become quiet: {self.audit.last(12)}")

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until that holds, for so long; whether it does."""
        for _ in range(round(seconds / POLL)):
            if holds():
                return True
            await trio.sleep(POLL)
        return holds()

    async def install(self, name: str) -> None:
        """Install liqod in a new cluster."""
        site = self.sites[name]
        await install.install(site.admin, install.Options(cluster_id=name), lambda _: None)
        admin = from_kubeconfig(site.cluster.kubeconfig)
        text = await daemonkubeconfig.daemon_kubeconfig(
            site.admin, admin, "liqo", name, lambda _: None
        )
        site.token = from_kubeconfig(text).token


@asynccontextmanager
async def world(wall: Wall) -> AsyncIterator[World]:
    """A world without clusters."""
    async with trio.open_nursery() as nursery:
        made = World(nursery, wall)
        yield made
        for site in made.sites.values():
            site.kill()
        nursery.cancel_scope.cancel()


def run(start: float, story: Callable[[World], Awaitable[Any]], number: int = 0) -> Any:
    """Have something happen in a world of its own, in virtual time from that epoch second.

    Args:
        start: the epoch second.
        story: what happens.
        number: the seed of all chance in it.
    """

    scope = trio.CancelScope()

    async def main() -> Any:
        with scope:
            async with world(wall) as made:
                return await story(made)
        raise Broken(f"they are busy without end: {made.audit.last(12)}")

    _determine(number)
    with time_machine.travel(start, tick=False) as traveller, _uncollected():
        wall = Wall(traveller, start, scope.cancel)
        clock = trio.testing.MockClock(autojump_threshold=0)
        return trio.run(main, clock=clock, instruments=[wall])


def _determine(number: int) -> None:
    """Have the same story take the same course: Trio shuffles tasks, and pauses have jitter."""
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    _run._r.seed(number)
    random.seed(number)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which costs a fifth of a story and finds little in it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@functools.cache
def baseline() -> Baseline:
    """Rome peered with both, the namespace ``shop`` offloaded to them."""

    async def build(made: World) -> Baseline:
        for name in NAMES:
            await made.begin(name)
            await made.install(name)
        await made.start()
        for provider in PROVIDERS:
            await made.peer(provider)
        hand = made.context.hand
        await hand.create(NAMESPACES, {"metadata": {"name": SHOP}})
        offloading = {"metadata": {"name": "offloading", "namespace": SHOP}, "spec": {}}
        await hand.create(NAMESPACE_OFFLOADINGS, offloading, SHOP)
        await trio.sleep(OLD)
        await made.settle()
        for site in made.sites.values():
            site.kill()
            await site.gone()
        return Baseline(
            {name: site.cluster.save() for name, site in made.sites.items()},
            {name: site.token for name, site in made.sites.items()},
            time.time(),
        )

    found: Baseline = run(float(int(time.time())), build)
    return found


def play(story: Callable[[World], Awaitable[Any]]) -> Any:
    """Have something happen to a copy of the baseline, whose daemons run."""
    begun = baseline()

    async def copy(made: World) -> Any:
        made.begun = begun.states
        for name in NAMES:
            made.sites[name].token = begun.tokens[name]
            await made.begin(name, begun.states[name])
        await made.start()
        return await story(made)

    return run(begun.at, copy, 1)
