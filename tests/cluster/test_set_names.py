"""Names of Services that two clusters export, by a real CoreDNS of one of them.

The clusters are embedded, so that their Services have what no cluster of one's own has: endpoints
of both families, hosts of one name in both, ports that differ.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest
import trio
from dns.rdatatype import RdataType

from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from tests.simulated.borrower import Json, eventually
from tests.simulated.clusterset.sets import EXPORTS, IMPORTS, SHARING, both, imported, services
from tests.simulated.clusterset.test_diagnosis import CACHED
from tests.simulated.members import Member, members
from tests.testbed.nameservers import asked, naming, running, targets
from tests.unit.model.test_corefile import page_blocks

pytestmark = [pytest.mark.cluster, pytest.mark.clusterset]

SETTINGS = f"""{SHARING.replace('"10.72.0.0/16"', '"10.72.0.0/16", "fd00:71::/64", "fd00:72::/64"')}
[cluster]
service_cidrs = ["10.96.0.0/16", "fd00:96::/112"]
"""
SHOP = "shop.svc.clusterset.local"
HTTP = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}
ADMIN = {"name": "admin", "port": 81, "targetPort": 8081, "protocol": "TCP"}
NOBODY = ("NXDOMAIN", set[str]())
A, AAAA, SRV = RdataType.A, RdataType.AAAA, RdataType.SRV


@asynccontextmanager
async def named(program: str, folder: Path) -> AsyncIterator[tuple[Member, Member, int]]:
    """Two clusters of both families that share a namespace, and the port of milan's CoreDNS."""
    more = {"services": True, "settings": SETTINGS, "service_cidr6": "fd00:96::/112"}
    async with members("rome", "milan", **more) as [rome, milan]:
        await both(rome, milan)
        kubeconfig = milan.cluster.kubeconfig
        with naming("milan", kubeconfig, program, folder, of_set=True) as port:
            yield rome, milan, port


async def export(who: Member, name: str, every: dict[str, str], *ports: Json, **spec: str) -> None:
    """A Service without a selector, which a cluster exports.

    Args:
        every: its endpoints, each an address with its hostname, or with none.
    """
    families = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}
    wanted = {"ports": list(ports), **families, **spec}
    await who.admin.create(SERVICES, {"metadata": {"name": name}, "spec": wanted}, "shop")
    for family in (4, 6):
        found = {each: host for each, host in every.items() if ip_address(each).version == family}
        made = slice_of(name, family, found, ports)
        await who.admin.create(ENDPOINT_SLICES, made, "shop")
    await who.admin.create(EXPORTS, {"metadata": {"name": name}}, "shop")


def slice_of(name: str, family: int, every: dict[str, str], ports: tuple[Json, ...]) -> Json:
    """The EndpointSlice of one family."""
    return {
        "metadata": {
            "name": f"{name}-{family}",
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": f"IPv{family}",
        "endpoints": [
            {
                "addresses": [address],
                "conditions": {"ready": True},
                **({"hostname": host} if host else {}),
            }
            for address, host in every.items()
        ],
        "ports": [
            {"name": each.get("name", ""), "port": each["targetPort"], "protocol": "TCP"}
            for each in ports
        ],
    }


async def answers(port: int, name: str, kind: RdataType, wanted: set[str]) -> None:
    """Waits until a name has these records of a kind, and no other."""
    found: tuple[str, set[str]] = ("", set())

    async def look() -> bool:
        nonlocal found
        found = await asked(port, f"{name}.{SHOP}", kind)
        return found == ("NOERROR", wanted)

    try:
        await eventually(look)
    except trio.TooSlowError:
        raise AssertionError(f"{name}: {found}, not {wanted}") from None


async def is_nobodys(port: int, name: str) -> None:
    """Waits until a DNS server says that there is no such name."""

    async def look() -> bool:
        return await asked(port, f"{name}.{SHOP}") == NOBODY

    await eventually(look)


async def test_members_without_hostnames_are_found_by_srv_in_both_families(
    coredns: str, tmp_path: Path
) -> None:
    """Also where the same is exported by both clusters, of which each has its own."""
    own = {"10.71.0.1": "", "10.71.0.2": "", "fd00:71::1": "", "fd00:71::2": ""}
    async with named(coredns, tmp_path) as (rome, milan, port):
        await export(rome, "db", own, HTTP, clusterIP="None")
        await imported(milan, "rome", name="db")
        four, six = ({each for each in own if (":" in each) is far} for far in (False, True))
        await answers(port, "db", A, four)
        await answers(port, "db", AAAA, six)
        hosts = {address: address.replace(".", "-").replace(":", "-") for address in own}
        wanted = {(f"{host}.rome", 8080): {address} for address, host in hosts.items()}
        assert await targets(port, f"_http._tcp.db.{SHOP}") == wanted
        await export(milan, "db", {"10.72.0.1": "", "fd00:72::1": ""}, HTTP, clusterIP="None")
        await answers(port, "db", A, four | {"10.72.0.1"})
        await answers(port, "db", AAAA, six | {"fd00:72::1"})
        await answers(port, "10-72-0-1.milan.db", A, {"10.72.0.1"})
        assert await asked(port, f"10-72-0-1.rome.db.{SHOP}") == NOBODY


async def test_hosts_of_one_name_are_found_by_their_cluster_in_both_families(
    coredns: str, tmp_path: Path
) -> None:
    """As members of two StatefulSets are; none of them is ready: no such name."""
    async with named(coredns, tmp_path) as (rome, milan, port):
        for who, number in ((rome, 71), (milan, 72)):
            every = {f"10.{number}.0.1": "db-0", f"fd00:{number}::1": "db-0"}
            await export(who, "db", every, HTTP, clusterIP="None")
        await imported(milan, "milan", "rome", name="db")
        for cluster, number in (("rome", 71), ("milan", 72)):
            await answers(port, f"db-0.{cluster}.db", A, {f"10.{number}.0.1"})
            await answers(port, f"db-0.{cluster}.db", AAAA, {f"fd00:{number}::1"})
        assert await targets(port, f"_http._tcp.db.{SHOP}") == {
            (f"db-0.{cluster}", 8080): {f"10.{number}.0.1", f"fd00:{number}::1"}
            for cluster, number in (("rome", 71), ("milan", 72))
        }
        for nobody in ("rome.db", "milan.db", "db-0.turin.db", "db-0.db"):
            assert await asked(port, f"{nobody}.{SHOP}") == NOBODY
        for who in (rome, milan):
            for family in (4, 6):
                await not_ready(who, f"db-{family}")
        await is_nobodys(port, "db")
        await is_nobodys(port, "db-0.rome.db")


async def not_ready(who: Member, name: str) -> None:
    """Has none of the endpoints of a slice be ready."""
    found = await who.admin.get(ENDPOINT_SLICES, name, "shop")
    endpoints = [{**each, "conditions": {"ready": False}} for each in found["endpoints"]]
    await who.admin.patch(ENDPOINT_SLICES, name, {"endpoints": endpoints}, "shop")


async def test_ports_of_both_clusters_are_found_and_of_those_that_differ_the_oldests(
    coredns: str, tmp_path: Path
) -> None:
    other = {**HTTP, "port": 8080}
    unnamed = {"port": 80, "targetPort": 8080, "protocol": "TCP"}
    async with named(coredns, tmp_path) as (rome, milan, port):
        await export(rome, "web", {"10.71.0.1": "", "fd00:71::1": ""}, HTTP)
        await export(rome, "plain", {"10.71.0.3": ""}, unnamed)
        await imported(milan, "rome")
        await trio.sleep(1.1)  # Ages are of whole seconds.
        await export(milan, "web", {"10.72.0.1": "", "fd00:72::1": ""}, other, ADMIN)
        spec = (await imported(milan, "milan", "rome"))["spec"]
        ips = {address for address in spec["ips"] if ":" not in address}
        assert len(spec["ips"]) == 2
        await answers(port, "web", A, ips)
        await answers(port, "web", AAAA, {*spec["ips"]} - ips)
        # Of each address there is a record, and both are alike: half of the weight each.
        for name, number in (("admin", 81), ("http", 80)):
            await answers(port, f"_{name}._tcp.web", SRV, {f"0 50 {number} web.{SHOP}."})
        assert await asked(port, f"_http._udp.web.{SHOP}", SRV) == NOBODY
        # The cluster's own name stays its own Service's.
        own = (await milan.admin.get(SERVICES, "web", "shop"))["spec"]["clusterIP"]
        assert await asked(port, "web.shop.svc.cluster.local") == ("NOERROR", {own})
        # A port without a name is no service of the DNS.
        plain = (await imported(milan, "rome", name="plain"))["spec"]["ips"]
        await answers(port, "plain", A, {each for each in plain if ":" not in each})
        assert (await asked(port, f"_http._tcp.plain.{SHOP}", SRV))[1] == set()
        assert await asked(port, "dns-version.clusterset.local", RdataType.TXT) == (
            "NOERROR",
            {'"1.1.0"'},
        )
        for who in (rome, milan):
            await who.admin.delete(EXPORTS, "web", "shop")
        await milan.gone(IMPORTS, "web", "shop")
        await is_nobodys(port, "web")


async def test_a_cache_on_the_nodes_answers_them_by_the_server_of_its_page(
    coredns: str, tmp_path: Path
) -> None:
    (server,) = (each for each in page_blocks() if "force_tcp" in each)
    async with named(coredns, tmp_path) as (rome, milan, port):
        await export(rome, "web", {"10.71.0.1": ""}, HTTP)
        found = await imported(milan, "rome")
        ips = {address for address in found["spec"]["ips"] if ":" not in address}
        await answers(port, "web", A, ips)
        (derived,) = await services(milan)
        for text, wanted in ((CACHED, NOBODY), (server + CACHED, ("NOERROR", ips))):
            with running("cache", cache(text, port), coredns, tmp_path) as asks:

                async def answered(asks: int = asks) -> bool:
                    own = await asked(asks, f"{derived}.shop.svc.cluster.local")
                    return own == ("NOERROR", ips)

                await eventually(answered)
                assert await asked(asks, f"web.{SHOP}") == wanted


def cache(text: str, port: int) -> str:
    """The Corefile of a cache for a DNS server of this machine; elsewhere nobody knows a name."""
    text = text.replace("__PILLAR__CLUSTER__DNS__", f"127.0.0.1:{port}")
    elsewhere = "template IN ANY . {\n        rcode NXDOMAIN\n    }"
    text = text.replace("forward . __PILLAR__UPSTREAM__SERVERS__", elsewhere)
    return re.sub(r"^( +bind) .+$", r"\1 127.0.0.1", text, flags=re.MULTILINE)
