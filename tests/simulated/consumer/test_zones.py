"""Zones of virtual nodes: a peer's are shown where they are believed, and never this cluster's."""

import pytest
import trio

from liqod.apimachinery.kinds import DEPLOYMENTS, NODES, PODS
from liqod.apimachinery.labels import HELD, REGION, ZONE
from liqod.consumer.timings import ConsumerTimings
from liqod.kube.selection import Selection
from liqod.procedures.nodeexplaining import explain_node
from liqod.resources import VIRTUAL_NODES
from tests.simulated.borrower import Json, eventually
from tests.simulated.members import SETTINGS, Member, members

BELIEVED = f"""{SETTINGS}
[peer_defaults]
believed_labels = ["topology.kubernetes.io/*"]
[provider.node_labels]
"{ZONE}" = "eu-1a"
"""
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
WEB: Json = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "topologySpreadConstraints": [SPREAD],
            },
        },
    },
}


async def comes_to(rome: Member, zone: str | None) -> None:
    """The zone that milan's node comes to have here."""

    def shown(node: Json) -> bool:
        found: str | None = (node["metadata"].get("labels") or {}).get(ZONE)
        return found == zone

    def wanted(node: Json) -> bool:
        found: str | None = node["spec"].get("labels", {}).get(ZONE)
        return found == zone

    await rome.until(VIRTUAL_NODES, "milan", "liqo-tenant-milan", wanted)
    await rome.until(NODES, "milan", "", shown)


@pytest.mark.long
async def test_the_zone_of_a_peer_goes_while_a_node_here_is_in_one_of_that_name() -> None:
    async with members("rome", "milan", settings=BELIEVED, nodes=1) as [rome, milan]:
        await rome.peer(milan)
        await comes_to(rome, "eu-1a")
        await rome.admin.create(DEPLOYMENTS, WEB, "default")
        told = await explain_node(rome.admin, "milan")
        assert f"Deployment default/web ({ZONE})" in told.hurt
        own = [each["metadata"]["name"] for each in await rome.admin.list(NODES)]
        [here] = [name for name in own if name != "milan"]
        await rome.admin.patch(NODES, here, {"metadata": {"labels": {ZONE: "eu-1a"}}})
        await comes_to(rome, None)
        assert (await explain_node(rome.admin, "milan")).hurt == ""
        await rome.admin.patch(NODES, here, {"metadata": {"labels": {ZONE: "eu-1b"}}})
        await comes_to(rome, "eu-1a")


async def test_a_zone_is_held_back_by_itself_so_that_pods_here_do_not_wait() -> None:
    soon = ConsumerTimings(zone_held=30.0)
    more: Json = {"settings": BELIEVED, "nodes": 2, "consumer_timings": soon}
    async with members("rome", "milan", **more) as [rome, milan]:
        for node in await rome.admin.list(NODES):
            labels = {"metadata": {"labels": {ZONE: "eu-1b"}}}
            await rome.admin.patch(NODES, node["metadata"]["name"], labels)
        await rome.peer(milan)
        await comes_to(rome, "eu-1a")
        await rome.admin.create(DEPLOYMENTS, WEB, "default")
        await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, "default")

        async def run() -> bool:
            found = await rome.admin.list(PODS, Selection("default"))
            return len(found) == 4 and all(each["status"]["phase"] == "Running" for each in found)

        await eventually(run, seconds=60)
        node = await rome.admin.get(NODES, "milan")
        assert ZONE not in node["metadata"]["labels"]
        # Selectors of offloaded namespaces go by the VirtualNode, which has it.
        virtual = await rome.admin.get(VIRTUAL_NODES, "milan", "liqo-tenant-milan")
        assert virtual["spec"]["labels"][ZONE] == "eu-1a"
        told = await explain_node(rome.admin, "milan")
        assert f"zone eu-1a: those of Deployment default/web ({ZONE}) may not run" in told.hurt
        await rome.admin.delete(DEPLOYMENTS, "web", "default")
        await trio.sleep(20)
        assert ZONE not in (await rome.admin.get(NODES, "milan"))["metadata"]["labels"]
        await comes_to(rome, "eu-1a")
        assert (await explain_node(rome.admin, "milan")).hurt == ""


async def test_a_region_is_held_back_until_a_node_here_is_in_it_too() -> None:
    settings = BELIEVED.replace(f'"{ZONE}" = "eu-1a"', f'"{REGION}" = "eu"')
    async with members("rome", "milan", settings=settings, nodes=1) as [rome, milan]:
        template = WEB["spec"]["template"]
        constraint = {**SPREAD, "topologyKey": REGION}
        spread = {**template["spec"], "topologySpreadConstraints": [constraint]}
        spec = {**WEB["spec"], "replicas": 1, "template": {**template, "spec": spread}}
        await rome.admin.create(DEPLOYMENTS, {**WEB, "spec": spec}, "default")
        await rome.peer(milan)

        def held(node: Json) -> bool:
            notes = node["metadata"].get("annotations") or {}
            return notes.get(HELD[REGION]) == "eu" and REGION not in node["metadata"]["labels"]

        await rome.until(NODES, "milan", "", held)
        told = await explain_node(rome.admin, "milan")
        assert f"region eu: those of Deployment default/web ({REGION}) may not run" in told.hurt
        own = [each["metadata"]["name"] for each in await rome.admin.list(NODES)]
        [here] = [name for name in own if name != "milan"]
        await rome.admin.patch(NODES, here, {"metadata": {"labels": {REGION: "eu"}}})
        await rome.until(NODES, "milan", "", lambda node: REGION in node["metadata"]["labels"])
        assert (await explain_node(rome.admin, "milan")).hurt == ""
