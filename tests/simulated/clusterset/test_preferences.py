"""Endpoints of an import that are chosen as the Service of its name asks."""

import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, NODES, SERVICES
from liqod.kube.selection import Selection
from liqod.procedures import sharedservices
from tests.simulated.borrower import Json, eventually
from tests.simulated.clusterset.sets import (
    IMPORTS,
    export,
    share,
    sharing,
    until_backends,
)
from tests.simulated.members import Member
from tests.unit.model.clusterset.proxying import used

pytestmark = [pytest.mark.long, pytest.mark.clusterset]

KEY = "liqod.io/endpoint-preference"
ZONE = "topology.kubernetes.io/zone"
HOME, AWAY = "10.71.0.1", "10.72.0.1"


async def ask(who: Member, text: str | None) -> None:
    """Annotate the Service."""
    change = {"metadata": {"annotations": {KEY: text}}}
    await who.admin.patch(SERVICES, "web", change, "shop")


async def node(who: Member, name: str, zone: str = "") -> None:
    """A node of a zone."""
    marks = {ZONE: zone} if zone else {}
    await who.admin.create(NODES, {"metadata": {"name": name, "labels": marks}})


async def until_used(who: Member, wanted: set[str], zone: str = "z1") -> None:
    """Wait until clients on a node of a zone are led to these endpoints."""
    chosen = Selection("shop", labels="multicluster.kubernetes.io/service-name=web")

    async def look() -> bool:
        return used(await who.admin.list(ENDPOINT_SLICES, chosen), zone) == wanted

    await eventually(look)


async def until_verdict(who: Member, *wanted: str) -> None:
    """Wait until the import has that status and reason of the preference; none: no condition."""

    def is_it(found: Json) -> bool:
        said = found.get("status", {}).get("conditions", ())
        of_it = [each for each in said if each["type"] == "liqod.io/EndpointPreference"]
        return [(each["status"], each["reason"]) for each in of_it] == ([wanted] if wanted else [])

    await who.until(IMPORTS, "web", "shop", is_it)


async def ready(who: Member, value: bool, address: str) -> None:
    """Have the only pod of a cluster be ready or not."""
    found = [{"addresses": [address], "conditions": {"ready": value}}]
    await who.admin.patch(ENDPOINT_SLICES, "web-1", {"endpoints": found}, "shop")


async def both(rome: Member, milan: Member) -> None:
    """Both clusters export a Service with one pod, and rome's nodes are in two zones."""
    await rome.peer(milan)
    for who, peer in ((rome, "milan"), (milan, "rome")):
        await share(who, peer)
    await node(rome, "r1", "z1")
    await node(rome, "r2", "z2")
    await export(rome, HOME)
    await export(milan, AWAY)
    await until_backends(rome, {"rome": {HOME: True}, "milan": {AWAY: True}})


async def test_own_endpoints_come_first_and_the_others_when_those_are_gone():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await until_used(rome, {HOME, AWAY})
        await ask(rome, "own-first")
        await until_verdict(rome, "True", "OwnFirst")
        for zone in ("z1", "z2"):
            await until_used(rome, {HOME}, zone)
        await until_used(milan, {HOME, AWAY})  # each cluster decides for its own clients
        await until_verdict(milan)

        # The hints already say who answers then: no more than the readiness is written.
        await ready(rome, False, HOME)
        began = trio.current_time()
        await until_used(rome, {AWAY})
        assert trio.current_time() - began < 2
        await ready(rome, True, HOME)
        await until_used(rome, {HOME})

        await node(rome, "r3")
        await until_verdict(rome, "False", "NodesWithoutZone")
        await until_used(rome, {HOME})
        await until_used(rome, {HOME, AWAY}, "")
        await rome.admin.delete(NODES, "r3")
        await until_verdict(rome, "True", "OwnFirst")
        await node(rome, "r4", "z4")
        await until_used(rome, {HOME}, "z4")

        told = await sharedservices.explain(rome.admin, "rome", ("shop", "web"))
        assert [each.split(":")[1].strip() for each in told.said] == ["OwnFirst"]
        await ask(rome, None)
        await until_verdict(rome)
        await until_used(rome, {HOME, AWAY})


async def test_own_endpoints_alone_and_shares_are_what_is_published():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await ask(rome, "own-only")
        await until_verdict(rome, "True", "OwnOnly")
        await until_backends(rome, {"rome": {HOME: True}})
        told = await sharedservices.explain(rome.admin, "rome", ("shop", "web"))
        (peer,) = [each for each in told.clusters if each.cluster == "milan"]
        assert peer.why == f"the Service here leaves its endpoints out, by {KEY}"
        await ready(rome, False, HOME)
        await until_backends(rome, {"rome": {HOME: False}})
        await ready(rome, True, HOME)

        await ask(rome, "milan=50")
        await until_verdict(rome, "True", "Shares")
        await until_used(rome, {HOME, AWAY})
        await ask(rome, "milan=10")
        await until_verdict(rome, "False", "TooFewEndpoints")
        await ask(rome, "milan=0")
        await until_verdict(rome, "True", "Shares")
        await until_used(rome, {HOME})
        await ready(rome, False, HOME)
        await until_used(rome, {AWAY})  # better anyone than nobody
        await ready(rome, True, HOME)
        await until_used(rome, {HOME})

        await ask(rome, "the nearest")
        await until_verdict(rome, "False", "InvalidPreference")
        await until_used(rome, {HOME, AWAY})


async def test_a_peer_that_goes_silent_keeps_none_of_its_share():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await ask(rome, "milan=100")
        await until_verdict(rome, "True", "Shares")
        await until_used(rome, {AWAY})
        await milan.stop()
        await milan.cluster.stop()
        await until_used(rome, {HOME})
        await until_verdict(rome, "False", "TooFewEndpoints")


@pytest.mark.parametrize("mark", ["liqo.io/remote-cluster-id", "liqo.io/managed", "origin"])
async def test_the_wish_on_a_service_that_a_peer_has_brought_is_not_followed(mark):
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await rome.admin.delete(IMPORTS, "web", "shop")
        key = {"origin": "offloading.liqo.io/origin"}.get(mark, mark)
        change = {"metadata": {"labels": {key: "true"}, "annotations": {KEY: "own-only"}}}
        await rome.admin.patch(SERVICES, "web", change, "shop")
        await until_backends(rome, {"milan": {AWAY: True}})
        await until_verdict(rome)
