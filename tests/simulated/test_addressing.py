"""Networks, Configurations and IPs beside an embedded API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod import config
from liqod.context import Addressing, ApiEndpoint, ClusterContext
from liqod.errors import NotFound
from liqod.inspect.events import KeyFailed
from liqod.inspect.hub import Hub
from liqod.install import access
from liqod.kube.cache.informers import Informers
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, SERVICES, Kind
from liqod.model import labels
from liqod.network import addressing
from liqod.resources import CONFIGURATIONS, IPS, NETWORKS
from liqod.tenancy import tenant_namespace
from simulator import EmbeddedCluster
from tests.simulated.prepared import installed, quiet

MILAN = "liqo-tenant-milan"
TURIN = "liqo-tenant-turin"
SETTINGS = """
[network]
pools = ["10.64.0.0/13", "fd00:64::/40"]
reserved = ["10.65.0.0/16"]
lendable = ["192.168.7.0/24"]
"""


class Rome:
    """A cluster with a node, two tenants, and somebody who keeps its addresses.

    Args:
        home: for the daemon, with its own rights.
        client: an administrator's.
    """

    def __init__(self, home: ClusterContext, client: Client) -> None:
        self.home = home
        self.client = client

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(addressing.run, self.home)
            yield
            nursery.cancel_scope.cancel()

    async def configured(
        self, peer: str, pod: list[str], external: list[str] | None = None, namespace: str = ""
    ) -> None:
        """A peer's Configuration comes."""
        await self.client.create(
            CONFIGURATIONS,
            {
                "metadata": {"name": peer, "labels": {labels.REMOTE_CLUSTER_ID: peer}},
                "spec": {"remote": {"cidr": {"pod": pod, "external": external or []}}},
            },
            namespace or f"liqo-tenant-{peer}",
        )

    async def seen(self, peer: str) -> dict[str, list[str]]:
        """The aliases of a peer, as soon as there are."""

        async def look() -> dict[str, list[str]] | None:
            found = await self.client.get(CONFIGURATIONS, peer, f"liqo-tenant-{peer}")
            status = found.get("status", {})
            if condition(found).get("status") != "True":
                return None
            told: dict[str, list[str]] = status["remote"]["cidr"]
            return told

        aliases: dict[str, list[str]] = await until(look)
        return aliases

    async def refused(self, peer: str) -> str:
        """Why a peer's ranges are not believed, as soon as they are not."""

        async def look() -> str | None:
            found = await self.client.get(CONFIGURATIONS, peer, f"liqo-tenant-{peer}")
            said = condition(found)
            return str(said["message"]) if said.get("reason") == "RangesRefused" else None

        return str(await until(look))

    async def lend(self, name: str, address: str, namespace: str = "liqo", **spec: Any) -> None:
        """Somebody makes an IP."""
        wanted = {"metadata": {"name": name}, "spec": {"ip": address, **spec}}
        await self.client.create(IPS, wanted, namespace)

    async def lent(self, name: str, namespace: str = "liqo") -> str:
        """The address of an IP, as soon as it has one."""

        async def look() -> str | None:
            found = await self.client.get(IPS, name, namespace)
            return str(found.get("status", {}).get("ip", "")) or None

        return str(await until(look))

    async def failed(self, words: str) -> str:
        """What is told of a key that fails with some words."""

        async def look() -> str | None:
            found = (each for each in self.failures if words in each)
            return next(found, None)

        return str(await until(look))

    @property
    def failures(self) -> list[str]:
        """All that failed so far."""
        told = (each.told for each in self.home.hub.history)
        return [each.failed for each in told if isinstance(each, KeyFailed)]


def condition(found: dict[str, Any]) -> dict[str, Any]:
    """The condition of a Configuration."""
    given = found.get("status", {}).get("conditions", [])
    return next((each for each in given if each["type"] == "NetworkCIDRsConfigured"), {})


@asynccontextmanager
async def rome(settings: str = SETTINGS) -> AsyncIterator[Rome]:
    nothing: Any = None
    async with (
        EmbeddedCluster("rome", state=await installed("rome")) as server,
        Client(from_kubeconfig(server.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        found = from_kubeconfig(server.kubeconfig)
        text = await access.daemon_kubeconfig(client, found, "liqo", "rome", quiet)
        for peer in ("milan", "turin"):
            await client.create(NAMESPACES, tenant_namespace(peer))
        await client.create(NODES, node("one", "10.244.0.0/24", "192.168.1.10"))
        async with Client(from_kubeconfig(text)) as daemon:
            home = ClusterContext(
                "rome",
                daemon,
                Informers(daemon, nursery),
                config.parse(settings),
                Hub(),
                nothing,
                ApiEndpoint("https://172.20.0.1:6443", b""),
                addressing=Addressing(("10.244.0.0/24",), ("10.96.0.0/12",)),
            )
            yield Rome(home, client)
            nursery.cancel_scope.cancel()


def node(name: str, pods: str, address: str) -> dict[str, Any]:
    """A Node with a range of pods."""
    return {
        "metadata": {"name": name},
        "spec": {"podCIDR": pods, "podCIDRs": [pods]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ]
        },
    }


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    with trio.fail_after(10):
        while (found := await look()) is None:  # noqa: ASYNC110  # of a server's doing
            await trio.sleep(0.01)
    return found


async def networks(client: Client, namespace: str) -> dict[str, tuple[str, str]]:
    """What each Network of a namespace wants and has, by what it is of."""
    found = await client.list(NETWORKS)
    return {
        each["metadata"]["name"]: (each["spec"]["cidr"], each.get("status", {}).get("cidr", ""))
        for each in found
        if each["metadata"]["namespace"] == namespace
    }


async def gone(client: Client, kind: Kind, name: str, namespace: str) -> None:
    async def look() -> bool | None:
        try:
            await client.get(kind, name, namespace)
        except NotFound:
            return True
        return None

    await until(look)


async def test_this_clusters_own_ranges_are_told_in_liqos_words() -> None:
    async with rome() as home, home.kept():

        async def look() -> dict[str, tuple[str, str]] | None:
            found = await networks(home.client, "liqo")
            return found if len(found) == 5 and all(all(each) for each in found.values()) else None

        assert await until(look) == {
            "pod-cidr-10-244-0-0-16": ("10.244.0.0/16", "10.244.0.0/16"),
            "service-cidr-10-96-0-0-12": ("10.96.0.0/12", "10.96.0.0/12"),
            "external-cidr-10-70-0-0-20": ("10.70.0.0/20", "10.70.0.0/20"),
            "internal-cidr-169-254-32-0-20": ("169.254.32.0/20", "169.254.32.0/20"),
            "reserved-10-65-0-0-16": ("10.65.0.0/16", "10.65.0.0/16"),
        }
        marks = (await home.client.get(NETWORKS, "pod-cidr-10-244-0-0-16", "liqo"))["metadata"]
        assert marks["labels"]["ipam.liqo.io/network-type"] == "pod-cidr"
        # A node with pods elsewhere: what was told stays, the rest comes beside it.
        await home.client.create(NODES, node("two", "10.9.3.0/24", "192.168.1.11"))

        async def more() -> bool | None:
            found = await networks(home.client, "liqo")
            return True if ("10.9.0.0/16", "10.9.0.0/16") in found.values() else None

        assert await until(more)


async def test_peers_with_this_clusters_addresses_get_aliases() -> None:
    """Both have the same as this cluster; each is seen elsewhere, and nowhere that is taken."""
    async with rome() as home, home.kept():
        await home.configured("milan", ["10.244.0.0/16"], ["10.70.0.0/20"])
        milan = await home.seen("milan")
        await home.configured("turin", ["10.244.0.0/16"], ["10.69.0.0/20"])
        turin = await home.seen("turin")
        # 10.65 is reserved, 10.70.0.0/20 this cluster's own.
        assert milan == {"pod": ["10.64.0.0/16"], "external": ["10.66.0.0/20"]}
        assert turin == {"pod": ["10.67.0.0/16"], "external": ["10.69.0.0/20"]}
        found = await home.client.get(CONFIGURATIONS, "milan", MILAN)
        assert found["spec"]["local"]["cidr"] == {
            "pod": ["10.244.0.0/16"],
            "external": ["10.70.0.0/20"],
        }


async def test_both_families_have_aliases_in_their_order() -> None:
    async with rome() as home, home.kept():
        await home.configured("milan", ["fd00:1::/64", "10.244.0.0/16"])
        assert (await home.seen("milan"))["pod"] == ["fd00:64::/64", "10.64.0.0/16"]


async def test_aliases_outlive_the_daemon_and_go_with_the_configuration() -> None:
    async with rome() as home:
        async with home.kept():
            await home.configured("milan", ["10.244.0.0/16"])
            before = await home.seen("milan")
        async with home.kept():
            await home.configured("turin", ["10.244.0.0/16"])
            assert (await home.seen("turin"))["pod"] == ["10.66.0.0/16"]
            assert await home.seen("milan") == before
            # Kubernetes takes away what the Configuration owns; so it does here.
            await home.client.delete(CONFIGURATIONS, "milan", MILAN)
            name = "milan-pod-10-244-0-0-16"
            await home.client.delete(NETWORKS, name, MILAN)
            await gone(home.client, NETWORKS, name, MILAN)
            await home.configured("milan", ["10.200.0.0/16"])
            assert await home.seen("milan") == before, "it is free again"


async def test_a_range_that_is_taken_away_loses_its_alias() -> None:
    async with rome() as home, home.kept():
        await home.configured("milan", ["10.244.0.0/16", "10.9.0.0/16"])
        assert len((await home.seen("milan"))["pod"]) == 2
        patch = {"spec": {"remote": {"cidr": {"pod": ["10.9.0.0/16"]}}}}
        await home.client.patch(CONFIGURATIONS, "milan", patch, MILAN)
        await gone(home.client, NETWORKS, "milan-pod-10-244-0-0-16", MILAN)

        async def look() -> bool | None:
            return True if len((await home.seen("milan"))["pod"]) == 1 else None

        assert await until(look)


async def test_what_makes_no_sense_is_refused_by_name_and_nothing_is_given() -> None:
    async with rome() as home, home.kept():
        for cidr, words in (
            ("0.0.0.0/0", "0.0.0.0/0 is every address"),
            ("192.168.0.0/16", "192.168.0.0/16 has one of this cluster's nodes in it"),
            ("172.20.0.0/16", "172.20.0.0/16 has this cluster's API server in it"),
            ("169.254.169.0/24", "metadata"),
            ("10.244.3.0/16", "host bits"),
        ):
            await home.configured("milan", [cidr])
            assert words in await home.refused("milan")
            assert await networks(home.client, MILAN) == {}
            await home.client.delete(CONFIGURATIONS, "milan", MILAN)
            await gone(home.client, CONFIGURATIONS, "milan", MILAN)
        # It mends what it said.
        await home.configured("milan", ["0.0.0.0/0"])
        await home.refused("milan")
        patch = {"spec": {"remote": {"cidr": {"pod": ["10.244.0.0/16"]}}}}
        await home.client.patch(CONFIGURATIONS, "milan", patch, MILAN)
        assert (await home.seen("milan"))["pod"] == ["10.64.0.0/16"]


async def test_a_peer_speaks_for_itself_alone() -> None:
    async with rome() as home, home.kept():
        await home.configured("turin", ["10.9.0.0/16"], namespace=MILAN)
        await home.configured("milan", ["10.244.0.0/16"])
        await home.seen("milan")
        found = await home.client.get(CONFIGURATIONS, "turin", MILAN)
        assert not found.get("status")


async def test_a_recorded_alias_that_is_anothers_is_given_anew() -> None:
    async with rome() as home:
        async with home.kept():
            await home.configured("milan", ["10.244.0.0/16"])
            await home.configured("turin", ["10.244.0.0/16"])
            first, second = await home.seen("milan"), await home.seen("turin")
        name = "turin-pod-10-244-0-0-16"
        patch = {"status": {"cidr": first["pod"][0]}}
        await home.client.patch(NETWORKS, name, patch, TURIN, subresource="status")
        async with home.kept():

            async def look() -> bool | None:
                given = (await networks(home.client, TURIN))[name][1]
                return True if given == second["pod"][0] else None

            assert await until(look)
            assert await home.seen("milan") == first


async def test_a_host_is_lent_with_a_service() -> None:
    async with rome() as home, home.kept():
        template = {
            "metadata": {"labels": {"app": "printer"}},
            "spec": {
                "ports": [{"name": "ipp", "port": 631, "targetPort": 9631}],
                "selector": {"app": "other"},
                "externalIPs": ["192.0.2.1"],
            },
        }
        await home.lend("printer", "192.168.1.77", serviceTemplate=template)
        await home.lend("database", "192.168.1.78")
        addresses = {await home.lent("printer"), await home.lent("database")}
        assert addresses == {"10.70.0.1", "10.70.0.2"}, "the first is that of unknown sources"

        async def look() -> dict[str, Any] | None:
            try:
                await home.client.get(SERVICES, "printer", "liqo")
                return await home.client.get(ENDPOINT_SLICES, "printer", "liqo")
            except NotFound:
                return None

        slice_ = await until(look)
        service = await home.client.get(SERVICES, "printer", "liqo")
        assert service["spec"]["ports"][0]["port"] == 631
        assert "selector" not in service["spec"]
        assert "externalIPs" not in service["spec"]
        assert slice_["endpoints"][0]["addresses"] == ["192.168.1.77"]
        assert slice_["ports"][0]["port"] == 9631
        assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == "printer"
        # Given back, and given again.
        freed = await home.lent("printer")
        await home.client.delete(IPS, "printer", "liqo")
        await gone(home.client, IPS, "printer", "liqo")
        await home.lend("scanner", "192.168.1.79")
        assert await home.lent("scanner") == freed


async def test_a_host_of_ipv6_is_lent_with_a_service_of_its_family() -> None:
    async with rome() as home, home.kept():
        await home.client.create(NODES, node("six", "fd00:244::/64", "fd00:1::10"))
        template = {"spec": {"ports": [{"name": "ipp", "port": 631}]}}
        await home.lend("printer", "FD00:1:0::77", serviceTemplate=template)
        assert await home.lent("printer") == "fd00:64::1"

        async def look() -> dict[str, Any] | None:
            try:
                return await home.client.get(ENDPOINT_SLICES, "printer", "liqo")
            except NotFound:
                return None

        slice_ = await until(look)
        assert slice_["addressType"] == "IPv6"
        assert slice_["endpoints"][0]["addresses"] == ["fd00:1::77"]
        service = await home.client.get(SERVICES, "printer", "liqo")
        assert service["spec"]["ipFamilies"] == ["IPv6"]
        await home.lend("nobody", "fd00:1::77%eth0")
        assert "no IP address" in await home.failed("fd00:1::77%eth0")


async def test_a_peer_has_lent_only_what_may_be() -> None:
    async with rome() as home, home.kept():
        await home.lend("inside", "192.168.1.77", MILAN)
        assert "lendable" in await home.failed("192.168.1.77")
        await home.lend("node", "192.168.1.10")
        assert "nodes" in await home.failed("192.168.1.10")
        await home.lend("metadata", "169.254.169.254", MILAN)
        assert "metadata" in await home.failed("169.254.169.254")
        await home.lend("shared", "192.168.7.9", MILAN)
        assert await home.lent("shared", MILAN) == "10.70.0.1"


async def test_a_full_pool_is_said_and_there_is_room_again() -> None:
    async with (
        rome('[network]\npools = ["10.64.0.0/16"]\nexternal_cidr = "10.70.0.0/20"') as home,
        home.kept(),
    ):
        await home.configured("milan", ["10.244.0.0/16"])
        await home.seen("milan")
        await home.configured("turin", ["10.244.0.0/16"])

        async def look() -> bool | None:
            found = await home.client.get(CONFIGURATIONS, "turin", TURIN)
            return True if "[network] pools" in condition(found).get("message", "") else None

        assert await until(look)
        await home.client.delete(CONFIGURATIONS, "milan", MILAN)
        await home.client.delete(NETWORKS, "milan-pod-10-244-0-0-16", MILAN)
        assert (await home.seen("turin"))["pod"] == ["10.64.0.0/16"]


async def test_what_may_be_lent_no_more_is_taken_back() -> None:
    async with rome() as home, home.kept():
        await home.lend("shared", "192.168.7.9", MILAN)
        await home.lent("shared", MILAN)
        await home.client.create(NODES, node("new", "10.244.1.0/24", "192.168.7.9"))

        async def look() -> bool | None:
            found = await home.client.get(IPS, "shared", MILAN)
            return None if found.get("status", {}).get("ip") else True

        assert await until(look)
        assert "nodes" in await home.failed("192.168.7.9")
        await home.lend("other", "192.168.7.10", MILAN)
        assert await home.lent("other", MILAN) == "10.70.0.1"


async def test_no_own_range_is_known() -> None:
    async with rome() as home:
        await home.client.delete(NODES, "one")
        async with home.kept():
            await home.configured("milan", ["10.244.0.0/16"])

            async def look() -> str | None:
                found = await home.client.get(CONFIGURATIONS, "milan", MILAN)
                said = condition(found)
                return said["message"] if said.get("reason") == "OwnRangesUnknown" else None

            assert "[cluster] pod_cidrs" in await until(look)
            await home.client.create(NODES, node("one", "10.244.0.0/24", "192.168.1.10"))
            assert (await home.seen("milan"))["pod"] == ["10.64.0.0/16"]
