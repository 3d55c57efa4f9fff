"""Networks, Configurations and IPs beside an embedded API server."""

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, SERVICES
from liqod.kube.cache.store import IndexedStore, Key
from liqod.resources import CONFIGURATIONS, IPS, NETWORKS
from tests.simulated.addressed import MILAN, SETTINGS, TURIN, gone, networks, node, rome
from tests.simulated.borrower import eventually


async def test_this_clusters_own_ranges_are_told_in_liqos_words() -> None:
    async with rome() as context, context.kept():
        assert await eventually(
            lambda: networks(context.client, "liqo"),
            lambda found: len(found) == 5 and all(all(each) for each in found.values()),
        ) == {
            "pod-cidr-10-244-0-0-16": ("10.244.0.0/16", "10.244.0.0/16"),
            "service-cidr-10-96-0-0-12": ("10.96.0.0/12", "10.96.0.0/12"),
            "external-cidr-10-70-0-0-20": ("10.70.0.0/20", "10.70.0.0/20"),
            "internal-cidr-169-254-32-0-20": ("169.254.32.0/20", "169.254.32.0/20"),
            "reserved-10-65-0-0-16": ("10.65.0.0/16", "10.65.0.0/16"),
        }
        marks = (await context.client.get(NETWORKS, "pod-cidr-10-244-0-0-16", "liqo"))["metadata"]
        assert marks["labels"]["ipam.liqo.io/network-type"] == "pod-cidr"
        # A node with pods elsewhere: what was told stays, the rest comes beside it.
        await context.client.create(NODES, node("two", "10.9.3.0/24", "192.168.1.11"))
        assert await eventually(
            lambda: networks(context.client, "liqo"),
            lambda found: ("10.9.0.0/16", "10.9.0.0/16") in found.values(),
        )


async def test_peers_with_this_clusters_addresses_get_aliases() -> None:
    """Both have the same as this cluster; each is seen elsewhere, and nowhere that is taken."""
    async with rome() as context, context.kept():
        await context.configured("milan", ["10.244.0.0/16"], ["10.70.0.0/20"])
        milan = await context.seen("milan")
        await context.configured("turin", ["10.244.0.0/16"], ["10.69.0.0/20"])
        turin = await context.seen("turin")
        # 10.65 is reserved, 10.70.0.0/20 this cluster's own.
        assert milan == {"pod": ["10.64.0.0/16"], "external": ["10.66.0.0/20"]}
        assert turin == {"pod": ["10.67.0.0/16"], "external": ["10.69.0.0/20"]}
        found = await context.client.get(CONFIGURATIONS, "milan", MILAN)
        assert found["spec"]["local"]["cidr"] == {
            "pod": ["10.244.0.0/16"],
            "external": ["10.70.0.0/20"],
        }


async def test_both_families_have_aliases_in_their_order() -> None:
    async with rome() as context, context.kept():
        await context.configured("milan", ["fd00:1::/64", "10.244.0.0/16"])
        assert (await context.seen("milan"))["pod"] == ["fd00:64::/64", "10.64.0.0/16"]


async def test_aliases_outlive_the_daemon_and_go_with_the_configuration() -> None:
    async with rome() as context:
        async with context.kept():
            await context.configured("milan", ["10.244.0.0/16"])
            before = await context.seen("milan")
        async with context.kept():
            await context.configured("turin", ["10.244.0.0/16"])
            assert (await context.seen("turin"))["pod"] == ["10.66.0.0/16"]
            assert await context.seen("milan") == before
            # Kubernetes takes away what the Configuration owns; so it does here.
            await context.client.delete(CONFIGURATIONS, "milan", MILAN)
            name = "milan-pod-10-244-0-0-16"
            await context.client.delete(NETWORKS, name, MILAN)
            await gone(context.client, NETWORKS, name, MILAN)
            await context.configured("milan", ["10.200.0.0/16"])
            assert await context.seen("milan") == before, "it is free again"


async def test_a_range_that_is_taken_away_loses_its_alias() -> None:
    async with rome() as context, context.kept():
        await context.configured("milan", ["10.244.0.0/16", "10.9.0.0/16"])
        assert len((await context.seen("milan"))["pod"]) == 2
        patch = {"spec": {"remote": {"cidr": {"pod": ["10.9.0.0/16"]}}}}
        await context.client.patch(CONFIGURATIONS, "milan", patch, MILAN)
        await gone(context.client, NETWORKS, "milan-pod-10-244-0-0-16", MILAN)
        await eventually(lambda: context.seen("milan"), lambda found: len(found["pod"]) == 1)


async def test_what_makes_no_sense_is_refused_by_name_and_nothing_is_given() -> None:
    async with rome() as context, context.kept():
        for cidr, words in (
            ("0.0.0.0/0", "0.0.0.0/0 is every address"),
            ("192.168.0.0/16", "192.168.0.0/16 has one of this cluster's nodes in it"),
            ("172.20.0.0/16", "172.20.0.0/16 has this cluster's API server in it"),
            ("169.254.169.0/24", "metadata"),
            ("10.244.3.0/16", "host bits"),
        ):
            await context.configured("milan", [cidr])
            assert words in await context.refused("milan")
            assert await networks(context.client, MILAN) == {}
            await context.client.delete(CONFIGURATIONS, "milan", MILAN)
            await gone(context.client, CONFIGURATIONS, "milan", MILAN)
        # It repairs what it said.
        await context.configured("milan", ["0.0.0.0/0"])
        await context.refused("milan")
        patch = {"spec": {"remote": {"cidr": {"pod": ["10.244.0.0/16"]}}}}
        await context.client.patch(CONFIGURATIONS, "milan", patch, MILAN)
        assert (await context.seen("milan"))["pod"] == ["10.64.0.0/16"]


async def test_a_peer_speaks_for_itself_alone() -> None:
    async with rome() as context, context.kept():
        await context.configured("turin", ["10.9.0.0/16"], namespace=MILAN)
        await context.configured("milan", ["10.244.0.0/16"])
        await context.seen("milan")
        found = await context.client.get(CONFIGURATIONS, "turin", MILAN)
        assert not found.get("status")


async def test_ranges_in_a_namespace_of_nobodys_are_told_where_they_belong() -> None:
    """`liqoctl create configuration` without `-n` makes them in that of the kubeconfig."""
    async with rome() as context, context.kept():
        await context.configured("milan", ["10.244.0.0/16"], namespace="default")
        found = await eventually(
            lambda: context.client.get(CONFIGURATIONS, "milan", "default"),
            lambda found: found.get("status", {}).get("conditions"),
        )
        [condition] = found["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "OtherNamespace")
        assert f"-n {MILAN}" in condition["message"]


async def test_a_recorded_alias_that_is_anothers_is_given_anew() -> None:
    async with rome() as context:
        async with context.kept():
            await context.configured("milan", ["10.244.0.0/16"])
            first = await context.seen("milan")
            await context.configured("turin", ["10.244.0.0/16"])  # the elder keeps its alias
            second = await context.seen("turin")
        name = "turin-pod-10-244-0-0-16"
        patch = {"status": {"cidr": first["pod"][0]}}
        await context.client.patch(NETWORKS, name, patch, TURIN, subresource="status")
        async with context.kept():
            await eventually(
                lambda: networks(context.client, TURIN),
                lambda found: found[name][1] == second["pod"][0],
            )
            assert await context.seen("milan") == first


async def test_a_host_is_lent_with_a_service() -> None:
    async with rome() as context, context.kept():
        template = {
            "metadata": {"labels": {"app": "printer"}},
            "spec": {
                "ports": [{"name": "ipp", "port": 631, "targetPort": 9631}],
                "selector": {"app": "other"},
                "externalIPs": ["192.0.2.1"],
            },
        }
        await context.lend("printer", "192.168.1.77", serviceTemplate=template)
        await context.lend("database", "192.168.1.78")
        addresses = {await context.lent("printer"), await context.lent("database")}
        assert addresses == {"10.70.0.1", "10.70.0.2"}, "the first is that of unknown sources"
        service = await eventually(lambda: context.client.find(SERVICES, "printer", "liqo"))
        slice_ = await eventually(lambda: context.client.find(ENDPOINT_SLICES, "printer", "liqo"))
        assert service["spec"]["ports"][0]["port"] == 631
        assert "selector" not in service["spec"]
        assert "externalIPs" not in service["spec"]
        assert slice_["endpoints"][0]["addresses"] == ["192.168.1.77"]
        assert slice_["ports"][0]["port"] == 9631
        assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == "printer"
        # Given back, and given again.
        freed = await context.lent("printer")
        await context.client.delete(IPS, "printer", "liqo")
        await gone(context.client, IPS, "printer", "liqo")
        await context.lend("scanner", "192.168.1.79")
        assert await context.lent("scanner") == freed


async def test_what_only_says_to_be_an_ips_takes_no_memory() -> None:
    """Anybody may give his Services that label, and owners of that kind."""
    large = {"note": "x" * 100_000}
    owner = {"apiVersion": IPS.api_version, "kind": "IP", "name": "none", "uid": "u"}
    async with rome(SETTINGS + "[guests]\nmax_bytes = 1048576\n") as context, context.kept():
        await context.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        for number in range(100):
            owned = {"ownerReferences": [owner]} if number >= 20 else {}
            meta = {"name": f"s-{number}", "labels": {labels.OF_IP: "true"}, **owned}
            notes = large if number < 40 else {"note": "x" * 25_000}
            wanted = {"metadata": {**meta, "annotations": notes}, "spec": {"ports": [{"port": 1}]}}
            await context.client.create(SERVICES, wanted, "shop")
        await context.lend(
            "printer", "192.168.1.77", serviceTemplate={"spec": {"ports": [{"port": 631}]}}
        )
        await eventually(lambda: context.client.find(ENDPOINT_SLICES, "printer", "liqo"))
        (found,) = (
            each
            for each in context.context.informers.all()
            if (each.kind, each.selection.labels) == (SERVICES, labels.OF_IP)
        )
        held = sum(len(found.store.get(key) or b"") for key in found.store)
        assert held <= 1 << 20
        holdings = context.context.informers.holdings
        assert holdings is not None
        assert held <= holdings.used(holdings.owner("shop")) + 4096


async def test_a_host_of_ipv6_is_lent_with_a_service_of_its_family() -> None:
    async with rome() as context, context.kept():
        await context.client.create(NODES, node("six", "fd00:244::/64", "fd00:1::10"))
        template = {"spec": {"ports": [{"name": "ipp", "port": 631}]}}
        await context.lend("printer", "FD00:1:0::77", serviceTemplate=template)
        assert await context.lent("printer") == "fd00:64::1"
        slice_ = await eventually(lambda: context.client.find(ENDPOINT_SLICES, "printer", "liqo"))
        assert slice_["addressType"] == "IPv6"
        assert slice_["endpoints"][0]["addresses"] == ["fd00:1::77"]
        service = await context.client.get(SERVICES, "printer", "liqo")
        assert service["spec"]["ipFamilies"] == ["IPv6"]
        await context.lend("nobody", "fd00:1::77%eth0")
        assert "no IP address" in await context.failed("fd00:1::77%eth0")


async def test_a_peer_has_lent_only_what_may_be() -> None:
    async with rome() as context, context.kept():
        await context.lend("inside", "192.168.1.77", MILAN)
        assert "lendable" in await context.failed("192.168.1.77")
        await context.lend("node", "192.168.1.10")
        assert "nodes" in await context.failed("192.168.1.10")
        await context.lend("metadata", "169.254.169.254", MILAN)
        assert "metadata" in await context.failed("169.254.169.254")
        await context.lend("shared", "192.168.7.9", MILAN)
        assert await context.lent("shared", MILAN) == "10.70.0.1"


async def test_of_a_namespace_that_is_not_known_nothing_is_lent(monkeypatch) -> None:
    """Its watch may lag behind that of the IPs: whose it is nobody can say."""
    unknown: set[Key] = {("", MILAN)}
    decode, has = IndexedStore.decode, IndexedStore.__contains__
    async with rome() as context:
        monkeypatch.setattr(
            IndexedStore,
            "decode",
            lambda self, key, kind: None if key in unknown else decode(self, key, kind),
        )
        monkeypatch.setattr(
            IndexedStore, "__contains__", lambda self, key: key not in unknown and has(self, key)
        )
        async with context.kept():
            await context.lend("inside", "192.168.1.77", MILAN)
            await context.lend("printer", "192.168.1.78")
            assert await context.lent("printer")
            found = await context.client.get(IPS, "inside", MILAN)
            assert not found.get("status", {}).get("ip")
            unknown.clear()
            assert "lendable" in await context.failed("192.168.1.77")
