"""The text on what is free on the nodes: by differences, and at a pace."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
import trio
from trio.testing import MockClock

from liqod.config import ProviderSettings
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.model.peering.freecapacity import FreeCapacity, read
from liqod.provider.slices.freenodes import FreeNodes, trim_placed

Told = Callable[[StoreChange], None]


class Feed:
    """Stands for an informer: hands on what it is given."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.bodies: dict[str, bytes | None] = {}

    def subscribe(self, told: Told) -> Callable[[], None]:
        self.told.append(told)
        return lambda: self.told.remove(told)

    def tell(self, name: str, body: dict[str, Any] | None) -> None:
        new = None if body is None else msgspec.json.encode(body)
        old = self.bodies.get(name)
        self.bodies[name] = new
        for each in self.told:
            each(StoreChange(key=("shop", name), old=old, new=new))


def node(cpu: str) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return {"status": {"allocatable": {"cpu": cpu}, "conditions": ready}}


def pod(cpu: str, where: str = "one") -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {"spec": {"nodeName": where, "containers": containers}}


def guest_pod(cpu: str, node: str = "milan") -> dict[str, Any]:
    marks = {"offloading.liqo.io/origin": "rome", "offloading.liqo.io/nodename": node}
    return {**pod(cpu), "metadata": {"labels": marks}}


def free_nodes(
    nodes: Feed, settings: ProviderSettings, own: Feed | None = None, guests: Feed | None = None
) -> FreeNodes:
    feeds = (nodes, own or Feed(), guests or Feed())
    follows, *pods = (cast("SharedInformer", each) for each in feeds)
    return FreeNodes(follows, pods[0], pods[1], settings)


def free_cpu(found: FreeNodes) -> str:
    told = read(found.text.now)
    return told.groups[0].free["cpu"] if told is not None and told.groups else ""


@pytest.mark.parametrize(
    ("said", "told"), [(None, True), (False, False), (True, True)], ids=["unsaid", "no", "yes"]
)
async def test_nodes_of_karpenter_tell_that_more_are_added_unless_the_configuration_does(
    said: bool | None, told: bool, autojump_clock: MockClock
) -> None:
    nodes = Feed()
    settings = ProviderSettings(show_free=True, autoscales=said)
    found = free_nodes(nodes, settings)

    async def grows() -> bool:
        await trio.sleep(6)
        found.refresh(5)
        word = read(found.text.now)
        return word is not None and word.autoscales

    nodes.tell("own", node("8"))
    assert await grows() is (said is True)
    made = {**node("8"), "metadata": {"labels": {"karpenter.sh/nodepool": "general"}}}
    nodes.tell("made", made)
    assert await grows() is told
    made["metadata"]["labels"]["liqo.io/type"] = "virtual-node"
    nodes.tell("made", made)
    assert await grows() is (said is True)


def test_of_a_pod_no_more_is_kept_than_its_requests_and_its_node() -> None:
    whole = pod("3")
    whole["metadata"] = {"name": "web", "labels": {"app": "web"}}
    whole["spec"]["volumes"] = [{"name": "secret"}]
    wanted = {**pod("3"), "metadata": {"name": "web"}}
    assert msgspec.json.decode(trim_placed(msgspec.json.encode(whole))) == wanted
    assert trim_placed(b"nonsense") == b"nonsense"


async def test_before_the_first_count_nothing_is_known_and_no_nodes_are_an_answer() -> None:
    settings = ProviderSettings(show_free=True)
    found = free_nodes(Feed(), settings)
    assert (found.known, found.text.now) == (False, "")
    found.refresh(5)
    assert found.known
    assert read(found.text.now) == FreeCapacity()


async def test_what_is_free_follows_pods_at_a_pace(autojump_clock: MockClock) -> None:
    nodes, pods = Feed(), Feed()
    settings = ProviderSettings(show_free=True)
    found = free_nodes(nodes, settings, pods)
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


async def test_a_guest_counts_from_its_node_to_its_end_and_one_that_becomes_another_once(
    autojump_clock: MockClock,
) -> None:
    nodes, own, guests = Feed(), Feed(), Feed()
    found = free_nodes(nodes, ProviderSettings(show_free=True), own, guests)

    async def free() -> str:
        await trio.sleep(5)
        found.refresh(5)
        return free_cpu(found)

    def guest(cpu: str, where: str, phase: str) -> dict[str, Any]:
        return {**guest_pod(cpu), **pod(cpu, where), "status": {"phase": phase}}

    nodes.tell("one", node("8"))
    guests.tell("web", guest("3", "", "Pending"))
    assert await free() == "8"
    assert found.counted("rome") == {}
    for phase in ("Pending", "Running"):
        guests.tell("web", guest("3", "one", phase))
        assert await free() == "5"
    guests.tell("web", guest("4", "one", "Running"))  # it was resized
    assert await free() == "4"
    assert found.counted("rome").keys() == {"milan"}
    own.tell("web", pod("4"))  # somebody took its label off
    guests.tell("web", None)
    assert await free() == "4"
    assert found.counted("rome") == {}
    guests.tell("job", guest("2", "one", "Running"))
    assert await free() == "2"
    guests.tell("job", guest("2", "one", "Succeeded"))
    assert await free() == "4"
    found.close()
    assert (own.told, guests.told) == ([], [])


async def test_each_slice_is_told_of_its_own_pods_that_are_counted(
    autojump_clock: MockClock,
) -> None:
    nodes, own, pods = Feed(), Feed(), Feed()
    settings = ProviderSettings(show_free=True)
    found = free_nodes(nodes, settings, own, pods)

    def told(consumer: str, name: str) -> dict[str, str]:
        capacity = read(found.told(consumer, name))
        assert capacity is not None
        assert capacity.groups[0].free["cpu"] == free_cpu(found)
        return capacity.counted

    nodes.tell("one", node("8"))
    pods.tell("web", guest_pod("3"))
    pods.tell("other", guest_pod("1", "milan-2"))
    own.tell("own", pod("1"))
    found.refresh(5)
    assert free_cpu(found) == "3"
    assert told("rome", "milan") == {"cpu": "3", "pods": "1"}
    assert told("rome", "milan-2") == {"cpu": "1", "pods": "1"}
    assert told("turin", "milan") == {}
    assert found.told("turin", "milan") == found.text.now
    # It goes with what is free, and not before it.
    pods.tell("web", None)
    assert told("rome", "milan") == {"cpu": "3", "pods": "1"}
    await trio.sleep(5)
    found.refresh(5)
    assert free_cpu(found) == "6"
    assert told("rome", "milan") == {}
    assert found.counted("rome").keys() == {"milan-2"}


@pytest.mark.parametrize(("mode", "most"), [("groups", 16), ("nodes", 128)])
async def test_a_slice_of_parts_is_told_the_pods_of_each_that_are_counted(
    autojump_clock: MockClock, mode: str, most: int
) -> None:
    nodes, pods = Feed(), Feed()
    settings = ProviderSettings(show_free=True)
    found = free_nodes(nodes, settings, guests=pods)

    def told(consumer: str = "rome") -> dict[str, int] | None:
        capacity = read(found.told(consumer, "milan", mode))
        return None if capacity is None else capacity.parts

    nodes.tell("one", node("8"))
    for number, name in enumerate(("milan-0a1b2c3d", "milan-0a1b2c3d", "milan-ffffffff", "milan")):
        pods.tell(f"web-{number}", guest_pod("1", name))
    pods.tell("other", guest_pod("1", "turin-0a1b2c3d"))
    found.refresh(5)
    assert told() == {"0a1b2c3d": 2, "ffffffff": 1}
    assert told("turin") == {}
    whole = read(found.told("rome", "milan"))
    assert whole is not None
    assert whole.parts is None
    # No consumer has a word made long by the names of nodes that it claims to have.
    for number in range(1000):
        pods.tell(f"many-{number}", guest_pod("1m", f"milan-{number:08x}"))
    await trio.sleep(5)
    found.refresh(5)
    many = told()
    assert many is not None
    assert len(many) == most
