"""Names and quantities at and past their limits: right work, or a clear refusal."""

import logging
from pathlib import Path
from typing import Any

import pytest

from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.resources import RESOURCE_SLICES
from tests.simulated.borrower import eventually
from tests.simulated.meeting import run
from tests.simulated.members import AT_ROME, members
from tests.simulated.shops import is_ready

pytestmark = pytest.mark.long

FEW = 24
"""Lines of both daemons about five slices, of which two are denied."""


async def test_names_that_overflow(tmp_path: Path) -> None:
    async with members("rome", "milan", leads=True) as [rome, milan]:
        await rome.peer(milan)
        fits, too_long, longest = "n" * 58, "n" * 59, "n" * 63
        for name in (fits, too_long, longest):
            await rome.admin.create(NAMESPACES, {"metadata": {"name": name}})
        offload = ("offload", "namespace")
        done = await run(rome, tmp_path, *offload, fits)
        assert done.status == 0, done.err
        assert await milan.admin.find(NAMESPACES, f"{fits}-rome") is not None
        refused = await run(rome, tmp_path, *offload, too_long)
        assert refused.status != 0
        assert "has 64 characters; 63 are allowed" in " ".join(refused.out.split())
        same = ("--namespace-mapping-strategy", "EnforceSameName")
        done = await run(rome, tmp_path, *offload, longest, *same)
        assert done.status == 0, done.err
        assert await milan.admin.find(NAMESPACES, longest) is not None


async def test_slices_that_ask_for_the_absurd(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "liqod")
    marks = {
        "liqo.io/replication": "true",
        "liqo.io/remoteID": "milan",
        "liqo.io/remote-cluster-id": "milan",
    }
    wishes: dict[str, dict[str, Any]] = {
        "huge": {"cpu": "1Ei", "memory": "1e30", "pods": "9223372036854775807"},
        "vast": {"cpu": "1Ei", "memory": "1e30"},
        "none": {"cpu": "0", "memory": "0", "pods": "0"},
        "negative": {"cpu": "-1"},
        "nonsense": {"cpu": "1", "Not A Resource!": "1"},
    }
    async with members("rome", "milan", leads=True) as [rome, milan]:
        await rome.peer(milan)
        caplog.clear()
        for name, wish in wishes.items():
            metadata: dict[str, Any] = {"name": name, "labels": marks}
            metadata["annotations"] = {"liqo.io/create-virtual-node": "true"}
            spec = {"class": "default", "providerClusterID": "milan", "resources": wish}
            await rome.admin.create(RESOURCE_SLICES, {"metadata": metadata, "spec": spec}, AT_ROME)
        for name in ("vast", "none", "nonsense"):
            await rome.until(NODES, name, None, is_ready)
        none = await rome.admin.get(NODES, "none")
        assert none["status"]["allocatable"]["cpu"] == "0"
        # A real API server takes no Node with such a name.
        nonsense = await rome.admin.get(NODES, "nonsense")
        assert "Not A Resource!" not in nonsense["status"]["allocatable"]

        async def told() -> bool:
            shown = " ".join((await run(rome, tmp_path, "status")).out.split())
            denied = "slice negative denied: negative quantities: cpu" in shown
            return denied and "slice huge denied: one consumer may have pods 10k" in shown

        await eventually(told)
        assert await rome.admin.find(NODES, "huge") is None
        assert await rome.admin.find(NODES, "negative") is None
        for name in wishes:
            await rome.admin.delete(RESOURCE_SLICES, name, AT_ROME)
        for name in wishes:
            await rome.gone(NODES, name)
        lines = [each.getMessage() for each in caplog.records]
        assert len(lines) < FEW, "\n".join(lines)
