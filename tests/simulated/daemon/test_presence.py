"""Presence of this cluster's daemon, known by its Lease, whatever the clock of its machine says."""

import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES
from liqod.kube import leases, times
from liqod.kube.client import Client
from liqod.model.peering.intervals import LEADER_STOPS_AFTER
from tests.simulated.processes import Site, sites


def lease(ahead: float) -> dict[str, Any]:
    """One that a clock which is so many seconds ahead of ours has renewed just now."""
    at = times.seconds(times.precise()) + ahead
    renewed = times.of(at).replace("Z", ".000000Z")
    spec = {"holderIdentity": "host-1-7-a", "renewTime": renewed}
    return {"metadata": {"name": labels.LEADER_LEASE}, "spec": spec}


async def renew(admin: Client, ahead: float) -> None:
    """As a leader does."""
    while True:
        await admin.patch(LEASES, labels.LEADER_LEASE, {"spec": lease(ahead)["spec"]}, "liqo")
        await trio.sleep(1)


async def says(site: Site) -> tuple[str, str]:
    """The daemon by ``status``, and its layer by ``doctor``."""
    shown = json.loads((await site.liqod("status", "-o", "json")).out)["daemon"]
    ladder = json.loads((await site.liqod("doctor", "-o", "json", check=False)).out)["ladders"][0]
    (row,) = [each for each in ladder["checks"] if each["layer"] == "leader"]
    return shown, row["verdict"]


@pytest.mark.parametrize("told", [True, False], ids=["dates", "no dates"])
async def test_a_daemon_whose_clock_is_behind_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bool
):
    if not told:
        monkeypatch.setattr(times, "date_of", lambda header: None)
    async with sites(tmp_path, "rome") as (rome,), trio.open_nursery() as nursery:
        await rome.admin.create(LEASES, lease(-3600.0), "liqo")
        nursery.start_soon(renew, rome.admin, -3600.0)
        assert await says(rome) == ("running as host-1-7-a", "ok")
        nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_a_daemon_that_died_with_its_clock_ahead_does_not_run(tmp_path: Path):
    async with sites(tmp_path, "rome") as (rome,):
        await rome.admin.create(LEASES, lease(300.0), "liqo")
        await trio.sleep(LEADER_STOPS_AFTER)
        shown, verdict = await says(rome)
        assert shown.startswith("not running: last heard of ")
        assert verdict == "failing"


@pytest.mark.long
async def test_a_daemon_whose_socket_refuses_is_dead_at_once_unless_another_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "run" / "liqod"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder.parent))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "rome.sock"))
    async with sites(tmp_path, "rome") as (rome,), trio.open_nursery() as nursery:
        await rome.admin.create(LEASES, lease(0.0), "liqo")
        shown, verdict = await says(rome)
        assert shown.startswith(f"not running: nobody answers at {folder / 'rome.sock'}; ")
        assert verdict == "failing"
        nursery.start_soon(renew, rome.admin, 0.0)
        assert await says(rome) == ("running as host-1-7-a", "ok")
        nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_what_a_leader_renews_has_an_age_by_the_api_servers_clock(tmp_path: Path):
    async with sites(tmp_path, "rome") as (rome,):
        await rome.start()
        for _ in range(2):
            seen = await leases.look(rome.admin, labels.LEADER_LEASE, "liqo")
            assert seen is not None
            assert seen.ago is not None
            assert seen.ago <= 4.0
            await trio.sleep(2.5)
        rome.daemon.signal(signal.SIGSTOP)
        try:
            await trio.sleep(4.0)
            stopped = await leases.look(rome.admin, labels.LEADER_LEASE, "liqo")
            assert stopped is not None
            assert (stopped.ago or 0.0) >= 3.0
        finally:
            rome.daemon.signal(signal.SIGCONT)
        await rome.stop()
