"""The free resources that a provider tells: groups, bounds, and what a consumer believes."""

import random
from typing import Any

import msgspec
import pytest

from liqod.model.objects.quantities import parse_all, render
from liqod.model.peering import freecapacity
from liqod.model.peering.freecapacity import (
    FreeCapacity,
    FreeNode,
    features,
    for_slice,
    free_node,
    has_room,
    largest,
    machine_key,
    read,
    room,
    tell,
    tell_each,
)
from liqod.model.peering.sizelabels import ANY, size_labels

ARCH = "kubernetes.io/arch"
ZONE = "topology.kubernetes.io/zone"
CORDON = {"key": "node.kubernetes.io/unschedulable"}
READY = [{"type": "Ready", "status": "True"}]


def node(number: int = 0, *, taints: Any = (), **status: Any) -> dict[str, Any]:
    has = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    marks = {ARCH: "amd64", ZONE: f"z{number % 3}", "kubernetes.io/hostname": f"secret-{number}"}
    return {
        "metadata": {"name": f"secret-{number}", "labels": marks},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": has, "conditions": READY, **status},
    }


def free(number: int = 0, **used: str) -> FreeNode:
    found = free_node(node(number), parse_all(used))
    assert found is not None
    return found


def keyed(number: int, **used: str) -> FreeNode:
    made = node(number)
    made["metadata"]["uid"] = f"uid-{number}"
    found = free_node(made, parse_all(used))
    assert found is not None
    return found


def told(*nodes: FreeNode, shown: tuple[str, ...] = ()) -> FreeCapacity:
    found = read(tell(nodes, shown))
    assert found is not None
    return found


def test_a_sum_that_is_in_pieces_is_told_as_pieces():
    found = told(*(free(number, cpu="8") for number in range(10)))
    [group] = found.groups
    assert (group.nodes, group.free["cpu"]) == (10, "80")
    assert [each["cpu"] for each in group.largest] == ["8"]
    assert group.holes["cpu"] == {"8": 10}
    assert largest(found)["cpu"] == parse_all({"cpu": "8"})["cpu"]


def test_nodes_are_grouped_by_the_labels_that_are_shown_and_none_is_named():
    nodes = [free(number, cpu=str(number)) for number in range(9)]
    text = tell(nodes, (ZONE,), autoscales=True)
    assert "secret" not in text
    found = read(text)
    assert found is not None
    assert found.autoscales
    assert [each.labels[ZONE] for each in found.groups] == ["z0", "z1", "z2"]
    assert {each.labels[ARCH] for each in found.groups} == {"amd64"}
    assert [ZONE in each.labels for each in told(*nodes).groups] == [False]


def test_devices_of_two_kinds_and_nodes_that_take_no_pods():
    gpu: dict[str, Any] = {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}
    taint = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
    first, second = (free_node(node(taints=[taint], **gpu), {}), free_node(node(**gpu), {}))
    assert first is not None
    assert second is not None
    groups = told(first, second).groups
    assert sorted(each.taints for each in groups) == [(), ("gpu=a100:NoSchedule",)]
    assert all(each.largest == ({"cpu": "8", "nvidia.com/gpu": "4"},) for each in groups)
    assert free_node(node(conditions=[]), {}) is None
    virtual = node()
    virtual["metadata"]["labels"]["liqo.io/type"] = "virtual-node"
    assert free_node(virtual, {}) is None
    full = free_node(node(), parse_all({"cpu": "40"}))
    assert full is not None
    assert full.free["cpu"] == 0


def test_a_cordoned_node_is_told_with_nothing_free_in_the_group_that_it_was_of():
    open_one, shut = free(), node(taints=[{**CORDON, "effect": "NoSchedule"}])
    shut["spec"]["unschedulable"] = True
    closed = free_node(shut, parse_all({"cpu": "3"}))
    assert closed is not None
    assert (closed.taints, closed.key) == ((), open_one.key)
    [alone] = told(closed).groups
    [before] = told(open_one).groups
    assert (alone.labels, alone.taints) == (before.labels, before.taints)
    assert alone.free == {"cpu": "0", "memory": "0", "pods": "0"}
    assert not has_room(told(closed), parse_all({"cpu": "10m"}))
    [both] = told(closed, open_one).groups
    assert (both.free, both.largest, both.nodes) == (before.free, before.largest, 2)
    assert both.holes["cpu"]["16"] == 1


def test_a_thousand_nodes_of_a_hundred_kinds_are_little_text():
    def one(number: int) -> FreeNode:
        resources = {f"vendor{each}.example.com/device": number % 7 for each in range(12)}
        has = {
            "cpu": 64 - number % 61,
            "memory": f"{256 - number % 199}Gi",
            "pods": 110,
            **resources,
        }
        body = node(number, allocatable=has)
        body["metadata"]["labels"]["pool"] = f"pool-{number % 100}"
        found = free_node(body, parse_all({"cpu": f"{number}m"}))
        assert found is not None
        return found

    text = tell([one(number) for number in range(1000)], ("pool", ZONE))
    assert 0 < len(text) <= freecapacity.LONGEST
    found = read(text)
    assert found is not None
    assert sum(each.nodes for each in found.groups) == 1000
    assert found.groups[-1].labels == {}


def test_small_changes_are_rounded_away():
    before, after = (tell([free(cpu=cpu)], ()) for cpu in ("1200m", "1210m"))
    assert before == after
    assert before != tell([free(cpu="3")], ())


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "no JSON", "[]", '{"groups": 3}', " " * 20000),
        '{"groups": [{"nodes": -1}]}',
        '{"groups": [{"nodes": 1, "free": {"cpu": "many"}}]}',
        '{"groups": [{"nodes": 1, "largest": [{"cpu": "-4"}]}]}',
        '{"groups": [{"nodes": 1, "holes": {"cpu": {"4": 99999999}}}]}',
        msgspec.json.encode({"groups": [{"nodes": 1}] * 9}).decode(),
    ],
)
def test_nonsense_says_nothing(text: str | None):
    assert read(text) is None
    assert largest(None) == {}


def test_what_was_sent_since_is_deducted_until_it_is_counted_or_settled():
    def most(found: FreeCapacity | None, settled: str = "0", waiting: str = "") -> Any:
        waits = parse_all({"cpu": waiting}) if waiting else {}
        return room(found, parse_all({"cpu": settled}), waits).get("cpu")

    text = tell([free(number, cpu="8") for number in range(10)], ())
    told = read(for_slice(text, parse_all({"cpu": "20"})))
    assert told is not None
    # 20 of ours are counted, and 80 are free beside them: whatever is sent beyond the 20 takes
    # from the 80.
    assert most(told) == parse_all({"cpu": "100"})["cpu"]
    # Pods that were sent long ago are believed to be in it, though it counts fewer.
    assert most(told, settled="30") == parse_all({"cpu": "110"})["cpu"]
    assert most(told, settled="10") == parse_all({"cpu": "100"})["cpu"]
    # Who waits uses nothing there; then no more comes at once than fits on one machine.
    assert most(told, waiting="12") == parse_all({"cpu": "40"})["cpu"]
    # A provider that tells nothing bounds nothing, nor does one that adds nodes.
    assert most(None) is None
    grows = read(tell([free()], (), autoscales=True))
    assert most(grows) is None
    assert most(grows, waiting="12") == parse_all({"cpu": "28"})["cpu"]


def test_what_is_counted_is_told_where_there_is_anything_and_believed_where_it_can_be():
    text = tell([free()], ())
    assert for_slice(text, {}) == text
    assert for_slice("", parse_all({"cpu": "1"})) == ""
    found = read(for_slice(text, parse_all({"cpu": "1"})))
    assert found is not None
    assert found.counted == {"cpu": "1"}
    assert read('{"groups":[],"counted":{"cpu":"nonsense"}}') is None


def test_each_node_is_told_by_itself_with_a_key_and_groups_where_there_are_too_many() -> None:
    seven = parse_all({"cpu": "7"})
    some = [
        FreeNode({"pool": "red", "host": f"m{n}"}, (), seven, machine_key(f"u{n}"))
        for n in range(freecapacity.MOST_MACHINES)
    ]
    found = read(tell_each(some, ("pool",)))
    assert found is not None
    assert {each.key for each in found.groups} == {each.key for each in some}
    assert {(each.nodes, each.labels["pool"], each.free["cpu"]) for each in found.groups} == {
        (1, "red", "7")
    }
    assert largest(found) == seven
    assert "host" not in tell_each(some, ("pool",))
    more = [*some, FreeNode({}, (), seven, machine_key("one more"))]
    assert tell_each(more, ("pool",)) == tell(more, ("pool",))
    twice = found.groups[0]
    assert read(msgspec.json.encode(FreeCapacity((twice, twice))).decode()) is None
    named = msgspec.structs.replace(twice, key="../secret")
    assert read(msgspec.json.encode(FreeCapacity((named,))).decode()) is None


def test_the_largest_word_of_nodes_is_no_longer_than_is_read() -> None:
    names = ("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "example.com/fpga")
    free = dict.fromkeys(names, 123_456_789_000)
    some = [
        FreeNode({"topology.kubernetes.io/zone": "eu-central-1a"}, (), free, machine_key(f"u{n}"))
        for n in range(freecapacity.MOST_MACHINES)
    ]
    text = tell_each(some, ("topology.kubernetes.io/zone",))
    assert len(text) <= freecapacity.LONGEST
    found = read(text)
    assert found is not None
    assert len(found.groups) == freecapacity.MOST_MACHINES


def test_room_for_a_pod_is_on_one_machine():
    found = told(free(0, cpu="8"), free(1, memory="48Gi"))
    assert has_room(found, parse_all({"cpu": "16", "memory": "8Gi"}))
    assert not has_room(found, parse_all({"cpu": "16", "memory": "32Gi"}))
    assert not has_room(found, parse_all({"nvidia.com/gpu": "1"}))
    assert not has_room(FreeCapacity(), parse_all({"cpu": "1"}))


def test_there_is_room_on_a_machine_for_all_that_is_free_on_it():
    found = read(tell_each([free(1, cpu="15"), keyed(2, cpu="8")], ()))
    assert found is not None
    assert {each.key for each in found.groups} == {machine_key(""), machine_key("uid-2")}
    assert has_room(found, parse_all({"cpu": "8", "memory": "32Gi"}))
    assert not has_room(found, parse_all({"cpu": "9"}))


def test_what_a_thousand_nodes_have_free_takes_little_wherever_it_is_kept():
    chance = random.Random(1)
    names = ("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi")
    nodes = [
        FreeNode(
            {"zone": f"zone-{chance.randrange(3)}", "gpu": chance.choice(("a100", "h100", ""))},
            chance.choice(((), (), ("gpu=true:NoSchedule",))),
            {name: chance.randrange(1, 10**6) * 10**9 for name in names},
        )
        for _ in range(1000)
    ]
    text = tell(nodes, ("zone", "gpu"))
    # The slice at the provider, the one here and its VirtualNode have it, each within its JSON.
    assert 0 < 3 * len(msgspec.json.encode(text)) < 20_000
    found = read(text)
    assert found is not None
    assert sum(each.nodes for each in found.groups) == 1000
    sums = {name: sum(each.free[name] for each in nodes) for name in names}
    for name, amount in sums.items():
        shown = sum(parse_all(each.free)[name] for each in found.groups)
        assert 0.9 * amount < shown <= amount


def test_of_declared_features_those_count_that_all_nodes_declare_and_that_cross():
    resize, restarts = "GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits"
    own = "ExtendWebSocketsToKubelet"  # of the kubelet's own API, which is another one here
    newer = "WritableCgroups"  # nobody knows here what it takes
    both = [own, newer, resize]
    made = [node(declaredFeatures=[*both, restarts]), node(declaredFeatures=both)]
    for number, each in enumerate(made):
        each["metadata"]["uid"] = str(number)
    nodes = [found for each in made if (found := free_node(each, {})) is not None]
    assert [each.features for each in told(*nodes).groups] == [(resize,)]
    assert features(told(*nodes)) == (resize,)
    assert features(told(free())) == features(None) == features(FreeCapacity()) == ()
    machines = read(tell_each(nodes, ()))
    assert machines is not None
    assert {each.features for each in machines.groups} == {(resize, restarts), (resize,)}
    assert features(machines) == (resize,)


def test_no_feature_is_believed_that_does_not_cross():
    for lie in ("Made", "ExtendWebSocketsToKubelet", "a,b", "x" * 1000):
        group = {"nodes": 1, "features": [lie, "GuaranteedQoSPodCPUResize"]}
        found = read(msgspec.json.encode({"groups": [group]}).decode())
        assert features(found) == ("GuaranteedQoSPodCPUResize",)


def test_amounts_are_told_by_their_shortest_texts():
    (group,) = told(free(memory="123456789"), free(memory="3Gi")).groups
    assert group.free == {"cpu": "32", "memory": "133G", "pods": "220"}
    assert group.largest == ({"cpu": "16", "memory": "68G", "pods": "110"},)


@pytest.mark.parametrize("seed", range(20))
def test_no_pod_that_fits_is_left_out_by_the_sizes_that_are_shown(seed: int) -> None:
    chance = random.Random(seed)
    nodes = []
    for _ in range(chance.randrange(1, 9)):
        has = {name: chance.randrange(10 ** chance.randrange(9, 23)) for name in ("cpu", "memory")}
        nodes.append(FreeNode({}, (), has))
    shown = size_labels(told(*nodes))
    for label, name, unit, _ in ANY:
        most = max(each.free[name] for each in nodes)
        assert most // unit < int(shown[label]) <= most * 1.1 // unit + 2


def test_sizes_are_shown_of_several_nodes_that_tell_them_and_are_all_there_are() -> None:
    found = told(free(0, cpu="10"), free(1, cpu="9", memory="60Gi"))
    assert size_labels(found) == {
        "liqod.io/largest-cpu": "7100",
        "liqod.io/largest-memory": str(69_000_000_000),
    }
    grows = msgspec.structs.replace(found, autoscales=True)
    machines = read(tell_each([keyed(0), keyed(1)], ()))
    lone = FreeCapacity((msgspec.structs.replace(found.groups[0], largest=({"cpu": "7"},)),))
    assert size_labels(None) == size_labels(grows) == size_labels(machines) == {}
    assert size_labels(lone) == size_labels(FreeCapacity()) == {}
    endless = ({"cpu": render(10**40), "memory": "1"},)
    huge = FreeCapacity((msgspec.structs.replace(found.groups[0], largest=endless),))
    assert size_labels(huge)["liqod.io/largest-cpu"] == str(2**63 - 1)
