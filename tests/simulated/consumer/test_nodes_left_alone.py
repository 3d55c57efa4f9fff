"""Virtual nodes as autoscalers and cloud controllers of this cluster see them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import NODES
from liqod.consumer.link import ProviderPeer
from liqod.consumer.nodes.virtualnodes import VirtualNodes
from simulator import EmbeddedCluster
from tests.simulated.borrower import Cluster, borrower, eventually, peer_of, virtual_node
from tests.simulated.prepared import defined

Json = dict[str, Any]
WITH_IDS = "[consumer]\nprovider_ids = true\n"


@asynccontextmanager
async def running(peer: ProviderPeer) -> AsyncIterator[None]:
    """A daemon that keeps the peer's virtual nodes meanwhile."""
    async with trio.open_nursery() as nursery:
        await nursery.start(VirtualNodes(peer).run)
        yield
        nursery.cancel_scope.cancel()


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("rome", state=await defined("rome")) as embedded:
        yield embedded


async def test_a_provider_id_is_given_later_and_never_taken_back(cluster: Cluster) -> None:
    async with borrower(cluster) as context:
        client, peer = context.client, await peer_of(context, "milan")
        await virtual_node(context, "milan")

        async def left_alone() -> Json | None:
            node = await client.find(NODES, "milan") or {"metadata": {}}
            notes = node["metadata"].get("annotations", {})
            return node if "karpenter.sh/do-not-disrupt" in notes else None

        async def named() -> str | None:
            found: str | None = (await client.get(NODES, "milan"))["spec"].get("providerID")
            return found

        async def mended() -> str | None:
            found: str | None = (await client.get(NODES, "milan"))["metadata"]["labels"].get("type")
            return found

        async with running(peer):
            node = await eventually(left_alone)
        assert "providerID" not in node["spec"]
        assert node["metadata"]["labels"]["kubernetes.azure.com/managed"] == "false"
        async with borrower(cluster, WITH_IDS) as other, running(replace(peer, context=other)):
            assert await eventually(named) == "liqod://milan/milan"
        await client.patch(NODES, "milan", {"metadata": {"labels": {"type": None}}})
        async with running(peer):
            await eventually(mended)
        assert await named() == "liqod://milan/milan"
