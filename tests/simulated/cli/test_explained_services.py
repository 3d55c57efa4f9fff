"""`liqod explain service`: the endpoints that clients at each peer have, and the ways to them."""

import json
from pathlib import Path
from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, EVENTS, NAMESPACES, SERVICES
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.resources import (
    CONFIGURATIONS,
    FOREIGN_CLUSTERS,
    IPS,
    NAMESPACE_MAPS,
    VIRTUAL_NODES,
)
from simulator import EmbeddedCluster
from tests.simulated.prepared import defined
from tests.simulated.processes import command
from tests.testbed import shownblocks

POD = "10.244.0.0/16"


async def peered(rome: Client, peer: str, number: int) -> None:
    """A peer whose pods are seen in the range of that number, with a node and the namespace."""
    place = f"liqo-tenant-{peer}"
    marks = {labels.TENANT_NAMESPACE: "true", labels.REMOTE_CLUSTER_ID: peer}
    await rome.create(NAMESPACES, {"metadata": {"name": place, "labels": marks}})
    notes = {labels.POD_NETWORK: "tunnel"}
    foreign = {"metadata": {"name": peer, "annotations": notes}, "spec": {"clusterID": peer}}
    await rome.create(FOREIGN_CLUSTERS, foreign)
    node = {"metadata": {"name": peer}, "spec": {"clusterID": peer}}
    await rome.create(VIRTUAL_NODES, node, place)
    wanted = {"metadata": {"name": peer}, "spec": {"desiredMapping": {"shop": "shop-rome"}}}
    await rome.create(NAMESPACE_MAPS, wanted, place)
    entry = {"remoteNamespace": "shop-rome", "phase": "Accepted"}
    await status(rome, NAMESPACE_MAPS, peer, place, {"currentMapping": {"shop": entry}})
    cidr = {"pod": [POD], "external": ["10.70.0.0/16"]}
    spec = {"local": {"cidr": cidr}, "remote": {"cidr": cidr}}
    await rome.create(CONFIGURATIONS, {"metadata": {"name": peer}, "spec": spec}, place)
    seen = {"pod": [f"10.{number}.0.0/16"], "external": [f"10.{number + 1}.0.0/16"]}
    await status(rome, CONFIGURATIONS, peer, place, {"remote": {"cidr": seen}})


async def status(client: Client, kind: Any, name: str, place: str, found: Any) -> None:
    await client.patch(kind, name, {"status": found}, place, subresource="status")


async def served(rome: Client) -> None:
    """A Service with a pod at home and one at each peer."""
    await rome.create(NAMESPACES, {"metadata": {"name": "shop"}})
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    await rome.create(SERVICES, service, "shop")
    places = {"worker": "10.244.0.5", "milan": "10.71.0.5", "turin": "10.73.0.5"}
    endpoints = [
        {"addresses": [address], "nodeName": node, "conditions": {"ready": True}}
        for node, address in places.items()
    ]
    meta = {"name": "web-1", "labels": {labels.SERVICE_NAME: "web"}}
    slice_ = {"metadata": meta, "addressType": "IPv4", "endpoints": endpoints, "ports": []}
    await rome.create(ENDPOINT_SLICES, slice_, "shop")


async def test_each_way_is_shown_and_a_peers_last_word(tmp_path: Path):
    async with (
        EmbeddedCluster("rome", state=await defined("rome")) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as rome,
    ):
        file = tmp_path / "rome.kubeconfig"
        file.write_text(cluster.kubeconfig)

        async def explained(*more: str) -> str:
            (shown,) = shownblocks.commands("how-to/explain", "A Service at peers")
            words = shown.line.split()[1:]
            ended = await command(*words, "--kubeconfig", str(file), *more)
            assert ended.status == 0, ended.err
            return ended.out

        await peered(rome, "milan", 71)
        await peered(rome, "turin", 73)
        await served(rome)
        said = await explained()
        assert "shop/web: 3 of 3 endpoints ready" in said
        assert "clients at milan, in shop-rome:" in said
        assert said.count("not told: the Service has no annotation") == 2
        notes = {"metadata": {"annotations": {labels.DIRECT_CONNECTIONS: "true"}}}
        await rome.patch(SERVICES, "web", notes, "shop")
        said = await explained()
        assert "turin: 1 of 1 endpoint ready; 1 directly, where milan is joined with it" in said
        assert "not told" not in said
        marks = {labels.TRANSIT_FROM: "milan", labels.TRANSIT_TO: "turin"}
        ip = {
            "metadata": {
                "name": "transit-1",
                "labels": {labels.IP_TYPE: labels.TRANSIT},
                "annotations": marks,
            },
            "spec": {"ip": "10.73.0.5"},
        }
        await rome.create(IPS, ip, "liqo")
        await status(rome, IPS, "transit-1", "liqo", {"ip": "10.70.0.9", "cidr": "10.70.0.0/16"})
        found = await rome.get(ENDPOINT_SLICES, "web-1", "shop")
        event = {
            "metadata": {"name": "web-1.1", "labels": {labels.REMOTE_CLUSTER_ID: "turin"}},
            "involvedObject": {"kind": "EndpointSlice", "namespace": "shop", "name": "web-1"},
            "reason": "EndpointsLeftOut",
            "message": "at turin: endpoints at milan: no",
            "lastTimestamp": "2026-11-29T14:20:00Z",
        }
        await rome.create(EVENTS, event, found["metadata"]["namespace"])
        milan, turin = json.loads(await explained("-o", "json"))["readers"]
        third = milan["owners"][2]
        assert (third["cluster"], third["direct"], third["by_way"]) == ("turin", 1, 1)
        assert turin["owners"][2]["by_way"] == 0
        assert turin["said"] == "at turin: endpoints at milan: no (2026-11-29T14:20:00Z)"


async def test_a_node_in_anothers_namespace_is_not_taken_for_a_peers(tmp_path: Path):
    """A VirtualNode in turin's namespace that names milan has nothing of milan's ranges."""
    async with (
        EmbeddedCluster("rome", state=await defined("rome")) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as rome,
    ):
        file = tmp_path / "rome.kubeconfig"
        file.write_text(cluster.kubeconfig)
        await peered(rome, "milan", 71)
        await peered(rome, "turin", 73)
        await served(rome)
        notes = {"metadata": {"annotations": {labels.DIRECT_CONNECTIONS: "true"}}}
        await rome.patch(SERVICES, "web", notes, "shop")
        forged = {"spec": {"clusterID": "genoa"}}
        await rome.patch(VIRTUAL_NODES, "turin", forged, "liqo-tenant-turin")
        words = ("explain", "service", "web", "-n", "shop", "--kubeconfig", str(file))
        ended = await command(*words)
        assert "genoa: 1 of 1 endpoint ready; not told: this cluster has joined no" in ended.out
