"""One peer, as it is passed to every component that works for it; it does nothing by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from liqod.cluster.context import ClusterContext
from liqod.config import PeerSettings, PodNetwork
from liqod.kube.controller import report_failures
from liqod.kube.http.cpubudget import CpuBudget
from liqod.peers.peernetwork import PeerNetwork
from liqod.runtime.observable import Observable
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
    """

    id: str
    context: ClusterContext
    tenant_namespace: str
    work: CpuBudget = field(default_factory=partial(CpuBudget, share=WORK_SHARE))
    network: PeerNetwork = field(default_factory=PeerNetwork)
    reach: Observable[str | None] = field(default_factory=partial(Observable[str | None], None))

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
