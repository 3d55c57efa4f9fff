"""What `liqod explain` says of pods, and where the stock scheduler then binds them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.testbed.clusters import Clusters
from tests.testbed.workloads import CONTAINER, core, pod

pytestmark = pytest.mark.cluster

TOLERANT = [{"operator": "Exists"}]
REGION = {"nodeSelector": {"example.org/region": "nowhere"}}


def sized(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return pod(name, containers=[{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}], **more)


def test_a_stock_scheduler_does_what_was_explained(peered: Clusters, tmp_path: Any) -> None:
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
    placed: dict[str, str | None] = {}
    for body in asked:
        name = body["metadata"]["name"]
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **body}))
        said = rome.liqod("explain", "-f", str(file), "-n", here, "-o", "json", check=False)
        nodes = {each["node"]: each["goes"] for each in json.loads(said.stdout)[0]["nodes"]}
        rome.create(core(here, "pods"), body)

        def decided(one: dict[str, Any]) -> bool:
            conditions = one.get("status", {}).get("conditions") or ()
            scheduled = [each for each in conditions if each["type"] == "PodScheduled"]
            return bool(one["spec"].get("nodeName") or scheduled)

        found = rome.comes_to(core(here, "pods", name), decided, 60)
        node = placed[name] = found["spec"].get("nodeName")
        assert any(nodes.values()) == bool(node), (name, nodes)
        assert node is None or nodes[node], (name, nodes)
    assert placed == {
        "small": "milan",
        "large": "milan",
        "larger": None,
        "elsewhere": None,
        "tolerant": "milan",
    }
