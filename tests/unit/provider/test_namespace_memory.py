"""The memory that the makers of pods and of slices have of a namespace goes with it."""

from typing import Any

import pytest

from liqod.cluster.guestpolicies import GuestPolicies
from liqod.kube.cache.store import StoreChange
from liqod.peers.peer import Peer
from liqod.provider.workloads import shadowendpointslices, shadowpods

KEY = ("shop-rome", "web")
OTHER = ("bazaar-rome", "web")


class Empty:
    """Stores and settings in which there is nothing."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: object) -> None:
        return None

    def decode(self, *_: object) -> None:
        return None


EMPTY: Any = Empty()
PEER = Peer("rome", EMPTY, "liqo-tenant-rome")


def pods() -> Any:
    return shadowpods.ShadowPods(PEER, GuestPolicies())


def slices() -> Any:
    return shadowendpointslices.ShadowEndpointSlices(PEER)


@pytest.mark.parametrize(
    ("make", "memories"),
    [
        (pods, ("_made", "_written", "_patched", "_refusals", "_ended")),
        (slices, ("_failures", "_told", "_ended")),
    ],
    ids=["pods", "slices"],
)
async def test_a_namespace_that_went_is_forgotten(make, memories):
    room = make()
    for each in memories:
        getattr(room, each).update({KEY: 1, OTHER: 1})
    for each in room.watches:
        each._informer = EMPTY
    room._mapped._names.add("shop-rome")
    (gone,) = {*room._on_namespace(StoreChange(("", "shop-rome"), None, None))}
    assert gone == KEY
    await room.reconcile(KEY)
    assert all(set(getattr(room, each)) == {OTHER} for each in memories)
