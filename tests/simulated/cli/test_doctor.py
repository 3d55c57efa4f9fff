"""``liqod doctor``, ``status`` and ``events`` answer for the cluster that the kubeconfig names."""

import json
import socket
from functools import partial
from pathlib import Path

import pytest

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CUSTOM_RESOURCES,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    PODS,
)
from liqod.apimachinery.meta import ObjectMeta
from liqod.kube import recorder as kube_events
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.definitions import name_of
from liqod.model.view import whereabouts
from liqod.resources import TENANTS
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.processes import Ended, Site, command, sites

TENANT = {labels.TENANT_NAMESPACE: labels.TRUE, labels.REMOTE_CLUSTER_ID: "milan"}


@pytest.fixture(autouse=True)
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The usual folder of sockets, of this test alone."""
    folder = tmp_path / "run" / "liqod"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder.parent))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return folder


async def start(folder: Path, *found: Site) -> None:
    """Start daemons, with sockets where all of them are looked for."""
    for site in found:
        (folder / f"{site.name}.sock").symlink_to(site.daemon.inspector)
        await site.start()


@pytest.mark.long
async def test_of_two_daemons_it_asks_that_of_the_kubeconfig(
    tmp_path: Path, usual: Path, monkeypatch: pytest.MonkeyPatch
):
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        await start(usual, rome, milan)
        for site in (rome, milan):
            monkeypatch.setenv("KUBECONFIG", str(site.kubeconfig))
            found = await command("doctor")
            assert found.out.startswith(f"cluster {site.name}, by its daemon\n"), found
            assert (
                json.loads((await command("doctor", "-o", "json")).out)["cluster_id"] == site.name
            )
            (line,) = (await command("events", "--last", "1", "-o", "json")).out.splitlines()
            assert json.loads(line)["sequence"]
        monkeypatch.delenv("KUBECONFIG")
        ended = await command("doctor")
        assert (ended.status, "several daemons run here" in ended.err) == (1, True)
        named = await command("doctor", "--cluster-id", "milan")
        assert named.out.startswith("cluster milan, ")

        # One dies, and the other does not answer for it.
        await milan.stop()
        monkeypatch.setenv("KUBECONFIG", str(milan.kubeconfig))
        await check_dead_daemon(milan)
        rome_says = await rome.liqod("doctor", check=False)
        assert rome_says.out.startswith("cluster rome, by its daemon\n")

        # Then its API server.
        await milan.cluster.stop()
        found = await command("doctor")
        assert found.status == 1
        assert found.out.startswith(f"cluster {milan.cluster.server}, by its API server alone")
        assert "this cluster: the API server fails: " in found.out
        assert "rome" not in found.out
        seen = await command("status", "--timeout", "3")
        assert (seen.status, seen.out) == (1, "")
        assert "no daemon of this machine works with it" in seen.err
        seen = await command("events")
        assert (seen.status, seen.out) == (1, "")
        assert "is not known: " in seen.err


async def check_dead_daemon(milan: Site) -> None:
    """Its Lease was released: nothing says that all is well."""
    found = await command("doctor")
    assert found.status == 1
    assert found.out.startswith("cluster milan, by its API server alone: ")
    assert "this cluster: the daemon fails: not running: " in found.out
    rows = json.loads((await command("doctor", "-o", "json")).out)["ladders"][0]["checks"]
    assert {row["layer"]: row["verdict"] for row in rows} == {
        "server": "ok",
        "installation": "ok",
        "leader": "failing",
        "webhook": "skipped",
    }
    seen = await command("status")
    assert seen.status == 1
    assert "webhook nobody answers it: the daemon does not run" in seen.out
    events = await command("events")
    assert events.status == 1
    assert "no daemon of milan has a socket here" in events.err
    assert "none works for this cluster: it was stopped" in events.err
    assert f"start `liqod run` on {socket.gethostname()}" in events.err
    assert "`liqod doctor` need the kubeconfig only" in events.err
    doctor = json.loads((await command("doctor", "-o", "json")).out)["ladders"][0]["checks"]
    (leader,) = [row for row in doctor if row["layer"] == "leader"]
    assert leader["remedy"] == f"start `liqod run` on {socket.gethostname()}"


async def test_without_a_daemon_here_events_are_those_of_objects(tmp_path: Path, usual: Path):
    async with sites(tmp_path, "rome") as (rome,):
        lease = {
            "metadata": {
                "name": labels.LEADER_LEASE,
                "annotations": whereabouts.noted(whereabouts.Whereabouts(host="rome-1")),
            },
            "spec": {"holderIdentity": "rome-1-7-a", "renewTime": times.precise()},
        }
        await rome.admin.create(LEASES, lease, "liqo")
        space = {"metadata": {"name": "liqo-tenant-milan", "labels": TENANT}}
        await rome.admin.create(NAMESPACES, space)
        meta = ObjectMeta(name="milan", namespace="liqo-tenant-milan", uid="7")
        await kube_events.record(rome.admin, TENANTS, meta, "TenantRefused", "because")
        other = {**kube_events.event(TENANTS, meta, "Other", "no", at=times.now())}
        other["source"] = {"component": "kubelet"}
        await rome.admin.create(EVENTS, other, "liqo-tenant-milan")

        ended = await rome.liqod("events", check=False)
        assert ended.status == 1
        assert "it runs on rome-1: `liqod events` there" in ended.err
        (line,) = ended.out.splitlines()
        assert "milan" in line
        assert "TenantRefused" in line
        assert line.endswith("object=Tenant liqo-tenant-milan/milan message=because")
        assert not (await rome.liqod("events", "--peer", "turin", check=False)).out
        (line,) = (await rome.liqod("events", "-o", "json", check=False)).out.splitlines()
        assert json.loads(line)["peer"] == "milan"
        assert "`liqod tasks` there" in (await rome.liqod("tasks", check=False)).err


@pytest.mark.long
async def test_while_its_own_api_server_is_down_a_daemon_says_what_it_knows(
    tmp_path: Path, usual: Path
):
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        await start(usual, rome, milan)
        await rome.cluster.stop()
        ended = await rome.liqod("doctor", check=False)
        assert ended.status == 1
        assert ended.out.startswith("cluster rome, by its daemon\n\nthis cluster: the API server f")
        seen = await rome.liqod("status", check=False)
        assert seen.status == 1
        assert "this is what the daemon of rome knows" in seen.err


@pytest.mark.long
async def test_what_is_missing_is_found_by_the_kubeconfig(tmp_path: Path, usual: Path):
    async with sites(tmp_path, "rome") as (rome,):
        await start(usual, rome)
        assert (await rome.liqod("status")).status == 0
        assert (await rome.liqod("doctor")).status == 0
        await rome.admin.delete(CUSTOM_RESOURCES, name_of(TENANTS))

        async def told() -> Ended | None:
            ended = await rome.liqod("doctor", check=False)
            return ended if ended.status else None

        ended = await eventually(told)
        assert f"the installation fails: the custom resource {name_of(TENANTS)} is mis" in ended.out
        assert "run `liqod install`" in ended.out
        assert (await rome.liqod("status", check=False)).status == 1


async def test_a_cluster_without_liqod_is_told_so(tmp_path: Path):
    async with EmbeddedCluster("oslo") as cluster:
        path = tmp_path / "oslo.kubeconfig"
        path.write_text(cluster.kubeconfig)
        ended = await command("doctor", "--kubeconfig", str(path))
        assert ended.status == 1
        named = "no cluster id in the namespace liqo → run `liqod install --cluster-id NAME`"
        assert f"the installation fails: {named}" in ended.out


@pytest.mark.long
async def test_why_the_daemons_pod_does_not_run_is_said_with_what_starts_it(tmp_path: Path):
    """Also where Helm has installed it, and nobody waits for it."""
    path = tmp_path / "oslo.kubeconfig"
    options = install.Options(cluster_id="oslo", in_cluster=True)
    async with EmbeddedCluster("oslo") as cluster, Client(from_kubeconfig(cluster.kubeconfig)) as c:
        path.write_text(cluster.kubeconfig)
        await install.install(c, options, lambda _: None)
        deployment = await c.get(DEPLOYMENTS, whereabouts.DEPLOYMENT, "liqo")
        pod = deployment["spec"]["template"]
        named = {**pod, "metadata": {**pod["metadata"], "name": "liqod-7"}}
        await c.create(PODS, named, "liqo")
        state = {"waiting": {"reason": "StartError", "message": "exec liqod: exec format error"}}
        held = {"containerStatuses": [{"name": "liqod", "state": state}]}
        await c.patch(PODS, "liqod-7", {"status": held}, "liqo", subresource="status")
        said = "liqod-7: StartError: exec liqod: exec format error; the image is not for this node"
        for words in (("doctor",), ("status",), ("offload", "namespace", "default")):
            ended = await command(*words, "--kubeconfig", str(path))
            assert ended.status == 1
            assert f"rollout status deployment liqod` ({said}" in ended.out + ended.err, words


@pytest.mark.long
async def test_a_peer_that_grants_room_for_no_pods_is_not_well(
    tmp_path: Path, usual: Path, monkeypatch: pytest.MonkeyPatch
):
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        await start(usual, rome, milan)
        user = await milan.user_for("rome")
        await rome.liqod("peer", "--remote-kubeconfig", str(user), "--cpu", "1", "--pods", "0")
        monkeypatch.setenv("KUBECONFIG", str(rome.kubeconfig))

        async def said() -> Ended | None:
            ended = await command("doctor")
            return ended if "room for no pods" in ended.out else None

        ended = await eventually(said)
        assert ended.status == 1


@pytest.mark.long
async def test_a_peers_daemon_that_was_killed_is_doubted_as_soon_as_its_lease_is_old(
    tmp_path: Path, usual: Path
):
    """By a look when somebody asks, and not by the one that is due every half a minute."""
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        await start(usual, rome, milan)
        await rome.liqod("peer", "--remote-kubeconfig", str(await milan.user_for("rome")))

        async def row() -> dict[str, str]:
            ended = await rome.liqod("doctor", "milan", "-o", "json", check=False)
            (found,) = [each for each in json.loads(ended.out)["ladders"] if each["peer"]]
            (layer,) = [each for each in found["checks"] if each["layer"] == "daemon"]
            return dict(layer)

        async def told(verdict: str) -> dict[str, str] | None:
            found = await row()
            return found if found["verdict"] == verdict else None

        found = await eventually(partial(told, "ok"))
        assert found["evidence"].startswith("it renewed its Lease within the last ")
        milan.daemon.kill()
        found = await eventually(partial(told, "failing"))
        assert found["evidence"].startswith("it did not renew its Lease for ")
        ended = await rome.liqod("status", "milan", check=False)
        assert ended.status == 1
        await milan.start()
