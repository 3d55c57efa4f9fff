"""The labels that a cluster declares, on the Deployment in which `liqoctl info` looks for them."""

from liqod.apimachinery.kinds import DEPLOYMENTS
from liqod.clusterlabels import ClusterLabels, arguments
from liqod.install import workload
from simulator import EmbeddedCluster
from tests.simulated.borrower import Json, borrower, eventually
from tests.simulated.prepared import defined

LABELS = {"region": "north", "gpu": "yes"}
SHOWN = "--cluster-labels=gpu=yes,region=north"
SETTINGS = '[provider]\nnode_labels = {region = "north", gpu = "yes"}\n'
SERVER = "--api-server-address-override=https://rome:6443"


def test_other_arguments_stay():
    assert arguments(["run"], LABELS) == ["run", SHOWN]
    assert arguments(["run", SHOWN, "--x"], {}) == ["run", "--x"]
    assert arguments(["run", SHOWN], LABELS) == ["run", SHOWN]


async def test_they_are_shown_and_put_back_after_an_upgrade(nursery):
    async with (
        EmbeddedCluster("rome", state=await defined("rome")) as cluster,
        borrower(cluster, SETTINGS) as context,
    ):
        await nursery.start(ClusterLabels(context).run)
        stand_in = workload.stand_in("liqo", "https://rome:6443")
        await context.client.create(DEPLOYMENTS, stand_in, "liqo")

        async def container() -> Json:
            found = await context.client.get(DEPLOYMENTS, workload.STAND_IN, "liqo")
            made: Json = found["spec"]["template"]["spec"]["containers"][0]
            return made

        async def shown() -> bool:
            return bool((await container())["args"] == [SERVER, SHOWN])

        await eventually(shown)
        await context.client.patch(
            DEPLOYMENTS, workload.STAND_IN, {"spec": stand_in["spec"]}, "liqo"
        )
        await eventually(shown)
        # Its version is read from the same container.
        assert (await container())["image"].startswith("liqod:v")
