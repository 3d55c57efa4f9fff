"""One peer, as it is passed to every component that works for it; it does nothing by itself.

Beside it the peers that have a running task, for what concerns two of them at a time: a consumer
tells one of endpoints at another, and a provider reaches those of a third cluster that one of its
consumers names. Both go by the network that this cluster itself has with that one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import trio

from liqod.cluster.context import ClusterContext
from liqod.config import PeerSettings, PodNetwork
from liqod.kube.controller import report_failures
from liqod.kube.http.cpubudget import CpuBudget
from liqod.peers.foretold import Foretold
from liqod.peers.peernetwork import PeerNetwork
from liqod.runtime.observable import Notifier, Observable
from liqod.telemetry.events import KeyFailed, TopicEvent

if TYPE_CHECKING:
    from liqod.kube.cache.informers import Informers

WORK_SHARE = 0.01
"""Part of the time that slices and maps of one peer may take in the long run. Work of others with
the objects that are written for it, and their garbage, is not counted and is as much again."""


@dataclass(eq=False)
class Peer:
    """One peer; lives as long as its nursery.

    Attributes:
        id: its cluster id.
        tenant_namespace: the local namespace that belongs to this peer.
        work: the time spent on its requests to this cluster.
        network: the network that is joined with it.
        reach: the reason that nothing gets through to its pods; empty without one, None while
            unknown (:mod:`liqod.reachability`).
        neighbours: all peers that have a running task, this one among them.
        foretold: what is being written of the objects that have a replica at the peer.
    """

    id: str
    context: ClusterContext
    tenant_namespace: str
    work: CpuBudget = field(default_factory=partial(CpuBudget, share=WORK_SHARE))
    network: PeerNetwork = field(default_factory=PeerNetwork)
    reach: Observable[str | None] = field(default_factory=partial(Observable[str | None], None))
    neighbours: Neighbours = field(default_factory=lambda: Neighbours())
    foretold: Foretold = field(default_factory=Foretold)

    @property
    def informers(self) -> Informers:
        """The informers of this cluster."""
        return self.context.informers

    @property
    def settings(self) -> PeerSettings:
        """The operator's settings for this peer."""
        return self.context.config.peer(self.id)

    @property
    def pod_network(self) -> PodNetwork:
        """The reachability of its pods; by no tunnel where joining the networks has not begun."""
        way = self.settings.pod_network
        return "none" if way == "tunnel" and not self.network.started else way

    def report(self, payload: TopicEvent) -> None:
        """Publish a decision about this peer."""
        self.context.hub.publish(payload, self.id)

    def failures(self, topic: str, *, reflector: str = "") -> Callable[[object, Exception], None]:
        """The callback of a queue whose worker fails: publishes the key and the reason.

        Errors that time alone does not cure are logged too, each only now and then.
        """

        def publish(key: str, reason: str) -> None:
            source = f"peer.{topic}"
            self.report(KeyFailed(source=source, reflector=reflector, key=key, failed=reason))

        return report_failures(publish, topic, **({"reflector": reflector} if reflector else {}))


class Neighbours:
    """Keeps the running peers by their ids, and notifies of changes of their networks."""

    def __init__(self) -> None:
        self._peers: dict[str, Peer] = {}
        self._keys: dict[str, frozenset[str]] | None = None
        self._news = Notifier()

    def get(self, cluster: str) -> Peer | None:
        """The peer of that id; None where none runs."""
        return self._peers.get(cluster)

    def keys(self, cluster: str) -> frozenset[str] | None:
        """The keys that a cluster of that id has proved to have here, SHA-256 in hexadecimal.

        Empty for one of which none is known; None while nothing is known yet.
        """
        return None if self._keys is None else self._keys.get(cluster, frozenset())

    def know(self, keys: Mapping[str, frozenset[str]]) -> None:
        """Take note of the keys of some clusters, by their ids."""
        before = self._keys
        self._keys = {each: found for each, found in {**(before or {}), **keys}.items() if found}
        if self._keys != before:
            self._news.notify()

    async def wait_changed(self) -> None:
        """Wait until a peer comes or goes, or its network, reachability or key changes."""
        await self._news.wait()

    async def follow(
        self, peer: Peer, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep a peer, and notify of its changes, until cancelled."""
        with self._kept(peer):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._notify, peer.network.wait_changed)
                nursery.start_soon(self._notify, peer.reach.wait_changed)
                task_status.started()

    async def _notify(self, wait: Callable[[], Awaitable[None]]) -> NoReturn:
        while True:
            await wait()
            self._news.notify()

    @contextmanager
    def _kept(self, peer: Peer) -> Iterator[None]:
        self._peers[peer.id] = peer
        self._news.notify()
        try:
            yield
        finally:
            if self._peers.get(peer.id) is peer:  # else its successor is already kept
                del self._peers[peer.id]
                self._news.notify()
