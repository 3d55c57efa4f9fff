"""The objects that a daemon looks at are those that ``liqod status`` lists."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS
from liqod.apimachinery.meta import ObjectMeta
from liqod.cluster.podselection import PodSelection
from liqod.inspect.objectcaches import LISTED, Expiry, Unplaced, WatchedObjects, lives
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects.podsight import LivePod
from liqod.model.view import objectfacts
from liqod.model.view.podwaits import PodWait, waiting
from liqod.model.view.snapshot import Snapshot
from liqod.plugins import examination
from liqod.resources.networking import CONNECTIONS, Connection, ConnectionStatus
from tests.unit.inspect.working import Listed


async def seen(**objects: Any) -> Snapshot:
    """The snapshot of a daemon whose informers have these objects, by the field of the list."""
    by_kind = {
        (LISTED[field].kind, LISTED[field].selection("liqo")): Listed(found)
        for field, found in objects.items()
    }

    def find(kind: Any, selection: Selection = Selection()) -> Any:  # noqa: B008  # frozen
        return by_kind.get((kind, selection))

    context: Any = SimpleNamespace(
        informers=SimpleNamespace(find=find),
        namespace="liqo",
        cluster_id="rome",
        own_pods=PodSelection(),
    )
    watched = WatchedObjects(context)
    await watched.refresh()
    return watched.snapshot("reachable", ())


async def test_each_kind_that_is_listed_is_a_field_of_the_daemons_snapshot(nursery):
    for field, each in LISTED.items():
        found = each.type(metadata=ObjectMeta(name="milan", namespace="liqo"))
        assert getattr(await seen(), field, None) in ((), {}), field
        if field != "expiries":  # it has no certificate
            assert getattr(await seen(**{field: found}), field) == (each.make(found),), field
    assert {each.kind for each in LISTED.values()}.isdisjoint({NODES})
    assert LISTED["guests"].kind is PODS


async def test_a_daemon_reports_the_joined_network_as_its_objects_have_it(nursery):
    metadata = ObjectMeta(name="milan", labels={labels.REMOTE_CLUSTER_ID: "milan"})
    broken = Connection(metadata=metadata, status=ConnectionStatus("Connecting"))
    snapshot = await seen(connections=broken)
    own = objectfacts.cluster(snapshot)
    found = examination.problems(own, objectfacts.everyone(snapshot, own))
    assert [each.what for each in found if each.peer == "milan"] == [
        "the joined network: the tunnel is Connecting"
    ]
    assert LISTED["connections"].kind is CONNECTIONS


def test_a_certificate_that_there_is_not_yet_has_no_end():
    found = lives([Expiry("milan", "control plane", float("inf")), Expiry("oslo", "slice", 0.0)])
    assert [*found] == [("oslo", "slice")]
    assert found["oslo", "slice"] < 0


class ManyPods:
    """As much of an informer of pods as a cache of theirs needs."""

    def __init__(self) -> None:
        self.pods: dict[Key, bytes] = {}
        self.store = self

    def subscribe(self, tell: Callable[[StoreChange], None]) -> Callable[[], None]:
        self._tell = tell
        return lambda: None

    def get(self, key: Key) -> bytes | None:
        return self.pods.get(key)

    def decode(self, key: Key, type: type[Any]) -> Any:
        return msgspec.json.decode(self.pods[key], type=type) if key in self.pods else None

    def put(self, name: str, node: str) -> None:
        """A change of one of them."""
        meta = {"name": name, "namespace": "shop"}
        body = msgspec.json.encode({"metadata": meta, "spec": {"nodeName": node} if node else {}})
        key = ("shop", name)
        change = StoreChange(key, self.pods.get(key), body)
        self.pods[key] = body
        self._tell(change)


async def test_only_pods_without_a_node_are_read_and_none_that_gets_one_is_kept(nursery):
    pods: Any = ManyPods()
    cache = Unplaced[PodWait](LivePod, waiting)
    cache.sit_on(pods)
    for number in range(100):
        pods.put(f"placed-{number}", "n1")
    assert not await cache.refresh()
    pods.put("web", "")
    assert await cache.refresh()
    assert [each.name for each in cache.rows.values()] == ["web"]
    pods.put("web", "n1")
    pods.put("late", "")
    pods.put("late", "n1")  # before anybody looks
    assert await cache.refresh()
    assert cache.rows == {}
    pods.put("web", "n1")
    assert not await cache.refresh()
