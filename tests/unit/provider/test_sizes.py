"""How much of what a consumer writes is kept."""

from typing import Any

import msgspec

from liqod.kube.store import Store
from liqod.provider.shadow import Shadow, decide
from liqod.provider.sizes import is_small, trim_to

LIMIT = 65536


def shadow_pod(name: str, size: int, **metadata: Any) -> bytes:
    container = {"name": "web", "env": [{"name": "FAT", "value": "x" * size}]}
    meta = {"name": name, "namespace": "shop-rome", "uid": "u", **metadata}
    return msgspec.json.encode({"metadata": meta, "spec": {"pod": {"containers": [container]}}})


def test_an_ordinary_one_is_kept_as_it_came():
    body = shadow_pod("web", 1000)
    assert trim_to(LIMIT)(body) is body
    assert trim_to(LIMIT) is trim_to(LIMIT)


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
    store = Store(trim=trim_to(LIMIT))
    for number in range(100):
        store.put(("shop-rome", f"huge-{number}"), shadow_pod(f"huge-{number}", 10**6))
    assert sum(len(store.get(key) or b"") for key in store) < 100 * 500


def test_endpoint_slices_have_a_size():
    assert is_small(b"x" * 1000)
    assert not is_small(b"x" * 10**6)
