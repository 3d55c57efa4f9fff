"""Reports of ``liqod doctor``, ``liqod status``, nodes and metrics on a cluster of the world."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.cli import clusterdiagnosis as examination
from liqod.cli import inspectorclient, live, report
from liqod.cli.clusterdiagnosis import Diagnosis
from liqod.cli.commands import doctor
from liqod.cli.report import Seen, overview
from liqod.cli.snapshotreader import take
from liqod.consumer import link
from liqod.errors import LiqodError
from liqod.inspect import metrics
from liqod.inspect.protocol import Examine
from liqod.kube.http import wire
from liqod.kube.selection import Selection
from liqod.model.view.headline import first_failing
from liqod.model.view.overview import Overview
from liqod.model.view.rows import Verdict
from liqod.model.view.state import LiveState
from tests.stateful.network import Line
from tests.stateful.site import Site

SOCKET = Path("/of/the/daemon.sock")


@dataclass
class Said:
    """The reports on one cluster.

    Attributes:
        diagnosis: by the doctor.
        view: by ``status``; None where the API server does not answer.
        nodes: of each virtual node whether it is Ready, what it says of the peer's daemon, and
            whether new pods are kept away because of that.
        metrics: by the daemon, each line.
    """

    diagnosis: Diagnosis
    view: Overview | None
    nodes: dict[str, tuple[str, str, bool]]
    metrics: tuple[str, ...]

    def first(self, peer: str = "") -> str:
        """The first layer that fails of a peer, or of the cluster itself."""
        for ladder in self.diagnosis.ladders:
            if ladder.peer == peer:
                found = first_failing(ladder)
                return found.layer if found is not None else ""
        raise AssertionError(f"there is no ladder of {peer!r}: {self.diagnosis}")

    def verdicts(self, peer: str = "") -> dict[str, Verdict]:
        """The verdict on each layer."""
        found = next(each for each in self.diagnosis.ladders if each.peer == peer)
        return {check.layer: check.verdict for check in found.checks}

    @property
    def exits(self) -> tuple[int, int]:
        """The exit status of ``doctor`` and of ``status``."""
        well = self.view is not None and self.view.well
        return int(doctor.unhealthy(self.diagnosis)), int(not well)

    def problems(self) -> list[str]:
        """Returns the problems of ``status``, each with its peer and its remedy."""
        found = self.view.problems if self.view is not None else ()
        return [f"[{each.peer}] {each.what} → {each.remedy}" for each in found]


def keep_alive(patch: pytest.MonkeyPatch) -> None:
    """Have connections in memory be acknowledged, as those of TCP are while they are idle."""
    known = wire.acknowledged

    def acknowledged(of: wire.Wire) -> float | None:
        return of.acknowledged() if isinstance(of, Line) else known(of)

    patch.setattr(wire, "acknowledged", acknowledged)
    patch.setattr(link, "acknowledged", acknowledged)


async def examine(site: Site, patch: pytest.MonkeyPatch, *, probe: bool = False) -> Said:
    """Ask everything that reports on a cluster, as the commands do.

    Args:
        site: the cluster.
        patch: puts the daemon in memory in the place of its socket.
        probe: have the daemon look anew.
    """
    process = next((each for each in site.processes if each.inspector is not None), None)

    async def asked(where: Path, cluster_id: str, ask: Examine) -> Seen:
        assert process is not None
        assert process.inspector is not None
        if probe:
            await process.inspector.doctor.probe()
        ladders = process.inspector.doctor.ladders
        found = tuple(ladders[name] for name in sorted(ladders))
        return Seen(site.name, time.time(), LiveState(), found)

    async def beside(server: str) -> Path | None:
        return SOCKET if process is not None else None

    async def of_cluster(cluster_id: str, uid: str) -> Path:
        assert (cluster_id, process is not None) == (site.name, True)
        return SOCKET

    patch.setattr(live, "see", asked)
    patch.setattr(inspectorclient, "daemon_socket", beside)
    patch.setattr(inspectorclient, "of_cluster", of_cluster)
    patch.setattr(inspectorclient, "here", lambda cluster_id="": [SOCKET] if process else [])
    found = await examination.of_cluster(site.admin, "liqo", Examine(id=1))
    try:
        view = overview(await take(site.admin, "liqo"))
        if process is not None:
            view = report.joined(view, await asked(SOCKET, "", Examine(id=1)), "")
        nodes = {each["metadata"]["name"]: _node(each) for each in await _nodes(site)}
    except LiqodError:
        view, nodes = None, {}
    shown: tuple[str, ...] = ()
    if process is not None and process.inspector is not None:
        shown = tuple(metrics.render(process.inspector, "")[0].decode().splitlines())
    return Said(found, view, nodes, shown)


async def _nodes(site: Site) -> list[dict[str, Any]]:
    selector = f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}"
    found: list[dict[str, Any]] = await site.admin.list(NODES, Selection(labels=selector))
    return found


def _node(found: dict[str, Any]) -> tuple[str, str, bool]:
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    taints = [each["key"] for each in found["spec"].get("taints") or []]
    return (
        conditions["Ready"],
        conditions.get(labels.PEER_DAEMON_READY, ""),
        labels.CLOSED_TAINT in taints,
    )
