"""Unpeering: whose id is used to clear the other side."""

from typing import Any

import pytest

from liqod.consumer import departure


class Remote:
    """A peering user's client, whose namespace is the tenant's there."""

    namespace = "liqo-tenant-rome"

    def __init__(self) -> None:
        self.deleted: list[tuple[str, str]] = []

    async def delete(self, kind: Any, name: str, namespace: str) -> None:
        self.deleted.append((kind.name, name))


class Local:
    """A cluster in which nothing is left of the peer."""

    async def find(self, *_: Any, **__: Any) -> None:
        return None


async def test_the_other_side_is_cleared_by_the_id_of_the_namespace_that_is_used(
    monkeypatch: pytest.MonkeyPatch,
):
    async def own(client: Any, namespace: str) -> str:
        return {"elsewhere": "rome"}[namespace]

    async def nowhere(client: Any, peer: str) -> None:
        return None

    monkeypatch.setattr(departure, "own_cluster_id", own)
    monkeypatch.setattr(departure, "find_tenant_namespace", nowhere)
    remote: Any = Remote()
    local: Any = Local()
    end = await departure.unpeer(
        local, "milan", remote=remote, liqo="elsewhere", progress=lambda step: None
    )
    assert end.complete
    assert ("Tenant", "rome") in remote.deleted
