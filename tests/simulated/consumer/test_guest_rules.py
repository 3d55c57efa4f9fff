"""Restrictions for guests reach the consumer, which keeps such pods in its own cluster."""

import msgspec
import pytest

from liqod.apimachinery.kinds import PODS
from liqod.apimachinery.labels import VIRTUAL_NODE_TAINT
from liqod.consumer.webhook.missedpods import CONDITION, MissedPods
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.model.crossing import guestrules
from liqod.resources import OVERRIDE_POLICIES, RESOURCE_SLICES
from liqod.runtime.account import Account
from tests.simulated.borrower import condition, eventually, offload
from tests.simulated.members import SETTINGS, members

AT_ROME = "liqo-tenant-milan"
NOTE = "liqod.io/guest-rules"
NFS = {"name": "v", "nfs": {"server": "10.0.0.1", "path": "/"}}
SMALLER = {
    "metadata": {"name": "modest"},
    "spec": {"objects": [{"kind": "Pod", "names": ["modest"]}], "requests": {"cpu": "1"}},
}
"""A policy by which one pod asks for less at peers than here."""


def pod(name, **spec):
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "nodeSelector": {"liqo.io/type": "virtual-node"},
            **spec,
        },
    }


@pytest.mark.long
async def test_a_pod_that_the_provider_always_refuses_is_not_sent_there(nursery):
    settings = SETTINGS + '[guests]\nvolumes = ["emptyDir", "secret", "projected"]\n'
    async with members("rome", "milan", settings=settings, nodes=1) as [rome, milan]:
        await rome.peer(milan)
        found = await rome.until(
            *(RESOURCE_SLICES, "milan", AT_ROME),
            lambda f: '"cpu"' in f["metadata"]["annotations"].get(NOTE, ""),
        )
        rules = guestrules.parse(found["metadata"]["annotations"][NOTE])
        volumes = ("emptyDir", "secret", "projected")
        assert rules is not None
        assert {"cpu", "memory", "pods"} <= rules.machines[0].keys()
        others = msgspec.structs.replace(rules, machines=())
        assert others == guestrules.Rules(
            "baseline", volumes, ("default",), (), waiting_gives_way=True
        )
        await nursery.start(MissedPods(rome.context, PodWebhook(rome.context, Account()).doubt).run)
        await offload(rome.admin, "shop")
        await rome.admin.create(PODS, pod("nfs", volumes=[NFS]), "shop")
        await rome.admin.create(PODS, pod("plain"), "shop")
        huge = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4000"}}}
        await rome.admin.create(OVERRIDE_POLICIES, SMALLER, "shop")
        await rome.admin.create(PODS, pod("huge", containers=[huge]), "shop")
        await rome.admin.create(PODS, pod("modest", containers=[huge]), "shop")

        async def told(name="nfs"):
            return condition(await rome.admin.get(PODS, name, "shop"), CONDITION) or None

        large = await eventually(lambda: told("huge"))
        assert "no machine has cpu 4k, which no provider takes" in large["message"]
        why = await eventually(told)
        assert (why["status"], why["reason"]) == ("False", "NotLent")
        assert "volume v is of type nfs, which no provider takes" in why["message"]

        async def tolerated(name):
            spec = (await rome.admin.get(PODS, name, "shop"))["spec"]
            return any(each.get("key") == VIRTUAL_NODE_TAINT for each in spec["tolerations"])

        await eventually(lambda: tolerated("plain"))
        await eventually(lambda: tolerated("modest"))
        assert not await tolerated("nfs")
        assert not await tolerated("huge")
        nursery.cancel_scope.cancel()
