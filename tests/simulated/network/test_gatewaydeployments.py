"""Stand-ins for a gateway, so that `liqoctl` finds one: there with it, true, and gone with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from liqod.apimachinery.kinds import DEPLOYMENTS, PODS
from liqod.kube.selection import Selection
from liqod.network.failover.role import Role
from liqod.network.gateway.connections import Connections
from liqod.network.gateway.gatewaydeployments import GatewayDeployments
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import Gateway, TunnelState
from liqod.resources.networking import GATEWAY_SERVERS
from liqod.runtime.observable import Observable
from tests.simulated.borrower import Json, condition, eventually
from tests.simulated.lender import TENANT, Lender, installed_lender
from tests.simulated.network.test_gateways import MARKS, server


class Site:
    """milan, with the stand-in for its gateway to rome."""

    def __init__(
        self, made: Lender, ends: Observable[TunnelEndpoints], connections: Connections
    ) -> None:
        self.made = made
        self.ends = ends
        self.connections = connections

    async def begin(self, name: str = "rome") -> None:
        """There is a gateway of this name, which is the one that counts."""
        metadata = {"name": name, "labels": MARKS}
        admin = self.made.admin
        made = await admin.create(GATEWAY_SERVERS, {"metadata": metadata, "spec": server()}, TENANT)
        gateway = Gateway(
            side="server", backend="wireguard", name=name, uid=made.metadata.uid, mtu=1340
        )
        self.ends.set(TunnelEndpoints(gateway, looked=True))

    async def pod(self, status: str) -> Json:
        """The one pod, once its condition Ready has this status."""
        found = await eventually(
            lambda: self.made.admin.list(PODS, Selection(TENANT)),
            lambda found: status in map(_ready, found),
        )
        return next(each for each in found if _ready(each) == status)

    async def ready(self, count: int, name: str = "gw-rome") -> Json:
        """The Deployment, once it has so many Ready pods."""
        found: Json = await eventually(
            lambda: self.made.admin.find(DEPLOYMENTS, name, TENANT),
            lambda found: found and found.get("status", {}).get("readyReplicas", 0) == count,
        )
        return found

    async def gone(self) -> None:
        """Waits until the first gateway's Deployment is gone."""
        await eventually(
            lambda: self.made.admin.find(DEPLOYMENTS, "gw-rome", TENANT),
            lambda found: found is None,
        )


def _ready(pod: Json) -> Any:
    return condition(pod, "Ready").get("status")


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    async with installed_lender() as (milan, nursery):
        ends = Observable(TunnelEndpoints())
        connections = Connections(milan.peer, ends, Role())
        await nursery.start(connections.run)
        await nursery.start(GatewayDeployments(milan.peer, ends, connections).run)
        yield Site(milan, ends, connections)


async def test_it_is_ready_when_the_gateway_is_accepted_and_runs_nothing():
    async with site() as milan:
        await milan.begin()
        found = await milan.ready(1)
        [owner] = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("GatewayServer", "rome")
        pod = await milan.pod("True")
        assert pod["spec"]["schedulingGates"]
        assert not pod["spec"].get("nodeName")
        assert "nothing runs here" in condition(pod, "Ready")["message"]
        assert pod["status"]["phase"] == "Running"
        # By these Liqo's own tools find the active gateway.
        for key, value in (("component", "gateway"), ("active", "true"), ("gateway-name", "rome")):
            assert pod["metadata"]["labels"][f"networking.liqo.io/{key}"] == value
        assert (
            found["spec"]["selector"]["matchLabels"]
            .keys()
            .isdisjoint({"networking.liqo.io/active"})
        )
        assert milan.made.peer.network.gateways == {"server": True}


async def test_a_tunnel_that_cannot_be_is_not_ready_and_comes_back():
    async with site() as milan:
        await milan.begin()
        await milan.ready(1)
        milan.connections.report(TunnelState("Error", "nft refuses"))
        pod = await milan.pod("False")
        assert condition(pod, "Ready")["message"] == "nft refuses"
        assert pod["status"]["phase"] == "Pending"
        await milan.ready(0)
        assert milan.made.peer.network.gateways == {"server": False}
        # That the other side is silent is no fault of this gateway.
        milan.connections.report(TunnelState("Connecting", "the peer has not answered yet"))
        await milan.ready(1)


async def test_another_gateway_has_another_one():
    async with site() as milan:
        await milan.begin()
        await milan.ready(1)
        await milan.begin("other")
        await milan.ready(1, "gw-other")
        await milan.gone()


async def test_whoever_deletes_it_finds_another_one():
    """Liqo's own case deletes the pod of the active gateway, three times."""
    async with site() as milan:
        await milan.begin()
        for kind in (PODS, PODS, PODS, DEPLOYMENTS):
            before = (await milan.pod("True"))["metadata"]
            name = before["name"] if kind is PODS else "gw-rome"
            await milan.made.admin.delete(kind, name, TENANT, grace=0)

            async def another(uid: str = before["uid"]) -> bool:
                found = await milan.made.admin.list(PODS, Selection(TENANT))
                ready = [each for each in found if _ready(each) == "True"]
                return [each["metadata"]["uid"] for each in ready] not in ([], [uid])

            await eventually(another)


async def test_without_a_gateway_there_is_none_and_at_rest_nothing_is_written():
    async with site() as milan:
        await milan.begin()
        await milan.ready(1)
        before = (await milan.pod("True"))["metadata"]["resourceVersion"]
        milan.connections.report(TunnelState("Connected", latency=0.002))
        milan.connections.report(TunnelState("Connected", latency=0.003))
        await trio.testing.wait_all_tasks_blocked(0.2)
        pods = await milan.made.admin.list(PODS, Selection(TENANT))
        [after] = [each["metadata"]["resourceVersion"] for each in pods]
        assert before == after
        milan.ends.set(TunnelEndpoints(looked=True))
        await milan.gone()
        assert milan.made.peer.network.gateways == {}
