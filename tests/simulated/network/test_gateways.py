"""Gateways and keys of a peer in an embedded cluster, with the daemon's own rights."""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import SECRETS, Kind
from liqod.identity import tunnelkeys
from liqod.network.failover.role import Role
from liqod.network.gateway import keysecrets
from liqod.network.gateway.connections import Connections
from liqod.network.gateway.gatewayplan import LocalFacts
from liqod.network.gateway.gateways import Gateways
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import Listening, TunnelState
from liqod.resources.networking import (
    CONNECTIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
)
from liqod.runtime.observable import Observable
from tests.simulated.borrower import Json, condition, eventually
from tests.simulated.lender import TENANT, Lender, installed_lender

MARKS = {"liqo.io/remote-cluster-id": "rome"}
THEIRS = tunnelkeys.generate()


@dataclass
class Site:
    """milan, with the controllers of the tunnel to rome."""

    lender: Lender
    ends: Observable[TunnelEndpoints]
    connections: Connections

    async def make(self, kind: Kind, spec: Json, name: str = "rome", **labels: str) -> Json:
        metadata = {"name": name, "labels": {**MARKS, **labels}}
        made = await self.lender.admin.create(kind, {"metadata": metadata, "spec": spec}, TENANT)
        return await self.lender.admin.get(kind, made.metadata.name, TENANT)

    async def told(
        self, kind: Kind, type_: str, reason: str, name: str = "rome", namespace: str = TENANT
    ) -> Json:
        """A gateway, once a condition of it has that reason."""
        found: Json = await eventually(
            lambda: self.lender.admin.get(kind, name, namespace),
            lambda found: condition(found, type_).get("reason") == reason,
        )
        return found

    async def shows(self, value: str) -> Json:
        """The Connection, once it has that value."""
        found: Json = await eventually(
            lambda: self.lender.admin.find(CONNECTIONS, "gw-rome", TENANT),
            lambda found: (found or {}).get("status", {}).get("value") == value,
        )
        return found

    async def known(self, fits: Callable[[TunnelEndpoints], bool]) -> None:
        """Until the ends are so."""
        with trio.fail_after(30):
            while not fits(self.ends.now):
                await self.ends.wait_changed()

    async def gone(self, kind: Kind, name: str, namespace: str = TENANT) -> None:
        await eventually(
            lambda: self.lender.admin.find(kind, name, namespace), lambda found: found is None
        )


@asynccontextmanager
async def site(**here: Any) -> AsyncIterator[Site]:
    async with installed_lender() as (milan, nursery):
        ends = Observable(TunnelEndpoints())
        wanted = LocalFacts(
            namespace="liqo",
            backends=here.get("backends", {"wireguard": Listening()}),
            networks=("10.244.0.0/16",),
            websocket=here.get("websocket", False),
            undecided=here.get("undecided", {}),
            unknown=here.get("unknown", ""),
        )
        connections = Connections(milan.peer, ends, Role())
        await nursery.start(connections.run)
        addresses = here.get("addresses", ("192.0.2.5", "2001:db8::5"))
        await nursery.start(Gateways(milan.peer, ends, wanted, addresses, Role()).run)
        yield Site(milan, ends, connections)


def template(side: str) -> Json:
    """The reference to Liqo's template of a side."""
    return {
        "apiVersion": "networking.liqo.io/v1beta1",
        "kind": f"WgGateway{side.capitalize()}Template",
        "name": f"wireguard-{side}",
        "namespace": "liqo",
    }


def server(**more: Any) -> Json:
    endpoint = {"port": 51840, "serviceType": "LoadBalancer"}
    return {"endpoint": endpoint, "mtu": 1340, "serverTemplateRef": template("server"), **more}


def client(**more: Any) -> Json:
    endpoint = {"addresses": ["198.51.100.7"], "port": 51840, "protocol": "UDP"}
    return {"endpoint": endpoint, "mtu": 1340, "clientTemplateRef": template("client"), **more}


def key(public: bytes = THEIRS.public) -> Json:
    return {"publicKey": b64encode(public).decode()}


async def test_a_server_gets_keys_an_endpoint_and_a_connection():
    async with site() as milan:
        made = await milan.make(GATEWAY_SERVERS, server())
        found = await milan.told(GATEWAY_SERVERS, "PeerKeyAccepted", "NoPublicKey")
        assert condition(found, "Accepted")["status"] == "True"
        status = found["status"]
        assert status["endpoint"] == {
            "addresses": ["192.0.2.5", "2001:db8::5"],
            "port": 51840,
            "protocol": "UDP",
        }
        assert status["internalEndpoint"] == {"ip": "192.0.2.5"}
        # `liqoctl create gatewayserver --wait` returns by these two.
        assert status["serverRef"]["kind"] == "WgGatewayServer"
        shown = await milan.lender.admin.get(SECRETS, status["secretRef"]["name"], TENANT)
        # Liqo's tools read it there; the private key is not for peers.
        assert set(shown["data"]) == {"publicKey"}
        assert len(b64decode(shown["data"]["publicKey"])) == 32
        assert shown["metadata"]["labels"]["networking.liqo.io/gateway-resource"] == "true"
        found = await eventually(lambda: milan.lender.admin.find(CONNECTIONS, "gw-rome", TENANT))
        assert found["spec"]["type"] == "Server"
        assert found["spec"]["gatewayRef"]["kind"] == "WgGatewayServer"
        assert found["metadata"]["labels"] == MARKS
        for owned in (found, shown):
            (owner,) = owned["metadata"]["ownerReferences"]
            assert owner["uid"] == made["metadata"]["uid"]


async def test_one_in_another_namespace_is_told_where_it_belongs():
    """`liqoctl create` without `-n` makes it in that of the kubeconfig."""
    async with site() as milan:
        for kind, spec in ((GATEWAY_SERVERS, server()), (GATEWAY_CLIENTS, client())):
            body = {"metadata": {"name": "rome", "labels": MARKS}, "spec": spec}
            await milan.lender.admin.create(kind, body, "default")
            found = await milan.told(kind, "Accepted", "OtherNamespace", namespace="default")
            said = condition(found, "Accepted")
            assert said["status"] == "False"
            assert f"-n {TENANT}" in said["message"]
        assert milan.ends.now.gateway is None


async def test_a_key_in_another_namespace_takes_nobodys_place():
    """A writer of that namespace could claim a key as his, and did so before it was the peer's."""
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, server())
        for name, peer in (("rome", "rome"), ("turin", "turin")):
            marks = {"name": name, "labels": {**MARKS, "liqo.io/remote-cluster-id": peer}}
            stray = {"metadata": marks, "spec": key()}
            await milan.lender.admin.create(PUBLIC_KEYS, stray, "default")
        await eventually(
            lambda: milan.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT),
            lambda found: (
                "that in default counts for nobody"
                in condition(found, "PeerKeyAccepted").get("message", "")
            ),
        )
        await milan.make(PUBLIC_KEYS, key())
        await milan.told(GATEWAY_SERVERS, "PeerKeyAccepted", "PeerKeyAccepted")
        await milan.known(lambda now: now.peer_key == THEIRS.public)


async def test_the_ends_are_known_in_whichever_order_the_objects_come():
    for kinds in ((PUBLIC_KEYS, GATEWAY_CLIENTS), (GATEWAY_CLIENTS, PUBLIC_KEYS)):
        async with site() as milan:
            for kind in kinds:
                await milan.make(kind, key() if kind is PUBLIC_KEYS else client())
            found = await milan.told(GATEWAY_CLIENTS, "PeerKeyAccepted", "PeerKeyAccepted")
            assert found["status"]["clientRef"]["name"] == "rome"
            await milan.known(lambda now: not now.waits)
            now = milan.ends.now
            assert now.gateway is not None
            assert (now.gateway.side, now.gateway.backend) == ("client", "wireguard")
            assert now.gateway.endpoints == ("198.51.100.7:51840",)
            assert now.peer_key == THEIRS.public
            assert now.keys is not None


async def test_keys_last_and_a_restart_writes_nothing():
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, server())
        await milan.make(PUBLIC_KEYS, key())
        before = await milan.told(GATEWAY_SERVERS, "PeerKeyAccepted", "PeerKeyAccepted")
        # Written last; on a busy machine it comes after a while.
        await milan.shows("Connecting")
        await milan.lender.settled()
        first, ends = milan.lender.requests(), Observable(TunnelEndpoints())
        here = LocalFacts(namespace="liqo", backends={"wireguard": Listening()})
        async with trio.open_nursery() as nursery:
            again = Gateways(milan.lender.peer, ends, here, ("192.0.2.5", "2001:db8::5"), Role())
            await nursery.start(again.run)
            with trio.fail_after(30):
                await ends.wait_changed()
            nursery.cancel_scope.cancel()
        assert ends.now == milan.ends.now
        after = await milan.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT)
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        written = {verb for verb, _ in set(milan.lender.requests()) - set(first)}
        assert not written & {"create", "patch", "update", "delete"}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (server(mtu=576), "MtuOutOfRange"),
        (server(endpoint={"port": 70000}), "PortOutOfRange"),
        (server(serverTemplateRef={"kind": "Deployment", "name": "x"}), "ForeignTemplate"),
    ],
)
async def test_what_cannot_be_says_why_and_is_not_applied(spec: Json, reason: str):
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, spec)
        found = await milan.told(GATEWAY_SERVERS, "Accepted", reason)
        assert "secretRef" not in found["status"]
        message = condition(found, "Accepted")["message"]
        await milan.known(lambda now: now.gateway is None and now.waits == message)
        assert await milan.lender.admin.find(SECRETS, "gw-rome", "liqo") is None


async def test_one_of_a_kind_that_is_not_made_is_told_what_is():
    async with site(backends={"wireguard": Listening(), "vxlan": Listening()}) as milan:
        ref = server()["serverTemplateRef"]
        await milan.make(GATEWAY_SERVERS, server(serverTemplateRef={**ref, "name": "quic-server"}))
        found = await milan.told(GATEWAY_SERVERS, "Accepted", "BackendNotAllowed")
        assert found["status"]["backends"] == ["vxlan", "wireguard"]
        patch = {"spec": server()}
        await milan.lender.admin.patch(GATEWAY_SERVERS, "rome", patch, TENANT)
        found = await milan.told(GATEWAY_SERVERS, "Accepted", "Accepted")
        assert "backends" not in found["status"]


async def test_a_server_shows_where_it_takes_its_tunnel_in_a_websocket():
    backends = {
        "wireguard": Listening(carried=True),
        "websocket": Listening(transport="TCP", port=443, shared=True),
    }
    async with site(backends=backends, websocket=True) as milan:
        await milan.make(GATEWAY_SERVERS, server())
        found = await milan.told(GATEWAY_SERVERS, "Accepted", "Accepted")
        assert found["status"]["websocketPort"] == 443
        assert condition(found, "WebSocket")["message"] == "TCP 443"


async def test_a_second_gateway_waits_and_takes_over_when_the_first_has_gone():
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, server())
        await milan.told(GATEWAY_SERVERS, "Accepted", "Accepted")
        await milan.make(GATEWAY_CLIENTS, client(), "zz")
        await milan.told(GATEWAY_CLIENTS, "Accepted", "AnotherIsFirst", "zz")
        await milan.lender.admin.delete(GATEWAY_SERVERS, "rome", TENANT)
        await milan.told(GATEWAY_CLIENTS, "Accepted", "Accepted", "zz")
        await milan.known(lambda now: now.gateway is not None and now.gateway.side == "client")


@pytest.mark.parametrize("bad", [b"x" * 31, bytes(32)])
async def test_a_bad_key_is_said_and_another_taken(bad: bytes):
    async with site() as milan:
        await milan.make(PUBLIC_KEYS, key(bad))
        await milan.make(GATEWAY_SERVERS, server())
        await milan.told(GATEWAY_SERVERS, "PeerKeyAccepted", "BadPublicKey")
        assert milan.ends.now.peer_key == b""
        await milan.lender.admin.patch(PUBLIC_KEYS, "rome", {"spec": key()}, TENANT)
        await milan.told(GATEWAY_SERVERS, "PeerKeyAccepted", "PeerKeyAccepted")
        await milan.known(lambda now: now.peer_key == THEIRS.public)


async def test_a_machine_without_an_address_says_so():
    async with site(addresses=()) as milan:
        await milan.make(GATEWAY_SERVERS, server())
        found = await milan.told(GATEWAY_SERVERS, "Accepted", "CannotJoin")
        assert "advertise" in condition(found, "Accepted")["message"]


async def test_the_connection_shows_the_way_and_rests():
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, server())
        await milan.shows("Connecting")
        milan.connections.report(TunnelState("Connected", latency=0.00125))
        await milan.shows("Connected")
        await milan.lender.settled()  # what comes of that write may write it once more
        found = await milan.shows("Connected")
        assert found["status"]["latency"]["value"] == "1.25ms"
        # One that hardly differs is not worth a write.
        milan.connections.report(TunnelState("Connected", latency=0.0013))
        await milan.lender.settled()
        again = await milan.shows("Connected")
        assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        milan.connections.report(TunnelState("Error", "the probes are lost"))
        await milan.shows("Error")


async def test_what_is_made_for_a_gateway_goes_with_it():
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, server())
        await milan.told(GATEWAY_SERVERS, "Accepted", "Accepted")
        await milan.lender.admin.delete(GATEWAY_SERVERS, "rome", TENANT)
        await milan.gone(SECRETS, "gw-rome")
        await milan.gone(CONNECTIONS, "gw-rome")
        await milan.known(lambda now: now.gateway is None)
        # The private key goes when nothing on the machine is the peer's any more.
        assert await milan.lender.admin.find(SECRETS, "gw-rome", "liqo") is not None
        await keysecrets.forget(milan.lender.context.client, "rome", "liqo")
        assert await milan.lender.admin.find(SECRETS, "gw-rome", "liqo") is None


async def test_keys_that_liqo_left_are_kept_and_no_more_shown():
    async with site() as milan:
        kept = tunnelkeys.generate()
        data = {
            "privateKey": b64encode(kept.private).decode(),
            "publicKey": b64encode(kept.public).decode(),
        }
        left = {"metadata": {"name": "gw-rome"}, "data": data}
        await milan.lender.admin.create(SECRETS, left, TENANT)
        await milan.make(GATEWAY_SERVERS, server())
        await milan.told(GATEWAY_SERVERS, "Accepted", "Accepted")
        await eventually(
            lambda: milan.lender.admin.get(SECRETS, "gw-rome", TENANT),
            lambda found: set(found["data"]) == {"publicKey"},
        )
        await milan.known(lambda now: now.keys == kept)


async def test_a_secret_of_anothers_in_our_namespace_is_left_alone():
    async with site() as milan:
        other = {"metadata": {"name": "gw-rome"}, "data": {"x": "eA=="}}
        await milan.lender.admin.create(SECRETS, other, "liqo")
        await milan.make(GATEWAY_SERVERS, server())
        await milan.lender.settled()
        assert milan.ends.now.gateway is None
        found = await milan.lender.admin.get(SECRETS, "gw-rome", "liqo")
        assert set(found["data"]) == {"x"}
