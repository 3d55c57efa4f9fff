"""Zones of virtual nodes: a peer's are shown where they are believed, and never this cluster's."""

import pytest

from liqod.apimachinery.kinds import DEPLOYMENTS, NODES
from liqod.apimachinery.labels import ZONE
from liqod.procedures.nodeexplaining import explain_node
from liqod.resources import VIRTUAL_NODES
from tests.simulated.borrower import Json
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
