"""Judges a peer's gateways on a standby as the leader does, without writing.

It waits for values that the leader has not published yet (a port, keys).
"""

from typing import Final

from liqod.network.gateway import gatewayplan, keysecrets, publickeys
from liqod.network.gateway.gatewayplan import GatewayRefusal, Object
from liqod.network.gateway.gateways import Gateways, every
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.resources.networking import GatewayServer, PublicKey

UNTOLD: Final = "the leader has not told its port and keys yet"
AGAIN: Final = 1.0
"""Seconds until keys are looked for again that are not there."""


class StandbyGateways(Gateways):
    """Publishes both ends of the tunnel, from the leader's writes."""

    async def reconcile(self, key: str) -> float | None:
        """Judge the present objects, and publish both ends."""
        await super().reconcile(key)
        return AGAIN if self._ends.now.waits == UNTOLD else None

    def _port(self, chosen: Object | None) -> int | GatewayRefusal:
        return gatewayplan.told_port(chosen) if isinstance(chosen, GatewayServer) else 0

    async def _accept(self, one: Object, port: int) -> None:
        given = one.spec.secret_ref.name if one.spec.secret_ref is not None else ""
        place, own = self._peer.tenant_namespace, self._peer.context.namespace
        keys = await keysecrets.kept(self._client, self._peer.id, place, own, given)
        if keys is None or (isinstance(one, GatewayServer) and not port):
            self._ends.know(TunnelEndpoints(waits=UNTOLD, looked=True))
            return
        found = every(self._keys.store, PublicKey)
        taken = publickeys.taken(found, self._peer.id, place, keys.public)
        self._ends.know(self._ends_of(one, port, keys, taken))

    async def _refuse(self, one: Object, why: GatewayRefusal) -> None:
        """The leader says so."""
