"""Attacks of a hostile provider on its consumer."""

from pathlib import Path

import pytest
import trio
import yaml

from liqod.apimachinery.kinds import NAMESPACES, NODES, SECRETS
from liqod.kube.selection import Selection
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES
from tests.simulated.borrower import eventually
from tests.simulated.members import SETTINGS, members
from tests.simulated.processes import command, sites
from tests.simulated.reflecting import SHOP, TENANT, THERE, mapped_namespace, pair


async def test_a_provider_gets_no_namespace_that_was_not_offloaded_to_it():
    async with pair() as both, trio.open_nursery() as nursery:
        for name in ("bank", "till"):
            await both.here.create(NAMESPACES, {"metadata": {"name": name}})
            await both.here.create(SECRETS, {"metadata": {"name": "vault"}}, name)
        await both.here.create(SECRETS, {"metadata": {"name": "open"}}, SHOP)
        for name in ("bank-rome", "elsewhere", "till-rome"):
            await both.there.create(NAMESPACES, mapped_namespace(name))
        wanted = {"spec": {"desiredMapping": {"till": "till-rome"}}}
        await both.here.patch(NAMESPACE_MAPS, "milan", wanted, TENANT)
        claimed = {"bank": "bank-rome", "till": "elsewhere"}
        entries = {
            name: {"remoteNamespace": remote, "phase": "Accepted"}
            for name, remote in claimed.items()
        }
        status = {"status": {"currentMapping": entries}}
        await both.here.patch(NAMESPACE_MAPS, "milan", status, TENANT, subresource="status")
        await both.start(nursery)
        await both.comes(SECRETS, "open", namespace=THERE)
        await trio.sleep(0.3)
        for remote in ("bank-rome", "elsewhere", "till-rome"):
            assert await both.there.list(SECRETS, Selection(remote)) == []
        nursery.cancel_scope.cancel()


async def test_a_trial_holds_no_more_than_a_daemon():
    async with pair() as both:
        assert both.context.informers.holdings is not None
        assert both.lender.informers.holdings is not None


@pytest.mark.long
async def test_its_grant_becomes_no_more_than_a_node_can_be():
    """Labels by which this cluster tells its nodes apart, and quantities that no node has."""
    believed = (
        SETTINGS + '\n[peer_defaults]\nbelieved_labels = ["tier", "node-role.kubernetes.io/*"]\n'
    )
    async with members("rome", "milan", settings=believed) as [rome, milan]:
        await rome.peer(milan)
        marks = {"liqo.io/remoteID": "milan", "liqo.io/remote-cluster-id": "milan"}
        meta = {
            "name": "gold",
            "labels": {**marks, "liqo.io/replication": "true"},
            "annotations": {"liqo.io/create-virtual-node": "true"},
        }
        asked = {"metadata": meta, "spec": {"class": "gold"}}
        await rome.admin.create(RESOURCE_SLICES, asked, "liqo-tenant-milan")
        live = await milan.until(
            RESOURCE_SLICES, "gold", "liqo-tenant-rome", lambda s: s.get("status", {})
        )
        accepted = {"type": "Resources", "status": "Accepted"}
        grant = {
            "resources": {"cpu": "1e30", "memory": "-1", "pods": "7", "a b": "1"},
            "nodeLabels": {
                "node-role.kubernetes.io/control-plane": "",
                "tier": "gold",
                "compliance": "pci",
            },
            "conditions": [*live["status"]["conditions"], accepted],
        }
        await milan.admin.patch(
            RESOURCE_SLICES, "gold", {"status": grant}, "liqo-tenant-rome", subresource="status"
        )
        node = await eventually(lambda: rome.admin.find(NODES, "gold"))
        assert node["status"]["capacity"] == {"cpu": "1P", "pods": "7"}

        async def labelled():
            found = (await rome.admin.get(NODES, "gold"))["metadata"]["labels"]
            return found if "tier" in found else None

        found = await eventually(labelled)
        assert "node-role.kubernetes.io/control-plane" not in found
        assert "compliance" not in found, "a provider would select itself"


@pytest.mark.parametrize("user", ["exec", "tokenFile", "client-certificate", "auth-provider"])
async def test_its_kubeconfig_runs_nothing_and_reads_nothing_here(tmp_path: Path, user: str):
    ran = tmp_path / "ran"
    evil = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", f"touch {ran}"],
            "interactiveMode": "Never",
        },
        "auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh"}},
    }.get(user, str(tmp_path / "secret"))
    (tmp_path / "secret").write_text("this cluster's own")
    async with sites(tmp_path, "rome") as (rome,):
        given = yaml.safe_load(rome.cluster.kubeconfig)
        given["users"][0]["user"] = {user: evil}
        path = tmp_path / "given"
        path.write_text(yaml.safe_dump(given))
        here = ("--kubeconfig", str(rome.kubeconfig))
        ended = await command("peer", *here, "--remote-kubeconfig", str(path))
    assert ended.status != 0
    assert "which is allowed in files only; --own-remote-kubeconfig" in ended.err
    assert not ran.exists()
