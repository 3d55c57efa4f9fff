"""Times at which changes were seen in a cluster, to the millisecond."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from liqod.apimachinery.kinds import Kind
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.selection import Selection
from liqod.runtime.observable import Notifier
from tests.testbed.errors import TestbedError


class Changes(Notifier):
    """Notifies those of changes who wait until something is so."""

    async def until(self, what: str, happens: Callable[[], object], seconds: float) -> float:
        """The time (`trio.current_time`) at which it is so; raises `TestbedError` if it is late."""
        with trio.move_on_after(seconds):
            while not happens():
                await self.wait()
            return trio.current_time()
        raise TestbedError(f"{what}: not within {seconds:.0f} s")


class Watcher(Changes):
    """The latest change of one kind, for those who wait."""

    def __init__(self, client: Client, informer: SharedInformer) -> None:
        super().__init__()
        self.client = client
        self.informer = informer
        informer.subscribe(self._see)

    def _see(self, change: StoreChange) -> None:
        self.notify()

    def has(self, namespace: str, name: str, good: Callable[[bytes], bool]) -> bool:
        """True if there is such an object, and it is good."""
        body = self.informer.store.get((namespace, name))
        return body is not None and good(body)


@asynccontextmanager
async def watching(
    kubeconfig: Path, kind: Kind, namespace: str | None = None, *, connections: int = 2
) -> AsyncIterator[Watcher]:
    """Follow a kind as an administrator."""
    found = await credentials.load(kubeconfig, None)
    async with (
        Client(found, connections=connections, user_agent="liqod-benchmark") as client,
        trio.open_nursery() as nursery,
    ):
        informer = SharedInformer(client, kind, Selection(namespace))
        await nursery.start(informer.run)
        yield Watcher(client, informer)
        nursery.cancel_scope.cancel()
