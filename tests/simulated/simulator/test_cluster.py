"""Embedded clusters as such: life, faults, memory of the past, silent nodes."""

import logging

import pytest
import trio

from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    DAEMON_SETS,
    ENDPOINT_SLICES,
    LEASES,
    NODES,
    PODS,
    SERVICES,
    Kind,
)
from liqod.errors import Expired, Invalid, Overloaded, Unreachable
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from simulator import EmbeddedCluster, Fault, builtins
from tests.contract.api import eventually


def config(name):
    return {"metadata": {"name": name, "namespace": "default"}}


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("rome", history=20) as found:
        yield found


@pytest.fixture
async def client(cluster):
    async with Client(from_kubeconfig(cluster.kubeconfig), deadline=3.0) as found:
        yield found


async def test_starts_fast_and_keeps_its_state_over_a_restart():
    begun = trio.current_time()
    async with EmbeddedCluster("rome", nodes=2, pod_cidr="10.9.0.0/16") as cluster:
        assert trio.current_time() - begun < 1.0
        async with Client(from_kubeconfig(cluster.kubeconfig)) as client:
            await client.create(CONFIG_MAPS, config("a"))
            before = await client.get(CONFIG_MAPS, "a", "default")
            server = cluster.server
            await cluster.restart()
            assert cluster.server == server
            assert await client.get(CONFIG_MAPS, "a", "default") == before
            nodes = await client.list(NODES)
            assert [each["metadata"]["name"] for each in nodes] == ["rome-node-1", "rome-node-2"]
            assert nodes[1]["spec"]["podCIDR"] == "10.9.1.0/24"


async def test_stopped_server_refuses_connections(cluster, client):
    await cluster.stop()
    with pytest.raises(Unreachable):
        await client.get(CONFIG_MAPS, "a", "default")
    await cluster.start()
    await client.create(CONFIG_MAPS, config("a"))


async def test_other_identities(cluster):
    async with Client(from_kubeconfig(cluster.kubeconfig_for("eve", ("x",)))) as client:
        answer = await client.create_full(
            _kind("SelfSubjectReview", "selfsubjectreviews"), {"metadata": {}}
        )
    info = answer["status"]["userInfo"]
    assert (info["username"], info["groups"]) == ("eve", ["x", "system:authenticated"])


def _kind(name, plural):
    return Kind("authentication.k8s.io", "v1", name, plural, namespaced=False)


async def test_watch_from_too_far_back(cluster, client):
    for number in range(30):
        await client.create(CONFIG_MAPS, config(f"c{number}"))
    async with client.watch(CONFIG_MAPS, Selection("default"), resource_version="5") as watch:
        with pytest.raises(Expired, match="too old resource version"):
            await watch.next(2)


async def test_answers_on_purpose(cluster, client):
    for status, error in ((410, Expired), (500, Overloaded), (429, Overloaded)):
        with cluster.faults.during(Fault(verb="get", path="configmaps", status=status)) as fault:
            with pytest.raises(error):
                await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")
            assert fault.hits
    assert await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")


async def test_used_up_fault_is_retried_through(cluster, client):
    cluster.faults.add(Fault(verb="get", status=503, times=1))
    assert await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")
    cluster.faults.add(Fault(verb="get", drop=True, times=1))
    assert await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")


async def test_delay(cluster, client):
    cluster.faults.add(Fault(verb="get", delay=0.2, times=1))
    begun = trio.current_time()
    await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")
    assert trio.current_time() - begun >= 0.2


async def test_silence_and_frost(cluster, client):
    with cluster.faults.during(Fault(path="configmaps", silent=True)), pytest.raises(Unreachable):
        await client.raw("GET", "/api/v1/namespaces/default/configmaps", deadline=0.3)
    cluster.faults.freeze()
    with pytest.raises(Unreachable):
        await client.raw("GET", "/livez", deadline=0.3)
    async with Client(from_kubeconfig(cluster.kubeconfig)) as other:
        with pytest.raises(Unreachable):
            await other.raw("GET", "/livez", deadline=0.3)
        cluster.faults.thaw()
        assert (await other.raw("GET", "/livez")).body == b"ok"


async def test_faults_by_user(cluster, client):
    cluster.faults.add(Fault(user="somebody", status=500))
    assert await client.get(CONFIG_MAPS, "kube-root-ca.crt", "default")


async def test_informer_lives_through_cut_and_expired_watches(cluster, client, nursery):
    informer = SharedInformer(client, CONFIG_MAPS, Selection("default"))
    await nursery.start(informer.run)
    for number, trouble in enumerate(
        (
            cluster.faults.cut_watches,
            lambda: cluster.faults.add(Fault(verb="watch", cut=1, times=1)),
            lambda: cluster.faults.add(Fault(verb="watch", expire=True, times=1)),
            cluster.faults.cut_watches,
            cluster.restart,
        )
    ):
        result = trouble()
        if not isinstance(result, Fault) and result is not None:
            await result
        await client.create(CONFIG_MAPS, config(f"c{number}"))

        async def seen(name=f"c{number}"):
            return ("default", name) in informer.store

        await eventually(seen)
    nursery.cancel_scope.cancel()


async def test_frozen_watch_shows_nothing(cluster, client):
    async with client.watch(CONFIG_MAPS, Selection("default")) as watch:
        await watch.next(2)
        plane = cluster.registry
        cluster.faults.freeze()
        obj = {"apiVersion": "v1", "kind": "ConfigMap", **config("late")}
        plane.prepare(builtins.CONFIG_MAPS, "default", obj)
        plane.create(builtins.CONFIG_MAPS, "default", obj)
        with pytest.raises(Unreachable):
            await watch.next(0.3)


async def test_two_in_one_process():
    async with (
        EmbeddedCluster("rome") as rome,
        EmbeddedCluster("milan") as milan,
        Client(from_kubeconfig(rome.kubeconfig)) as one,
        Client(from_kubeconfig(milan.kubeconfig)) as two,
    ):
        await one.create(CONFIG_MAPS, config("a"))
        assert await two.find(CONFIG_MAPS, "a", "default") is None
        assert rome.port != milan.port


async def test_a_port_that_is_taken_is_named():
    async with EmbeddedCluster("rome") as rome:
        with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="in use")):
            async with EmbeddedCluster("milan", port=rome.port):
                pytest.fail("it listens where another does")
        async with Client(from_kubeconfig(rome.kubeconfig)) as client:
            assert await client.find(CONFIG_MAPS, "a", "default") is None


async def test_silent_node_is_given_up_and_comes_back():
    async with (
        EmbeddedCluster(
            "rome", nodes=1, start_delay=0.0, lease_every=0.1, node_grace=0.6
        ) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [
                {
                    "key": "node.kubernetes.io/unreachable",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 0,
                }
            ],
        }
        await client.create(PODS, {**config("p"), "spec": spec})

        async def running():
            return (await client.get(PODS, "p", "default"))["status"]["phase"] == "Running"

        await eventually(running)
        cluster.agent.pause("rome-node-1")

        async def unreachable():
            node = await client.get(NODES, "rome-node-1")
            return [each["effect"] for each in node["spec"].get("taints") or ()]

        assert await eventually(unreachable) == ["NoSchedule", "NoExecute"]

        async def leaving():
            return (await client.get(PODS, "p", "default"))["metadata"].get("deletionTimestamp")

        await eventually(leaving)
        cluster.agent.resume("rome-node-1")

        async def back():
            gone = await client.find(PODS, "p", "default") is None
            return gone and not await unreachable()

        await eventually(back)


async def test_leases_are_renewed():
    async with (
        EmbeddedCluster("rome", nodes=1, lease_every=0.05) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):

        async def renewed():
            lease = await client.get(LEASES, "rome-node-1", "kube-node-lease")
            return lease["spec"]["renewTime"]

        first = await renewed()

        async def later():
            return await renewed() != first

        await eventually(later)


async def test_daemon_set():
    async with (
        EmbeddedCluster("rome", nodes=3, start_delay=0.0) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create(DAEMON_SETS, {**config("d"), "spec": spec})

        async def everywhere():
            pods = await client.list(PODS, Selection("default"))
            return {each["spec"].get("nodeName") for each in pods} == set(cluster.agent.names)

        await eventually(everywhere)

        async def counted():
            found = await client.get(DAEMON_SETS, "d", "default")
            return found["status"].get("numberReady") == 3

        await eventually(counted)


async def test_logs():
    async with (
        EmbeddedCluster("rome", nodes=1, start_delay=0.0) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await client.create(PODS, {**config("p"), "spec": spec})

        async def running():
            return (await client.get(PODS, "p", "default"))["status"]["phase"] == "Running"

        await eventually(running)
        path = PODS.path("default", "p", "log")
        async with client.stream("GET", path, query={"follow": "true"}) as stream:
            assert await stream.receive() == b"c of default/p has started\n"
            await client.delete(PODS, "p", "default", grace=0)
            with trio.fail_after(5):
                assert await stream.receive() == b""


async def test_nonsense_in_an_object_stops_nobody(cluster, client, caplog):
    """Built-in kinds are not checked field by field; what chokes on one says so and goes on."""
    caplog.set_level(logging.CRITICAL)
    odd = {"ports": [{"port": 80}], "selector": "not a map"}
    await client.create(SERVICES, {**config("odd"), "spec": odd})
    with pytest.raises(Invalid):
        await client.create(PODS, {**config("odd"), "spec": {"containers": 5}})
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await client.create(PODS, {**config("p"), "spec": spec})
    fine = {"ports": [{"port": 80}], "selector": {"a": "b"}}
    await client.create(SERVICES, {**config("fine"), "spec": fine})

    async def sliced():
        return await client.list(
            ENDPOINT_SLICES, Selection("default", labels="kubernetes.io/service-name=fine")
        )

    await eventually(sliced)
