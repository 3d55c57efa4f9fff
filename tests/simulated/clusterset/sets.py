"""Two clusters that share Services: what users write there, and what comes of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, SERVICES, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import NotFound
from liqod.kube.selection import Selection
from liqod.resources.multicluster import SERVICE_EXPORTS, SERVICE_IMPORTS
from tests.simulated.borrower import Json, eventually
from tests.simulated.members import SETTINGS, Member, members

EXPORTS, IMPORTS = SERVICE_EXPORTS["v1beta1"], SERVICE_IMPORTS["v1beta1"]
SHARING = f"""{SETTINGS}
[services]
enabled = true
[peer_defaults]
pod_network = "routed"
pod_cidrs = ["10.71.0.0/16", "10.72.0.0/16"]
"""


@asynccontextmanager
async def sharing(*names: str, **more: Any) -> AsyncIterator[list[Member]]:
    """Clusters with `liqod install --services`, and with [services] on."""
    async with members(*names, services=True, settings=SHARING, **more) as made:
        yield made


async def share(who: Member, peers: str, namespace: str = "shop") -> None:
    """Have a namespace whose Services are shared with these peers."""
    marks = {"annotations": {"liqod.io/share-services": peers}}
    if await who.admin.find(NAMESPACES, namespace) is None:
        await who.admin.create(NAMESPACES, {"metadata": {"name": namespace, **marks}})
    else:
        await who.admin.patch(NAMESPACES, namespace, {"metadata": marks})


async def both(rome: Member, milan: Member) -> None:
    """Have the clusters peered, with the namespace shared by both."""
    await rome.peer(milan)
    for who, peer in ((rome, milan), (milan, rome)):
        await share(who, peer.id)


async def export(who: Member, address: str, name: str = "web", **spec: Any) -> None:
    """A Service with one endpoint, and its ServiceExport."""
    await serve(who, address, name, **spec)
    await who.admin.create(EXPORTS, {"metadata": {"name": name}}, "shop")


async def serve(who: Member, address: str, name: str = "web", **spec: Any) -> None:
    """A Service with one endpoint."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    wanted = {"ports": ports, **spec}
    await who.admin.create(SERVICES, {"metadata": {"name": name}, "spec": wanted}, "shop")
    endpoints = {
        "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }
    await who.admin.create(ENDPOINT_SLICES, endpoints, "shop")


async def imported(who: Member, *clusters: str, name: str = "web") -> Json:
    """The import, once it is of these clusters and can be used."""

    def is_it(found: Json) -> bool:
        status = found.get("status", {})
        said = {each["type"]: each["status"] for each in status.get("conditions", ())}
        told = [each["cluster"] for each in status.get("clusters", ())]
        return told == sorted(clusters) and said == {"Ready": "True"}

    made: Json = await who.until(IMPORTS, name, "shop", is_it)
    return made


async def services(who: Member) -> list[str]:
    """The names of the Services of the namespace."""
    found = await who.admin.list(SERVICES, Selection("shop"), decode=Partial)
    return sorted(each.metadata.name for each in found)


async def backends(who: Member, name: str = "web") -> dict[str, dict[str, bool]]:
    """The endpoints of an import and whether they are ready, by cluster."""
    chosen = Selection("shop", labels=f"multicluster.kubernetes.io/service-name={name}")
    found: dict[str, dict[str, bool]] = {}
    for each in await who.admin.list(ENDPOINT_SLICES, chosen):
        source = each["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"]
        for one in each["endpoints"]:
            found.setdefault(source, {})[one["addresses"][0]] = one["conditions"]["ready"]
    return found


async def until_backends(
    who: Member, wanted: dict[str, dict[str, bool]], name: str = "web"
) -> None:
    """Wait until an import has these endpoints."""

    async def look() -> bool:
        return await backends(who, name) == wanted

    await eventually(look)


async def conditions(who: Member, name: str = "web") -> dict[str, tuple[str, str]]:
    """Status and reason of each condition of a ServiceExport."""
    found = await who.admin.get(EXPORTS, name, "shop")
    said = found.get("status", {}).get("conditions", ())
    return {each["type"]: (each["status"], each["reason"]) for each in said}


async def until_said(who: Member, wanted: dict[str, tuple[str, str]]) -> None:
    """Wait until a ServiceExport has these conditions."""

    async def look() -> bool:
        return await conditions(who) == wanted

    await eventually(look)


async def is_served(who: Member, kind: Kind) -> bool:
    """True once the API server knows a kind."""
    try:
        return await who.admin.list(kind) == []
    except NotFound:
        return False
