"""Labels of the largest places: of CPU and memory, and of these beside devices."""

import random

import msgspec
import pytest

from liqod.model.objects import podsizes, scheduling
from liqod.model.objects.eligibility import Placement, Strategy, is_fixed
from liqod.model.objects.nodefilters import NodeFacts, unselected
from liqod.model.objects.quantities import NANO, parse_all
from liqod.model.objects.selectors import selects
from liqod.model.peering import freecapacity, sizelabels
from liqod.model.peering.freecapacity import FreeNode, read, tell
from liqod.model.peering.sizelabels import beside, size_labels
from tests.unit.model.test_scheduling import patched, pod

GPU, NIC = "nvidia.com/gpu", "intel.com/nic"
MARKS = {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan"}


def machine(**free: str) -> FreeNode:
    names = {"gpu": GPU, "nic": NIC}
    return FreeNode({}, (), parse_all({names.get(key, key): n for key, n in free.items()}))


def shown(*nodes: FreeNode) -> dict[str, str]:
    return size_labels(read(tell(nodes, ())))


def asks(strategy: Strategy = "Remote", /, **requests: str):
    names = {"gpu": GPU, "nic": NIC}
    wanted = {names.get(key, key): n for key, n in requests.items()}
    made = pod(containers=[{"name": "c", "resources": {"requests": wanted}}])
    placement = Placement(strategy, providers={"milan": None}, room_told=True)
    return patched(made, scheduling.mutate(made, placement))


def goes(labels: dict[str, str], **requests: str) -> bool:
    return unselected(asks(**requests)["spec"], NodeFacts("milan", {**MARKS, **labels})) is None


def test_a_pod_with_a_gpu_goes_only_where_one_machine_has_that_and_its_cpus():
    apart = shown(machine(cpu="16", memory="64Gi"), machine(cpu="2", memory="8Gi", gpu="4"))
    assert apart["liqod.io/largest-cpu"] == "17000"
    assert apart["liqod.io/largest-nvidia.com_gpu"] == "5"
    assert apart["liqod.io/cpu-beside-nvidia.com_gpu"] == "2100"
    assert goes(apart, cpu="8")
    assert goes(apart, cpu="2", memory="8Gi", gpu="4")
    assert not goes(apart, cpu="8", gpu="1")
    assert not goes(apart, cpu="1", memory="32Gi", gpu="1")
    assert not goes(apart, cpu="1", gpu="5")
    assert goes(shown(machine(cpu="16", memory="64Gi", gpu="1")), cpu="8", gpu="1")


def test_a_device_of_which_none_is_free_has_no_place_and_one_that_is_not_told_is_not_compared():
    used = shown(machine(cpu="16", memory="64Gi", gpu="0"), machine(cpu="17", memory="65Gi"))
    assert not goes(used, gpu="1")
    assert goes(used, cpu="8", nic="1")
    assert not goes(used, cpu="32", nic="1")
    assert goes({}, cpu="32", gpu="8")
    assert not goes(used, gpu="1", nic="1")
    assert goes({}, gpu="1", nic="1")


MORE = ("a.com/fpga", "b.com/nic", "c.com/ssd", "d.com/gpu")


@pytest.mark.parametrize("number", [3, 4])
@pytest.mark.parametrize("scarce", range(4))
def test_each_of_four_devices_of_a_pod_is_compared(number: int, scarce: int) -> None:
    devices = MORE[:number]
    size = {"cpu": "16", "memory": "64Gi", **dict.fromkeys(devices, "2")}
    ample = shown(machine(**size), machine(**size))
    assert goes(ample, cpu="8", **dict.fromkeys(devices, "2"))
    if scarce < number:
        assert not goes(ample, cpu="8", **{**dict.fromkeys(devices, "2"), devices[scarce]: "3"})
        # One that is not told of keeps no pod away, and the others are compared all the same.
        untold = {
            key: n for key, n in ample.items() if devices[scarce].replace("/", "_") not in key
        }
        assert goes(untold, cpu="8", **dict.fromkeys(devices, "2"))
        other = devices[scarce - 1]
        assert not goes(untold, cpu="8", **{**dict.fromkeys(devices, "2"), other: "3"})


def test_the_alternatives_of_a_pod_with_many_devices_are_few() -> None:
    requests = {"requests": {f"a.b/d{n}": "1" for n in range(50)}}
    body = pod(containers=[{"name": "c", "resources": requests}])
    asked = podsizes.sizes(body, Placement("Remote", room_told=True))
    assert len(podsizes.terms(asked)) == 1 + 4 + 6 + 1


def test_what_was_sent_since_takes_from_the_labels_of_devices_as_well() -> None:
    found = read(tell([machine(cpu="8", memory="8Gi", gpu="4")] * 2, ()))
    sent = size_labels(found, parse_all({"cpu": "3", GPU: "1"}))
    keys = [each.label for each in (*sizelabels.ANY, *beside(GPU))]
    assert [size_labels(found)[key] for key in keys][0::3] == ["8100", "8100"]
    assert [sent[key] for key in keys if "memory" not in key] == ["3100", "2", "3100"]
    assert not goes(sent, cpu="1", gpu="2")


def test_small_pods_that_were_sent_change_the_labels_by_steps() -> None:
    found = read(tell([machine(cpu="64", memory="640Gi")] * 2, ()))
    seen = []
    for sent in range(0, 4000, 50):
        left = parse_all({"cpu": f"{64_000 - sent}m"})
        seen.append(int(size_labels(found, left)[sizelabels.ANY[0].label]))
        assert 64_000 - sent < seen[-1] <= 64_000 - sent + 1000
    assert sorted(set(seen)) == [61_000, 62_000, 63_000, 64_000, 65_000]


def test_a_pod_that_may_stay_goes_to_machines_here_whatever_it_asks_for():
    made = asks("LocalAndRemote", cpu="8", gpu="1", nic="1")
    assert unselected(made["spec"], NodeFacts("here")) is None
    assert not is_fixed(made, ())


@pytest.mark.parametrize("seed", range(20))
def test_no_pod_that_fits_on_a_machine_is_left_out(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [
        machine(
            cpu=f"{chance.randrange(64_000)}m",
            memory=f"{chance.randrange(1 << 38)}",
            gpu=str(chance.choice((0, 0, 1, 4, 8))),
            nic=str(chance.choice((0, 1))),
        )
        for _ in range(chance.choice((1, 3, 40)))
    ]
    labels = {**MARKS, **shown(*nodes)}
    for each in nodes:
        part = chance.choice((1, 1, 2, 5))
        wanted = {name: str(n // part // 1000) + "u" for name, n in each.free.items()}
        wanted |= {name: str(each.free[name] // NANO) for name in (GPU, NIC)}
        body = pod(containers=[{"name": "c", "resources": {"requests": wanted}}])
        sizes = podsizes.sizes(body, Placement("Remote", room_told=True))
        assert selects(podsizes.terms(sizes), "milan", labels)


@pytest.mark.parametrize("count", [12, 1000])
def test_of_many_machines_those_without_a_gpu_lend_no_cpus_to_those_with_one(count: int) -> None:
    chance = random.Random(count)
    nodes = [
        machine(cpu=f"{n % 60}", memory=f"{chance.randrange(1, 200)}Gi", **kind)
        for n in range(count)
        for kind in ({}, {"nic": "1"})
    ]
    nodes += [machine(cpu=f"{n}", memory=f"{9 - n}Gi", gpu="4") for n in range(1, 8)]
    chance.shuffle(nodes)
    found = shown(*nodes)
    assert found["liqod.io/cpu-beside-nvidia.com_gpu"] == "7100"
    assert not goes(found, cpu="8", gpu="1")
    assert goes(found, cpu="7", gpu="1")
    assert goes(found, cpu=f"{min(count - 1, 59)}", nic="1")


@pytest.mark.parametrize(
    "name",
    [
        "gpu",
        "/gpu",
        "nvidia.com/",
        "Nvidia.com/gpu",
        "nvidia.com/gpu\n",
        "a/b/c",
        f"a.b/{'x' * 60}",
    ],
)
def test_a_name_of_which_no_label_can_be_made_has_none(name: str) -> None:
    assert beside(name) == ()


def test_names_of_labels_are_short_enough_and_are_known_as_such():
    longest = "example.com/" + "x" * (63 - len("memory-beside-example.com_"))
    for name in (GPU, longest):
        for each in beside(name):
            assert len(each.label.partition("/")[2]) <= 63
            assert sizelabels.is_size(each.label)
    assert not sizelabels.is_size("liqod.io/part")


def test_a_provider_that_names_very_many_devices_has_few_labels():
    size = {"cpu": "8", "memory": "8Gi", **{f"a.b/d{n}": "1" for n in range(500)}}
    word = msgspec.json.encode({"groups": [{"nodes": 2, "largest": [size]}]}).decode()
    assert len(word) < freecapacity.LONGEST
    assert len(size_labels(read(word))) == 2 + 3 * sizelabels.MOST_DEVICES
