"""Unpeering: whose id is used to clear the other side."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.errors import ConfigError, Forbidden, Overloaded, Unreachable
from liqod.procedures import otherhalf, tenantstate, unpeering
from liqod.resources import RESOURCE_SLICES


class Remote:
    """A peering user's client, whose namespace is the tenant's there."""

    namespace = "liqo-tenant-rome"

    def __init__(self) -> None:
        self.deleted: list[tuple[str, str]] = []

    async def delete(self, kind: Any, name: str, namespace: str) -> None:
        self.deleted.append((kind.name, name))

    async def find(self, kind: Any, name: str, **_: Any) -> Partial:
        return Partial(metadata=ObjectMeta(name=name))

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

    async def forbidden(client: Any, peer: str) -> None:
        raise Forbidden("namespaces is forbidden")

    async def there(client: Any, namespace: str) -> str:
        return {"theirs": "milan"}[namespace]

    monkeypatch.setattr(otherhalf, "own_cluster_id", own)
    monkeypatch.setattr(otherhalf, "cluster_id", there)
    monkeypatch.setattr(otherhalf, "find_tenant_namespace", forbidden)
    monkeypatch.setattr(unpeering, "find_tenant_namespace", nowhere)
    remote: Any = Remote()
    local: Any = Local()
    other = await otherhalf.find(local, remote, "milan", liqo="elsewhere", remote_liqo="theirs")
    end = await unpeering.unpeer(
        local, "milan", other=other, liqo="elsewhere", progress=lambda step: None
    )
    assert end.complete
    assert end.cleared == ("Tenant rome", "GatewayClient rome")
    assert end.keeps.namespace == Remote.namespace
    assert ("Tenant", "rome") in remote.deleted
    assert ("GatewayClient", "rome") in remote.deleted


async def test_the_kubeconfig_of_another_cluster_clears_nothing(monkeypatch: pytest.MonkeyPatch):
    async def one(client: Any, namespace: str) -> str:
        return "rome"

    async def another(client: Any, namespace: str) -> str:
        return "turin"

    monkeypatch.setattr(otherhalf, "own_cluster_id", one)
    monkeypatch.setattr(otherhalf, "cluster_id", another)
    remote: Any = Remote()
    local: Any = Local()
    with pytest.raises(ConfigError, match="leads to the cluster turin, not to milan"):
        await otherhalf.find(local, remote, "milan")
    assert not remote.deleted


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
