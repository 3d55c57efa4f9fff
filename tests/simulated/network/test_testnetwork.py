"""The network's test where pods only pretend: what it brings, what it says, what it takes away."""

from contextlib import asynccontextmanager

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES, PODS, SERVICES
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.plugins.contracts import Reason
from liqod.procedures import testnetwork
from liqod.procedures.testnetwork import NetworkTestOptions
from liqod.procedures.testnetwork import test_network as try_network
from liqod.procedures.testplan import NAMESPACE, ProbeLocation, passed
from liqod.reflection.statuswriter import write_event
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.prepared import installed

PORT = {"spec": {"ports": [{"nodePort": 30080}]}}
ASKED = NetworkTestOptions(cluster="rome", image="busybox", ready=20.0)


@pytest.fixture
async def client(monkeypatch):
    async def spread(client, namespace, asked):
        return 1

    async def offloaded(client, namespace, generation):
        return {"offloadingPhase": "Ready"}

    monkeypatch.setattr(testnetwork, "spread", spread)
    monkeypatch.setattr(testnetwork, "offloaded", offloaded)
    async with (
        EmbeddedCluster("rome", nodes=1, state=await installed("rome")) as embedded,
        Client(from_kubeconfig(embedded.kubeconfig)) as made,
    ):
        yield made


async def virtual_node(client, ready="True"):
    marks = {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan"}
    made = {"metadata": {"name": "milan", "labels": {**marks, "kubernetes.io/hostname": "milan"}}}
    await client.create(NODES, made)
    condition = {"type": "Ready", "status": ready, "message": "no answer"}
    patch = {"status": {"conditions": [condition]}}
    await client.patch(NODES, "milan", patch, subresource="status")


def word(name, status="ok"):
    return "\n".join(f"{number} {status} milan 10.72.0.9" for number in range(9))


async def pretend(client, say):
    """Acts as kubelets would: servers become Ready at an address, clients end with a word."""
    while True:
        for pod in await client.list(PODS, Selection(NAMESPACE)):
            name, status = pod["metadata"]["name"], pod.get("status") or {}
            if name.startswith("server"):
                wanted = {
                    "phase": "Running",
                    "podIP": "10.71.0.5",
                    "podIPs": [{"ip": "10.71.0.5"}],
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
                done = bool(status.get("podIP")) and status.get("conditions") is not None
            else:
                ended = {"exitCode": 0, "message": say(name)}
                state = {"name": "main", "state": {"terminated": ended}}
                wanted = {"phase": "Succeeded", "containerStatuses": [state]}
                done = status.get("phase") == "Succeeded"
            if not done and say(name) is not None:
                await client.patch(PODS, name, {"status": wanted}, NAMESPACE, subresource="status")
        await trio.sleep(0.1)


@asynccontextmanager
async def pretending(client, say=word):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pretend, client, say)
        yield
        nursery.cancel_scope.cancel()


async def gone(client):
    await eventually(lambda: client.find(NAMESPACES, NAMESPACE), lambda found: found is None)


async def test_it_tries_from_both_sides_and_leaves_nothing(client):
    await virtual_node(client)
    async with pretending(client):
        found = await try_network(client, ASKED, lambda text: None)
    assert await client.find(NAMESPACES, NAMESPACE) is None
    assert passed(found)
    sources = {row.source.split("/")[0] for row in found}
    assert sources == {"pod rome", "node rome", "pod milan", "node milan"}
    assert any(row.target == "pod milan 10.71.0.5" for row in found)


async def test_node_ports_are_not_tried_where_the_peer_lets_guests_choose_none(client):
    own, milan = ProbeLocation("rome", "rome-1"), ProbeLocation("milan", "milan", number=1)
    turin = ProbeLocation("turin", "turin", number=2)
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    refusal = "no turin: Service refused by turin: ports of choice are not for guests"
    source = {"metadata": {"name": "port-0", "namespace": NAMESPACE, "uid": "u"}}
    await write_event(client, SERVICES, source, Reason("ReflectionRefused", refusal), "milan")
    await write_event(
        client, SERVICES, source, Reason("LeftOut", "refused by turin: a label"), "turin"
    )
    assert await testnetwork.refused_node_ports(client, own, [milan, turin]) == {"milan"}
    clients, rows = testnetwork.probe_clients(
        ASKED, [own], [milan, turin], {}, {f"port-{n}": PORT for n in range(3)}, {"milan"}
    )
    tried = {
        each.source for one in clients for each in one.tries if "node port of rome" in each.target
    }
    assert tried == {"pod turin"}
    [left_out] = [row for row in rows if "node port" in row.target]
    assert (left_out.source, left_out.verdict) == ("pod milan", "skipped")


async def test_an_image_that_cannot_be_pulled_is_named_once_and_soon(client):
    await virtual_node(client)
    waits = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "busybox"'}
    state = {"name": "main", "state": {"waiting": waits}}
    patient = NetworkTestOptions(cluster="rome", image="busybox", ready=600.0)

    async def starve():
        while True:
            for pod in await client.list(PODS, Selection(NAMESPACE)):
                name = pod["metadata"]["name"]
                if name == "server-1" and not (pod.get("status") or {}).get("containerStatuses"):
                    patch = {"status": {"phase": "Pending", "containerStatuses": [state]}}
                    await client.patch(PODS, name, patch, NAMESPACE, subresource="status")
            await trio.sleep(0.1)

    say = lambda name: None if name == "server-1" else word(name)  # noqa: E731
    async with pretending(client, say), trio.open_nursery() as nursery:
        nursery.start_soon(starve)
        # Not for as long as a pod may take to start.
        with (
            trio.fail_after(60.0),
            pytest.raises(ConfigError, match=r"untried: .* at milan \(Back-off.*--image"),
        ):
            await try_network(client, patient, lambda text: None)
        nursery.cancel_scope.cancel()
    await gone(client)


async def test_what_fails_is_named_with_the_reason(client):
    await virtual_node(client)
    async with pretending(client, lambda name: "0 failed no answer in 5 s"):
        found = await try_network(client, ASKED, lambda text: None)
    assert not passed(found)
    assert any(row.detail == "no answer in 5 s" for row in found)
    assert any("said nothing" in row.detail for row in found)


async def tainted(client, *keys):
    taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
    await client.patch(NODES, "milan", {"spec": {"taints": taints}})


async def test_a_node_that_is_new_loses_its_taint_first(client):
    """The control plane takes it off a moment after the node is Ready."""
    await virtual_node(client)
    await tainted(client, "virtual-node.liqo.io/not-allowed", "example.com/new")
    said: list[str] = []

    async def opens():
        await trio.sleep(1)
        assert await client.find(NAMESPACES, NAMESPACE) is None
        await tainted(client, "virtual-node.liqo.io/not-allowed")

    async with pretending(client), trio.open_nursery() as nursery:
        nursery.start_soon(opens)
        assert passed(await try_network(client, ASKED, said.append))
    assert said[0] == "wait for the nodes of milan to take pods"


async def test_a_node_that_takes_no_new_pods_is_named_with_its_taint(client, monkeypatch):
    monkeypatch.setattr(testnetwork, "OPENING", 0.5)
    await virtual_node(client)
    await tainted(client, "virtual-node.liqo.io/not-allowed", "liqod.io/peer-daemon-silent")
    why = "its virtual node milan takes no new pods: it has the taint liqod.io/peer-daemon-silent"
    with pytest.raises(ConfigError, match=why):
        await try_network(client, ASKED, lambda text: None)
    assert await client.find(NAMESPACES, NAMESPACE) is None


async def test_an_interruption_leaves_nothing(client):
    await virtual_node(client)
    with trio.move_on_after(3):
        await try_network(client, ASKED, lambda text: None)
    await gone(client)


async def test_what_a_test_before_left_is_taken_away_first(client):
    await virtual_node(client)
    left = {"metadata": {"name": NAMESPACE, "labels": {"liqod.io/test": "network"}}}
    await client.create(NAMESPACES, left)
    async with pretending(client):
        assert passed(await try_network(client, ASKED, lambda text: None))


async def test_a_namespace_of_somebody_elses_is_left_alone(client):
    await virtual_node(client)
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    with pytest.raises(ConfigError, match="not of this test"):
        await try_network(client, ASKED, lambda text: None)
    assert await client.find(NAMESPACES, NAMESPACE) is not None


async def test_without_a_ready_peer_it_says_why(client):
    with pytest.raises(ConfigError, match="no peer lends"):
        await try_network(client, ASKED, lambda text: None)
    await virtual_node(client, ready="False")
    with pytest.raises(ConfigError, match="not ready: no answer"):
        await try_network(client, ASKED, lambda text: None)
