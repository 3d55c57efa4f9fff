"""All that liqod has others apply, against the schemas of a real API server (by kubeconform)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from liqod.install.manifests import SHARED_KINDS, Options, printable, render
from liqod.resources.crdmanifests import crd_manifests, make_crd
from tests.cluster.test_chart import Helm
from tests.cluster.test_install import fresh
from tests.testbed import jsonschemas, programs
from tests.testbed.api import wait_until
from tests.testbed.federation import Member

pytestmark = [pytest.mark.cluster, pytest.mark.release]

ROOT = Path(__file__).parents[2]
OTHERS = ("ServiceMonitor", "PrometheusRule", "ClusterProfile", "Kustomization")
"""Kinds of other projects, whose definitions are not in the cluster."""
EVERY_SWITCH = (
    *("storage=true", "clusterProfiles=true", "replicas=2"),
    *("networkPolicy=true", "monitoring.dashboard=true", "monitoring.serviceMonitor=true"),
    "monitoring.prometheusRule=true",
)
RELEASES = {
    "nothing": (),
    "every switch": ("--set", ",".join(EVERY_SWITCH), "--api-versions", "monitoring.coreos.com/v1"),
    "without networks": ("--set", "networking.enabled=false"),
}
INSTALLATIONS = {
    "in the cluster": Options(cluster_id="rome", in_cluster=True),
    "for a daemon on a host": Options(cluster_id="rome", in_cluster=False),
    "everything": Options(
        cluster_id="rome", in_cluster=True, storage=True, cluster_profiles=True, replicas=2
    ),
    "without networks": Options(cluster_id="rome", in_cluster=True, network=False),
}
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Kubeconform:
    """kubeconform with the schemas of one cluster.

    Args:
        program: its path.
        location: of the schemas.
    """

    def __init__(self, program: str, location: Path) -> None:
        self._command = (program, "-strict", "-summary", "-schema-location", str(location))

    def complaints(self, text: str) -> str:
        """What it finds in manifests; empty where they are sound."""
        skipped = ("-skip", ",".join(OTHERS))
        answer = subprocess.run(
            [*self._command, *skipped], input=text, capture_output=True, text=True, timeout=60
        )
        assert "Summary: 0 resource" not in answer.stdout
        return "" if answer.returncode == 0 else answer.stdout + answer.stderr


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    yield from fresh("padua", 8)


@pytest.fixture(scope="module")
def kubeconform(
    member: Member, kubeconform_program: str, tmp_path_factory: pytest.TempPathFactory
) -> Kubeconform:
    """It, with the kinds of a cluster that has liqod's definitions."""
    folder = tmp_path_factory.mktemp("schemas")
    definitions = folder / "definitions.yaml"
    made = [*crd_manifests(), *map(make_crd, SHARED_KINDS)]
    definitions.write_text(render(made))
    member.plane.kubectl("apply", "--server-side", "--filename", str(definitions))
    wanted = {
        f"apis/{each['spec']['group']}/{one['name']}"
        for each in made
        for one in each["spec"]["versions"]
    }
    wait_until(
        "the schemas", lambda: wanted <= set(member.api.get("/openapi/v3")["paths"]), 30, 0.5
    )
    return Kubeconform(kubeconform_program, jsonschemas.write(member.api, folder))


@pytest.fixture(params=programs.HELMS, ids="helm{}".format)
def helm(request: pytest.FixtureRequest, helms: dict[int, str], tmp_path: Path) -> Helm:
    """Each major version of Helm."""
    return Helm(helms[request.param], tmp_path)


@pytest.mark.parametrize("case", RELEASES)
def test_a_release_has_what_the_cluster_takes(
    kubeconform: Kubeconform, helm: Helm, case: str
) -> None:
    assert kubeconform.complaints(helm.template(*RELEASES[case])) == ""


@pytest.mark.parametrize("case", INSTALLATIONS)
def test_an_installation_has_what_the_cluster_takes(kubeconform: Kubeconform, case: str) -> None:
    made = printable(INSTALLATIONS[case], crd_manifests())
    assert kubeconform.complaints(render(made)) == ""


def test_the_pages_show_what_the_cluster_takes(kubeconform: Kubeconform) -> None:
    shown = [
        (page.name, text)
        for page in PAGES
        for text in BLOCK.findall(page.read_text())
        if all({"apiVersion", "kind"} <= each.keys() for each in yaml.safe_load_all(text) if each)
    ]
    assert shown
    found = [(page, kubeconform.complaints(text)) for page, text in shown]
    assert [(page, said) for page, said in found if said] == []


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("replicas: 1", "replica: 1", "replica"),
        ("periodSeconds: 10", "periodSeconds: ten", "periodSeconds"),
        ("kind: Deployment", "kind: Deploiment", "Deploiment"),
        ("policyTypes:", "policytypes:", "policytypes"),
    ],
)
def test_what_the_cluster_does_not_take_is_found(
    kubeconform: Kubeconform, helm: Helm, before: str, after: str, named: str
) -> None:
    sound = helm.template("--set", "networkPolicy=true")
    assert before in sound
    assert named in kubeconform.complaints(sound.replace(before, after))


def test_a_field_that_a_definition_of_ours_has_not_is_found(kubeconform: Kubeconform) -> None:
    sound = """
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: shop}
spec: {podOffloadingStrategy: LocalAndRemote}
"""
    assert kubeconform.complaints(sound) == ""
    assert "podOfloadingStrategy" in kubeconform.complaints(
        sound.replace("podOffloadingStrategy", "podOfloadingStrategy")
    )
    assert "podOffloadingStrategy" in kubeconform.complaints(
        sound.replace("LocalAndRemote", "Nowhere")
    )
