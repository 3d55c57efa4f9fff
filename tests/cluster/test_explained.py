"""What `liqod explain` says of pods, and where the stock scheduler then binds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.testbed.clusters import Clusters
from tests.testbed.errors import Missing
from tests.testbed.federation import Member
from tests.testbed.workloads import CONTAINER, core, pod

pytestmark = pytest.mark.cluster

TOLERANT = [{"operator": "Exists"}]
REGION = {"nodeSelector": {"example.org/region": "nowhere"}}


def sized(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return pod(name, containers=[{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}], **more)


def near(kind: str, app: str) -> dict[str, Any]:
    """A required rule about pods of an app on the same node."""
    selector = {"matchLabels": {"app": app}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


SPREAD = {
    "topologyKey": "kubernetes.io/hostname",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
}

ANY = {**SPREAD, "nodeAffinityPolicy": "Ignore", "labelSelector": {}}


def placed(rome: Member, here: str, asked: list[dict[str, Any]], folder: Path) -> dict[str, str]:
    """The nodes that pods are bound to, one after another, each as it was explained before."""
    found: dict[str, str] = {}
    for body in asked:
        name = body["metadata"]["name"]
        file = folder / f"{name}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **body}))
        said = rome.liqod("explain", "-f", str(file), "-n", here, "-o", "json", check=False)
        nodes = {each["node"]: each["goes"] for each in json.loads(said.stdout)[0]["nodes"]}
        rome.create(core(here, "pods"), body)

        def decided(one: dict[str, Any]) -> bool:
            conditions = one.get("status", {}).get("conditions") or ()
            scheduled = [each for each in conditions if each["type"] == "PodScheduled"]
            return bool(one["spec"].get("nodeName") or scheduled)

        made = rome.comes_to(core(here, "pods", name), decided, 60)
        node = found[name] = made["spec"].get("nodeName", "")
        assert any(nodes.values()) == bool(node), (name, nodes)
        assert not node or nodes[node], (name, nodes)
    return found


def test_a_stock_scheduler_does_what_was_explained(peered: Clusters, tmp_path: Path) -> None:
    rome = peered.rome
    here = peered.namespace(rome)
    rome.liqod("offload", "namespace", here, "--pod-offloading-strategy", "Remote")
    asked = [
        sized("small", "100m"),
        sized("large", "3"),
        sized("larger", "900"),
        sized("elsewhere", "100m", **REGION),
        sized("tolerant", "100m", tolerations=TOLERANT),
    ]
    assert placed(rome, here, asked, tmp_path) == {
        "small": "milan",
        "large": "milan",
        "larger": "",
        "elsewhere": "",
        "tolerant": "milan",
    }


@pytest.mark.placement
def test_it_does_so_beside_other_pods_and_volumes(peered: Clusters, tmp_path: Path) -> None:
    rome = peered.rome
    here = peered.namespace(rome)
    rome.liqod("offload", "namespace", here, "--pod-offloading-strategy", "Remote")
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "none"}}
    asked = [
        sized("small", "100m"),
        sized("beside", "100m", **near("podAffinity", "small")),
        sized("apart", "100m", **near("podAntiAffinity", "small")),
        sized("lonely", "100m", **near("podAffinity", "nobody")),
        sized("first", "100m", **near("podAffinity", "first")),
        sized("alone", "100m", **near("podAntiAffinity", "late")),
        sized("late", "100m"),
        sized("even", "100m", topologySpreadConstraints=[SPREAD]),
        sized(
            *("skewed", "100m"),
            topologySpreadConstraints=[{**SPREAD, "nodeAffinityPolicy": "Ignore"}],
        ),
        sized("any", "100m", topologySpreadConstraints=[ANY]),
        sized("wide", "100m", topologySpreadConstraints=[{**SPREAD, "minDomains": 2}]),
        sized("claiming", "100m", volumes=[claim]),
    ]
    there = [name for name, node in placed(rome, here, asked, tmp_path).items() if node]
    assert there == ["small", "beside", "first", "alone", "even", "any"]


HOST = "kubernetes.io/hostname"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture
def by_hand(peered: Clusters) -> Iterator[Callable[[str, str], str]]:
    """Makes volumes on a node, of a class whose volumes are bound when a pod comes."""
    rome, made = peered.rome, list[str]()
    late = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": LATE}
    rome.create(CLASSES, {"metadata": {"name": "by-hand"}, **late})

    def make(name: str, node: str) -> str:
        rule = {"key": HOST, "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "storageClassName": "by-hand",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": terms},
        }
        rome.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})
        made.append(name)
        return name

    yield make
    for name in made:
        rome.api.call("DELETE", f"{VOLUMES}/{name}")
        with suppress(Missing):
            rome.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
    rome.api.call("DELETE", f"{CLASSES}/by-hand")


LATE = "WaitForFirstConsumer"


@pytest.mark.placement
def test_it_does_so_with_volumes_on_nodes(
    peered: Clusters, by_hand: Callable[[str, str], str], tmp_path: Path
) -> None:
    rome = peered.rome
    here = peered.namespace(rome)

    def using(name: str, storage: str = "1Gi", volume: str = "", of: str = "by-hand") -> Any:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "resources": {"requests": {"storage": storage}},
            **({"volumeName": volume} if volume else {}),
        }
        rome.create(
            core(here, "persistentvolumeclaims"), {"metadata": {"name": name}, "spec": spec}
        )
        if volume:
            path = core(here, "persistentvolumeclaims", name)
            rome.comes_to(path, lambda found: found["status"]["phase"] == "Bound", 60)
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        return sized(name, "100m", volumes=[claim])

    bound = using("bound", volume=by_hand(f"{here}-a", "rome-0"))
    away = using("away", volume=by_hand(f"{here}-b", "elsewhere"))
    by_hand(f"{here}-c", "rome-0")
    found = placed(rome, here, [bound, away, using("large", "5Gi"), using("late")], tmp_path)
    assert found == {"bound": "rome-0", "away": "", "large": "", "late": "rome-0"}
    # The last volume on this node has a claim now; one that no node has is left for another.
    by_hand(f"{here}-d", "elsewhere")
    more = [using("second"), using("none", of="no-such-class")]
    assert placed(rome, here, more, tmp_path) == {"second": "", "none": ""}
