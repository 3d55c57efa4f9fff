"""The Service of a gateway in a cluster: of the type asked for, and where it is reached."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.network.failover.role import Role
from liqod.network.gateway import exposure
from liqod.network.gateway.connections import Connections
from liqod.network.gateway.exposure import Exposed
from liqod.network.gateway.gatewayplan import LocalFacts
from liqod.network.gateway.gateways import Gateways
from liqod.network.gateway.gatewayservices import GatewayServices
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import Listening
from liqod.resources.networking import GATEWAY_SERVERS
from liqod.runtime.observable import Observable
from tests.simulated.borrower import Json, condition, eventually
from tests.simulated.lender import TENANT, installed_lender
from tests.simulated.network.test_gateways import Site, server

NODE = "192.0.2.5"


@asynccontextmanager
async def site(**network: Any) -> AsyncIterator[Site]:
    """milan, whose daemon is a pod on the node 192.0.2.5."""
    async with installed_lender() as (milan, nursery):
        context = milan.peer.context
        config = msgspec.structs.replace(
            context.config, network=msgspec.structs.replace(context.config.network, **network)
        )
        object.__setattr__(milan.peer, "context", _with(context, config=config, node_address=NODE))
        ends, exposed, role = Observable(TunnelEndpoints()), Observable(Exposed()), Role()
        wanted = LocalFacts(
            namespace="liqo", backends={"wireguard": Listening()}, networks=("10.244.0.0/16",)
        )
        await nursery.start(Gateways(milan.peer, ends, wanted, (NODE,), role, exposed).run)
        await nursery.start(GatewayServices(milan.peer, ends, exposed, (NODE,), role).run)
        yield Site(milan, ends, Connections(milan.peer, ends, role))


def _with(context: Any, **changes: Any) -> Any:
    made = copy.copy(context)
    for name, value in changes.items():
        object.__setattr__(made, name, value)
    return made


def asking(type_: str, **more: Any) -> Json:
    """The spec of a server that asks for a Service of a type."""
    return server(endpoint={"port": 51840, "serviceType": type_}, **more)


async def exposed(milan: Site, status: str, reason: str) -> Json:
    """The server, once its condition Exposed is so."""
    found = await milan.told(GATEWAY_SERVERS, exposure.EXPOSED, reason)
    assert condition(found, exposure.EXPOSED)["status"] == status
    return found


async def its_service(milan: Site) -> Json:
    found: Json = await eventually(lambda: milan.lender.admin.find(SERVICES, "gw-rome", TENANT))
    return found


async def told(milan: Site) -> Json:
    """The endpoint that the server shows, once it shows one."""
    found: Json = await eventually(
        lambda: milan.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT),
        lambda found: found.get("status", {}).get("endpoint"),
    )
    endpoint: Json = found["status"]["endpoint"]
    return endpoint


async def test_a_load_balancer_that_has_no_address_yet_is_waited_for():
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, asking("LoadBalancer"))
        made = await its_service(milan)
        assert made["spec"]["type"] == "LoadBalancer"
        assert "selector" not in made["spec"]
        [port] = made["spec"]["ports"]
        assert (port["port"], port["protocol"]) == (51840, "UDP")
        # It is written after the Service.
        slice_ = await eventually(
            lambda: milan.lender.admin.find(ENDPOINT_SLICES, "gw-rome", TENANT)
        )
        assert slice_["endpoints"][0]["addresses"] == [NODE]
        # Anyone who makes load balancers says so, and takes its time.
        admin = milan.lender.admin
        mark = {"metadata": {"finalizers": ["service.kubernetes.io/load-balancer-cleanup"]}}
        await admin.patch(SERVICES, "gw-rome", mark, TENANT)
        found = await exposed(milan, "False", exposure.PENDING)
        assert "endpoint" not in found["status"]
        await trio.sleep(exposure.TAKEN_UP_WITHIN + 1)
        found = await exposed(milan, "False", exposure.PENDING)
        assert "endpoint" not in found["status"]
        given = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}}
        await admin.patch(SERVICES, "gw-rome", given, TENANT, subresource="status")
        found = await exposed(milan, "True", exposure.EXPOSED)
        assert found["status"]["endpoint"] == {
            "addresses": ["203.0.113.9"],
            "port": 51840,
            "protocol": "UDP",
        }
        # It is replaced by another: the newest is told.
        given = {"status": {"loadBalancer": {"ingress": [{"hostname": "gw.milan.example"}]}}}
        await admin.patch(SERVICES, "gw-rome", given, TENANT, subresource="status")
        await eventually(
            lambda: told(milan), lambda found: found["addresses"] == ["gw.milan.example"]
        )
        await admin.patch(SERVICES, "gw-rome", {"metadata": {"finalizers": None}}, TENANT)


async def test_where_nobody_makes_load_balancers_the_nodes_own_address_is_told():
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, asking("LoadBalancer"))
        found = await exposed(milan, "False", exposure.NOBODY)
        assert found["status"]["endpoint"]["addresses"] == [NODE]
        assert "NodePort or ClusterIP" in condition(found, exposure.EXPOSED)["message"]


async def test_the_gateway_listens_at_the_port_that_its_service_was_given():
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, asking("NodePort"))
        await exposed(milan, "True", exposure.EXPOSED)
        service = await eventually(
            lambda: milan.lender.admin.get(SERVICES, "gw-rome", TENANT),
            lambda found: all(
                each["targetPort"] == each["nodePort"] for each in found["spec"]["ports"]
            ),
        )
        number = service["spec"]["ports"][0]["nodePort"]
        assert 30000 <= number < 32768
        found = await told(milan)
        assert (found["addresses"], found["port"]) == ([NODE], number)
        await milan.known(lambda ends: ends.gateway is not None and ends.gateway.port == number)
        slice_ = await milan.lender.admin.get(ENDPOINT_SLICES, "gw-rome", TENANT)
        assert slice_["ports"][0]["port"] == number


async def test_without_a_service_the_nodes_own_address_is_told():
    async with site() as milan:
        await milan.make(GATEWAY_SERVERS, asking("ClusterIP"))
        assert (await told(milan))["addresses"] == [NODE]
        assert await milan.lender.admin.find(SERVICES, "gw-rome", TENANT) is None
        found = await milan.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT)
        assert condition(found, exposure.EXPOSED) == {}


async def test_another_type_has_another_service_and_the_last_one_goes_with_the_gateway():
    async with site() as milan:
        admin = milan.lender.admin
        await milan.make(GATEWAY_SERVERS, asking("NodePort"))
        await its_service(milan)
        change = {"spec": {"endpoint": {"serviceType": "ClusterIP"}}}
        await admin.patch(GATEWAY_SERVERS, "rome", change, TENANT)
        await milan.gone(SERVICES, "gw-rome")
        await milan.gone(ENDPOINT_SLICES, "gw-rome")
        change = {"spec": {"endpoint": {"serviceType": "LoadBalancer"}}}
        await admin.patch(GATEWAY_SERVERS, "rome", change, TENANT)
        await its_service(milan)
        await admin.delete(GATEWAY_SERVERS, "rome", TENANT)
        await milan.gone(SERVICES, "gw-rome")


async def test_a_peers_annotations_are_those_that_this_cluster_allows():
    given = {"lb.example/internal": "true", "external-dns.alpha.kubernetes.io/hostname": "bank"}
    async with site(service_annotations=("lb.example/internal",)) as milan:
        await milan.make(GATEWAY_SERVERS, asking("NodePort", serviceAnnotations=given))
        found = (await its_service(milan))["metadata"]["annotations"]
        assert found["lb.example/internal"] == "true"
        assert "external-dns.alpha.kubernetes.io/hostname" not in found
