"""``ensure``: the fewest writes, on our own objects only."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import AlreadyExists, Conflict, Invalid
from liqod.kube.ensure import HASH, ensure, stamped
from liqod.model.objects.patches import merged

OURS = {labels.ORIGIN: "rome", labels.DESTINATION: "milan"}


def config_map(data, **marks):
    return {"metadata": {"name": "conf", "namespace": "demo", "labels": {**OURS, **marks}}, **data}


class Server:
    """Keeps one object and the writes it was sent."""

    def __init__(self) -> None:
        self.live: dict[str, Any] | None = None
        self.writes: list[str] = []
        self.refuse_patches = False
        self.refuse_creates = False

    @property
    def stored(self) -> bytes | None:
        return None if self.live is None else msgspec.json.encode(self.live)

    async def create(self, kind: Kind, obj: Any, namespace: str | None = None) -> Partial:
        if self.refuse_creates:
            raise Invalid("no such field")
        if self.live is not None:
            raise AlreadyExists("conf exists")
        self.writes.append("create")
        self.live = merged({"metadata": {"uid": "1"}}, obj)
        return Partial(kind=kind.name)

    async def patch(
        self, kind: Kind, name: str, patch: Any, namespace: str | None = None
    ) -> Partial:
        assert (name, namespace) == ("conf", "demo")
        if self.refuse_patches:
            raise Invalid("field is immutable")
        self.writes.append("patch")
        self.live = merged(self.live, patch)
        return Partial(kind=kind.name)

    async def delete(
        self, kind: Kind, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> bool:
        assert uid == "1"
        self.writes.append("delete")
        self.live = None
        return True


async def run(server, wanted, **options):
    return await ensure(server, CONFIG_MAPS, wanted, live=server.stored, **options)


async def test_creates_then_rests():
    server = Server()
    wanted = config_map({"data": {"a": "1"}})
    assert (await run(server, wanted)).outcome == "created"
    assert (await run(server, wanted)).outcome == "unchanged"
    assert server.writes == ["create"]
    assert server.live is not None
    assert server.live["kind"] == "ConfigMap"
    assert labels.APPLIED_HASH == HASH in server.live["metadata"]["annotations"]


async def test_takes_away_what_is_no_longer_wanted_and_leaves_what_is_of_others():
    server = Server()
    await run(server, config_map({"data": {"a": "1"}}, mine="x"))
    assert server.live is not None
    server.live["metadata"]["labels"]["theirs"] = "y"
    server.live["metadata"]["annotations"]["theirs"] = "y"
    wanted = config_map({"data": {"b": "2"}})
    assert (await run(server, wanted)).outcome == "patched"
    assert server.live["data"] == {"b": "2"}
    assert server.live["metadata"]["labels"] == {**OURS, "theirs": "y"}
    assert server.live["metadata"]["annotations"]["theirs"] == "y"
    assert not (await run(server, wanted)).wrote


async def test_mends_a_hand_edit():
    server = Server()
    wanted = config_map({"data": {"a": "1"}})
    await run(server, wanted)
    assert server.live is not None
    server.live["data"] = {"a": "2", "more": "3"}
    assert (await run(server, wanted)).outcome == "patched"
    assert server.live["data"] == {"a": "1"}


async def test_an_object_of_others_is_left_alone():
    server = Server()
    server.live = {"metadata": {"name": "conf", "uid": "9"}, "data": {}}
    with pytest.raises(Conflict, match="demo/conf exists and is not ours"):
        await run(server, config_map({"data": {"a": "1"}}))
    assert server.writes == []
    plain = {"metadata": {"name": "conf", "namespace": "demo"}, "data": {"a": "1"}}
    with pytest.raises(Conflict):
        await run(server, plain)
    assert (await run(server, plain, adopt=True)).outcome == "patched"


async def test_a_foreign_origin_is_not_ours():
    server = Server()
    server.live = stamped(CONFIG_MAPS, config_map({"data": {}}, **{labels.ORIGIN: "turin"}))
    with pytest.raises(Conflict):
        await run(server, config_map({"data": {}}))


async def test_recreates_only_where_it_may():
    server = Server()
    await run(server, config_map({"data": {"a": "1"}, "immutable": True}))
    server.refuse_patches = True
    wanted = config_map({"data": {"a": "2"}, "immutable": True})
    with pytest.raises(Invalid):
        await run(server, wanted)
    assert (await run(server, wanted, recreate=True)).outcome == "recreated"
    assert server.writes == ["create", "delete", "create"]
    # What it would not take either is no reason to lose the one that is there.
    server.refuse_creates = True
    with pytest.raises(Invalid, match="no such field"):
        await run(server, config_map({"nonsense": 1}), recreate=True)
    assert server.writes == ["create", "delete", "create"]


async def test_waits_for_one_that_is_going():
    server = Server()
    await run(server, config_map({"data": {"a": "1"}}))
    assert server.live is not None
    server.live["metadata"]["deletionTimestamp"] = "2026-11-21T01:57:15Z"
    written = await run(server, config_map({"data": {"a": "2"}}))
    assert (written.outcome, written.wrote) == ("terminating", False)
    assert server.writes == ["create"]
