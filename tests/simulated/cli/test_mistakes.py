"""A user's mistake ends in one sentence that says what to do and a status that is not 0; an error
that is not turned into a sentence is raised out of the command and fails the test."""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from liqod.apimachinery.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, PODS
from liqod.cli.timings import CommandTimings
from liqod.identity import certificates
from simulator import EmbeddedCluster
from tests.simulated.processes import Ended, command, sites

DAY = 86400.0


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def is_a_sentence(ended: Ended) -> bool:
    """True if it failed with one line of liqod's after the lines about its progress."""
    lines = [line for line in ended.err.splitlines() if not line.startswith("  ")]
    usage = lines[:1] and lines[0].startswith("Usage:")
    return ended.status != 0 and bool(usage or (len(lines) == 1 and lines[0].startswith("liqod: ")))


def unusable(cluster: EmbeddedCluster) -> dict[str, tuple[bytes, str]]:
    """Kubeconfigs by what is wrong with them, each with what is said of it."""

    def kubeconfig(change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> bytes:
        made = yaml.safe_load(cluster.kubeconfig)
        change(made["clusters"][0]["cluster"], made["users"][0]["user"])
        return yaml.safe_dump(made).encode()

    def client(days: float) -> bytes:
        pair = certificates.make_client(
            cluster.ca, "old", ("system:masters",), now=time.time() + days * DAY, life=DAY
        )
        cert, key = base64_of(pair.certificate), base64_of(pair.key)
        return kubeconfig(
            lambda _, user: user.update({"client-certificate-data": cert, "client-key-data": key})
        )

    authority = base64_of(certificates.make_ca("another").certificate)
    return {
        "binary": (bytes(range(256)), "not a kubeconfig"),
        "empty": (b"", "not a kubeconfig"),
        "text": (b"hello", "not a kubeconfig"),
        "wrong authority": (
            kubeconfig(lambda place, _: place.update({"certificate-authority-data": authority})),
            "certificate",
        ),
        "no authority": (
            kubeconfig(lambda place, _: place.pop("certificate-authority-data")),
            "certificate",
        ),
        "unreachable": (
            kubeconfig(lambda place, _: place.update(server="https://127.0.0.1:1")),
            "https://127.0.0.1:1: cannot connect",
        ),
        "no such host": (
            kubeconfig(lambda place, _: place.update(server="https://nowhere.invalid")),
            "nowhere.invalid",
        ),
        "no rights": (cluster.kubeconfig_for("bob").encode(), "use a kubeconfig whose user"),
        "token": (cluster.kubeconfig_with_token("x").encode(), "credentials"),
        "expired": (client(-9), "credentials"),
    }


@pytest.mark.long
async def test_kubeconfigs_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    async with sites(tmp_path, "rome") as (rome,):
        cluster = rome.cluster

        for name, (content, sentence) in unusable(cluster).items():
            path = tmp_path / name
            path.write_bytes(content)
            ended = await command("install", "--cluster-id", "a", "--kubeconfig", str(path))
            assert is_a_sentence(ended), (name, ended)
            assert sentence in ended.err, (name, ended)
        for path, sentence in ((tmp_path, "Is a directory"), (tmp_path / "no", "No such file")):
            for here, there in ((rome.kubeconfig, path), (path, rome.kubeconfig)):
                ended = await command(
                    *("peer", "--kubeconfig", str(here), "--remote-kubeconfig", str(there))
                )
                assert is_a_sentence(ended), ended
                assert sentence in ended.err
        ended = await rome.liqod("status", "--context", "paris", check=False)
        assert is_a_sentence(ended)
        assert "there is no context 'paris'; there are: rome" in ended.err
        await cluster.stop()
        ended = await rome.liqod("status", check=False)
        assert is_a_sentence(ended)
        assert "cannot connect" in ended.err


async def test_status_names_what_its_user_may_not_read(tmp_path: Path):
    async with sites(tmp_path, "rome") as (rome,):
        some = [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        ]
        await rome.admin.create(CLUSTER_ROLES, {"metadata": {"name": "some"}, "rules": some})
        await rome.admin.create(
            CLUSTER_ROLE_BINDINGS,
            {
                "metadata": {"name": "some"},
                "subjects": [{"kind": "User", "name": "bob", "apiGroup": CLUSTER_ROLES.group}],
                "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": "some"},
            },
        )
        bob = tmp_path / "bob.kubeconfig"
        bob.write_text(rome.cluster.kubeconfig_for("bob"))
        ended = await command("status", "--kubeconfig", str(bob))
        assert ended.status == 1, ended
        unread = "foreignclusters, resourceslices, tenants, virtualnodes, namespaceoffloadings"
        assert f"this is not all: {unread}" in ended.out
        assert "no peers yet" not in ended.out
        ended = await command("status", "milan", "--kubeconfig", str(bob))
        assert "there is no peer" not in ended.err


INSTALLED = [
    (("status", "turin"), "there is no peer turin"),
    (("doctor", "turin"), "there is no peer turin; `liqod status` lists them"),
    (("offload", "shop"), "There is: liqod offload namespace"),
    (("status", "-o", "xml"), "use text, json, yaml"),
    (("status", "--timeout", "soon"), "--timeout"),
    (("peer",), "--remote-kubeconfig"),
    (("peer", "--remote-kubeconfig", "/dev/null"), "kubeconfig"),
    (("peer", "--remote-kubeconfig", "x", "--cpu", "lots"), "'lots' is no quantity for cpu"),
    (("peer", "--remote-kubeconfig", "x", "--cpu", "-4"), "'-4' is no quantity for cpu"),
    (("peer", "--remote-kubeconfig", "x", "--resource", "gpu"), "write name=quantity"),
    (("peer", "--remote-kubeconfig", "x", "--resource-slice", "A_b"), "A_b"),
    (("peer", "milan", "--resource-slice-class", "gold"), "is for --remote-kubeconfig"),
    (("peer", "milan", "--no-create-virtual-node"), "is for --remote-kubeconfig"),
    (("peer", "milan", "--no-create-resource-slice"), "is for --remote-kubeconfig"),
    (("generate", "peering-user", "--consumer-cluster-id", "Not_A_Label"), "cluster id"),
    (("generate", "peering-user", "--consumer-cluster-id", "rome"), "own id"),
    (("offload", "namespace", "shop"), "there is no namespace shop"),
    (("offload", "namespace", "default"), "start `liqod run`"),
    (("offload", "namespace", "default", "-l", "a=b=c"), "is no requirement"),
    (("offload", "namespace", "default", "--remote-namespace-name", "x"), "SelectedName"),
    (("logs", "nothing"), "there is no pod nothing in the namespace default"),
    (("logs", "nothing", "-n", "nowhere"), "there is no namespace nowhere"),
    (("logs", "web"), "on no node yet, not on a peer"),
    (("cordon", "tenant", "turin"), "nobody borrows from this cluster"),
    (("drain", "tenant", "turin", "--yes"), "there is no tenant turin"),
    (("install", "--cluster-id", "other"), "this cluster's id is rome"),
    (("install", "--write-kubeconfig", "/nowhere/file"), "cannot write /nowhere/file"),
    (("install", "--write-kubeconfig", "/"), "cannot write /"),
    (("install", "--replicas", "0"), "--replicas"),
    (("doctor", "--bundle", "/nowhere/file.tar.gz"), "cannot write /nowhere/file.tar.gz"),
    (("uninstall",), "say --yes"),
    (("conquer",), "No such command"),
]
NOT_INSTALLED = [
    (("status",), "run `liqod install"),
    (("peer", "--remote-kubeconfig", "ADMIN"), "run `liqod install"),
    (("offload", "namespace", "default"), "run `liqod install"),
    (("generate", "peering-user", "--consumer-cluster-id", "milan"), "run `liqod install"),
    (("install",), "--cluster-id"),
    (("install", "--cluster-id", "Not_A_Label"), "cluster id"),
]


@pytest.mark.long
async def test_mistakes_end_in_one_sentence(tmp_path: Path):
    async with sites(tmp_path, "rome", timings=CommandTimings(grace=0.0)) as (rome,):
        never = {"nodeSelector": {"a": "b"}, "containers": [{"name": "web", "image": "nginx"}]}
        await rome.admin.create(PODS, {"metadata": {"name": "web"}, "spec": never}, "default")
        for words, sentence in INSTALLED:
            ended = await rome.liqod(*words, check=False)
            assert is_a_sentence(ended), (words, ended)
            assert sentence in ended.err, (words, ended)
        for _ in range(2):
            await rome.liqod("uninstall", "--purge", "--yes")
        for words, sentence in NOT_INSTALLED:
            filled = [str(rome.kubeconfig) if word == "ADMIN" else word for word in words]
            ended = await rome.liqod(*filled, check=False)
            assert is_a_sentence(ended), (words, ended)
            assert sentence in ended.err, (words, ended)
