"""Unpeering: whose id is used to clear the other side."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.errors import Overloaded, Unreachable
from liqod.procedures import tenantstate, unpeering
from liqod.resources import RESOURCE_SLICES


class Remote:
    """A peering user's client, whose namespace is the tenant's there."""

    namespace = "liqo-tenant-rome"

    def __init__(self) -> None:
        self.deleted: list[tuple[str, str]] = []

    async def delete(self, kind: Any, name: str, namespace: str) -> None:
        self.deleted.append((kind.name, name))

    async def list(self, kind: Any, selection: Any, **_: Any) -> list[Partial]:
        there = ObjectMeta(name="rome") if kind.name == "GatewayClient" else None
        return [Partial(metadata=there)] if there is not None else []


class Local:
    """A cluster in which nothing is left of the peer."""

    async def find(self, *_: Any, **__: Any) -> None:
        return None

    async def list(self, *_: Any, **__: Any) -> list[Any]:
        return []


async def test_the_other_side_is_cleared_by_the_id_of_the_namespace_that_is_used(
    monkeypatch: pytest.MonkeyPatch,
):
    async def own(client: Any, namespace: str) -> str:
        return {"elsewhere": "rome"}[namespace]

    async def nowhere(client: Any, peer: str) -> None:
        return None

    monkeypatch.setattr(unpeering, "own_cluster_id", own)
    monkeypatch.setattr(unpeering, "find_tenant_namespace", nowhere)
    remote: Any = Remote()
    local: Any = Local()
    end = await unpeering.unpeer(
        local, "milan", remote=remote, liqo="elsewhere", progress=lambda step: None
    )
    assert end.complete
    assert ("Tenant", "rome") in remote.deleted
    assert ("GatewayClient", "rome") in remote.deleted


async def test_a_moment_without_the_api_server_ends_no_leave(autojump_clock):
    answers: list[Exception | None] = [None, Overloaded("503"), Unreachable("away"), None]

    class Away(Local):
        async def find(self, *_: Any, **__: Any) -> Any:
            answer = answers.pop(0) if answers else None
            if isinstance(answer, Exception):
                raise answer
            return msgspec.convert({"metadata": {"name": "x"}}, Partial) if answers else None

    local: Any = Away()
    end = await unpeering.wait_gone(local, "milan", "liqo-tenant-milan", lambda step: None)
    assert end.complete
    assert not answers


async def test_a_moment_without_the_api_server_ends_no_drain(autojump_clock):
    answers: list[Any] = [["slice"], Overloaded("503"), ["slice"], []]

    class Away:
        async def list(self, *_: Any, **__: Any) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    client: Any = Away()
    await tenantstate.wait_until_none(client, RESOURCE_SLICES, "liqo-tenant-rome")
    assert not answers
