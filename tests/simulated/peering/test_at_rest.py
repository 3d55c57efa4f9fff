"""A peering with pods and data at rest, and daemons that start anew into it."""

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICES
from liqod.plugins import loader
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import members

SETTINGS = (
    '[webhook]\nenabled = false\n[peer_defaults]\npod_network = "routed"\n'
    'pod_cidrs = ["10.0.0.0/8"]\n'
)
SETTLED = 10.0
"""Seconds after which all have written what followed from a peering and an offloading."""
READS = ("get", "list", "watch")


def writes(member):
    """Returns the numbers of a daemon's writes since it started, without Leases."""
    return {
        what: number
        for what, number in member.context.client.stats.requests.items()
        if what[0] not in READS and what[1] != "leases"
    }


def tampering(member):
    """All versions of all objects but Leases and Events: another one is a write by anybody."""
    storage = member.cluster.registry.storage
    return {
        (resource, item.namespace, item.name, item.version)
        for resource in storage.names()
        if not resource.startswith(("events", "leases"))
        for item in storage.of(resource).items()
    }


@pytest.mark.long
async def test_daemons_that_start_into_a_peering_at_rest_write_nothing():
    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", plugins=plugins, settings=SETTINGS) as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        data = {"metadata": {"name": "conf"}, "data": {"a": "b2s="}}
        await rome.admin.create(CONFIG_MAPS, data, "shop")
        await rome.admin.create(SECRETS, data, "shop")
        ports = [{"port": 80, "targetPort": 8080}]
        service = {
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": ports},
        }
        await rome.admin.create(SERVICES, service, "shop")
        tolerated = [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}]
        containers = [{"name": "web", "image": "web"}]
        spec = {"nodeName": "milan", "containers": containers, "tolerations": tolerated}
        pod = {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": spec}
        await rome.admin.create(PODS, pod, "shop")
        await eventually(lambda: milan.admin.find(PODS, "web", "shop-rome"))
        await eventually(lambda: milan.admin.find(SERVICES, "web", "shop-rome"))
        await eventually(lambda: milan.admin.find(SECRETS, "conf", "shop-rome"))
        await eventually(
            lambda: milan.admin.find(CONFIG_MAPS, "kube-root-ca.crt.rome", "shop-rome")
        )
        running = {"status": {"phase": "Running"}}
        await milan.admin.patch(PODS, "web", running, "shop-rome", subresource="status")
        await rome.until(PODS, "web", "shop", lambda found: found["status"]["phase"] == "Running")
        await trio.sleep(SETTLED)
        before = {each.id: tampering(each) for each in (rome, milan)}
        for each in (rome, milan):
            await each.stop()
            await each.start()
        await trio.sleep(4)
        assert {each.id: writes(each) for each in (rome, milan)} == {"rome": {}, "milan": {}}
        for each in (rome, milan):
            assert tampering(each) - before[each.id] == set()


@pytest.mark.long
async def test_who_only_lends_does_not_follow_its_own_pods():
    plugins = loader.load(sources=loader.built_in())
    own = {"metadata": {"name": "own"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    async with members("rome", "milan", plugins=plugins) as [rome, milan]:
        await rome.peer(milan)
        for member in (rome, milan):
            await member.admin.create(PODS, own, "default")

        async def known(member):
            followed = [each for each in member.context.informers.all() if each.kind == PODS]
            return [("default", "own") in each.store for each in followed]

        async def followed_at_home():
            return any(await known(rome))

        await eventually(followed_at_home)
        assert set(await known(milan)) == {False}  # those that are made for others
