"""The word of the cluster autoscaler on its node groups, as it is read and as it is believed."""

from typing import Any, cast

import msgspec
import pytest
import trio
from trio.testing import MockClock

from liqod.config import ProviderSettings
from liqod.errors import Unreachable
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.client import Client
from liqod.model.peering import freecapacity
from liqod.model.peering.nodesready import LONGEST_STATUS, may_grow
from liqod.provider.slices.readynodes import LOOKS_EVERY, STATUS, SYSTEM, ready_nodes
from tests.unit.provider.test_freenodes import Feed, free_nodes, node


def yaml(*groups: tuple[int, int]) -> str:
    """The status since 1.30: of each group its size, and the largest that it may have."""
    lines = ["autoscalerStatus: Running", "clusterWide:", "  health:", "    status: Healthy"]
    for target, most in groups:
        counts = ["nodeCounts:", f"  registered: {{total: {target}}}"]
        sizes = [f"cloudProviderTarget: {target}", "minSize: 1", f"maxSize: {most}"]
        lines += ["- name: pool", "  health:", *(f"    {each}" for each in counts + sizes)]
    return "\n".join(lines)


def lines(*groups: tuple[int, int]) -> str:
    """The same before 1.30."""
    found = ["Cluster-autoscaler status at now:", "Cluster-wide:", "  Health: Healthy (ready=9)"]
    for target, most in groups:
        sizes = f"cloudProviderTarget={target} (minSize=1, maxSize={most})"
        found += ["  Name: pool", f"  Health: Healthy (ready=1 registered=1 {sizes})"]
        found += [f"  ScaleUp: NoActivity (ready=1 cloudProviderTarget={target})"]
    return "\n".join(found)


@pytest.mark.parametrize("write", [yaml, lines])
def test_a_group_below_its_largest_size_may_grow(write: Any) -> None:
    assert may_grow(write((3, 3), (0, 1)))
    assert may_grow(write((2, 10)))
    assert not may_grow(write((3, 3), (5, 5)))
    assert not may_grow(write((7, 5)))
    assert not may_grow(write())


@pytest.mark.parametrize(
    "text",
    ["", "maxSize: 5", "autoscalerStatus: Initializing", "x" * LONGEST_STATUS + yaml((1, 2))],
    ids=["nothing", "no size", "not yet", "too long"],
)
def test_of_no_group_nothing_is_said(text: str) -> None:
    assert not may_grow(text)


class Server:
    """Stands for the API server with one ConfigMap: its version and status, or a failure."""

    def __init__(self) -> None:
        self.now: tuple[str, str] | Exception | None = None
        self.reads = 0

    async def find(self, _: object, name: str, namespace: str, *, decode: Any) -> Any:
        assert (name, namespace) == (STATUS, SYSTEM)
        self.reads += 1
        if isinstance(self.now, Exception):
            raise self.now
        if self.now is None:
            return None
        version, status = self.now
        body = {"metadata": {"resourceVersion": version}, "data": {"status": status}}
        return msgspec.convert(body, decode)


async def test_an_autoscaler_is_believed_while_it_goes_on_to_write(
    autojump_clock: MockClock,
) -> None:
    nodes, server = Feed(), Server()
    informer = cast("SharedInformer", nodes)
    free = free_nodes(nodes, ProviderSettings())
    ready = ready_nodes(informer)
    nodes.tell("own", node("8"))

    async def told(now: tuple[str, str] | Exception | None) -> bool:
        server.now = now
        await trio.sleep(LOOKS_EVERY)
        for _ in range(5):  # of so many peers, one has it read
            await ready.look(cast("Client", server))
        free.refresh(5)
        word = freecapacity.read(free.text.now)
        return word is not None and word.autoscales

    assert not await told(None)
    assert await told(("1", yaml((1, 2))))
    assert not await told(("1", yaml((1, 2))))  # nobody writes it any more
    assert await told(("2", yaml((1, 2))))
    assert await told(Unreachable("no"))
    assert not await told(("3", yaml((2, 2))))
    assert await told(("4", lines((1, 2))))
    nodes.tell("own", node("9"))
    assert await told(("5", lines((1, 2))))
    assert not await told(None)
    assert server.reads == 9
