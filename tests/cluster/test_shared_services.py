"""Services of the set between two real control planes: real EndpointSlice controllers and garbage
collectors, and daemons with the rights of their installation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.errors import Forbidden
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from tests.testbed import pages, shownblocks
from tests.testbed.api import wait_until
from tests.testbed.clusters import pod_cidr, settings
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.federation import Federation, Member
from tests.testbed.workloads import core, deployment, deployments, group, slices

pytestmark = pytest.mark.cluster

API = "multicluster.x-k8s.io/v1beta1"
SOURCE = "multicluster.kubernetes.io/source-cluster"
PORTS = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
WEB: dict[str, Any] = {
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": PORTS},
}
WISH: dict[str, Any] = {"apiVersion": API, "kind": "ServiceExport", "metadata": {"name": "web"}}
EXPORT = group(API, "shop", "serviceexports", "web")
IMPORT = group(API, "shop", "serviceimports", "web")


@pytest.fixture
def shared(new_control_plane: Callable[..., ControlPlane], tmp_path: Path) -> Iterator[Federation]:
    """Rome borrows from milan, and both share the namespace shop, as the page says."""
    made = Federation()
    try:
        for index, name in enumerate(("rome", "milan")):
            plane = new_control_plane(name, Settings(pod_cidr=pod_cidr(index)))
            member = Member(plane, {**settings(index), "services": {"enabled": True}})
            made.members[name] = member
            member.install()
            member.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        shown = shownblocks.commands("how-to/services", "")
        typed = pages.terminal(tmp_path, *(each.plane for each in made.members.values()))
        typed.section(shown)
        for member in made.members.values():
            member.run_nodes()
            member.daemon.start()
        made.peer(made.members["rome"], made.members["milan"])
        yield made
    finally:
        made.close()


def serve(who: Member, pods: int) -> None:
    """A Deployment with its Service, exported."""
    who.create(deployments("shop"), deployment("web", pods))
    who.create(core("shop", "services"), WEB)
    who.create(group(API, "shop", "serviceexports"), WISH)


def addresses(who: Member, service: str) -> dict[str, set[str]]:
    """The ready addresses in the EndpointSlices of a Service, by source cluster."""
    found: dict[str, set[str]] = {}
    selector = f"?labelSelector=kubernetes.io%2Fservice-name%3D{service}"
    for each in who.api.get(slices("shop") + selector)["items"]:
        source = each["metadata"]["labels"].get(SOURCE, "")
        for one in each.get("endpoints") or ():
            if one["conditions"]["ready"]:
                found.setdefault(source, set()).update(one["addresses"])
    return found


def own(who: Member) -> set[str]:
    """The ready addresses of a cluster's own Service."""
    return addresses(who, "web").get("", set())


def reasons(found: dict[str, Any]) -> dict[str, str]:
    """The reasons of an object's conditions, by their types."""
    said = found.get("status", {}).get("conditions", ())
    return {each["type"]: each["reason"] for each in said}


def is_said(found: dict[str, Any], **wanted: str) -> bool:
    """True if an object has these conditions."""
    return reasons(found) == wanted


async def forge(kubeconfig: bytes) -> None:
    """With the daemon's own rights: EndpointSlices that are no import's are refused."""
    mark = {"endpointslice.kubernetes.io/managed-by": "clusterset.liqod.io"}
    name = "kubernetes.io/service-name"
    others: list[dict[str, str]] = [{}, {name: "web"}, {**mark, name: "web"}]
    async with Client(from_kubeconfig(kubeconfig)) as daemon:
        for marks in others:
            with pytest.raises(Forbidden, match="those of imports"):
                await daemon.create(ENDPOINT_SLICES, slice_with(marks), "shop")
        await daemon.create(ENDPOINT_SLICES, slice_with({**mark, name: "derived-a"}), "shop")
        patch = {"metadata": {"labels": {name: "web"}}}
        with pytest.raises(Forbidden, match="those of imports"):
            await daemon.patch(ENDPOINT_SLICES, "forged", patch, "shop")
        await daemon.delete(ENDPOINT_SLICES, "forged", "shop")


def slice_with(marks: dict[str, str]) -> dict[str, Any]:
    """An EndpointSlice with these labels."""
    meta = {"name": "forged", "labels": marks}
    return {"metadata": meta, "addressType": "IPv4", "endpoints": [], "ports": []}


def test_a_service_of_two_clusters_has_one_address_with_the_endpoints_of_both(
    shared: Federation, tmp_path: Path
) -> None:
    rome, milan = shared.members.values()
    trio.run(forge, rome.kubeconfig.read_bytes())
    serve(rome, 2)
    serve(milan, 1)
    said = {"Valid": "Valid", "Ready": "Exported", "Conflict": "NoConflicts"}
    for who in (rome, milan):
        who.comes_to(EXPORT, lambda one: is_said(one, **said))
    wait_until("ready pods", lambda: (len(own(rome)), len(own(milan))) == (2, 1), 30)
    wanted = {"rome": own(rome), "milan": own(milan)}
    kept = {}
    for who in (rome, milan):
        found = who.comes_to(IMPORT, lambda one: len(one["status"].get("clusters", ())) == 2)
        name = found["metadata"]["annotations"]["multicluster.kubernetes.io/derived-service"]
        derived = who.api.get(core("shop", "services", name))
        assert found["spec"]["ips"] == derived["spec"]["clusterIPs"]
        wait_until("its endpoints", lambda w=who, n=name: addresses(w, n) == wanted, 20)
        kept[who.name] = name, found["spec"]["ips"]

    rome.patch(deployments("shop", "web"), {"spec": {"replicas": 3}})
    wait_until("a third pod", lambda: len(own(rome)) == 3, 30)
    wanted["rome"] = own(rome)
    for who in (rome, milan):
        name, _ = kept[who.name]
        wait_until("the third endpoint", lambda w=who, n=name: addresses(w, n) == wanted, 20)

    name, ips = kept["milan"]
    milan.api.call("DELETE", core("shop", "services", name))
    again = milan.comes_to(
        core("shop", "services", name), lambda one: "deletionTimestamp" not in one["metadata"]
    )
    assert again["spec"]["clusterIPs"] == ips
    typed = pages.terminal(tmp_path, rome.plane)
    typed.type("export KUBECONFIG=$PWD/rome.kubeconfig")
    typed.section(shownblocks.commands("how-to/endpoints", "Near first"))
    rome.comes_to(IMPORT, lambda one: "liqod.io/EndpointPreference" in reasons(one))
    [explain] = shownblocks.commands("how-to/services", "What is wrong")
    explained = typed.type(explain.line)
    assert explained.startswith(f"shop/web: ClusterSetIP {kept['rome'][1][0]}, as web.shop.svc.")
    assert "rome: 3 of 3 endpoints ready" in explained
    assert "milan: 1 of 1 endpoint" in explained
    for who in (rome, milan):
        who.daemon.stop()
        who.daemon.start()

    rome.liqod("unpeer", "milan", "--yes")
    found = rome.comes_to(IMPORT, lambda one: len(one["status"]["clusters"]) == 1)
    assert found["status"]["clusters"] == [{"cluster": "rome"}]
    name, _ = kept["rome"]
    wait_until("its own alone", lambda: addresses(rome, name) == {"rome": own(rome)}, 20)
    rome.api.call("DELETE", EXPORT)
    for path in (IMPORT, core("shop", "services", name)):
        rome.goes(path)
    milan.comes_to(IMPORT, lambda one: one["status"]["clusters"] == [{"cluster": "milan"}])
