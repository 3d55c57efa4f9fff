"""What every room is given: this cluster, as a plain value with references to shared services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from liqod.account import Account
from liqod.config import Config
from liqod.fence import Fence
from liqod.identity.signingrequests import SigningRequests
from liqod.kube.controller import tell_failures
from liqod.kube.http.wire import connect
from liqod.ownpods import OwnPods
from liqod.plugins.calls import Calls, Gauge
from liqod.telemetry import registry
from liqod.telemetry.events import KeyFailed
from liqod.telemetry.hub import Hub
from liqod.telemetry.registry import Registry

if TYPE_CHECKING:
    from liqod.kube.cache.informers import Informers
    from liqod.kube.client import Client
    from liqod.kube.http.proxies import Dial
    from liqod.plugins.loader import Plugins

TRIED_AT_ONCE = 16
"""Peers that do not answer which are tried side by side: where a hundred are late at once, it is a
machine that has no time for a hundred TLS handshakes every few seconds on top."""


@dataclass(frozen=True)
class ApiEndpoint:
    """This cluster's API server as peers are to reach it.

    Attributes:
        server: URL.
        ca: PEM certificates of its authority.
        problem: why peers cannot reach it there, one sentence; empty where nothing speaks against
            it. No consumer is given such an address: it could lead to that cluster's own.
    """

    server: str
    ca: bytes
    problem: str = ""


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
        account: what callers may take.
        own_pods: which pods of this cluster are watched.
        registry: the controllers, queues and informers that work now, for those who look.
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
    account: Account = field(default_factory=Account)
    own_pods: OwnPods = field(default_factory=OwnPods)
    registry: Registry = field(default_factory=registry.current)

    def failures(self, topic: str) -> Callable[[object, Exception], None]:
        """As :meth:`liqod.peer.Peer.failures`, for what is the whole cluster's."""

        def publish(key: str, reason: str) -> None:
            self.hub.publish(KeyFailed(room=topic, key=key, failed=reason))

        return tell_failures(publish, topic)

    def gauge(self, kind: str, name: str) -> Gauge:
        """The wall around the calls of one plugin; a ``probe`` is a check's."""
        brought = "check" if kind == "probe" else kind
        return self.calls.of(kind, name, own=(brought, name) in self.plugins.own)

    @property
    def namespace(self) -> str:
        """Where liqod keeps what is the whole cluster's (``liqo``)."""
        return self.config.cluster.namespace
