"""Where pods with claims may go, what keeps a namespace at a peer, and the rights for both."""

from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import (
    CLAIMS,
    CLUSTER_ROLES,
    NAMESPACES,
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
)
from liqod.consumer.namespaces.offloadingcontroller import OffloadingController
from liqod.consumer.timings import ConsumerTimings
from liqod.consumer.volumeprovisioner import VolumeProvisioner
from liqod.consumer.webhook.missedpods import CONDITION, MissedPods
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.consumer.webhook.timings import WebhookTimings
from liqod.errors import NotFound
from liqod.install.daemonkubeconfig import daemon_kubeconfig
from liqod.install.manifests import Options
from liqod.install.removal import uninstall
from liqod.install.verbs import install
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.model.objects import volumeclaims
from liqod.resources import NAMESPACE_OFFLOADINGS
from liqod.runtime.account import Account
from simulator import EmbeddedCluster
from simulator.controllers.volumes import SELECTED
from tests.simulated.borrower import borrower, condition, eventually, offload, peer_of, virtual_node
from tests.simulated.consumer.offloaded import answer, mapped, phase
from tests.simulated.consumer.test_claims import claim, node, of_class
from tests.simulated.consumer.test_webhook import tolerated
from tests.simulated.prepared import defined
from tests.simulated.processes import command

TEXT = '[webhook]\nport = 0\nhost = "127.0.0.1"\n[storage]\nenabled = true\n'


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("rome", state=await defined("rome")) as embedded:
        yield embedded


def pod(name: str, of: str) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": of}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


async def test_admission_knows_which_claims_follow(cluster, nursery):
    async with borrower(cluster, TEXT) as context:
        await nursery.start(OffloadingController(context).run)
        hook = PodWebhook(context, Account())
        await nursery.start(hook.run)
        await nursery.start(hook.run_as_leader)
        await offload(context.client, "shop")
        await context.client.create(CLAIMS, claim("db"), "shop")
        await context.client.create(CLAIMS, claim("nfs", spec={"storageClassName": "nfs"}), "shop")

        async def admitted():
            made = await context.client.create_full(PODS, pod("one", "db"), dry_run=True)
            return made if tolerated(made) else None

        made = await eventually(admitted)
        (term,) = made["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["key"] == "storage.liqo.io/available"
        stays = await context.client.create_full(PODS, pod("two", "nfs"), dry_run=True)
        assert not tolerated(stays)
        text = "volume data is the PersistentVolumeClaim nfs of the class nfs"
        assert text in stays["metadata"]["annotations"]["liqod.io/note"]


async def test_a_pod_waits_for_its_claim_and_is_told(cluster, nursery):
    soon = WebhookTimings(claim_again=0.1)
    async with borrower(cluster, TEXT) as context:
        await nursery.start(MissedPods(context, PodWebhook(context, Account()).doubt, soon).run)
        await offload(context.client, "shop")
        early = pod("early", "db")
        storing = {"key": "storage.liqo.io/available", "operator": "NotIn", "values": ["false"]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [storing]}]}
        early["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
        await context.client.create(PODS, early)

        async def told():
            found = condition(await context.client.get(PODS, "early", "shop"), CONDITION)
            return found.get("reason") == "ClaimMissing"

        await eventually(told)
        await context.client.create(CLAIMS, claim("db"), "shop")

        async def given():
            return tolerated(await context.client.get(PODS, "early", "shop"))

        await eventually(given)


async def test_volumes_keep_their_namespace_at_a_peer_until_they_are_deleted(
    cluster, nursery, tmp_path
):
    soon = ConsumerTimings(held_again=0.1)
    async with borrower(cluster, TEXT) as context:
        await nursery.start(OffloadingController(context, soon).run)
        await offload(context.client, "shop")
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        await mapped(context, "milan", {"shop": "shop-rome"})
        await answer(context, "milan", "shop", "shop-rome")
        await phase(context, "shop", "Ready")
        notes = {volumeclaims.PROVISIONER_NOTES[0]: "liqo.io/storage"}
        await context.client.create(CLAIMS, claim("db", annotations=notes), "shop")
        made = await context.client.get(CLAIMS, "db", "shop")
        await context.client.create(VOLUMES, volumeclaims.peer_volume(made, "milan", "Delete"))
        await context.client.delete(NAMESPACE_OFFLOADINGS, "offloading", "shop")

        async def kept():
            found = await context.client.get(NAMESPACE_OFFLOADINGS, "offloading", "shop")
            told = found["status"].get("remoteNamespacesConditions", {}).get("milan", ())
            return any("volumes of db lie there" in each.get("message", "") for each in told)

        await eventually(kept)
        await mapped(context, "milan", {"shop": "shop-rome"})
        kubeconfig = tmp_path / "rome.kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig)
        asked = ("unoffload", "namespace", "shop", "--yes", "--kubeconfig", str(kubeconfig))
        refused = await command(*asked)
        assert (refused.status, "volumes of db lie at milan, and would be lost" in refused.err) == (
            1,
            True,
        )
        await context.client.delete(CLAIMS, "db", "shop")

        async def ended():
            return await context.client.find(NAMESPACE_OFFLOADINGS, "offloading", "shop") is None

        await eventually(ended)
        await mapped(context, "milan", {})


@pytest.mark.long
async def test_the_rights_of_an_installation_with_storage_are_enough(nursery):
    async with EmbeddedCluster("rome") as rome:
        found = from_kubeconfig(rome.kubeconfig)
        async with Client(found) as admin:
            await install(admin, Options(cluster_id="rome"), print)
            with pytest.raises(NotFound):
                await admin.get(STORAGE_CLASSES, "liqo")
            await install(admin, Options(cluster_id="rome", storage=True), print)
            await install(admin, Options(), print)
            await admin.get(CLUSTER_ROLES, "liqod-storage")  # an upgrade keeps it
            own = of_class("local", annotations={volumeclaims.DEFAULT_CLASS: "true"})
            await admin.create(STORAGE_CLASSES, own)
            await admin.create(NODES, node("own"))
            data = await daemon_kubeconfig(admin, found, "liqo", "rome", print)
            daemon = EmbeddedAs(rome, data)
            async with borrower(daemon, TEXT) as context, trio.open_nursery() as nursery:
                await nursery.start(VolumeProvisioner(context).run)
                await admin.create(CLAIMS, claim("db", annotations={SELECTED: "own"}), "default")

                async def bound():
                    live = await admin.get(CLAIMS, "db", "default")
                    return live["spec"].get("volumeName")

                name = await eventually(bound)
                more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
                await admin.patch(CLAIMS, "db", more, "default")

                async def grown():
                    live = await admin.get(CLAIMS, "db", "default")
                    return live["status"]["capacity"] == {"storage": "2Gi"}

                await eventually(grown)
                await admin.delete(CLAIMS, "db", "default")

                async def gone():
                    return await admin.find(VOLUMES, name) is None

                await eventually(gone)
                nursery.cancel_scope.cancel()
            await uninstall(admin, "liqo", purge=True, progress=print)
            assert await admin.find(NAMESPACES, "liqo-storage") is None
            assert await admin.find(STORAGE_CLASSES, "liqo") is None


class EmbeddedAs:
    """A cluster as somebody else reaches it."""

    def __init__(self, cluster: EmbeddedCluster, kubeconfig: bytes) -> None:
        self.kubeconfig = kubeconfig.decode()
        self.server = cluster.server
