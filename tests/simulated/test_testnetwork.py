"""The network's test where pods only pretend: what it brings, what it says, what it takes away."""

from contextlib import asynccontextmanager

import pytest
import trio

from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.kinds import NAMESPACES, NODES, PODS
from liqod.kube.selection import Selection
from liqod.procedures import testnetwork
from liqod.procedures.testnetwork import Asked
from liqod.procedures.testnetwork import test_network as try_network
from liqod.procedures.testplan import NAMESPACE, passed
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.prepared import installed

ASKED = Asked(cluster="rome", image="busybox", ready=20.0)


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
    """What kubelets would: servers become Ready at an address, clients end with a word."""
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
    async def look():
        return await client.find(NAMESPACES, NAMESPACE) is None

    await eventually(look)


async def test_it_tries_from_both_sides_and_leaves_nothing(client):
    await virtual_node(client)
    async with pretending(client):
        found = await try_network(client, ASKED, lambda text: None)
    assert await client.find(NAMESPACES, NAMESPACE) is None
    assert passed(found)
    sources = {row.source.split("/")[0] for row in found}
    assert sources == {"pod rome", "node rome", "pod milan", "node milan"}
    assert any(row.target == "pod milan 10.71.0.5" for row in found)


async def test_what_fails_is_named_with_the_reason(client):
    await virtual_node(client)
    async with pretending(client, lambda name: "0 failed no answer in 5 s"):
        found = await try_network(client, ASKED, lambda text: None)
    assert not passed(found)
    assert any(row.detail == "no answer in 5 s" for row in found)
    assert any("said nothing" in row.detail for row in found)


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
