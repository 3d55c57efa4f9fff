"""Exports of ports without names, of families that a cluster lacks, and to one with older kinds."""

from functools import partial

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import CUSTOM_RESOURCES, ENDPOINT_SLICES, SERVICES
from liqod.kube.selection import Selection
from liqod.resources.crdmanifests import make_crd
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.resources.multicluster import DEFINITIONS, SERVICE_EXPORTS, SERVICE_IMPORTS
from tests.simulated.borrower import Json, eventually
from tests.simulated.clusterset.sets import (
    IMPORTS,
    SHARING,
    backends,
    both,
    export,
    imported,
    is_served,
    services,
    sharing,
    until_backends,
)
from tests.simulated.members import AT_MILAN, Member, members

pytestmark = [pytest.mark.long, pytest.mark.clusterset]
FROM_ROME = {"rome": {"10.71.0.1": True}}
LATER = ("ipFamilies", "internalTrafficPolicy", "trafficDistribution")
"""Fields that the kinds have had only since a later version."""


async def names_of_ports(who: Member) -> dict[str, list[str]]:
    """The names of ports in the EndpointSlices of the import, by cluster."""
    chosen = Selection("shop", labels="multicluster.kubernetes.io/service-name=web")
    return {
        each["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"]: [
            port.get("name", "") for port in each["ports"]
        ]
        for each in await who.admin.list(ENDPOINT_SLICES, chosen)
    }


async def test_a_port_without_a_name_is_reached_alone_and_beside_others():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1", ports=[{"port": 80, "targetPort": 8080}])
        unnamed = {"ports": [{"name": "", "port": 8080, "protocol": "TCP"}]}
        await rome.admin.patch(ENDPOINT_SLICES, "web-1", unnamed, "shop")
        found = await imported(milan, "rome")
        assert [each.get("name", "") for each in found["spec"]["ports"]] == [""]

        async def ports(wanted):
            return await names_of_ports(milan) == wanted

        await eventually(lambda: ports({"rome": [""]}))
        await trio.sleep(1.1)
        more = [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]
        await export(milan, "10.72.0.1", ports=more)
        found = await imported(milan, "milan", "rome")
        named = {each["port"]: each["name"] for each in found["spec"]["ports"]}
        assert len(set(named.values())) == len(named) == 2
        await eventually(lambda: ports({"rome": [named[80]], "milan": [named[80]]}))


async def test_a_family_that_a_cluster_lacks_is_said_and_nothing_is_made_of_it():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, FROM_ROME)
        (told,) = await milan.admin.list(SERVICE_EXCHANGES)
        await rome.stop()
        word = msgspec.json.decode(told["spec"]["exports"]["web"]) | {"families": ["IPv6"]}
        patch = {"spec": {"exports": {"web": msgspec.json.encode(word).decode()}}}
        await milan.admin.patch(SERVICE_EXCHANGES, "shop.milan", patch, AT_MILAN)

        def is_refused(found: Json) -> bool:
            (ready,) = found["status"]["conditions"]
            return (ready["status"], ready["reason"]) == ("False", "IPFamilyNotSupported")

        await milan.until(IMPORTS, "web", "shop", is_refused)
        await until_backends(milan, {})
        assert await services(milan) == []


async def test_a_cluster_of_both_families_has_both_of_an_import_and_keeps_the_first_address():
    settings = SHARING.replace('"10.72.0.0/16"', '"10.72.0.0/16", "fd00:71::/64"')
    more = {"services": True, "settings": settings, "service_cidr6": "fd00:96::/112"}
    async with members("rome", "milan", **more) as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1", ipFamilyPolicy="PreferDualStack")
        await rome.admin.create(
            ENDPOINT_SLICES,
            {
                "metadata": {"name": "web-6", "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv6",
                "endpoints": [{"addresses": ["fd00:71::1"], "conditions": {"ready": True}}],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            },
            "shop",
        )
        # Its service networks are not known: it may have the first family alone.
        await until_backends(milan, FROM_ROME)
        before = (await imported(milan, "rome"))["spec"]
        assert before["ipFamilies"] == ["IPv4"]
        await milan.stop()
        milan.settings += '[cluster]\nservice_cidrs = ["10.96.0.0/16", "fd00:96::/112"]\n'
        await milan.start()
        every = {"rome": {"10.71.0.1": True, "fd00:71::1": True}}
        await until_backends(milan, every)

        def has_both(found: Json) -> bool:
            return len(found["spec"]["ips"]) == 2

        spec = (await milan.until(IMPORTS, "web", "shop", has_both))["spec"]
        assert spec["ips"][0] == before["ips"][0]
        assert spec["ipFamilies"] == ["IPv4", "IPv6"]
        (derived,) = await milan.admin.list(SERVICES, Selection("shop"))
        assert derived["spec"]["clusterIPs"] == spec["ips"]
        await milan.stop()
        milan.settings = settings
        await milan.start()
        await export(rome, "10.71.0.2", name="api")
        await imported(milan, "rome", name="api")
        assert await backends(milan) == every  # what is not known takes no address away
        assert (await imported(milan, "rome"))["spec"] == spec


async def test_kinds_that_are_older_take_what_they_know_and_are_written_once():
    async with sharing("rome", "milan") as [rome, milan]:
        await milan.stop()
        for crd in map(make_crd, DEFINITIONS):
            await milan.admin.delete(CUSTOM_RESOURCES, crd["metadata"]["name"])
            await milan.gone(CUSTOM_RESOURCES, crd["metadata"]["name"])
            await milan.admin.create(CUSTOM_RESOURCES, older(crd))
        for kind in (SERVICE_EXPORTS["v1alpha1"], SERVICE_IMPORTS["v1alpha1"]):
            await eventually(partial(is_served, milan, kind))
        await milan.start()
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, FROM_ROME)
        kind = SERVICE_IMPORTS["v1alpha1"]

        async def ready() -> bool:
            found = await milan.admin.find(kind, "web", "shop")
            said = (found or {}).get("status", {}).get("conditions", ())
            return bool(found) and [each["status"] for each in said] == ["True"]

        await eventually(ready)
        found = await milan.admin.get(kind, "web", "shop")
        assert len(found["spec"]["ips"]) == 1
        assert not set(LATER) & found["spec"].keys()
        await milan.stop()
        await milan.start()
        await trio.sleep(5)
        again = await milan.admin.get(kind, "web", "shop")
        assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        (derived,) = await milan.admin.list(SERVICES, Selection("shop"))
        assert derived["spec"]["clusterIPs"] == found["spec"]["ips"]


def older(crd: Json) -> Json:
    """The definition as early versions had it: one address, and not the later fields."""
    (version,) = (each for each in crd["spec"]["versions"] if each["name"] == "v1alpha1")
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for name in LATER:
        fields.pop(name, None)
    if "ips" in fields:
        fields["ips"]["maxItems"] = 1
    crd["spec"]["versions"] = [{**version, "storage": True}]
    return crd
