"""The Connection of a peer: how the tunnel is, in the words that Liqo's tools wait for.

It is named and owned after the gateway, so that it goes with it. A latency that hardly differs from
the one that is there is not written: at rest nothing is.
"""

from functools import partial
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta, owner_reference
from liqod.kube import times
from liqod.kube.controller import Controller
from liqod.kube.ensure import ensure
from liqod.kube.watched import Watched, always
from liqod.model import ids
from liqod.model.network.podpath import NOT_TRIED, PodPath
from liqod.network.failover.role import Role
from liqod.network.gateway.gatewayobjects import kind_of, made_by
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import Gateway, TunnelState
from liqod.peers.peer import Peer
from liqod.resources.networking import CONNECTIONS, Connection
from liqod.runtime.observable import Observable
from liqod.telemetry.events import TunnelChanged

CONNECTION: Final = "connection"
"""The one key."""
LATENCY_EVERY: Final = 10.0
"""Seconds between two writes of a latency: Liqo's."""
NOTABLE: Final = 0.25
"""Part of a latency, and :data:`LEAST`, by which another must differ to be written."""
LEAST: Final = 0.0005
"""Seconds."""


class Connections(Controller[str]):
    """Keeps the Connection of one peer.

    Args:
        ends: of its tunnel.
        role: whether this machine is the gateway; another one writes where it is not.
    """

    def __init__(self, peer: Peer, ends: Observable[TunnelEndpoints], role: Role) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._ends = ends
        self._role = role
        self._state = Observable(TunnelState())
        self._written = 0.0
        within = (peer.tenant_namespace,)
        self._connections = Watched(CONNECTIONS, always(CONNECTION), within=within)
        told = (ends.wait_changed, self.wait_reported, role.wait_changed)
        super().__init__(
            peer,
            "network",
            self._connections,
            name="connections",
            tasks=[partial(self.whenever, wait, always(CONNECTION)) for wait in told],
            budget=peer.work,
        )

    @property
    def state(self) -> TunnelState:
        """The state of the tunnel, as it was reported last."""
        return self._state.now

    def report(self, state: TunnelState) -> None:
        """Report the state of the tunnel."""
        if (state.state, state.why) != (self.state.state, self.state.why):
            self._peer.report(TunnelChanged(state=state.state, reason=state.why))
        self._state.set(state)

    async def wait_reported(self) -> None:
        """Wait until another state is reported."""
        await self._state.wait_changed()

    async def reconcile(self, key: str) -> float | None:
        """Have the Connection of the gateway that counts; others go with theirs."""
        gateway = self._ends.now.gateway
        if gateway is None:
            return None
        place, name = self._peer.tenant_namespace, ids.gateway_resource(gateway.name)
        live = self._connections.store.get((place, name))
        if not self._role.now.active:
            self._believe(live)
            return None
        wanted = connection(self._peer.id, place, gateway, self.state.pods)
        await ensure(self._client, CONNECTIONS, wanted, live=live, adopt=True)
        if live is None:
            return None  # its status is written when it is seen
        found = msgspec.json.decode(live, type=Connection)
        return await self._write(found)

    def _believe(self, live: bytes | None) -> None:
        """The tunnel of another node, as that node has reported it."""
        said = msgspec.json.decode(live, type=Connection).status.value if live is not None else ""
        why = "" if said == "Connected" else f"the gateway {self._role.gateway} has not reached it"
        self._peer.network.set_connected(said == "Connected", why)

    async def _write(self, found: Connection) -> float | None:
        """Bring the status up to date; seconds until a latency that waits may be written."""
        way = self.state
        status: dict[str, Any] = {}
        if found.status.value != way.state:
            status["value"] = way.state
        shown = found.status.latency.value if found.status.latency is not None else ""
        if way.latency is not None and is_notable(way.latency, shown):
            pause = self._written + LATENCY_EVERY - trio.current_time()
            if not status and pause > 0:
                return pause
            self._written = trio.current_time()
            status["latency"] = {"value": as_text(way.latency), "timestamp": times.now()}
        if status:
            await self._client.patch(
                CONNECTIONS, found.name, {"status": status}, found.namespace, subresource="status"
            )
        return None


def connection(
    peer: str, namespace: str, gateway: Gateway, pods: PodPath = NOT_TRIED
) -> dict[str, Any]:
    """The Connection of a gateway, as Liqo's gateways write it, and whether pods are reached."""
    owner = ObjectMeta(name=gateway.name, uid=gateway.uid)
    ref = made_by(gateway.side, gateway.name, namespace, gateway.uid)
    return {
        "metadata": {
            "name": ids.gateway_resource(gateway.name),
            "namespace": namespace,
            "labels": {labels.REMOTE_CLUSTER_ID: peer},
            "ownerReferences": [owner_reference(kind_of(gateway), owner)],
            **({"annotations": {labels.PODS: pods.text}} if pods.state else {}),
        },
        "spec": {"type": gateway.side.capitalize(), "gatewayRef": ref},
    }


def as_text(seconds: float) -> str:
    """A latency as Go writes durations, to the microsecond: ``812µs``, ``1.25ms``, ``1.2s``."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f}µs"
    return f"{seconds * 1e3:.3g}ms" if seconds < 1 else f"{seconds:.3g}s"


def of_text(text: str) -> float | None:
    """The seconds of a latency; None where the text is none."""
    for unit, factor in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * factor
            except ValueError:
                return None
    return None


def is_notable(latency: float, shown: str) -> bool:
    """True if a latency differs from the one that is shown by enough to be written."""
    before = of_text(shown)
    return before is None or abs(latency - before) > max(NOTABLE * before, LEAST)
