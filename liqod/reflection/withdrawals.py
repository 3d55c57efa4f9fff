"""Withdraws the readiness of the pods at an unreachable peer, and restores it.

On a node of this cluster Kubernetes does that as soon as its kubelet sends nothing. A virtual
node's Lease is renewed as long as this daemon lives, so its pods are this daemon's to withdraw; a
pod that is not Ready leaves its Services by itself. All of this goes by this cluster's API server
alone: no worker that waits for the peer (:mod:`liqod.reflection.worker`) holds it up, and it works
where nothing of the peer has been read yet. A worker writes no Ready of such a pod meanwhile
(``Names.unreachable``).
"""

from typing import Final, NoReturn

import msgspec
import trio

from liqod.apimachinery.kinds import PODS
from liqod.kube import times
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.queue import KeyedQueue
from liqod.model.objects import podstatus
from liqod.plugins.contracts import Json
from liqod.reflection.reflectioncontext import Context
from liqod.reflection.statuswriter import patch_status
from liqod.reflection.view import Key, ReflectedObject
from liqod.runtime.backoff import Backoff

ROOM: Final = "withdrawals"
APART: Final = 0.005
"""Seconds between two pods ..."""
WITHIN: Final = 1.5
"""... and at most for all of them: a thousand must not be sent traffic for longer either."""
CONCURRENCY: Final = 10
AGAIN: Final = 0.2
"""Seconds for the watch to bring another's writes of a pod meanwhile."""
RETRIES: Final = Backoff(first=0.2, last=10.0)


class Withdrawals:
    """Withdraws and restores the readiness of the pods on one peer's virtual nodes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue: KeyedQueue[Key] = KeyedQueue(RETRIES, name=ROOM)

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        peer = self._context.peer
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow)
            await self.queue.run(
                self._reconcile, concurrency=CONCURRENCY, on_error=peer.failures(ROOM)
            )
        raise AssertionError("a queue runs until it is cancelled")

    async def _follow(self) -> NoReturn:
        while True:
            self._context.renamed()
            self.look()
            await self._context.peer.reach.wait_changed()

    def look(self) -> None:
        """Have every pod checked, a little apart, so that not all are written at once."""
        informer = self._context.wide.get(PODS)
        if informer is None:
            return
        pods = [key for node in self._context.nodes for key in node_index(informer).on(node)]
        apart = min(APART, WITHIN / max(len(pods), 1))
        for number, key in enumerate(pods):
            self.queue.add(key, after=number * apart)

    async def _reconcile(self, key: Key) -> float | None:
        """Have one pod not Ready, or Ready again; the seconds until the next check."""
        context = self._context
        informer = context.wide.get(PODS)
        body = None if informer is None else informer.store.get(key)
        if body is None:
            return None
        pod: Json = msgspec.json.decode(body)
        unreachable = context.peer.reach.now
        status = podstatus.withdrawn(pod, unreachable, now=times.now())
        if status is None:
            return None
        if await patch_status(context.peer.context.client, PODS, pod, status) is None:
            return AGAIN
        context.publish(ReflectedObject("pods", *key), "status", unreachable or "")
        return None
