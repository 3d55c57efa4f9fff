"""The load: pods created side by side in one namespace, watched until the last is Ready, deleted.

One process with one watch, so that measuring costs the API server next to nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio

from liqod.apimachinery.kinds import PODS
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.selection import Selection
from tests.testbed.errors import TestbedError
from tests.testbed.workloads import is_ready, pod

CREATORS = 8
"""As many requests at a time as the baseline of Liqo was measured with."""
DEADLINE = 900.0


@dataclass
class Timing:
    """The times of events, in seconds since the first create."""

    created: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    deleted: float = 0.0

    @property
    def wall(self) -> float:
        """The time from the first create to the last Ready."""
        return max(self.ready.values())

    @property
    def median(self) -> float:
        """The median of each pod's own time from create to Ready."""
        own = sorted(self.ready[name] - self.created[name] for name in self.ready)
        return own[len(own) // 2]


def run(
    kubeconfig: Path,
    namespace: str,
    node: str,
    count: int,
    settled: Callable[[], None],
) -> Timing:
    """Creates `count` pods bound for `node`, calls `settled` when all are Ready, deletes them."""
    return trio.run(_run, kubeconfig, namespace, node, count, settled)


async def _run(
    kubeconfig: Path, namespace: str, node: str, count: int, settled: Callable[[], None]
) -> Timing:
    found = await credentials.load(kubeconfig, None)
    async with (
        Client(found, connections=CREATORS + 1, user_agent="liqod-benchmark") as client,
        trio.open_nursery() as nursery,
    ):
        informer = SharedInformer(client, PODS, Selection(namespace))
        await nursery.start(informer.run)
        timing = await _measure(client, informer, namespace, node, count, settled)
        nursery.cancel_scope.cancel()
    return timing


async def _measure(
    client: Client,
    informer: SharedInformer,
    namespace: str,
    node: str,
    count: int,
    settled: Callable[[], None],
) -> Timing:
    timing, began = Timing(), trio.current_time()
    names = [f"pod-{number}" for number in range(count)]
    changed = trio.Event()

    def see(change: StoreChange) -> None:
        nonlocal changed
        name = change.key[1]
        if change.new is not None and name not in timing.ready and is_ready(change.new):
            timing.ready[name] = trio.current_time() - began
        changed.set()
        changed = trio.Event()

    async def until(what: str, happens: Callable[[], bool]) -> None:
        with trio.move_on_after(DEADLINE):
            while not happens():
                await changed.wait()
            return
        raise TestbedError(f"{what}: {len(timing.ready)} of {count} after {DEADLINE:.0f} s")

    async def create(name: str) -> None:
        timing.created[name] = trio.current_time() - began
        selector = {"kubernetes.io/hostname": node}
        await client.create(PODS, pod(name, nodeSelector=selector), namespace)

    unsubscribe = informer.subscribe(see)
    try:
        await each(names, create)
        await until("ready pods", lambda: len(timing.ready) == count)
        # The last status writes of both sides belong to the cost.
        await trio.sleep(1)
        settled()
        began_deleting = trio.current_time()
        await each(names, lambda name: client.delete(PODS, name, namespace, grace=0))
        await until("deleted pods", lambda: len(informer.store) == 0)
        timing.deleted = trio.current_time() - began_deleting
    finally:
        unsubscribe()
    return timing


async def each(names: list[str], work: Callable[[str], Awaitable[object]]) -> None:
    """Does the work for every name, `CREATORS` at a time."""
    waiting = iter(names)

    async def creator() -> None:
        for name in waiting:
            await work(name)

    async with trio.open_nursery() as nursery:
        for _ in range(CREATORS):
            nursery.start_soon(creator)
