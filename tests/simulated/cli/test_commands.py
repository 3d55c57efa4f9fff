"""Every verb of the command line between two embedded clusters, from installing to uninstalling."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, LEASES, NAMESPACES, NODES, PODS
from liqod.cli import __main__ as page
from liqod.cli.timings import CommandTimings
from liqod.install.workload import STAND_IN
from liqod.procedures.timings import PeeringTimings
from liqod.resources import NAMESPACE_OFFLOADINGS, OVERRIDE_POLICIES
from tests.simulated.borrower import eventually
from tests.simulated.processes import Site, command, run, sites

CONTAINER = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
AT_ONCE = CommandTimings(grace=0.0)
"""No waiting for daemons that are not there."""
OFFLOAD = ("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty columns."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.long
async def test_from_installing_to_uninstalling(tmp_path: Path):
    async with sites(tmp_path, "rome", "milan", timings=AT_ONCE) as (rome, milan):
        user = await milan.user_for("rome")
        peer = ("peer", "--remote-kubeconfig", str(user), "--cpu", "4", "--pods", "9")
        silent = await rome.liqod(*peer, check=False)
        assert silent.status == 1
        assert "none has run here yet; start `liqod run`" in silent.err
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rome.start)
            nursery.start_soon(milan.start)
        peered = await rome.liqod(*peer)
        assert "peered: milan is the node milan here" in peered.out
        assert "✓ wait for the virtual node milan to be Ready" in peered.err
        same = await rome.liqod("peer", "--remote-kubeconfig", str(rome.kubeconfig), check=False)
        assert (same.status, "both kubeconfigs lead to" in same.err) == (1, True)

        await borrow(rome, milan)
        await look(rome)
        await follow_the_logs(rome)
        await differ(rome)
        await lend(milan)

        async def told() -> bool:
            return "the pod asks for 20Gi" in (await rome.liqod("status", "milan")).out

        await eventually(told)
        await leave(rome, milan)
        for site in (rome, milan):
            await site.stop()
            gone = await site.liqod("uninstall", "--purge", "--yes")
            assert "removes the namespace liqo," in gone.err
            names = [one["metadata"]["name"] for one in await site.admin.list(CUSTOM_RESOURCES)]
            assert not [name for name in names if name.endswith("liqo.io")]
            spaces = [one["metadata"]["name"] for one in await site.admin.list(NAMESPACES)]
            assert not [name for name in spaces if name.startswith("liqo")]


async def borrow(rome: Site, milan: Site) -> None:
    """Offload a namespace, twice, and run a pod in it; what cannot be is said."""
    await rome.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
    ended = await rome.liqod(*OFFLOAD)
    assert "shop → milan: shop-rome" in ended.out
    assert (await rome.liqod(*OFFLOAD)).out == ended.out
    await keep_what_is_set(rome)
    other = await rome.liqod(
        *(*OFFLOAD, "--namespace-mapping-strategy", "EnforceSameName"), check=False
    )
    assert (other.status, "its mapping cannot be changed" in other.err) == (1, True)
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [CONTAINER]}}
    await rome.admin.create(PODS, pod, "shop")
    late = {**CONTAINER, "resources": {"requests": {"cpu": "3", "memory": "20Gi"}}}
    stuck = {"metadata": {"name": "stuck"}, "spec": {"nodeName": "milan", "containers": [late]}}
    await rome.admin.create(PODS, stuck, "shop")
    local = {"metadata": {"name": "local"}, "spec": {"containers": [CONTAINER]}}
    await rome.admin.create(PODS, local, "default")

    async def ready() -> bool:
        seen = json.loads((await rome.liqod("status", "-o", "json")).out)
        return bool(seen["nodes"]) and seen["nodes"][0]["pods_ready"] == 1

    await eventually(ready, seconds=30)


async def keep_what_is_set(rome: Site) -> None:
    """Done again, it changes what is named and nothing else; printed, nothing at all."""

    async def spec() -> Any:
        return (await rome.admin.get(NAMESPACE_OFFLOADINGS, "offloading", "shop"))["spec"]

    offload = ("offload", "namespace", "shop")
    before = await spec()
    assert before["podOffloadingStrategy"] == "Remote"
    await rome.liqod(*offload)
    assert await spec() == before
    await rome.liqod(*offload, "-l", "liqo.io/remote-cluster-id=milan")
    narrow = await spec()
    assert narrow["clusterSelector"]["nodeSelectorTerms"]
    assert {**narrow, "clusterSelector": before["clusterSelector"]} == before
    printed = await rome.liqod(*offload, "--pod-offloading-strategy", "Local", "-o", "json")
    assert json.loads(printed.out)["spec"]["podOffloadingStrategy"] == "Local"
    assert await spec() == narrow
    await rome.liqod(*offload, "-l", "")
    assert await spec() == before


async def look(rome: Site) -> None:
    """Checks what `liqod status` prints: as text, of one peer, JSON and YAML, at 80 columns."""
    shown = (await rome.liqod("status")).out
    assert "daemon running as" in shown
    assert "milan  Provider  active  up   none         2    0   365 d" in shown
    assert max(map(len, shown.splitlines())) <= 80
    one = (await rome.liqod("status", "milan")).out
    assert "SLICE  DIRECTION  IDENTITY  RESOURCES  QUANTITIES" in one
    assert "milan  borrowed   Accepted  Accepted   cpu 4," in one
    assert "APIServerStatus" in one
    assert max(map(len, one.splitlines())) <= 80, one
    detail = yaml.safe_load((await rome.liqod("status", "milan", "-o", "yaml")).out)["detail"]
    assert detail["slices"][0]["authentication"] == "Accepted"
    assert [pod["name"] for pod in detail["waiting"]] == ["stuck"]
    unknown = await rome.liqod("status", "turin", "-o", "json", check=False)
    assert (unknown.status, "there is no peer turin" in unknown.err) == (1, True)
    context = await rome.liqod("logs", "local", check=False)
    assert (context.status, "not on a peer: `kubectl logs`" in context.err) == (1, True)


async def follow_the_logs(rome: Site) -> None:
    """``logs -f`` ends without a word on Ctrl-C; a reader that goes away is no failure."""
    assert (await rome.liqod("logs", "web", "-n", "shop")).out
    logs = await trio.lowlevel.open_process(
        rome.program("logs", "web", "-n", "shop", "-f"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert logs.stdout is not None
    assert logs.stderr is not None
    assert b"has started" in await logs.stdout.receive_some()
    logs.send_signal(signal.SIGINT)
    said = b"".join([chunk async for chunk in logs.stderr])
    assert (await logs.wait(), said) == (130, b"")
    head = await run("bash", "-c", f"set -o pipefail; {' '.join(rome.program('status'))} | head -1")
    assert head.out.startswith("cluster rome: daemon running as")
    gone = await run("bash", "-c", f"{' '.join(rome.program('status'))} | :")
    assert (head.err, gone.err) == ("", "")


async def differ(rome: Site) -> None:
    """An OverridePolicy, in `diff` as text and JSON; objects that are none, and peers."""
    spec = {"objects": [{"kind": "Pod"}], "image": {"tag": "2"}, "labels": {"site": "milan"}}
    made = {"metadata": {"name": "mirror"}, "spec": spec}
    await rome.admin.create(OVERRIDE_POLICIES, made, "shop")
    shop = ("-n", "shop")

    async def changed() -> bool:
        told = json.loads((await rome.liqod("diff", "pod/web", *shop, "-o", "json")).out)
        assert told["policies"] == ["shop/mirror"]
        return bool(told["there"]["spec"]["containers"][0]["image"] == "nginx:2")

    await eventually(changed)
    shown = (await rome.liqod("diff", "pods/web", *shop, "--peer", "milan")).out.splitlines()
    assert shown[0] == "changed by the OverridePolicies shop/mirror"
    assert {"-  - image: nginx", "+  - image: nginx:2", "+    site: milan"} <= set(shown)
    here = await rome.admin.get(PODS, "web", "shop")
    assert here["spec"]["containers"][0]["image"] == "nginx"
    for words, status, said in (
        (("diff", "web"), 2, "say KIND/NAME, such as pod/web"),
        (("diff", "deployment/web"), 2, "nothing of the kind 'deployment' is reflected"),
        (("diff", "pod/nobody", *shop), 1, "there is no Pod nobody in the namespace shop"),
        (("diff", "pod/local"), 1, "not on a peer"),
        (("diff", "pod/web", *shop, "--peer", "turin"), 1, "not on turin"),
    ):
        ended = await rome.liqod(*words, check=False)
        assert (ended.status, said in ended.err) == (status, True), ended.err
    await rome.admin.delete(OVERRIDE_POLICIES, "mirror", "shop")


async def lend(milan: Site) -> None:
    """The provider's verbs."""
    await milan.liqod("cordon", "tenant", "rome")
    assert "Cordoned" in (await milan.liqod("status", "rome")).out
    await milan.liqod("uncordon", "tenant", "rome")
    slice_of = ("milan", "--remote-cluster-id", "rome")
    await milan.liqod("cordon", "resourceslice", *slice_of)
    assert "cordoned" in (await milan.liqod("status", "rome")).out
    await milan.liqod("uncordon", "resourceslice", *slice_of)
    wrong = await milan.liqod("cordon", "tenant", "turin", check=False)
    assert (wrong.status, "tenants are rome" in wrong.err) == (1, True)
    slices = ("cordon", "resourceslice", "x", "--remote-cluster-id", "turin")
    wrong = await milan.liqod(*slices, check=False)
    assert (wrong.status, "turin has no slice x" in wrong.err) == (1, True)
    refused = await milan.liqod("uninstall", "--yes", check=False)
    assert (refused.status, "peered with rome" in refused.err) == (1, True)


async def leave(rome: Site, milan: Site) -> None:
    """Everything back, naming what is deleted before it is; each of it twice."""
    for name in ("liqo", "kube-system", "liqo-tenant-milan"):
        refused = await rome.liqod("offload", "namespace", name, check=False)
        assert refused.status == 2
        assert f"the namespace {name} cannot be offloaded" in refused.err
    asked = await rome.liqod("unoffload", "namespace", "shop", check=False)
    assert (asked.status, "deletes shop-rome on milan" in asked.err) == (2, True)
    assert "say --yes" in asked.err
    await rome.liqod("unoffload", "namespace", "shop", "--yes")
    assert await milan.admin.find(NAMESPACES, "shop-rome") is None
    gone = await rome.liqod("unoffload", "namespace", "shop", "--yes")
    assert "shop is not offloaded" in gone.err
    wrong = await rome.liqod("unoffload", "namespace", "typo", "--yes", check=False)
    assert (wrong.status, "there is no namespace typo" in wrong.err) == (1, True)

    asked = await milan.liqod("drain", "tenant", "rome", check=False)
    assert (asked.status, "deletes the slice milan" in asked.err) == (2, True)
    await milan.liqod("drain", "tenant", "rome", "--yes")
    await milan.liqod("activate", "tenant", "rome")

    async def named() -> bool:
        # Activated again, milan's node comes back in a moment.
        asked = await rome.liqod("unpeer", "milan", check=False)
        return (asked.status, "VirtualNode milan" in asked.err) == (2, True)

    await eventually(named)
    left = await rome.liqod("unpeer", "milan", "--yes")
    assert "unpeered from milan" in left.out
    assert await rome.admin.find(NODES, "milan") is None
    wrong = await rome.liqod("unpeer", "typo", "--yes", check=False)
    assert (wrong.status, "there is no peer typo here" in wrong.err) == (1, True)

    async def forgotten() -> bool:
        again = await rome.liqod("unpeer", "milan", "--yes", check=False)
        return (again.status, "there is no peer milan here" in again.err) == (1, True)

    await eventually(forgotten)
    await milan.liqod("unpeer", "rome", "--yes")
    revoke = ("delete", "peering-user", "--consumer-cluster-id", "rome", "--yes")
    await milan.liqod(*revoke)
    assert "there was no peering user" in (await milan.liqod(*revoke)).out


@pytest.mark.long
async def test_no_verb_waits_for_a_daemon_that_does_not_run(tmp_path: Path):
    async with sites(tmp_path, "rome", "milan", timings=AT_ONCE) as (rome, milan):
        lease = {
            "metadata": {"name": labels.LEADER_LEASE, "namespace": "liqo"},
            "spec": {"holderIdentity": "host-1", "renewTime": "2024-01-01T00:00:00.000000Z"},
        }
        await rome.admin.create(LEASES, lease, "liqo")
        # What was renewed when it was made was renewed too long ago.
        rome.timings = CommandTimings(grace=0.0, silent_after=-1.0)
        for words in (
            ("offload", "namespace", "default"),
            ("peer", "--remote-kubeconfig", str(milan.kubeconfig)),
        ):
            ended = await rome.liqod(*words, check=False)
            assert ended.status == 1
            assert "no daemon works for this cluster: last heard of" in ended.err
        await rome.admin.delete(LEASES, labels.LEADER_LEASE, "liqo")
        rome.timings = AT_ONCE
        await rome.start()
        lease["spec"]["holderIdentity"] = ""
        await milan.admin.create(LEASES, lease, "liqo")
        administrator = ("peer", "--remote-kubeconfig", str(milan.kubeconfig))
        ended = await rome.liqod(*administrator, check=False)
        assert ended.status == 1
        assert "no daemon works for the provider: it was stopped" in ended.err
        soon = PeeringTimings(doubt_after=0.2, answers_within=0.5)
        rome.timings = CommandTimings(grace=0.0, peering=soon)
        peer = ("peer", "--remote-kubeconfig", str(await milan.user_for("rome")))
        ended = await rome.liqod(*peer, check=False)
        assert ended.status == 1
        assert "it has not answered yet" in ended.err
        assert "no daemon of the provider milan answers" in ended.err
        rome.timings = AT_ONCE
        await rome.stop()
        ended = await rome.liqod("unpeer", "milan", "--yes", check=False)
        assert (ended.status, "it was stopped" in ended.err) == (1, True)
        ended = await rome.liqod("status", "--socket", "/nowhere.sock", check=False)
        assert ended.status == 1
        assert "no daemon answers at /nowhere.sock" in ended.err
        assert "problems, worst first" in ended.out


@pytest.mark.long
async def test_status_asks_the_daemon_while_the_api_server_is_down(tmp_path: Path):
    async with sites(tmp_path, "rome", timings=AT_ONCE) as (rome,):
        await rome.start()
        where = ("--socket", str(rome.daemon.inspector))
        assert json.loads((await rome.liqod("status", "-o", "json")).out)["source"] == "resources"
        with socket.create_server(("127.0.0.1", 0)) as silent:
            frozen = tmp_path / "frozen.kubeconfig"
            address = f"https://127.0.0.1:{silent.getsockname()[1]}"
            text = re.sub(r"https://127\.0\.0\.1:\d+", address, rome.kubeconfig.read_text())
            frozen.write_text(text)
            words = ("status", "--timeout", "2", *where, "--kubeconfig", str(frozen))
            ended = await command(*words)
        assert "the API server has not answered within 1 s" in ended.err
        assert "cluster rome: daemon running, leading" in ended.out
        await rome.cluster.stop()
        ended = await rome.liqod("status", *where, check=False)
        assert ended.status == 1
        assert "the custom resources cannot be read: https://127.0.0.1:" in ended.err
        assert "this is what the daemon of rome knows" in ended.err
        assert "cluster rome: daemon running, " in ended.out
        assert "`liqod peer" not in ended.out
        whole = await rome.liqod("status", "-o", "json", *where, check=False)
        assert whole.status == 1
        seen = json.loads(whole.out)
        assert (seen["source"], seen["cluster_id"]) == ("daemon", "rome")
        assert seen["problems"][0]["what"].startswith("the custom resources cannot be read: ")
        assert seen["live"]["sentence"]

        await rome.stop()
        ended = await rome.liqod("status", *where, check=False)
        assert (ended.status, ended.out) == (1, "")
        assert "check the address in the kubeconfig" in ended.err
        assert "nor can the daemon be asked: no daemon answers at" in ended.err


@pytest.mark.long
async def test_manifests_are_printed_instead_of_applied():
    words = ("install", "--cluster-id", "rome", "-o", "yaml", "--kubeconfig", "/nowhere")
    whole = named((await command(*words, "--dry-run")).out)
    kinds = {kind for kind, _, _ in whole}
    assert {"Namespace", "CustomResourceDefinition", "ClusterRole", "RuntimeClass"} <= kinds
    assert "Service" not in kinds
    own = named((await command(*words, "--in-cluster")).out)
    assert {("Deployment", "liqo", "liqod"), ("Service", "liqo", "liqod")} <= own
    assert {("Namespace", "", "liqo-nodes"), ("DaemonSet", "liqo-nodes", "liqod-node")} <= own
    both = named((await command(*words, "--in-cluster", "--dry-run")).out)
    # Where the daemon runs elsewhere, a Deployment without pods stands for it.
    assert whole - both == {("Deployment", "liqo", STAND_IN)}
    assert both - whole == own - whole


def named(printed: str) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of each manifest, none of which is there twice."""
    made = [
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in yaml.safe_load_all(printed)
    ]
    assert len(made) == len(set(made))
    return set(made)


async def test_plugins_and_configuration_are_shown_and_checked(tmp_path: Path):
    shown = json.loads((await command("plugins", "-o", "json")).out)
    names = {one["name"] for one in shown if one["state"] == "active"}
    assert {"pods", "services", "endpointslices", "configmaps", "secrets", "manual"} <= names
    config = tmp_path / "liqod.toml"
    config.write_text('[plugins]\nblocked = ["services"]\n')
    table = (await command("plugins", "--config", str(config))).out
    assert "blocked by the configuration" in " ".join(table.split())
    good = await command("check", "--config", str(config))
    assert (good.status, good.out) == (0, f"the configuration {config} is good\n")
    defaults = await command("check")
    assert defaults.status == 0
    assert defaults.out.startswith("no file was read, since none is named")
    config.write_text("nonsense")
    wrong = await command("check", "--config", str(config))
    assert (wrong.status, "is not TOML" in wrong.err) == (2, True)


@pytest.mark.long
async def test_every_verb_has_help_with_its_name():
    whole = (await command("--help")).out
    verbs = [line.split()[0] for line in whole.partition("Commands:")[2].strip().splitlines()]
    assert {"install", "peer", "status", "drain"} <= set(verbs)
    for verb in verbs:
        ended = await command(verb, "--help")
        assert ended.status == 0
        assert ended.out.startswith(f"Usage: liqod {verb}")
    assert (await run(sys.executable, "-m", "liqod", "run", "--help")).status == 0


def test_the_page_of_commands_is_made_of_the_program():
    assert page.FILE.read_text() == page.render(), "run `python -m liqod.cli`"
