"""``liqod doctor`` and ``status`` on Services of the set, by the objects of a cluster."""

from pathlib import Path

import pytest

from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    NAMESPACES,
    SERVICES,
)
from liqod.cli import report
from liqod.cli.snapshotreader import take
from liqod.kube.definitions import name_of
from liqod.model.view.serviceanswer import PeerShare, ServicesRow
from liqod.plugins.checks import services as layers
from liqod.procedures import clusterdns, sharedservices
from tests.simulated.borrower import Json, eventually
from tests.simulated.clusterset.sets import (
    EXPORTS,
    IMPORTS,
    backends,
    both,
    export,
    imported,
    share,
    sharing,
    until_backends,
)
from tests.simulated.meeting import run
from tests.simulated.members import Member, members
from tests.simulated.remedies import taken
from tests.unit.model.test_corefile import KUBEADM, LINE, OPTION, WANTED, page_blocks, page_rights

pytestmark = [pytest.mark.long, pytest.mark.clusterset]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is too young to be judged."""
    monkeypatch.setattr(layers, "SETTLES", 0.0)


async def verdicts(who: Member) -> dict[str, tuple[str, str]]:
    """The layers of the Services of the set, each with its verdict and its evidence."""
    own, *_ = report.ladders(await take(who.admin, "liqo"), "", 0.0)
    return {
        each.layer: (each.verdict, each.evidence)
        for each in own.checks
        if each.layer in report.BY_OBJECTS
    }


async def until(who: Member, layer: str, verdict: str, says: str = "") -> None:
    """Wait until a layer has this verdict, with these words in its evidence."""

    async def look() -> bool:
        found = (await verdicts(who)).get(layer, ("", ""))
        return found[0] == verdict and says in found[1]

    await eventually(look)


async def test_a_cluster_without_them_has_no_such_layer():
    async with members("rome") as [rome]:
        assert await verdicts(rome) == {}


async def test_what_is_shared_is_well_and_what_is_not_is_named(tmp_path: Path):
    async with sharing("rome", "milan", leads=True) as [rome, milan]:
        await both(rome, milan)
        await export(milan, "10.72.0.1")
        await imported(rome, "milan")
        await until_backends(rome, {"milan": {"10.72.0.1": True}})
        await until(rome, "services", "ok", "0 exports, 1 import")
        row = report.overview(await take(rome.admin, "liqo")).services
        assert row == ServicesRow(0, 1, (PeerShare("milan", 1, 0, 1),))
        await until(milan, "services", "ok", "1 export, 1 import")

        await rome.admin.create(EXPORTS, {"metadata": {"name": "lost"}}, "shop")
        await until(rome, "services", "failing", "ServiceExport shop/lost: NoService: ")
        await rome.admin.delete(EXPORTS, "lost", "shop")
        await milan.admin.patch(SERVICES, "web", {"spec": {"sessionAffinity": "ClientIP"}}, "shop")
        await export(rome, "10.71.0.1")
        await until(milan, "services", "failing", "the exports of shop/web conflict: ")
        await rome.admin.delete(EXPORTS, "web", "shop")
        await until(rome, "services", "ok")

        # A peer that does not share the namespace any more takes nothing.
        await rome.admin.patch(
            NAMESPACES, "shop", {"metadata": {"annotations": {"liqod.io/share-services": None}}}
        )
        await until(milan, "services", "failing", "Pending: not yet known to rome")
        said = await run(milan, tmp_path, "status")
        told = await run(milan, tmp_path, *taken(said.out, "explain serviceexport x -n x"))
        why = "  ServiceExport: Ready is False: Pending: not yet known to rome: a peer"
        assert (told.status, why in told.out) == (0, True), told

        await milan.stop()
        await rome.admin.create(EXPORTS, {"metadata": {"name": "late"}}, "shop")
        await milan.admin.create(EXPORTS, {"metadata": {"name": "late"}}, "shop")
        await until(milan, "services", "failing", "shop/late: no daemon has looked at it")


async def test_a_silent_peer_leaves_an_import_without_a_ready_endpoint():
    async with sharing("rome", "milan", leads=True) as [rome, milan]:
        await both(rome, milan)
        await export(milan, "10.72.0.1")
        await imported(rome, "milan")
        await until(rome, "services", "ok")
        await milan.stop()
        await milan.cluster.stop()
        await until(rome, "services", "failing", "ServiceImport shop/web of milan has no ready e")
        assert await backends(rome) == {"milan": {"10.72.0.1": False}}

        async def explained() -> bool:
            told = await sharedservices.explain(rome.admin, "rome", ("shop", "web"))
            own, peer = told.clusters
            assert (own.cluster, own.why) == ("rome", "it does not export it")
            assert (told.ready, peer.cluster, peer.total, peer.ready) == (False, "milan", 1, 0)
            return peer.why.startswith("nothing gets through to it, so none is ready: ")

        await eventually(explained)


async def test_a_peer_that_shares_none_has_not_answered():
    async with members("rome", "milan", services=True) as [rome, milan]:
        rome.settings += "[services]\nenabled = true\n"
        await rome.stop()
        await rome.start()
        await rome.peer(milan)
        await share(rome, "milan")
        await export(rome, "10.71.0.1")

        async def told() -> bool:
            problems = report.problems(await take(rome.admin, "liqo"))
            return ("milan", ("shop",)) in [(each.peer, each.objects) for each in problems]

        await eventually(told)


async def test_kinds_that_are_gone_are_named():
    async with sharing("rome", leads=True) as [rome]:
        await rome.admin.delete(CUSTOM_RESOURCES, name_of(IMPORTS))
        await until(rome, "services", "failing", "serviceimports.multicluster.x-k8s.io are not se")


def coredns(corefile: str, image: str = "registry.k8s.io/coredns/coredns:v1.13.1") -> list[Json]:
    """The objects of CoreDNS that kubeadm makes, as far as they are read."""
    pod = {
        "serviceAccountName": "coredns",
        "containers": [{"name": "coredns", "image": image}],
        "volumes": [{"name": "config-volume", "configMap": {"name": "coredns"}}],
    }
    marks = {"labels": {"k8s-app": "kube-dns"}}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"k8s-app": "kube-dns"}},
        "template": {"metadata": marks, "spec": pod},
    }
    deployment = {"metadata": {"name": "coredns", **marks}, "spec": spec}
    return [{"metadata": {"name": "coredns"}, "data": {"Corefile": corefile}}, deployment]


async def test_the_dns_server_is_read_as_it_is_and_not_changed():
    async with sharing("rome", leads=True) as [rome]:
        assert await verdicts(rome) == {"services": ("ok", "0 exports, 0 imports")}
        await share(rome, "*")
        await export(rome, "10.71.0.1")
        await imported(rome, "rome")
        await until(rome, "names", "unknown", "no CoreDNS with a Corefile is seen")
        configuration, deployment = coredns(KUBEADM)
        other = {"metadata": {"name": "aaa"}, "data": {"Corefile": f"clusterset.local {KUBEADM}"}}
        for each in (configuration, other):
            await rome.admin.create(CONFIG_MAPS, each, "kube-system")
        await rome.admin.create(DEPLOYMENTS, deployment, "kube-system")
        await until(rome, "names", "failing", "CoreDNS (kube-system/coredns) does not serve clus")

        served = KUBEADM.replace(LINE, WANTED).replace("       ttl 30\n", OPTION)
        change = {"data": {"Corefile": served}}
        await rome.admin.patch(CONFIG_MAPS, "coredns", change, "kube-system")
        await until(rome, "names", "failing", "(coredns) may not list and watch serviceimports")
        for kind, made in zip((CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS), page_rights(), strict=True):
            await rome.admin.create(kind, made)
        await until(rome, "names", "ok")
        found = await clusterdns.name_server(rome.admin)
        assert (found.place, found.version, found.lists) == (
            *("kube-system/coredns", (1, 13, 1)),
            True,
        )
        left = await rome.admin.get(CONFIG_MAPS, "coredns", "kube-system")
        assert left["data"]["Corefile"] == served


CACHED = """
cluster.local:53 {
    errors
    cache 30
    bind 169.254.20.10 10.96.0.10
    forward . __PILLAR__CLUSTER__DNS__ {
        force_tcp
    }
}
.:53 {
    errors
    bind 169.254.20.10 10.96.0.10
    forward . __PILLAR__UPSTREAM__SERVERS__
}
"""


async def test_a_cache_on_the_nodes_that_sends_the_names_elsewhere_is_told():
    async with sharing("rome", leads=True) as [rome]:
        await share(rome, "*")
        await export(rome, "10.71.0.1")
        await imported(rome, "rome")
        served = KUBEADM.replace(LINE, WANTED).replace("       ttl 30\n", OPTION)
        configuration, deployment = coredns(served)
        cache = {"metadata": {"name": "node-local-dns"}, "data": {"Corefile": CACHED}}
        for each in (configuration, cache):
            await rome.admin.create(CONFIG_MAPS, each, "kube-system")
        await rome.admin.create(DEPLOYMENTS, deployment, "kube-system")
        for kind, made in zip((CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS), page_rights(), strict=True):
            await rome.admin.create(kind, made)
        await until(rome, "names", "ok")  # nothing runs by it
        marks = {"k8s-app": "node-local-dns"}
        pod = {"containers": [{"name": "node-cache", "image": "k8s-dns-node-cache"}]}
        template = {"metadata": {"labels": marks}, "spec": pod}
        spec = {"selector": {"matchLabels": marks}, "template": template}
        daemons = {"metadata": {"name": "node-local-dns"}, "spec": spec}
        await rome.admin.create(DAEMON_SETS, daemons, "kube-system")
        await until(rome, "names", "failing", "the DNS cache on the nodes (kube-system/node-local")
        (server,) = (each for each in page_blocks() if "force_tcp" in each)
        change = {"data": {"Corefile": server + CACHED}}
        await rome.admin.patch(CONFIG_MAPS, "node-local-dns", change, "kube-system")
        await until(rome, "names", "ok")


async def test_the_step_that_is_printed_gives_coredns_the_names(tmp_path: Path):
    async with sharing("rome", leads=True) as [rome]:
        await share(rome, "*")
        await export(rome, "10.71.0.1")
        await imported(rome, "rome")
        configuration, deployment = coredns(KUBEADM)
        await rome.admin.create(CONFIG_MAPS, configuration, "kube-system")
        await rome.admin.create(DEPLOYMENTS, deployment, "kube-system")
        await until(rome, "names", "failing", "CoreDNS (kube-system/coredns) does not serve clus")
        said = await run(rome, tmp_path, "doctor")
        given = await run(rome, tmp_path, *taken(said.out, "install --services-dns"))
        assert given.status == 0, given.err
        await until(rome, "names", "ok")


async def test_the_commands_name_the_reason_and_end_by_it(tmp_path: Path):
    async with sharing("rome", "milan", leads=True) as [rome, milan]:
        await both(rome, milan)
        await export(milan, "10.72.0.1")
        await imported(rome, "milan")
        await until(rome, "services", "ok")
        asked = ("explain", "serviceimport", "web", "-n", "shop")
        good = await run(rome, tmp_path, *asked)
        assert good.status == 0, good.err
        first, *clusters, _ = good.out.splitlines()
        assert first.endswith(", as web.shop.svc.clusterset.local")
        assert clusters == ["  rome: it does not export it", "  milan: 1 of 1 endpoint ready"]
        missing = await run(rome, tmp_path, "explain", "svcex", "other", "-n", "shop")
        assert (missing.status, "there is no ServiceExport or" in missing.err) == (1, True)

        milan_slice = {"endpoints": [{"addresses": ["10.72.0.1"], "conditions": {"ready": False}}]}
        await milan.admin.patch(ENDPOINT_SLICES, "web-1", milan_slice, "shop")
        await until(rome, "services", "failing", "has no ready endpoint")
        bad = await run(rome, tmp_path, *asked)
        assert bad.status == 3
        assert "  milan: of its 1 pod none is ready there → `kubectl get pods -n shop`" in bad.out
        said = await run(rome, tmp_path, "status")
        assert (said.status, "ServiceImport shop/web of milan has no" in said.out) == (1, True)
        assert "Services of the set: 0 exported, 1 imported\n  milan: 0 told it" in said.out
        again = await run(rome, tmp_path, *taken(said.out, "explain serviceimport x -n x"))
        assert (again.status, again.out) == (3, bad.out)
        doctor = await run(rome, tmp_path, "doctor")
        assert "Services of the set fails: ServiceImport shop/web of milan" in doctor.out
