"""The text on what is free on the nodes: by differences, and at a pace."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import trio
from trio.testing import MockClock

from liqod.config import ProviderSettings
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.model.peering.freecapacity import read
from liqod.provider.slices.freenodes import FreeNodes, trim_placed

Told = Callable[[StoreChange], None]


class Feed:
    """Stands for an informer: hands on what it is given."""

    def __init__(self) -> None:
        self.told: Told = lambda _: None

    def subscribe(self, told: Told) -> None:
        self.told = told

    def tell(self, name: str, body: dict[str, Any] | None) -> None:
        new = None if body is None else msgspec.json.encode(body)
        self.told(StoreChange(key=("shop", name), old=None, new=new))


def node(cpu: str) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return {"status": {"allocatable": {"cpu": cpu}, "conditions": ready}}


def pod(cpu: str, where: str = "one") -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {"spec": {"nodeName": where, "containers": containers}}


def free_cpu(found: FreeNodes) -> str:
    told = read(found.text.now)
    return told.groups[0].free["cpu"] if told is not None and told.groups else ""


def test_of_a_pod_no_more_is_kept_than_its_requests_and_its_node() -> None:
    whole = pod("3")
    whole["metadata"] = {"name": "web", "labels": {"app": "web"}}
    whole["spec"]["volumes"] = [{"name": "secret"}]
    wanted = {**pod("3"), "metadata": {"name": "web"}}
    assert msgspec.json.decode(trim_placed(msgspec.json.encode(whole))) == wanted
    assert trim_placed(b"nonsense") == b"nonsense"


async def test_what_is_free_follows_pods_at_a_pace(autojump_clock: MockClock) -> None:
    nodes, pods = Feed(), Feed()
    settings = ProviderSettings(show_free=True)
    found = FreeNodes(cast("SharedInformer", nodes), cast("SharedInformer", pods), settings)
    nodes.tell("one", node("8"))
    pods.tell("web", pod("3"))
    found.refresh(5)
    assert free_cpu(found) == "5"
    pods.tell("web", pod("4"))
    pods.tell("elsewhere", pod("4", "two"))
    found.refresh(5)
    assert free_cpu(found) == "5"
    await trio.sleep(5)
    found.refresh(5)
    assert free_cpu(found) == "4"
    await trio.sleep(5)
    pods.tell("web", None)
    pods.tell("broken", pod("nonsense"))
    found.refresh(5)
    assert free_cpu(found) == "8"
    before = found.text.now
    await trio.sleep(5)
    pods.tell("tiny", pod("10m"))
    pods.tell("tiny", None)
    found.refresh(5)
    assert found.text.now is before
