"""How much of what a consumer writes is kept."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from liqod.cluster.memorylimits import (
    KeptEndpoints,
    KeptMap,
    KeptSlice,
    note_owner,
    stub_over_limit,
    trim_endpoints,
    trim_made,
    trim_map,
    trim_slice,
    trim_to,
)
from liqod.config import GuestSettings
from liqod.kube.cache.memoryquota import NOBODY, MemoryQuota
from liqod.kube.cache.store import IndexedStore, StoreChange
from liqod.model.peering.quota import pod_cost
from liqod.provider.workloads.graceperiods import GracePeriods
from liqod.provider.workloads.shadow import GuestPod, Shadow, ShadowPlan, decide
from liqod.resources.base import MAX_ENDPOINTS, MAX_MAPPED, MAX_QUANTITIES

LIMIT = 65536


def shadow_pod(name: str, size: int, **metadata: Any) -> bytes:
    container = {"name": "web", "env": [{"name": "FAT", "value": "x" * size}]}
    meta = {"name": name, "namespace": "shop-rome", "uid": "u", **metadata}
    return msgspec.json.encode({"metadata": meta, "spec": {"pod": {"containers": [container]}}})


def test_an_ordinary_one_is_kept_as_it_came():
    body = shadow_pod("web", 1000)
    assert trim_to(LIMIT)(body) is body
    assert trim_to(LIMIT) is trim_to(LIMIT)


def test_a_large_pod_that_people_write_is_kept_as_it_came():
    variables = [{"name": f"V{number}", "value": "x" * 500} for number in range(140)]
    pod = {"containers": [{"name": "web", "env": variables}]}
    body = msgspec.json.encode({"metadata": {"name": "web"}, "spec": {"pod": pod}})
    assert len(body) > LIMIT
    assert trim_to(GuestSettings().max_pod_bytes)(body) is body


def test_of_a_huge_one_enough_is_kept_to_refuse_it():
    marks = {"offloading.liqo.io/origin": "rome", **{f"k{n}": "x" * 60 for n in range(1000)}}
    body = shadow_pod("web", 10**6, labels=marks, annotations={"a": "b" * 10**5})
    stub = trim_to(LIMIT)(body)
    assert len(stub) < 500
    plan = decide(msgspec.json.decode(stub, type=Shadow), None, "rome")
    assert plan.status is not None
    assert (plan.make, plan.status["reason"]) == (False, "TooLarge")
    assert f"{len(body)} bytes" in plan.status["message"]


def test_what_cannot_be_read_is_not_kept_either():
    assert len(trim_to(LIMIT)(b"[" * 10**6)) < 100


def test_a_flood_is_held_in_a_few_hundred_bytes_each():
    store = IndexedStore(trim=trim_to(LIMIT))
    for number in range(100):
        store.put(("shop-rome", f"huge-{number}"), shadow_pod(f"huge-{number}", 10**6))
    assert sum(len(store.get(key) or b"") for key in store) < 100 * 500


def endpoint(number: int) -> dict[str, Any]:
    """One endpoint, with names as long as they may be."""
    return {
        "addresses": [f"2001:0db8:85a3:0000:0000:8a2e:0370:{number:04x}"],
        "conditions": {"ready": True},
        "hostname": "h" * 63,
        "nodeName": "c" * 63,
        "zone": "z" * 63,
        "hints": {"forZones": [{"name": "z" * 63}]},
        "targetRef": {
            "kind": "RemotePod",
            "name": f"{number:0253}",
            "namespace": "n" * 63,
            "uid": "0" * 36,
        },
    }


def endpoint_slice(*endpoints: Any) -> bytes:
    meta = {"name": "w" * 253, "namespace": "n" * 63, "uid": "u"}
    template = {"addressType": "IPv6", "endpoints": endpoints}
    return msgspec.json.encode({"metadata": meta, "spec": {"template": template}})


def test_a_thousand_endpoints_fit_with_the_longest_names():
    body = endpoint_slice(*map(endpoint, range(MAX_ENDPOINTS)))
    assert trim_endpoints(body) is body


def test_of_a_slice_that_is_larger_its_name_and_size_are_known():
    body = endpoint_slice(*map(endpoint, range(2 * MAX_ENDPOINTS)))
    found = msgspec.json.decode(trim_endpoints(body), type=KeptEndpoints)
    assert (found.metadata.uid, found.too_large) == ("u", len(body))
    assert found.spec.template.endpoints is None


REPLICA = {"liqo.io/replicated": "true", "liqo.io/originID": "rome"}


def slice_of(resources: int, **metadata: Any) -> bytes:
    spec = {
        "class": "default",
        "csr": "eA==",
        "resources": {f"r{n}": "1" for n in range(resources)},
    }
    return msgspec.json.encode(
        {"metadata": {"name": "gold", "uid": "u", **metadata}, "spec": spec, "status": {"a": 1}}
    )


def map_of(entries: int, **metadata: Any) -> bytes:
    desired = {f"n{number}": f"n{number}-rome" for number in range(entries)}
    meta = {"name": "milan", "uid": "u", **metadata}
    return msgspec.json.encode({"metadata": meta, "spec": {"desiredMapping": desired}})


def test_a_slice_that_names_too_many_resources_is_kept_without_them():
    body = slice_of(20_000, labels=REPLICA, annotations={"fat": "x" * 10_000})
    stub = trim_slice(body)
    assert len(stub) < 1000
    found = msgspec.json.decode(stub, type=KeptSlice)
    assert (found.too_large, found.spec.resources, found.spec.class_name) == (20_000, {}, "default")
    assert found.metadata.labels == REPLICA
    assert found.spec.csr == b"x"


def test_a_map_that_has_too_many_entries_is_kept_without_them():
    found = msgspec.json.decode(trim_map(map_of(8_000, labels=REPLICA)), type=KeptMap)
    assert (found.too_large, found.spec.desired_mapping) == (8_000, {})
    assert (found.name, found.metadata.uid) == ("milan", "u")


@pytest.mark.parametrize(
    ("trim", "body"),
    [
        (trim_slice, slice_of(MAX_QUANTITIES, labels=REPLICA, annotations={"a": "x" * 10_000})),
        (trim_slice, slice_of(20_000)),
        (trim_map, map_of(MAX_MAPPED, labels=REPLICA)),
        (trim_map, map_of(8_000)),  # this cluster's own: it is copied to the peer as it stands
        (trim_map, b"[" * 100_000),
    ],
)
def test_what_honest_clusters_write_is_kept_as_it_came(trim: Callable[[bytes], bytes], body: bytes):
    assert trim(body) is body


@pytest.mark.parametrize("fat", [20, 20_000])
def test_of_a_pod_what_is_counted_and_followed_is_kept(fat: int):
    container = {
        "name": "web",
        "env": [{"name": "FAT", "value": "x" * fat}],
        "resources": {"requests": {"cpu": "2"}},
    }
    side = {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"memory": "1Gi"}}}
    spec = {"containers": [container], "initContainers": [side], "overhead": {"cpu": "1"}}
    spec |= {"terminationGracePeriodSeconds": 7200, "nodeName": "milan-1"}
    pod = {
        "metadata": {"name": "web", "labels": {"a": "b"}},
        "spec": spec,
        "status": {"phase": "P"},
    }
    kept = trim_made(msgspec.json.encode(pod))
    assert b"FAT" not in kept
    found = msgspec.json.decode(kept)
    assert pod_cost(found["spec"]) == pod_cost(spec)
    assert found["spec"]["nodeName"] == "milan-1"
    made = msgspec.json.decode(kept, type=GuestPod)
    assert GracePeriods(3600).grace(("shop", "web"), made) == 3600
    assert found["status"] == {"phase": "P"}
    assert found["metadata"]["labels"] == {"a": "b"}


def test_who_has_too_much_here_is_told_so():
    stub = msgspec.json.decode(stub_over_limit(shadow_pod("web", 10)), type=Shadow)
    plan = decide(stub, None, "rome")
    assert plan.status is not None
    assert plan.status["reason"] == "TooMuch"
    assert "max_bytes under [guests]" in plan.status["message"]
    lives = GuestPod(metadata=stub.metadata)
    assert decide(stub, lives, "rome") == ShadowPlan(holds=True)


def test_whose_a_namespace_is_comes_from_what_only_this_cluster_writes():
    holdings = MemoryQuota(1000, "")

    def owner(**metadata: Any) -> str:
        body = msgspec.json.encode({"metadata": {"name": "shop", **metadata}})
        note_owner(holdings, StoreChange(("", "shop"), None, body))
        return holdings.owner("shop")

    mark = {"liqo.io/remote-cluster-id": "rome"}
    assert owner(labels=mark) == NOBODY + "shop"
    mapped = {"liqo.io/managed-by-namespace-map": "liqo-tenant-rome/milan"}
    assert owner(labels=mark, annotations=mapped) == "rome"
    assert owner(labels={**mark, "liqo.io/tenant-namespace": "true"}) == "rome"
    note_owner(holdings, StoreChange(("", "shop"), b"", None))
    assert holdings.owner("shop") == NOBODY + "shop"
