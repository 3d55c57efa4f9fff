"""What every room is given: this cluster, and the peer that it works for.

Both are plain values with references to shared services; neither does anything by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from liqod.config import Config, PeerSettings
from liqod.errors import Conflict, LiqodError, PluginError, ProtocolError, TransientError
from liqod.fence import Fence
from liqod.identity.signingrequests import SigningRequests
from liqod.inspect.hub import Hub
from liqod.kube.http.turns import Budget, Metered
from liqod.kube.http.wire import connect
from liqod.log import Seldom
from liqod.plugins.calls import Calls, Gauge
from liqod.reflection.voices import Voices

if TYPE_CHECKING:
    from liqod.consumer.link import Link
    from liqod.kube.cache.informers import Informers
    from liqod.kube.client import Client
    from liqod.kube.http.transport import Dial
    from liqod.plugins.loader import Plugins

K = TypeVar("K")

TRIED_AT_ONCE = 16
"""Peers that do not answer which are tried side by side: where a hundred are late at once, it is a
machine that has no time for a hundred TLS handshakes every few seconds on top."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ApiEndpoint:
    """This cluster's API server as peers are to reach it.

    Attributes:
        server: URL.
        ca: PEM certificates of its authority.
    """

    server: str
    ca: bytes


@dataclass(frozen=True)
class Addressing:
    """This cluster's own networks: what a peer's pod may not claim as its address.

    Attributes:
        pod_cidrs: pod networks, textual prefixes.
        service_cidrs: service networks, textual prefixes.
    """

    pod_cidrs: tuple[str, ...] = ()
    service_cidrs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterContext:
    """This cluster, shared by every room.

    Attributes:
        cluster_id: this cluster's id.
        client: a client with the daemon's own identity.
        informers: shared, reference-counted informers of that client.
        config: the configuration.
        hub: where decisions are published.
        plugins: what was loaded, and what was left out.
        endpoint: this cluster's API server as peers reach it.
        version: the API server's ``gitVersion``, such as ``v1.35.4``.
        addressing: this cluster's own networks.
        node_address: the IP address that virtual nodes show.
        kubelet_port: the port that virtual nodes show, never 0.
        in_cluster: whether the daemon runs as a pod of this cluster.
        dial: makes the connections to peers' API servers.
        tries: bounds the tries of all peers that do not answer.
        signing_requests: those that are being worked on.
        fence: whether the admission policies that hold consumers are in force.
        calls: what the calls of plugins have cost and come to.
        voices: what the peers say of objects here.
    """

    cluster_id: str
    client: Client
    informers: Informers
    config: Config
    hub: Hub
    plugins: Plugins
    endpoint: ApiEndpoint
    version: str = "v1.30.0"
    addressing: Addressing = field(default_factory=Addressing)
    node_address: str = "127.0.0.1"
    kubelet_port: int = 10270
    in_cluster: bool = False
    dial: Dial = connect
    tries: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(TRIED_AT_ONCE))
    signing_requests: SigningRequests = field(default_factory=SigningRequests)
    fence: Fence = field(default_factory=Fence)
    calls: Calls = field(default_factory=Calls)
    voices: Voices = field(default_factory=Voices)

    def gauge(self, kind: str, name: str) -> Gauge:
        """The wall around the calls of one plugin."""
        return self.calls.of(kind, name, own=(kind, name) in self.plugins.own)

    @property
    def namespace(self) -> str:
        """Where liqod keeps what is the whole cluster's (``liqo``)."""
        return self.config.cluster.namespace


WORK_SHARE = 0.01
"""Part of the time that slices and maps of one peer may take in the long run. What others do with
what is written for them, and the garbage of it, is not counted and is as much again."""


@dataclass(frozen=True)
class Peer:
    """One peer; lives as long as its nursery.

    Attributes:
        id: its cluster id.
        home: this cluster.
        tenant_namespace: the local namespace that belongs to this peer.
        link: whether the peer's API server answers; up where nothing is borrowed.
        work: the time that goes to what it asks of this cluster.
    """

    id: str
    home: ClusterContext
    tenant_namespace: str
    link: Link
    work: Budget = field(default_factory=partial(Budget, share=WORK_SHARE))

    @property
    def settings(self) -> PeerSettings:
        """What the operator says of this peer."""
        return self.home.config.peer(self.id)

    def report(self, topic: str, **facts: object) -> None:
        """Publish a decision about this peer."""
        self.home.hub.publish(f"peer.{topic}", peer=self.id, **facts)

    def paced(
        self, worker: Callable[[K], Coroutine[Any, Any, float | None]]
    ) -> Callable[[K], Coroutine[Any, Any, float | None]]:
        """A queue's worker that pauses where this peer has it work without end."""

        async def work(key: K) -> float | None:
            metered = Metered(worker(key))
            try:
                again = await metered
            except Exception:
                await self.work.spend(metered.used)
                raise
            await self.work.spend(metered.used)
            return again

        return work

    def failures(self, topic: str, **facts: object) -> Callable[[object, Exception], None]:
        """What a queue calls when its worker fails: publishes the key and the reason.

        What time alone does not mend is logged too, each only now and then.
        """
        seldom = Seldom()

        def report(key: object, error: Exception) -> None:
            reason = str(error) or type(error).__name__
            self.report(topic, key=_brief(key), failed=reason, **facts)
            whose = None if isinstance(error, ProtocolError) else key  # that is the whole server's
            if isinstance(error, TransientError | Conflict) or not seldom.allows((whose, reason)):
                return
            extra = {"topic": topic, **facts, "key": _brief(key), "reason": reason}
            known = isinstance(error, LiqodError) and not isinstance(error, PluginError)
            logger.warning("failed, and is tried again", extra=extra, exc_info=not known and error)

        return report


def _brief(key: object) -> str:
    """A queue's key for people: a kind by its plural, and tuples with slashes."""
    if isinstance(key, tuple):
        return "/".join(_brief(part) for part in key if part)
    return str(getattr(key, "plural", key))
