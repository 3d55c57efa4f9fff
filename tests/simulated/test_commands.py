"""Every verb of the command line, as a process, between two embedded clusters."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from liqod.kube.kinds import CUSTOM_RESOURCES, NAMESPACES, NODES, PODS
from liqod.model import labels
from tests.simulated.borrower import eventually
from tests.simulated.processes import Site, run, sites

CONTAINER = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}


async def peered(rome: Site, milan: Site) -> None:
    """Rome borrows from milan."""
    await rome.start()
    await milan.start()
    user = await milan.user_for("rome")
    ended = await rome.liqod("peer", "--remote-kubeconfig", str(user), "--cpu", "4", "--pods", "9")
    assert "peered: milan is the node milan here" in ended.out
    assert "wait for the virtual node milan to be Ready" in ended.err


async def test_from_installing_to_uninstalling(tmp_path: Path):
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        await peered(rome, milan)
        await rome.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        ended = await rome.liqod(
            *("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")
        )
        assert "shop → milan: shop-rome" in ended.out
        again = await rome.liqod(
            *("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")
        )
        assert again.out == ended.out
        pod = {"metadata": {"name": "web"}, "spec": {"containers": [CONTAINER]}}
        await rome.admin.create(PODS, pod, "shop")

        async def ready() -> bool:
            seen = json.loads((await rome.liqod("status", "-o", "json")).out)
            return bool(seen["nodes"]) and seen["nodes"][0]["pods_ready"] == 1

        await eventually(ready, seconds=20)
        shown = await rome.liqod("status")
        assert "daemon running as" in shown.out
        assert "milan  Provider  active  up   none (no pod addresses)" in shown.out
        logs = await rome.liqod("logs", "web", "-n", "shop")
        assert logs.out

        refused = await rome.liqod("uninstall", "--yes", check=False)
        assert refused.status == 1
        assert "milan" in refused.err
        asked = await rome.liqod("unoffload", "namespace", "shop", check=False)
        assert asked.status == 2
        assert "say --yes" in asked.err
        await rome.liqod("unoffload", "namespace", "shop", "--yes")
        assert await milan.admin.find(NAMESPACES, "shop-rome") is None
        gone = await rome.liqod("unoffload", "namespace", "shop", "--yes")
        assert "shop is not offloaded" in gone.err

        left = await rome.liqod("unpeer", "milan", "--yes")
        assert "unpeered from milan" in left.out
        assert await rome.admin.find(NODES, "milan") is None
        await milan.liqod("unpeer", "rome", "--yes")
        for site in (rome, milan):
            await site.stop()
            await site.liqod("uninstall", "--purge", "--yes")
            names = [one["metadata"]["name"] for one in await site.admin.list(CUSTOM_RESOURCES)]
            assert not [name for name in names if name.endswith("liqo.io")]
            spaces = [one["metadata"]["name"] for one in await site.admin.list(NAMESPACES)]
            assert not [name for name in spaces if name.startswith("liqo")]


async def test_the_providers_verbs(tmp_path: Path):
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        await peered(rome, milan)
        await milan.liqod("cordon", "tenant", "rome")
        assert "Cordoned" in (await milan.liqod("status", "rome")).out
        await milan.liqod("uncordon", "tenant", "rome")
        await milan.liqod("cordon", "resourceslice", "milan", "--remote-cluster-id", "rome")
        await milan.liqod("uncordon", "resourceslice", "milan", "--remote-cluster-id", "rome")
        await milan.liqod("drain", "tenant", "rome", "--yes")
        await milan.liqod("activate", "tenant", "rome")
        wrong = await milan.liqod("cordon", "tenant", "turin", check=False)
        assert (wrong.status, "tenants are rome" in wrong.err) == (1, True)
        wrong = await milan.liqod(
            *("cordon", "resourceslice", "x", "--remote-cluster-id", "turin"), check=False
        )
        assert (wrong.status, "turin has no slice x" in wrong.err) == (1, True)
        revoked = await milan.liqod(
            *("delete", "peering-user", "--consumer-cluster-id", "rome", "--yes")
        )
        assert "revoked" in revoked.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("status",), "run `liqod install"),
        (("peer", "--remote-kubeconfig", "/dev/null"), "kubeconfig"),
        (("offload", "namespace", "shop"), "there is no namespace shop"),
        (("offload", "namespace", "default", "-l", "a=b=c"), "is no requirement"),
        (("offload", "namespace", "default", "--remote-namespace-name", "x"), "SelectedName"),
        (("logs", "nothing"), "not found"),
        (("install",), "--cluster-id"),
        (("install", "--cluster-id", "Not_A_Label"), "cluster id"),
        (("status", "-o", "xml"), "use text, json, yaml"),
    ],
)
async def test_mistakes_end_in_one_sentence(tmp_path: Path, words, sentence):
    async with sites(tmp_path, "rome") as (rome,):
        await rome.liqod("uninstall", "--yes")
        ended = await rome.liqod(*words, check=False)
        assert ended.status != 0
        assert sentence in ended.err
        assert "Traceback" not in ended.err


async def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path):
    async with sites(tmp_path, "rome") as (rome,):
        await rome.cluster.stop()
        ended = await rome.liqod("status", check=False)
        assert ended.status == 1
        assert "cannot connect" in ended.err
        assert "Traceback" not in ended.err


async def test_manifests_are_printed_instead_of_applied():
    command = (sys.executable, "-m", "liqod", "install", "--cluster-id", "rome", "-o", "yaml")
    whole = await run(*command, "--dry-run", "--kubeconfig", "/nowhere")
    kinds = {one["kind"] for one in yaml.safe_load_all(whole.out)}
    assert {"Namespace", "CustomResourceDefinition", "ClusterRole", "RuntimeClass"} <= kinds
    assert "Deployment" not in kinds
    own = await run(*command, "--in-cluster", "--kubeconfig", "/nowhere")
    assert {"Deployment", "Service"} <= {one["kind"] for one in yaml.safe_load_all(own.out)}


async def test_plugins_and_configuration_are_shown_and_checked(tmp_path: Path):
    liqod = (sys.executable, "-m", "liqod")
    shown = json.loads((await run(*liqod, "plugins", "-o", "json")).out)
    names = {one["name"] for one in shown if one["state"] == "active"}
    assert {"pods", "services", "endpointslices", "configmaps", "secrets", "manual"} <= names
    config = tmp_path / "liqod.toml"
    config.write_text('[plugins]\nblocked = ["services"]\n')
    table = (await run(*liqod, "plugins", "--config", str(config))).out
    assert "blocked by the configuration" in table
    assert (await run(*liqod, "check", "--config", str(config))).status == 0
    config.write_text("nonsense")
    wrong = await run(*liqod, "check", "--config", str(config))
    assert (wrong.status, "is not TOML" in wrong.err) == (2, True)
    assert labels.LIQO_NAMESPACE == "liqo"
