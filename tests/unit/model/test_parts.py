"""A grant, divided among the parts of a provider."""

import random

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.model.objects import quantities
from liqod.model.peering import parts
from liqod.model.peering.freecapacity import FreeCapacity, NodeGroup, read
from liqod.model.peering.parts import divide, key_of, lasting, mode


def amounts(**texts: str) -> dict[str, int]:
    return quantities.parse_all({name.replace("_", "/"): text for name, text in texts.items()})


def test_a_slice_asks_for_one_node_as_a_whole_unless_it_says_more() -> None:
    assert mode({}) == "whole"
    assert mode({labels.VIRTUAL_NODES: "groups"}) == "groups"
    assert mode({labels.VIRTUAL_NODES: "each-rack"}) == "whole"


def test_a_key_changes_with_labels_and_taints_and_not_with_pods() -> None:
    one = NodeGroup(2, {"pool": "red", "disk": "ssd"}, (), {"cpu": "4"})
    same = NodeGroup(9, {"disk": "ssd", "pool": "red"}, (), {"cpu": "400"})
    other = NodeGroup(2, {"pool": "red", "disk": "ssd"}, ("a=b:NoSchedule",), {"cpu": "4"})
    assert key_of(one) == key_of(same) != key_of(other)


def test_nodes_that_kubernetes_shuts_for_a_while_are_no_part() -> None:
    short = NodeGroup(1, {}, ("node.kubernetes.io/memory-pressure=:NoSchedule",))
    kept = NodeGroup(1, {}, ("node-role.kubernetes.io/control-plane=:NoSchedule",))
    assert list(lasting(FreeCapacity((short, kept)), "groups").values()) == [kept]
    assert lasting(None, "groups") == {}


def test_nodes_by_themselves_are_for_slices_that_ask_for_them() -> None:
    told = FreeCapacity((NodeGroup(1, {}, (), {"cpu": "4"}, key="0a1b2c3d"), NodeGroup(2)))
    assert list(lasting(told, "groups").values()) == [NodeGroup(2)]
    assert list(lasting(told, "nodes")) == ["0a1b2c3d", key_of(NodeGroup(2))]


def test_of_machines_of_one_kind_as_many_have_a_share_as_it_can_fill() -> None:
    free = {f"m{number}": amounts(cpu="8", memory="16Gi", pods="110") for number in range(10)}
    kinds = dict.fromkeys(free, "same")
    shares = divide(amounts(cpu="20", memory="80Gi", pods="60"), free, {}, kinds)
    sizes = sorted((each["cpu"] for each in shares.values()), reverse=True)
    assert sum(sizes) == quantities.parse("20")
    assert [bool(each) for each in sizes] == [True] * 3 + [False] * 7
    assert sizes[0] >= quantities.parse("6")
    assert sum(each["pods"] for each in shares.values()) == quantities.parse("60")
    assert all(each["pods"] for each in shares.values() if each["cpu"])


def test_a_small_part_with_a_gpu_has_cpus_for_it() -> None:
    free = {"plain": amounts(cpu="100", gpu="0"), "gpus": amounts(cpu="8", gpu="1")}
    shares = divide(amounts(cpu="10", gpu="1"), free, {})
    assert shares == {"plain": amounts(cpu="5", gpu="0"), "gpus": amounts(cpu="5", gpu="1")}


def test_a_part_has_no_more_than_is_free_there_beside_what_runs() -> None:
    free = {"one": amounts(cpu="1"), "two": amounts(cpu="100")}
    shares = divide(amounts(cpu="10"), free, {"one": amounts(cpu="2")})
    assert shares == {"one": amounts(cpu="3"), "two": amounts(cpu="7")}


def test_what_runs_on_a_node_that_goes_is_taken_off() -> None:
    shares = divide(amounts(cpu="10"), {"one": amounts(cpu="100")}, {"old": amounts(cpu="4")})
    assert shares == {"one": amounts(cpu="6")}


def test_what_no_part_tells_of_may_be_on_each_and_what_cannot_be_split_goes_to_one() -> None:
    free = {"one": amounts(cpu="4"), "two": amounts(cpu="4")}
    shares = divide(amounts(fpga="1"), free, {})
    assert sorted(each["fpga"] for each in shares.values()) == [0, quantities.NANO]


@pytest.mark.parametrize("seed", range(50))
def test_the_parts_never_have_more_than_was_granted(seed: int) -> None:
    chance = random.Random(seed)

    def some(most: int) -> dict[str, int]:
        names = ("cpu", "memory", "pods")
        return {name: chance.randrange(most) * 10**6 for name in names if chance.random() < 0.9}

    keys = [f"part-{number}" for number in range(chance.randint(1, 9))]
    granted, free = some(100_000), {key: some(50_000) for key in keys}
    placed = {key: some(20_000) for key in [*keys, "leaving"] if chance.random() < 0.7}
    kinds = {key: chance.choice("ab") for key in keys} if seed % 2 else None
    shares = divide(granted, free, placed, kinds)
    for name, amount in granted.items():
        assert sum(each[name] for each in shares.values()) <= amount
        told = any(name in each for each in free.values())
        for key in keys:
            runs = placed.get(key, {}).get(name, 0)
            assert shares[key][name] >= 0
            assert not told or shares[key][name] <= runs + free[key].get(name, 0)


def test_a_group_that_grows_is_bounded_by_the_grant_alone() -> None:
    groups = {
        "plain": NodeGroup(1, {}, (), {"cpu": "0", "memory": "1Gi"}),
        "gpus": NodeGroup(1, {"gpu": "a100"}, (), {"cpu": "1", "memory": "1Gi", "gpu": "0"}),
    }
    granted = amounts(cpu="8", memory="8Gi", gpu="2")
    made = {each.key: each.share for each in parts.parts(groups, granted, {}, {}, grows=True)}
    assert made["plain"] == amounts(cpu="4", memory="4Gi", gpu="0")
    assert made["gpus"] == amounts(cpu="4", memory="4Gi", gpu="2")
    still = {each.key: each.share for each in parts.parts(groups, granted, {}, {})}
    assert still["plain"] == amounts(cpu="0", memory="1Gi", gpu="0")


def test_each_part_has_its_own_group_and_the_keys_that_only_others_have() -> None:
    red = NodeGroup(1, {"pool": "red"}, ("gpu=yes:NoSchedule",), {"cpu": "4"})
    plain = NodeGroup(1, {"kubernetes.io/arch": "amd64"}, (), {"cpu": "4"})
    rest = NodeGroup(7, {}, (), {"cpu": "4"})
    gone = NodeGroup(1, {"pool": "blue", "kubernetes.io/arch": "arm64"}, (), {"cpu": "4"})
    groups = {key_of(each): each for each in (red, plain, rest)}
    since = "2026-11-28T12:00:00Z"
    made = parts.parts(groups, amounts(cpu="9"), {}, {key_of(gone): (gone, since)})
    first, second, third, last = made
    assert first.taints == (("gpu", "yes", "NoSchedule"),)
    assert (first.lacks, second.lacks, third.lacks) == (("kubernetes.io/arch",), ("pool",), ())
    assert [read(each.told) for each in made] == [
        FreeCapacity((each,)) for each in (red, plain, rest, gone)
    ]
    assert (last.share, last.not_told_since) == ({"cpu": 0}, since)
    assert msgspec.structs.replace(first, share={}).not_told_since == ""


def test_a_part_is_told_which_of_its_pods_are_counted_where_the_provider_says_so() -> None:
    groups = {key: NodeGroup(1, {"pool": key}, (), {"cpu": "4"}) for key in ("red", "blue")}

    def counted(known: dict[str, int] | None) -> list[dict[str, str]]:
        made = parts.parts(groups, amounts(cpu="9"), {}, {}, counted=known)
        words = [read(each.told) for each in made]
        return [word.counted for word in words if word is not None]

    assert counted(None) == [{}, {}]
    assert counted({"red": 3, "gone": 2}) == [{"pods": "3"}, {"pods": "0"}]


def test_the_key_of_a_part_is_in_the_name_of_its_node() -> None:
    key = "0a1b2c3d"
    assert parts.key_in(parts.name_of("milan", key), "milan") == key
    for other in ("milan", "milan-", "milan-2", f"turin-{key}", f"milan-2-{key}", key):
        assert parts.key_in(other, "milan") == ""
