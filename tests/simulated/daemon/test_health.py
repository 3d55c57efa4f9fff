"""What probes get of a daemon under faults: an API server that is gone, and a webhook of no use."""

import http.client
from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, SECRETS
from liqod.kube import times
from tests.simulated.borrower import eventually
from tests.simulated.processes import sites
from tests.testbed.daemon import Daemon
from tests.testbed.processes import free_ports

SECONDS = 60.0


def probe(daemon: Daemon, path: str) -> tuple[int, str]:
    """Status and words."""
    port = daemon.settings["health"]["port"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


async def is_ready(daemon: Daemon, status: int, text: str) -> bool:
    """True if that is its readiness, while it lives all the same."""
    try:
        live, _ = await trio.to_thread.run_sync(probe, daemon, "/healthz")
        ready, said = await trio.to_thread.run_sync(probe, daemon, "/readyz")
    except ConnectionRefusedError:
        return False  # it has only begun
    assert live == 200
    return ready == status and text in said


@pytest.mark.long
async def test_a_dead_api_server_makes_no_daemon_begin_anew(tmp_path: Path):
    async with sites(tmp_path, "rome") as (rome,):
        (port,) = free_ports(1)
        rome.daemon.settings["health"] = {"port": port}
        await rome.start()
        await eventually(lambda: is_ready(rome.daemon, 200, "leading"), seconds=SECONDS)
        began = rome.daemon.child
        await rome.cluster.stop()
        await eventually(lambda: is_ready(rome.daemon, 503, "waiting: "), seconds=SECONDS)
        await rome.cluster.start()
        await eventually(lambda: is_ready(rome.daemon, 200, "leading"), seconds=SECONDS)
        assert rome.daemon.child is began
        assert began is not None
        began.check()


@pytest.mark.long
async def test_a_standby_without_its_api_server_is_not_ready(tmp_path: Path):
    """It does not know who leads, and its webhook would answer by what was true before."""
    async with sites(tmp_path, "rome") as (rome,):
        await rome.start()
        (port,) = free_ports(1)
        health = {"health": {"port": port}}
        standby = Daemon("rome-2", rome.daemon.kubeconfig, tmp_path, health)
        try:
            standby.launch()
            await eventually(lambda: is_ready(standby, 200, "standing by; "), seconds=SECONDS)
            await rome.cluster.stop()
            await eventually(lambda: is_ready(standby, 503, "waiting: "), seconds=SECONDS)
            await rome.cluster.start()
            # Either may lead from here on.
            await eventually(lambda: is_ready(standby, 200, ""), seconds=SECONDS)
        finally:
            standby.close()


@pytest.mark.long
async def test_a_replica_without_the_webhooks_certificate_is_not_ready(tmp_path: Path):
    """It stands by for a leader that has made none: then the Service is not to choose it."""
    async with sites(tmp_path, "rome") as (rome,):
        (port,) = free_ports(1)
        rome.daemon.settings["health"] = {"port": port}
        lease = {
            "metadata": {"name": labels.LEADER_LEASE},
            "spec": {
                "holderIdentity": "somebody",
                "leaseDurationSeconds": 15,
                "renewTime": times.precise(),
            },
        }
        await rome.admin.create(LEASES, lease, "liqo")
        rome.daemon.launch()
        why = "somebody leads; its webhook has no certificate yet"
        await eventually(lambda: is_ready(rome.daemon, 503, why), seconds=SECONDS)
        # Nobody renews the Lease: it leads itself then, and makes one.
        await eventually(lambda: is_ready(rome.daemon, 200, "leading"), seconds=SECONDS)
        assert await rome.admin.find(SECRETS, labels.WEBHOOK_SECRET, "liqo") is not None
