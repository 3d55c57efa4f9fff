"""liqod's own images on a real kubelet: no user's, no capability, and a root that is read-only."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from liqod import __version__
from tests.testbed import ownimages
from tests.testbed.api import wait_until
from tests.testbed.node import NodeCluster

pytestmark = [pytest.mark.node, pytest.mark.release]

PODS = "/api/v1/namespaces/default/pods"
LARGEST = 100 << 20
"""Bytes of all files of an image."""
SHELLS = ("sh", "bash", "dash", "busybox", "env", "apt-get", "dpkg", "pip", "perl")
PROGRAMS = ("nft", "wireguard-go", "liqod", "kubectl-liqod")
LOOK = f"""
import ctypes, glob, importlib.metadata, json, os, shutil, ssl, sys, zoneinfo
def attempt(do):
    try:
        return do() and None
    except (OSError, ImportError) as error:
        return str(error)
libraries = [x for x in glob.glob("/usr/lib/**/*.so*", recursive=True) if os.path.isfile(x)]
import liqod.daemon, liqod.node, liqod.cli.app, tui.app
print(json.dumps(dict(
    user=[os.getuid(), os.getgid()],
    unloadable=[x for each in libraries if (x := attempt(lambda: ctypes.CDLL(each)))],
    libraries=len(libraries),
    written=attempt(lambda: open("/x", "w")),
    shells=[each for each in {SHELLS} if shutil.which(each)],
    programs=[each for each in {PROGRAMS} if shutil.which(each)],
    compiled=liqod.daemon.__cached__ is not None and os.path.exists(liqod.daemon.__cached__),
    authorities=ssl.create_default_context().cert_store_stats()["x509_ca"],
    zone=str(zoneinfo.ZoneInfo("Europe/Rome")),
    heavy=attempt(lambda: __import__("kubernetes")),
)))
"""


def pod(name: str, image: str, command: list[str]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": command,
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


@pytest.fixture
def run(
    real_node_cluster: NodeCluster, own_images: ownimages.Images
) -> Callable[[str, str, list[str]], str]:
    """Runs a command in a pod of an image, and returns its output."""
    for archive in (own_images.daemon, own_images.node):
        real_node_cluster.load(archive)
    plane = real_node_cluster.plane

    def inside(name: str, image: str, command: list[str]) -> str:
        plane.api.call("POST", PODS, pod(name, image, command))

        def phase() -> str:
            return str(plane.api.get(f"{PODS}/{name}")["status"]["phase"])

        wait_until(f"the end of {name}", lambda: phase() in ("Succeeded", "Failed"), 60)
        said = plane.kubectl("logs", name)
        assert phase() == "Succeeded", said
        return said

    return inside


@pytest.mark.parametrize(
    ("name", "image", "tools"),
    [
        ("daemon", ownimages.NAME, []),
        ("node", ownimages.OF_NODES, ["nft", "wireguard-go"]),
    ],
    ids=["daemon", "node"],
)
def test_all_of_it_works_for_nobody_on_a_root_that_is_read_only(
    run: Callable[[str, str, list[str]], str], name: str, image: str, tools: list[str]
) -> None:
    assert run(f"version-{name}", image, ["liqod", "--version"]) == f"liqod {__version__}\n"
    found = json.loads(run(f"look-{name}", image, ["python", "-c", LOOK]))
    assert found["user"] == [65532, 65532]
    assert found["libraries"] > 80
    assert found["unloadable"] == []
    assert "Read-only" in found["written"]
    assert found["shells"] == []
    assert found["programs"] == [*tools, "liqod", "kubectl-liqod"]
    assert found["compiled"]
    assert found["authorities"] > 100
    assert found["zone"] == "Europe/Rome"
    assert "No module named 'kubernetes'" in found["heavy"]


def test_a_copy_gives_the_same_images(own_images: ownimages.Images) -> None:
    assert len(own_images.made) == 4
    for one, again in own_images.made:
        assert one.read_bytes() == again.read_bytes(), one.name


@pytest.mark.parametrize("which", ["daemon", "node"])
def test_no_image_is_larger_than_it_may_be(own_images: ownimages.Images, which: str) -> None:
    archive: Path = getattr(own_images, which)
    size = 0
    for layer in ownimages.layers(archive):
        with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
            size += sum(each.size for each in opened if each.isfile())
    assert size < LARGEST
