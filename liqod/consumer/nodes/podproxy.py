"""Proxies requests for logs, streams and figures to the pods of one peer, by its API server.

Open requests end with the connection: where the peer stops answering, those that wait are notified.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple, NoReturn

import trio

from liqod.consumer.link import ProviderPeer
from liqod.consumer.nodes.podusage import PodLocation, PodUsage
from liqod.consumer.remote import Remote
from liqod.consumer.remotes import Remotes
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import NotFound, Overloaded, Unreachable
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.http.cpubudget import CpuBudget
from liqod.kube.http.proxies import CHANNEL
from liqod.plugins.contracts import VirtualNode
from liqod.runtime.observable import Notifier

SHARE: Final = 1.0
"""Seconds that all streams of one peer may take for each that they pause: half of the time. They
serve users of this cluster who wait."""
MOST: Final = 1024
"""Streams and logs of one peer at once, and ..."""
MOST_BY_CHANNEL: Final = 256
"""... where a channel is used: it has 512 streams, and all other traffic goes by it, too."""

log = logging.getLogger(__name__)


class PodProxies(dict[str, "PodProxy"]):
    """The proxies to the pods of all peers, by the peer's id; none on a standby.

    Attributes:
        came: notifies when there is another one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.came = Notifier()


class OffloadedPods(NamedTuple):
    """The pods at one peer, from reflection; each field is a function that gives the present state.

    Attributes:
        nodes: the peer's virtual nodes, by name.
        namespaces: the namespaces that it has accepted: their remote names, by their local names.
        pods: the informer of this cluster's pods; None while there is none.
    """

    nodes: Callable[[], Mapping[str, VirtualNode]]
    namespaces: Callable[[], Mapping[str, str]]
    pods: Callable[[], SharedInformer | None]


class PodProxy:
    """Proxies requests to the pods on one peer's virtual nodes.

    Args:
        peer: the provider.
        remotes: the identities that it gave us.
        offloaded: the pods there.
        proxies: those of all peers, which hold this one while it runs.

    Attributes:
        id: the peer's cluster id.
        budget: the time of all streams there.
        streams: how many are open, or about to be.
        usage: the resource usage of the pods.
    """

    def __init__(
        self,
        peer: ProviderPeer,
        remotes: Remotes,
        offloaded: OffloadedPods,
        proxies: PodProxies,
        timings: ConsumerTimings = ORDINARY,
    ) -> None:
        self.id = peer.id
        self.budget = CpuBudget(share=SHARE)
        self.streams = 0
        self._peer, self._remotes, self._offloaded = peer, remotes, offloaded
        self._proxies = proxies
        self._open: dict[object, Callable[[], None]] = {}
        self.usage = PodUsage(self._place, timings=timings)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Serve until cancelled; open streams end then, and whenever the connection is lost."""
        link, proxies = self._peer.link, self._proxies
        lost = link.reconnections
        proxies[self.id] = self
        proxies.came.notify()
        task_status.started()
        try:
            while True:
                await link.wait_changed()
                if not link.up or link.reconnections != lost:
                    lost = link.reconnections
                    self._end()
        finally:
            if proxies.get(self.id) is self:  # else the next one is registered already
                del proxies[self.id]
            self._end()
        raise AssertionError("the loop never ends")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the peer's virtual nodes."""
        return tuple(self._offloaded.nodes())

    def has(self, node: str) -> bool:
        """True if it is one of the peer's virtual nodes."""
        return node in self._offloaded.nodes()

    def healthy(self) -> None:
        """Check that pods there can be reached.

        Raises:
            Unreachable: the peer does not answer.
        """
        if not self._peer.link.up:
            raise Unreachable(f"it does not answer: {self._peer.link.reason}")

    def pods(self, node: str) -> Iterable[bytes]:
        """The pods of this cluster that are on a node, each as JSON."""
        informer = self._offloaded.pods()
        if informer is None:
            return ()
        found = (informer.store.get(key) for key in sorted(node_index(informer).on(node)))
        return [body for body in found if body is not None]

    def resolve(self, node: str, namespace: str) -> PodLocation:
        """The client and the namespace that lead to the pods of a node and a local namespace.

        Raises:
            Unreachable: the peer does not answer.
            Overloaded: the limit of open streams is reached there.
            NotFound: nothing of that namespace exists there.
        """
        remote, there = self._remote(node, namespace)
        by_channel = (remote.credentials.proxy or "").startswith(CHANNEL)
        most = MOST_BY_CHANNEL if by_channel else MOST
        if self.streams > most:
            raise Overloaded(f"{most} streams are open at once", status=429)
        return PodLocation(remote.client, there)

    def _place(self, node: str, namespace: str) -> PodLocation:
        remote, there = self._remote(node, namespace)
        return PodLocation(remote.client, there)

    def _remote(self, node: str, namespace: str) -> tuple[Remote, str]:
        """The remote for requests about a node's pods, and the name of their namespace there."""
        self.healthy()
        there = self._offloaded.namespaces().get(namespace)
        found = self._offloaded.nodes().get(node)
        remote = self._remotes.slice(found.slice) if found is not None else None
        remote = remote or self._remotes.any_slice()
        if there is None or remote is None:
            raise NotFound(f"the namespace {namespace} is not there")
        return remote, there

    @contextmanager
    def hold(self, close: Callable[[], None]) -> Iterator[None]:
        """Call ``close`` if the connection is lost while the block lasts."""
        key = object()
        self._open[key] = close
        try:
            yield
        finally:
            self._open.pop(key, None)

    def _end(self) -> None:
        if self._open:
            reason = self._peer.link.reason
            log.warning("streams of pods end", extra={"streams": len(self._open), "why": reason})
        for close in list(self._open.values()):
            close()
