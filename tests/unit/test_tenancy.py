"""The namespace of a peer, where the API server's cache lags behind."""

from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.cluster.tenancy import ensure_tenant_namespace, find_tenant, look_up_tenant
from liqod.errors import NotFound
from liqod.kube.selection import EVERY, Selection

MINE = {labels.TENANT_NAMESPACE: labels.TRUE, labels.REMOTE_CLUSTER_ID: "rome"}


def namespace(name: str, marks: dict[str, str], note: str = "") -> Partial:
    """One namespace."""
    noted = {"note": note} if note else {}
    return Partial(metadata=ObjectMeta(name=name, labels=marks, annotations=noted))


class Client:
    """A cluster whose cache shows some namespaces, and which has others by now."""

    def __init__(self, cached: list[Partial], there: list[Partial]) -> None:
        self.cached, self.there = cached, {each.metadata.name: each for each in there}
        self.listed: list[bool] = []

    async def list(self, kind: Any, selection: Selection = EVERY, *, decode: Any) -> list[Partial]:
        self.listed.append(selection.cached)
        found = self.cached if selection.cached else [*self.there.values()]
        return [each for each in found if each.metadata.labels == MINE]

    async def find(self, kind: Any, name: str, *, decode: Any) -> Partial | None:
        return self.there.get(name)

    async def get(self, kind: Any, name: str, *, decode: Any) -> Partial:
        if name not in self.there:
            raise NotFound(name)
        return self.there[name]


@pytest.mark.parametrize(
    ("cached", "there", "expected"),
    [
        ([], [], None),
        ([], [namespace("liqo-tenant-rome", MINE, "now")], "now"),
        ([namespace("old", MINE, "then")], [namespace("old", MINE, "now")], "now"),
        ([namespace("old", MINE)], [], None),
        ([namespace("old", MINE)], [namespace("old", {})], None),
        ([], [namespace("liqo-tenant-rome", {})], None),
    ],
)
async def test_what_a_namespace_says_is_read_as_it_is_now(
    cached: list[Partial], there: list[Partial], expected: str | None
):
    client: Any = Client(cached, there)
    found = await look_up_tenant(client, "rome")
    assert (found and found.annotations["note"]) == expected
    assert client.listed == [True]


async def test_none_is_made_beside_one_of_another_name_that_no_cache_tells_yet():
    client: Any = Client([], [namespace("adopted", MINE)])
    assert await look_up_tenant(client, "rome") is None
    found = await find_tenant(client, "rome")
    assert found is not None
    assert await ensure_tenant_namespace(client, "rome") == found.name == "adopted"


def test_only_what_is_asked_for_from_a_cache_comes_from_it():
    assert "resourceVersion" not in Selection("liqo").query()
    assert Selection("liqo", cached=True).query()["resourceVersion"] == "0"
