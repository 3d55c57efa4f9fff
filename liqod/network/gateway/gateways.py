"""GatewayServers and GatewayClients of a peer: which one counts, its keys, and where it is reached.

Written by ``liqod peer``, ``liqoctl`` or a manifest, in whichever order; each object's conditions
report its result. ``Accepted``: it can be, and is the one; where that is not known yet, what was
accepted stays so. ``PeerKeyAccepted``: the peer's PublicKey is here and can be used. Nothing is
applied from here: both ends are published (:mod:`.tunnelendpoints`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.identity.tunnelkeys import TunnelKeys
from liqod.kube import times
from liqod.kube.cache.store import IndexedStore, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, always
from liqod.model import ids
from liqod.model.crossing.addresses import parse
from liqod.model.objects import conditions
from liqod.model.objects.patches import exact_patch
from liqod.network.failover.role import Role
from liqod.network.gateway import exposure, gatewayobjects, gatewayplan, keysecrets, publickeys
from liqod.network.gateway.exposure import Exposed
from liqod.network.gateway.gatewayobjects import ACCEPTED, Object
from liqod.network.gateway.gatewayplan import CANNOT_JOIN, GatewayRefusal, LocalFacts
from liqod.network.gateway.publickeys import PeerKey
from liqod.network.gateway.tunnelendpoints import NO_GATEWAY, TunnelEndpoints
from liqod.network.ipam.configurations import TENANTS
from liqod.network.orders.tunnels import Gateway, Listening
from liqod.peers.peer import Peer
from liqod.resources.base import Resource
from liqod.resources.networking import (
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
    GatewayClient,
    GatewayServer,
    PublicKey,
)
from liqod.runtime.observable import Observable
from liqod.telemetry.events import GatewayJudged

GATEWAYS: Final = "gateways"
"""The one key: all gateways together decide which one counts."""
PEER_KEY: Final = "PeerKeyAccepted"

R = TypeVar("R", bound=Resource)
Json = dict[str, Any]


class Gateways(Controller[str]):
    """Judges the gateways of one peer, and publishes both ends of the tunnel.

    Args:
        ends: notified of them.
        here: what decides, of this cluster.
        addresses: where peers reach this machine, the preferred one first.
        role: whether it is the gateway, and where peers reach others that may be.
        exposed: where its Service is reached, in a cluster; None on a host, which has none.
    """

    def __init__(
        self,
        peer: Peer,
        ends: Observable[TunnelEndpoints],
        here: LocalFacts,
        addresses: tuple[str, ...],
        role: Role,
        exposed: Observable[Exposed] | None = None,
    ) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._ends = ends
        self._here = here
        self._own_addresses = addresses
        self._role = role
        self._exposed = exposed
        place = peer.tenant_namespace
        self._servers = Watched(GATEWAY_SERVERS, self._on_server)
        self._clients = Watched(GATEWAY_CLIENTS, self._on_client)
        self._keys = Watched(PUBLIC_KEYS, self._on_key)
        self._secrets = Watched(SECRETS, self._on_secret, Selection(place))
        self._tenants: Watched[str] = Watched(NAMESPACES, None, Selection(labels=TENANTS))
        watches = (self._tenants, self._servers, self._clients, self._keys, self._secrets)
        told = (role, exposed) if exposed is not None else (role,)
        beside = [partial(self.whenever, each.wait_changed, always(GATEWAYS)) for each in told]
        super().__init__(peer, "network", *watches, name=GATEWAYS, tasks=beside, budget=peer.work)

    @property
    def _addresses(self) -> tuple[str, ...]:
        """Where peers reach this cluster: the gateway first, then those that may follow it."""
        return tuple(dict.fromkeys((*self._role.now.addresses, *self._own_addresses)))

    def _on_server(self, change: StoreChange) -> Iterator[str]:
        """One of ours, or another's where it may have taken our port, or given it back."""
        body = change.new or change.old
        ours = change.key[0] == self._peer.tenant_namespace or self._serves()
        if ours or (body is not None and self._is_stray(msgspec.json.decode(body, type=Partial))):
            yield GATEWAYS

    def _on_client(self, change: StoreChange) -> Iterator[str]:
        """One of ours, or of this peer's in another namespace."""
        body = change.new or change.old
        ours = change.key[0] == self._peer.tenant_namespace
        if ours or (body is not None and self._is_stray(msgspec.json.decode(body, type=Partial))):
            yield GATEWAYS

    def _on_key(self, change: StoreChange) -> Iterator[str]:
        """One of ours, or another's where it is the same, or was."""
        if change.key[0] == self._peer.tenant_namespace or self._ends.now.gateway is not None:
            yield GATEWAYS

    def _on_secret(self, change: StoreChange) -> Iterator[str]:
        if change.key[1].startswith(ids.gateway_resource("")):
            yield GATEWAYS

    def _serves(self) -> bool:
        gateway = self._ends.now.gateway
        return gateway is None or gateway.side == "server"

    async def reconcile(self, key: str) -> float | None:
        """Judge the present objects, have keys for the one that counts, and publish both ends."""
        found = self._found()
        live = [one for one in found if not one.leaving]
        chosen, refused = gatewayplan.judged(live, self._peer.id, self._here)
        waits = gatewayplan.undecided(chosen, self._here) if chosen is not None else ""
        if chosen is not None and waits:
            if not conditions.holds(chosen.status.conditions, ACCEPTED):
                await self._refuse(chosen, GatewayRefusal(gatewayplan.UNDECIDED, waits))
            self._ends.set(TunnelEndpoints(waits=waits))
            return None
        port = self._port(chosen)
        if isinstance(port, GatewayRefusal) and chosen is not None:
            refused[chosen.metadata.uid], chosen, port = port, None, 0
        for one in live:
            if one is not chosen:
                await self._refuse(one, refused[one.metadata.uid])
        for one in self._strays():
            place = self._peer.tenant_namespace
            await self._refuse(one, gatewayplan.elsewhere(one, self._peer.id, place))
        if chosen is None:
            why = next(iter(refused.values()), None)
            waits = why.message if why is not None else NO_GATEWAY
            self._ends.set(TunnelEndpoints(waits=waits, refused=why is not None, looked=True))
            return None
        assert isinstance(port, int)
        await self._accept(chosen, port)
        return None

    def _found(self) -> list[Object]:
        place = self._peer.tenant_namespace
        return [
            *every(self._servers.store, GatewayServer, place),
            *every(self._clients.store, GatewayClient, place),
        ]

    def _is_stray(self, one: Partial | Object) -> bool:
        """True if a gateway is labelled as one of this peer's, and is in no peer's namespace."""
        marked = one.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == self._peer.id
        return marked and ("", one.metadata.namespace) not in self._tenants.store

    def _strays(self) -> list[Object]:
        found: list[Object] = [*every(self._servers.store, GatewayServer)]
        found += every(self._clients.store, GatewayClient)
        return [one for one in found if self._is_stray(one) and not one.leaving]

    def _port(self, chosen: Object | None) -> int | GatewayRefusal:
        """Where it listens; a client anywhere."""
        if not isinstance(chosen, GatewayServer):
            return 0
        if not self._addresses:
            return GatewayRefusal(
                CANNOT_JOIN,
                "no address of this machine is known at which peers reach it: say [network] "
                "advertise in the configuration",
            )
        if self._exposed is not None and exposure.allots_port(chosen):
            # The gateway listens at the very port that its Service was given, so that the address
            # that peers get, after a restart and from a standby, is where it listens.
            now = self._exposed.now
            known = (
                now.port if now.uid == chosen.metadata.uid else gatewayobjects.reported_port(chosen)
            )
            if known:
                return known
        found, _ = self._apart(every(self._servers.store, GatewayServer))
        return gatewayplan.port_of(chosen, found, self._listening(chosen))

    def _backend(self, one: Object) -> str:
        backend = gatewayplan.backend_of(one, self._here)
        assert isinstance(backend, str)  # or it had been refused
        return backend

    def _listening(self, one: Object) -> Listening:
        return self._here.backends[self._backend(one)]

    async def _accept(self, one: Object, port: int) -> None:
        """Have keys for it, report its address, and publish both ends."""
        place, own = self._peer.tenant_namespace, self._peer.context.namespace
        given = one.spec.secret_ref.name if one.spec.secret_ref is not None else ""
        keys = await keysecrets.keys_of(self._client, self._peer.id, place, own, given)
        name = given or ids.gateway_resource(one.name)
        if not given:
            shown = self._secrets.store.get((place, name))
            await keysecrets.show(self._client, one, keys.public, shown)
        taken = self._taken(place, keys.public)
        if await self._write(one, self._status(one, port, name, taken)):
            self._report(one, taken.refusal)
        self._ends.set(self._ends_of(one, port, keys, taken))

    def _taken(self, place: str, own: bytes) -> PeerKey:
        found, strays = self._apart(every(self._keys.store, PublicKey))
        return publickeys.taken(found, self._peer.id, place, own, strays)

    def _apart(self, found: list[R]) -> tuple[list[R], list[R]]:
        """Those in tenant namespaces, which alone count for a peer, and the others."""
        tenants = self._tenants.store
        inside = [one for one in found if ("", one.namespace) in tenants]
        return inside, [one for one in found if ("", one.namespace) not in tenants]

    def _ends_of(self, one: Object, port: int, keys: TunnelKeys, taken: PeerKey) -> TunnelEndpoints:
        backend = self._backend(one)
        gateway = Gateway(
            side=gatewayobjects.side_of(one),
            backend=backend,
            name=one.name,
            uid=one.metadata.uid,
            mtu=one.spec.mtu or gatewayplan.MTU,
            port=port,
            transport=self._here.backends[backend].transport,
            endpoints=gatewayobjects.endpoints_of(one) if isinstance(one, GatewayClient) else (),
            websocket=gatewayplan.websocket_of(one, backend, self._here),
        )
        why = taken.refusal
        waits = why.message if why is not None else ""
        refused = why is not None and why.reason != publickeys.NONE_YET
        return TunnelEndpoints(gateway, keys, taken.key, waits, refused=refused, looked=True)

    def _status(self, one: Object, port: int, secret: str, taken: PeerKey) -> dict[str, Any]:
        """The status of a gateway that counts."""
        ref = {"kind": "Secret", "name": secret, "namespace": one.namespace}
        status: dict[str, Any] = {"secretRef": {"apiVersion": "v1", **ref}}
        # `liqoctl create … --wait` waits for this one.
        side = gatewayobjects.side_of(one)
        made = gatewayobjects.made_by(side, one.name, one.namespace, one.metadata.uid)
        status[f"{side}Ref"] = made
        inner = next((each for each in self._addresses if _is_ipv4(each)), "")
        if inner:
            status["internalEndpoint"] = {"ip": inner}
        why = taken.refusal
        told = [_condition(one, ACCEPTED, None, "it is this cluster's end of the tunnel")]
        if isinstance(one, GatewayServer):
            endpoint, exposed = self._endpoint(one, port)
            status["endpoint"] = endpoint
            told += exposed
            websocket = gatewayplan.websocket_of(one, self._backend(one), self._here)
            if websocket:
                status["websocketPort"] = websocket
                said = gatewayobjects.offered(websocket)
                told.append(_condition(one, gatewayobjects.WEBSOCKET_TOLD, None, said))
        told.append(_condition(one, PEER_KEY, why, "the tunnel is to the holder of this key"))
        return {**status, "conditions": told}

    def _endpoint(self, one: GatewayServer, port: int) -> tuple[Json | None, list[Json]]:
        """The address of a server, and the report about its Service."""
        addresses, told = self._addresses, list[Json]()
        if self._exposed is not None and exposure.needs_service(one):
            now = self._exposed.now
            if now.uid != one.metadata.uid:
                # The Service has not been read yet: the report from before a restart stays.
                live = msgspec.to_builtins(one.status).get("endpoint")
                return live, [
                    each for each in _current_conditions(one) if each["type"] == exposure.EXPOSED
                ]
            told.append(_condition(one, exposure.EXPOSED, now.why, "its Service has an address"))
            if not now.addresses:
                return None, told
            addresses = now.addresses
        wanted = one.spec.endpoint.load_balancer_ip if one.spec.endpoint is not None else ""
        first = [wanted] if wanted and not told else []
        addresses_ = first + [each for each in addresses if each not in first]
        transport = self._listening(one).transport
        return {"addresses": addresses_, "port": port, "protocol": transport}, told

    async def _refuse(self, one: Object, why: GatewayRefusal) -> None:
        """Say why a gateway is not, or not yet."""
        status: Json = {"conditions": [_condition(one, ACCEPTED, why, "")]}
        if why.reason == gatewayplan.NOT_MADE:
            status["backends"] = sorted(self._here.backends)
        if await self._write(one, status):
            self._report(one, why)

    def _report(self, one: Object, why: GatewayRefusal | None) -> None:
        reason = why.message if why is not None else ""
        self._peer.report(GatewayJudged(kind=one.KIND.name, name=one.name, waits=reason))

    async def _write(self, one: Object, wanted: dict[str, Any]) -> bool:
        """Have the status be so; whether it was not."""
        live: dict[str, Any] = msgspec.to_builtins(one.status)
        dates = [
            conditions.dated(each, live.get("conditions"), times.now())
            for each in wanted["conditions"]
        ]
        patch = exact_patch(live, {**wanted, "conditions": dates})
        if patch:
            where = (one.KIND, one.name, {"status": patch}, one.namespace)
            await self._client.patch(*where, subresource="status")
        return bool(patch)


def _condition(one: Object, type_: str, why: GatewayRefusal | None, good: str) -> dict[str, Any]:
    status, reason, message = ("True", type_, good)
    if why is not None:
        held = "Unknown" if why.reason == gatewayplan.UNDECIDED else "False"
        status, reason, message = (held, why.reason, why.message[:1024])
    seen = {"observedGeneration": one.metadata.generation} if one.metadata.generation else {}
    return {"type": type_, "status": status, "reason": reason, "message": message, **seen}


def _current_conditions(one: Object) -> list[Json]:
    found: list[Json] = msgspec.to_builtins(one.status).get("conditions", [])
    return found


def every(store: IndexedStore, type_: type[R], namespace: str = "") -> list[R]:
    """The objects of a kind in a store, in one namespace or in all."""
    return [one for one in store.values(type_) if not namespace or one.namespace == namespace]


def _is_ipv4(address: str) -> bool:
    parsed = parse(address)
    return parsed is not None and parsed.version == 4
