"""This cluster's values with the client and the informers, as every component is given them.

Components that need each other are given each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from liqod.cluster.podselection import PodSelection
from liqod.cluster.transitaddresses import REFLECTION, SERVICES, TransitAddresses
from liqod.config import Config
from liqod.kube.controller import report_failures
from liqod.telemetry.events import KeyFailed
from liqod.telemetry.hub import Hub

if TYPE_CHECKING:
    from liqod.kube.cache.informers import Informers
    from liqod.kube.client import Client


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
    """This cluster, shared by every component: values, the client, and the informers.

    Three parts are more than that. Nearly every component publishes to the hub, the selection of
    Pods is a part of what the informers watch: they are the same informers for all who name it. And
    the addresses for transit are of two peers at a time.

    Attributes:
        cluster_id: this cluster's id.
        client: a client with the daemon's own identity.
        informers: shared, reference-counted informers of that client.
        hub: where decisions are published.
        endpoint: this cluster's API server as peers reach it.
        version: the API server's ``gitVersion``, such as ``v1.35.4``.
        addressing: this cluster's own networks.
        node_address: the IP address that virtual nodes show: at which the daemon itself is reached.
        kubelet_port: the port that virtual nodes show, never 0.
        in_cluster: whether the daemon runs as a pod of this cluster.
        own_pods: which pods of this cluster are watched.
    """

    cluster_id: str
    client: Client
    informers: Informers
    config: Config
    hub: Hub
    endpoint: ApiEndpoint
    version: str = "v1.30.0"
    addressing: Addressing = field(default_factory=Addressing)
    node_address: str = "127.0.0.1"
    kubelet_port: int = 10270
    in_cluster: bool = False
    own_pods: PodSelection = field(default_factory=PodSelection)

    def failures(self, topic: str) -> Callable[[object, Exception], None]:
        """As :meth:`liqod.peers.peer.Peer.failures`, for what is the whole cluster's."""

        def publish(key: str, reason: str) -> None:
            self.hub.publish(KeyFailed(source=topic, key=key, failed=reason))

        return report_failures(publish, topic)

    @cached_property
    def transit(self) -> TransitAddresses:
        """The endpoints at peers that other peers reach by way of this cluster."""
        publishers = (REFLECTION, SERVICES) if self.config.services.enabled else (REFLECTION,)
        return TransitAddresses(self.config.network.transit, publishers)

    @property
    def machine_address(self) -> str:
        """The IP address of the machine that the daemon runs on, as a node."""
        return self.config.network.node_address or self.node_address

    @property
    def apart(self) -> bool:
        """True if the daemon is not in the network of its machine, as a pod is not."""
        return self.machine_address != self.node_address

    @property
    def namespace(self) -> str:
        """Where liqod keeps what is the whole cluster's (``liqo``)."""
        return self.config.cluster.namespace
