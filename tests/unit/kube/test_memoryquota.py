"""Objects held of a peer over several stores, and the handling of those without room."""

import msgspec
import pytest

from liqod.apimachinery.rawobjects import Key, Slim
from liqod.errors import ProtocolError
from liqod.kube.cache.memoryquota import OVERHEAD, MemoryQuota, cost, drop_excess, keep_excess
from liqod.kube.cache.relist import Relist
from liqod.kube.cache.store import IndexedStore
from liqod.kube.http.cpubudget import CpuBudget

SIZE = 1000
ROOM = 10 * (SIZE + OVERHEAD + 2)
"""Bytes for ten objects."""


def body(number: int, size: int = SIZE) -> bytes:
    made = msgspec.json.encode({"metadata": {"name": f"{number}"}, "fat": ""})
    return made.replace(b'""}', b'"' + b"x" * (size - len(made)) + b'"}')


def small(_: bytes) -> bytes:
    return b"{}"


def fill(store: IndexedStore, namespace: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        store.put((namespace, f"{number}"), body(number))


def whole(store: IndexedStore, namespace: str) -> int:
    """How many objects of a namespace are kept in full."""
    keys = store.indexed("namespace", namespace)
    return sum(len(store.get(key) or b"") == SIZE for key in keys)


def test_what_is_beyond_is_a_stub_and_what_is_far_beyond_is_not_kept(caplog):
    holdings = MemoryQuota(ROOM, "guests.max_bytes")
    store = IndexedStore(part=holdings.part(small))
    fill(store, "shop", 100)
    assert whole(store, "shop") == 10
    assert 10 < len(store) < 20
    assert holdings.used(holdings.owner("shop")) <= 1.25 * ROOM
    assert [each.message for each in caplog.records] == ["no room for more objects"]
    assert caplog.records[0].setting == "guests.max_bytes"


def test_all_namespaces_and_stores_of_a_peer_are_one_sum():
    holdings = MemoryQuota(ROOM, "")
    pods, slices = (
        IndexedStore(part=holdings.part(drop_excess)),
        IndexedStore(part=holdings.part(drop_excess)),
    )
    for space in ("a", "b", "tenant"):
        holdings.belongs(space, "milan")
    fill(pods, "a", 4)
    fill(pods, "b", 4)
    fill(slices, "tenant", 4)
    assert (len(pods), len(slices)) == (8, 2)
    fill(slices, "other", 4)
    assert len(slices) == 6


def test_a_namespace_brings_along_what_was_held_of_it():
    holdings = MemoryQuota(ROOM, "")
    store = IndexedStore(part=holdings.part(drop_excess))
    fill(store, "a", 6)
    fill(store, "b", 6)
    holdings.belongs("a", "milan")
    holdings.belongs("b", "milan")
    assert holdings.used("milan") == sum(cost(key, store.get(key)) for key in store)
    fill(store, "a", 1, first=50)
    assert len(store) == 12
    holdings.belongs("b", None)
    fill(store, "a", 1, first=50)
    assert len(store) == 13
    for key in list(store):
        store.remove(key)
    assert (holdings.used("milan"), holdings.used(holdings.owner("b"))) == (0, 0)


def test_what_goes_makes_room_and_growing_counts():
    holdings = MemoryQuota(ROOM, "")
    store = IndexedStore(part=holdings.part(small))
    fill(store, "shop", 11)
    assert whole(store, "shop") == 10
    for number in (3, 4):
        store.remove(("shop", f"{number}"))
    store.put(("shop", "10"), body(10))
    assert whole(store, "shop") == 9
    change = store.put(("shop", "0"), body(0, 5 * SIZE))
    assert change is not None
    assert change.new == b"{}"


def test_what_is_not_kept_any_more_is_no_end():
    holdings = MemoryQuota(ROOM, "")
    store = IndexedStore(part=holdings.part(drop_excess))
    fill(store, "shop", 10)
    change = store.put(("shop", "0"), body(0, 5 * SIZE))
    assert change is not None
    assert change.new is None
    assert change.listed
    assert store.put(("shop", "77"), body(77, 5 * SIZE)) is None


def test_what_only_counts_is_always_kept():
    holdings = MemoryQuota(ROOM, "")
    holdings.belongs("shop", "milan")
    made, asked = (
        IndexedStore(part=holdings.part(keep_excess)),
        IndexedStore(part=holdings.part(small)),
    )
    fill(made, "shop", 15)
    assert whole(made, "shop") == 15
    fill(asked, "shop", 1)
    assert whole(asked, "shop") == 0


def test_by_a_label_alone_nobody_has_ever_more_held():
    """A user of this cluster's own, whose objects say that they were made for a peer."""
    holdings = MemoryQuota(ROOM, "")
    made = IndexedStore(part=holdings.part(keep_excess))
    fill(made, "theirs", 50)
    assert len(made) == 12
    listed(made, {("theirs", f"more-{number}"): body(number) for number in range(50)})
    assert holdings.used(holdings.owner("theirs")) <= 1.25 * ROOM


def test_a_namespace_that_is_called_like_a_peer_is_not_that_peer_s():
    holdings = MemoryQuota(ROOM, "")
    made = IndexedStore(part=holdings.part(keep_excess))
    holdings.belongs("of-milan", "milan")
    fill(made, "milan", 10)
    assert holdings.used("milan") == 0
    fill(made, "of-milan", 1)
    assert holdings.used("milan") > 0


def listed(store: IndexedStore, bodies: dict[Key, bytes]) -> Relist:
    made = Relist(store)
    for key, each in bodies.items():
        made.add(Slim(key, "1", each))
    return made


def test_a_list_is_bounded_while_it_comes_in():
    holdings = MemoryQuota(ROOM, "")
    store = IndexedStore(part=holdings.part(small))
    fill(store, "shop", 8)
    new = {("shop", f"new-{number}"): body(number) for number in range(100)}
    found = listed(store, new)
    # Both are held until the list has replaced what was there before. Their names are longer.
    assert sum(len(each) == SIZE for each in found.found.values()) == 1
    assert len(found.found) + found.left_out == 100
    same = {key: store.get(key) or b"" for key in store}
    again = listed(store, {**same, ("shop", "x"): body(0)})
    assert all(again.found[key] is each for key, each in same.items())


def test_a_list_in_another_order_holds_in_full_what_the_store_does():
    store = IndexedStore(part=MemoryQuota(ROOM, "").part(small))
    fill(store, "shop", 20)
    found = listed(store, {("shop", f"{number}"): body(number) for number in reversed(range(20))})
    assert found.found == {key: store.get(key) for key in store}
    assert all(store.get(key) is each for key, each in found.found.items() if len(each) == SIZE)


def test_a_list_that_names_an_object_twice_counts_it_once():
    holdings = MemoryQuota(ROOM, "")
    store = IndexedStore(part=holdings.part(small))
    found = Relist(store)
    for _ in range(50):
        found.add(Slim(("shop", "1"), "1", body(1)))
    assert len(found.found["shop", "1"]) == SIZE
    found.drop(("shop", "1"))
    assert not found.found


def test_a_store_that_goes_gives_back_what_it_held():
    holdings = MemoryQuota(ROOM, "")
    part = holdings.part(small)
    fill(IndexedStore(part=part), "shop", 5)
    part.close()
    assert holdings.used("shop") == 0


def test_what_was_left_out_has_room_again_once_one_of_it_fits():
    holdings = MemoryQuota(ROOM, "")
    part = holdings.part(small)
    store = IndexedStore(part=part)
    fill(store, "shop", 100)
    assert (part.crowded(), part.room_again()) == (set(), False)  # a namespace of no peer's
    holdings.belongs("shop", "milan")
    assert (part.crowded(), part.room_again()) == ({"milan"}, False)
    last = [key for key in store if store.get(key) == b"{}"][-1]
    store.remove(last)
    assert part.room_again()
    assert store.put(("shop", "99"), body(99)) is not None  # as it was said
    holdings.belongs("shop", None)
    assert (part.crowded(), part.room_again()) == (set(), False)


def test_what_may_be_no_stub_has_room_again_where_the_smallest_fits():
    holdings = MemoryQuota(ROOM, "")
    holdings.belongs("shop", "milan")
    part = holdings.part(drop_excess)
    store = IndexedStore(part=part)
    fill(store, "shop", 9)
    for number, size in ((20, 4 * SIZE), (21, 2 * SIZE), (22, 3 * SIZE)):
        assert store.put(("shop", f"{number}"), body(number, size)) is None
    assert not part.room_again()
    store.remove(("shop", "0"))
    assert part.room_again()
    assert store.put(("shop", "21"), body(21, 2 * SIZE)) is not None


def test_a_complete_list_tells_anew_what_is_left_out():
    holdings = MemoryQuota(ROOM, "")
    holdings.belongs("shop", "milan")
    part = holdings.part(small)
    store = IndexedStore(part=part)
    fill(store, "shop", 100)
    some = listed(store, {("shop", "1"): body(1)})
    assert part.crowded() == {"milan"}  # the list may yet break off
    some.commit()
    assert part.crowded() == set()
    listed(store, {("shop", f"{number}"): body(number) for number in range(100)}).commit()
    assert part.crowded() == {"milan"}


def test_a_provider_that_has_too_much_is_not_followed():
    budget = CpuBudget(MemoryQuota(ROOM, "consumer.max_bytes", owner="milan"))
    store = IndexedStore(part=budget.part())
    fill(store, "a", 5)
    fill(store, "b", 5)
    with pytest.raises(ProtocolError, match=r"\(consumer\.max_bytes\)"):
        fill(store, "c", 1)
    assert len(store) == 10
    assert CpuBudget().part() is None
