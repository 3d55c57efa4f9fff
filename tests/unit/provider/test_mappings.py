"""The namespaces of a peer, as they come, go, and come again under the same name."""

from typing import Any, cast

import msgspec

from liqod.kube.cache.store import StoreChange
from liqod.provider.namespaces.mappings import NamespaceMappings

TENANT = "liqo-tenant-rome"


class Inside:
    """A watch in the namespaces: what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def follow(self, namespace: str) -> None:
        self.told.append(f"+{namespace}")

    def unfollow(self, namespace: str) -> None:
        self.told.append(f"-{namespace}")


def namespace(uid: str, **meta: Any) -> bytes:
    metadata = {
        "name": "shop",
        "uid": uid,
        "labels": {"liqo.io/remote-cluster-id": "rome"},
        "annotations": {"liqo.io/managed-by-namespace-map": f"{TENANT}/milan"},
        **meta,
    }
    return msgspec.json.encode({"metadata": metadata})


def test_what_is_in_a_namespace_that_came_again_is_looked_at_anew() -> None:
    """The watch of namespaces broke: the end of the first one was never told."""
    inside = Inside()
    mapped = NamespaceMappings("rome", TENANT, cast("Any", inside))
    first = namespace("1")
    going = namespace("1", deletionTimestamp="2026-01-01T00:00:00Z")
    mapped.take_in(StoreChange(("", "shop"), None, first))
    mapped.take_in(StoreChange(("", "shop"), first, going))
    assert mapped.leaving == {"shop"}
    inside.told.clear()
    mapped.take_in(StoreChange(("", "shop"), going, namespace("2")))
    assert not mapped.leaving
    assert inside.told == ["-shop", "+shop"]  # all that is in it is told again
    assert "shop" in mapped
