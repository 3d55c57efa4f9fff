"""`liqod peer` names the workloads that the new virtual node hurts."""

from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import DEPLOYMENTS, NAMESPACES
from liqod.apimachinery.labels import SCHEDULING_ENABLED
from tests.simulated.meeting import lead, meeting, run


def spread(name: str) -> dict[str, Any]:
    marks = {"app": name}
    constraint = {
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "maxSkew": 1,
        "labelSelector": {"matchLabels": marks},
    }
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "topologySpreadConstraints": [constraint],
    }
    template = {"metadata": {"labels": marks}, "spec": spec}
    selector = {"matchLabels": marks}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": selector, "template": template},
    }


@pytest.mark.long
async def test_who_counts_the_new_node_is_named(tmp_path: Path, nursery: trio.Nursery) -> None:
    async with meeting("rome", "milan", nodes=1) as [rome, milan]:
        offloaded = {"name": "shop", "labels": {SCHEDULING_ENABLED: "true"}}
        await rome.admin.create(NAMESPACES, {"metadata": offloaded})
        for namespace in ("default", "shop"):
            await rome.admin.create(DEPLOYMENTS, spread("web"), namespace)
        await nursery.start(lead, rome)
        line = (await run(milan, tmp_path, "invite", "--cpu", "1")).out.strip()
        peered = await run(rome, tmp_path, "peer", line, "--cpu", "1")
        assert peered.status == 0
        assert "warning: the node milan counts for the spread of Deployment default/web" in (
            peered.err
        )
        assert "shop/web" not in peered.err
