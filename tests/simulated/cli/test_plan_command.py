"""What `liqod plan` says of manifests, and that applying them comes to just that."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from liqod.kube.client import Client
from liqod.procedures.dryrun import OURS
from liqod.resources import NAMESPACE_OFFLOADINGS, RESOURCE_SLICES
from tests.simulated.addressed import node as node_of
from tests.simulated.meeting import lead, run
from tests.simulated.members import Member, members
from tests.simulated.network.test_networking import join, two
from tests.simulated.processes import Ended

Json = dict[str, Any]
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "plan.md"
GIT = {"app.kubernetes.io/part-of": "peerings"}


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": GIT}}


def offloading(place: str, *terms: Json, **more: str) -> Json:
    return {
        "apiVersion": NAMESPACE_OFFLOADINGS.api_version,
        "kind": NAMESPACE_OFFLOADINGS.name,
        "metadata": {"name": "offloading", "namespace": place, "labels": GIT},
        "spec": {
            "podOffloadingStrategy": "LocalAndRemote",
            "namespaceMappingStrategy": "DefaultName",
            "clusterSelector": {"nodeSelectorTerms": list(terms)},
            **more,
        },
    }


def resource_slice(**resources: str) -> Json:
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.name,
        "metadata": {
            "name": "milan",
            "namespace": "liqo-tenant-milan",
            "labels": {
                "liqo.io/replication": "true",
                "liqo.io/remoteID": "milan",
                "liqo.io/remote-cluster-id": "milan",
            },
            "annotations": {"liqo.io/create-virtual-node": "true"},
        },
        "spec": {"class": "default", "providerClusterID": "milan", "resources": resources},
    }


def written(folder: Path, *objects: Json) -> Path:
    """A folder with one file for each object."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for number, each in enumerate(objects):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(each))
    return folder


async def planned(
    member: Member, folder: Path, *objects: Json, more: tuple[str, ...] = ()
) -> Ended:
    """What `liqod plan` says of some objects."""
    files = written(folder / "manifests", *objects)
    return await run(member, folder, "plan", "-f", str(files), *more)


async def apply(client: Client, *objects: Json) -> None:
    """As `kubectl apply --server-side`."""
    for each in objects:
        kind = OURS.get((each["apiVersion"], each["kind"]), NAMESPACES)
        await client.apply(kind, each, manager="kubectl")


def lines(ended: Ended) -> list[str]:
    return [each.strip() for each in ended.out.splitlines()]


@pytest.mark.long
async def test_the_whole_life_of_an_offloaded_namespace(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        await rome.peer(milan)
        shop = (namespace("shop"), offloading("shop"))

        begun = await planned(rome, tmp_path, *shop)
        assert begun.status == 2, begun.err
        assert "begins at milan: it has the namespace shop, as shop-rome" in lines(begun)
        assert await rome.admin.find(NAMESPACES, "shop") is None, "a plan changes nothing"

        await apply(rome.admin, *shop)
        await milan.until(NAMESPACES, "shop-rome", None, lambda found: found)
        again = await planned(rome, tmp_path, *shop)
        assert again.status == 0, again.err
        assert again.out == "nothing would change: 2 objects as written\n"

        for name, owner in (("web", True), ("alone", False)):
            owners = [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}
                | {"controller": True}
            ]
            pod: Json = {
                "metadata": {"name": name, "ownerReferences": owners if owner else []},
                "spec": {"nodeName": "milan", "containers": [{"name": "c", "image": "i"}]},
            }
            await rome.admin.create(PODS, pod, "shop")
        elsewhere = {"matchExpressions": [{"key": "region", "operator": "Exists"}]}
        moved = await planned(rome, tmp_path, namespace("shop"), offloading("shop", elsewhere))
        assert moved.status == 2
        assert "ends at milan: the namespace shop there (shop-rome)" in lines(moved)
        assert any(each.startswith("moves at milan: 1 pod ") for each in lines(moved))
        assert any(each.startswith("ends at milan: 1 pod without") for each in lines(moved))
        assert any("clusterSelector" in each for each in lines(moved))

        selector = "app.kubernetes.io/part-of=peerings"
        pruned = await planned(rome, tmp_path, namespace("shop"), more=("--prune", selector))
        assert pruned.status == 2
        assert "NamespaceOffloading shop/offloading: deleted" in lines(pruned)
        assert "ends at milan: the namespace shop there (shop-rome)" in lines(pruned)
        marks = {"metadata": {"labels": GIT}}
        await rome.admin.patch(NAMESPACES, "liqo-tenant-milan", marks)
        ended = await planned(rome, tmp_path, *shop, more=("--prune", selector))
        assert "Namespace liqo-tenant-milan: deleted" in lines(ended)
        assert "ends at milan: all of the peering with it, in both directions" in lines(ended)
        assert "ends at milan: 2 pods there, at once" in lines(ended)
        kept = await planned(rome, tmp_path, namespace("shop"))
        assert kept.status == 0, "without --prune nothing is deleted"


@pytest.mark.long
async def test_refusals_are_named_with_the_object(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        await rome.peer(milan)
        told = await planned(
            rome,
            tmp_path,
            offloading("nowhere"),
            offloading("kube-system"),
            namespace("shop"),
            offloading("shop", podOffloadingStrategy="Sometimes"),
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "liqod", "namespace": "liqo"},
                "stringData": {"liqod.toml": "[provider]\npod_securty = 1\n"},
            },
            {"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": "one"}},
            more=("-o", "json"),
        )
        assert told.status == 1
        report = json.loads(told.out)
        assert report.keys() == {"cluster", "objects"}
        section = PAGE.read_text().split("## As JSON")[1].split("\n## ")[0]
        cells = " ".join(re.findall(r"^\| (`.+?) \|", section, re.MULTILINE))
        assert {tuple(each) for each in report["objects"]} == {tuple(re.findall(r"`(\w+)`", cells))}
        found = {(each["kind"], each["namespace"]): each for each in report["objects"]}
        kind = NAMESPACE_OFFLOADINGS.name
        assert found[kind, "nowhere"]["problem"] == "there is no namespace nowhere"
        assert "cannot be offloaded" in found[kind, "kube-system"]["problem"]
        assert "Sometimes" in found[kind, "shop"]["problem"]
        assert "no kind Thing" in found["Thing", ""]["problem"]
        assert "pod_security" in found["Secret", "liqo"]["problem"]
        assert found["Namespace", ""]["change"] == "created"

        settings = tmp_path / "liqod.toml"
        settings.write_text("[webhook]\nenabled = false\n")
        own = ("plan", "-f", str(settings), "--config", str(settings))
        assert (await run(rome, tmp_path, *own)).status == 0
        new = await run(rome, tmp_path, "plan", "-f", str(settings), "--config", "/dev/null")
        assert new.status == 2, new.err
        assert "changes at rome: [webhook] enabled, once its daemon is started again" in lines(new)


@pytest.mark.long
async def test_settings_in_a_folder_are_compared_with_those_in_force(
    tmp_path: Path, nursery: trio.Nursery
):
    async with members("rome", "milan") as [rome, milan]:
        await nursery.start(lead, milan)
        await rome.peer(milan)
        secret: Json = {"apiVersion": "v1", "kind": "Secret"}
        secret |= {"metadata": {"name": "liqod", "namespace": "liqo"}}
        node = {**secret, "kind": "ConfigMap"}
        node["metadata"] = {"name": "liqod-node", "namespace": "liqo-nodes"}
        bound = '[guests]\nmax_resources = {cpu = "%s"}\n'
        force = [
            *(namespace("liqo-nodes"), {**secret, "stringData": {"liqod.toml": bound % 64}}),
            {**node, "data": {"liqod.toml": "[health]\nport = 9000\n"}},
        ]
        kinds = (NAMESPACES, SECRETS, CONFIG_MAPS)
        for kind, each in zip(kinds, force, strict=True):
            await milan.admin.apply(kind, each, manager="kubectl")
        assert (await planned(milan, tmp_path, *force)).status == 0

        less = {**secret, "stringData": {"liqod.toml": bound % "500m"}}
        other = {**node, "data": {"liqod.toml": "[health]\nport = 9001\n"}}
        told = await planned(milan, tmp_path, force[0], less, other, more=("-o", "json"))
        assert told.status == 2, told.err
        found = {each["kind"]: each for each in json.loads(told.out)["objects"]}
        assert found["Namespace"]["change"] == "same"
        assert {each["change"] for each in (found["Secret"], found["ConfigMap"])} == {"changed"}
        ends, changes = found["Secret"]["consequences"]
        assert (ends["action"], ends["cluster"]) == ("ends", "rome")
        assert "one consumer may have cpu 500m in all its slices" in ends["message"]
        assert (changes["action"], changes["cluster"]) == ("changes", "milan")
        [changes] = found["ConfigMap"]["consequences"]
        assert changes["message"] == "liqod node: [health] port, once it is started again"

        several = {"liqod.toml": '[network]\ncandidates = "all"\n' + bound % 64}
        await milan.admin.create(NODES, node_of("one", "10.244.0.0/24", "192.168.1.10"))
        told = await planned(milan, tmp_path, {**secret, "stringData": several})
        assert "of these nodes one has the tunnels, and the others stand by: one" in told.out

        await milan.admin.apply(SECRETS, less, manager="kubectl")
        await milan.admin.apply(CONFIG_MAPS, other, manager="kubectl")
        assert (await planned(milan, tmp_path, force[0], less, other)).status == 0


@pytest.mark.long
async def test_any_order_and_half_of_it_come_to_the_same(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        await rome.peer(milan)
        shelf = {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": "shelf"}
        every = (
            *(namespace("shop"), offloading("shop", **shelf)),
            *(namespace("store"), offloading("store", **shelf)),
            resource_slice(cpu="1", memory="2Gi", pods="10"),
        )
        reports = set()
        for order in itertools.islice(itertools.permutations(every), 0, 120, 17):
            told = await planned(rome, tmp_path, *order, more=("-o", "json"))
            found = json.loads(told.out)["objects"]
            named = {(each["kind"], each["namespace"], each["name"]): each for each in found}
            for each in found:
                each.pop("source")
            reports.add(json.dumps([named[key] for key in sorted(named)], sort_keys=True))
        assert len(reports) == 1
        [report] = reports
        # Both want one name there: the second one is refused, whichever is written first.
        assert "shop is mapped to shelf there already" in report
        assert "cpu 1, memory 2Gi, pods 10 instead of" in report

        wanted = (*every[:2], namespace("store"), offloading("store"), every[4])
        await apply(rome.admin, *wanted[:2], wanted[4])
        await milan.until(NAMESPACES, "shelf", None, lambda found: found)
        rest = await planned(rome, tmp_path, *wanted)
        assert "NamespaceOffloading shop/offloading: created" not in rest.out
        assert "begins at milan: it has the namespace store, as store-rome" in lines(rest)
        await apply(rome.admin, *wanted[2:4], *wanted)
        await milan.until(NAMESPACES, "store-rome", None, lambda found: found)
        await rome.until(
            *(NODES, "milan", None),
            lambda found: found["status"]["allocatable"]["pods"] == "10",
        )
        last = await planned(rome, tmp_path, *wanted)
        assert last.status == 0, last.out


@pytest.mark.long
async def test_settings_of_networks_say_which_tunnel_and_which_pods(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
):
    async with two(monkeypatch) as (rome, milan):
        await nursery.start(lead, rome)
        assert (await join(rome, milan)).without == ""
        await rome.peer(milan)
        await rome.admin.create(NAMESPACES, namespace("shop"))
        await rome.until(SERVICE_ACCOUNTS, "default", "shop", lambda found: found)
        for name in ("web", "db"):
            spec = {"nodeName": "milan", "containers": [{"name": "c", "image": "i"}]}
            await rome.admin.create(PODS, {"metadata": {"name": name}, "spec": spec}, "shop")
        settings = tmp_path / "liqod.toml"
        own = ("plan", "-f", str(settings), "--config", "/dev/null")

        settings.write_text("[network]\nenabled = false\n")
        off = await run(rome, tmp_path, *own)
        assert off.status == 2, off.err
        tunnel, pods, rest = lines(off)[1:]
        assert tunnel.startswith("ends at milan: the tunnel between the networks: the network can")
        assert pods == "changes at milan: 2 pods there: nothing reaches them, and they run on"
        assert rest == "changes at rome: [network] enabled, once its daemon is started again"

        settings.write_text('[network]\nin_band = ["milan"]\n')
        opened = await run(rome, tmp_path, *own)
        way = "it may reach this cluster's API server through the tunnel"
        assert f"begins at milan: {way}" in lines(opened)

        secret: Json = {"apiVersion": "v1", "kind": "Secret"}
        secret |= {"metadata": {"name": "liqod", "namespace": "liqo"}}
        secret |= {
            "stringData": {"liqod.toml": '[network]\nenabled = false\nbackends = ["vxlan"]\n'}
        }
        in_cluster = lines(await planned(rome, tmp_path, secret))
        assert [each for each in in_cluster if each.startswith("ends at milan")] == [tunnel]
        node: Json = {"apiVersion": "v1", "kind": "ConfigMap"}
        node |= {"metadata": {"name": "liqod-node", "namespace": "liqo-nodes"}}
        node |= {"data": {"liqod.toml": '[network]\nin_band = ["milan"]\nbackends = ["vxlan"]\n'}}
        of_node = lines(await planned(rome, tmp_path, namespace("liqo-nodes"), node))
        why = "tunnels by 'wireguard': this cluster makes vxlan"
        assert f"ends at milan: the tunnel between the networks: {why}" in of_node
        assert not [each for each in of_node if each.startswith("begins at milan")]
