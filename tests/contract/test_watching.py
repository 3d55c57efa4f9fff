"""Watches: what they show, from where they start, how they end."""

import json
from contextlib import asynccontextmanager

import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, NODES, PODS
from tests.contract.api import PARTIAL


class Events:
    """The events of one watch."""

    def __init__(self, stream):
        self._stream = stream
        self._pending = b""

    async def next(self):
        """The next event; None at the end."""
        with trio.fail_after(10):
            while b"\n" not in self._pending:
                piece = await self._stream.receive()
                if not piece:
                    return None
                self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)

    async def take(self, count):
        """So many events, as (type, name); bookmarks come when the server likes."""
        found: list[tuple[str, str | None]] = []
        while len(found) < count:
            event = await self.next()
            if event["type"] != "BOOKMARK":
                found.append((event["type"], event["object"]["metadata"].get("name")))
        return found


@asynccontextmanager
async def watching(api, kind=CONFIG_MAPS, accept="application/json", **query):
    query = {"watch": "true", **query}
    stream = api.client.stream("GET", api.path(kind), query=query, headers={"accept": accept})
    async with stream as answer:
        yield Events(answer)


async def make(api, name, **labels):
    return await api.made(
        CONFIG_MAPS, {"metadata": {"name": name, "labels": {"mine": "yes", **labels}}}
    )


async def version(api):
    answer = await api.call("GET", api.path(CONFIG_MAPS))
    return answer.body["metadata"]["resourceVersion"]


MINE = {"labelSelector": "mine=yes"}


async def test_from_a_version(api):
    before = await version(api)
    made = await make(api, "a")
    await api.client.patch(CONFIG_MAPS, "a", {"data": {"x": "y"}}, api.namespace)
    await api.client.delete(CONFIG_MAPS, "a", api.namespace)
    async with watching(api, resourceVersion=before, **MINE) as events:
        assert await events.take(2) == [("ADDED", "a"), ("MODIFIED", "a")]
        last = await events.next()
        assert last["type"] == "DELETED"
        assert last["object"]["data"] == {"x": "y"}
        assert last["object"]["kind"] == "ConfigMap"
        assert int(last["object"]["metadata"]["resourceVersion"]) > int(
            made["metadata"]["resourceVersion"]
        )


async def test_from_now(api):
    await make(api, "old")
    async with watching(api, **MINE) as events:
        assert await events.take(1) == [("ADDED", "old")]
        await make(api, "new")
        assert await events.take(1) == [("ADDED", "new")]


async def test_leaving_and_entering_a_selection(api):
    before = await version(api)
    async with watching(api, resourceVersion=before, labelSelector="mine=yes,here") as events:
        await make(api, "a")
        entered = {"metadata": {"labels": {"here": ""}}}
        await api.client.patch(CONFIG_MAPS, "a", entered, api.namespace)
        assert await events.take(1) == [("ADDED", "a")]
        left = {"metadata": {"labels": {"here": None}}}
        gone = await api.client.patch(CONFIG_MAPS, "a", left, api.namespace)
        event = await events.next()
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["labels"] == {"mine": "yes", "here": ""}
        assert event["object"]["metadata"]["resourceVersion"] == gone.metadata.resource_version


async def test_field_selector(api):
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}
    async with watching(api, PODS, fieldSelector="spec.nodeName=elsewhere") as events:
        await api.made(PODS, {"metadata": {"name": "p"}, "spec": spec})
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "elsewhere"},
        }
        await api.call("POST", api.path(PODS, "p", "binding"), binding)
        assert await events.take(1) == [("ADDED", "p")]


async def test_cordoned_nodes(api):
    name = f"node-{api.namespace}"
    cordoned = {"fieldSelector": f"metadata.name={name},spec.unschedulable=true"}
    await api.client.create(NODES, {"metadata": {"name": name}})
    try:
        async with watching(api, NODES, **cordoned) as events:
            await api.client.patch(NODES, name, {"spec": {"unschedulable": True}})
            assert await events.take(1) == [("ADDED", name)]
            # Whatever controllers change of it meanwhile.
            await api.client.patch(NODES, name, {"spec": {"unschedulable": False}})
            while (event := await events.take(1)) == [("MODIFIED", name)]:
                pass
            assert event == [("DELETED", name)]
    finally:
        await api.client.delete(NODES, name)


async def test_initial_events_end(api):
    await make(api, "a")
    await make(api, "b")
    asked = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with watching(api, **asked, **MINE) as events:
        first = await events.take(2)
        assert sorted(first) == [("ADDED", "a"), ("ADDED", "b")]
        mark = await events.next()
        assert mark["type"] == "BOOKMARK"
        meta = mark["object"]["metadata"]
        assert meta["annotations"]["k8s.io/initial-events-end"] == "true"
        assert mark["object"]["kind"] == "ConfigMap"
        await make(api, "c")
        assert await events.take(1) == [("ADDED", "c")]
    async with watching(api, resourceVersion=meta["resourceVersion"], **MINE) as events:
        assert await events.take(1) == [("ADDED", "c")]


async def test_initial_events_need_a_match(api):
    answer = await api.call("GET", api.path(CONFIG_MAPS), watch="true", sendInitialEvents="true")
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert "resourceVersionMatch" in answer.message


async def test_metadata_only(api):
    async with watching(api, accept=PARTIAL, **MINE) as events:
        await api.made(
            CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"mine": "yes"}}, "data": {"x": "y"}}
        )
        event = await events.next()
        assert event["object"]["kind"] == "PartialObjectMetadata"
        assert "data" not in event["object"]


async def test_ends_when_its_time_is_over(api):
    async with watching(api, timeoutSeconds="1", **MINE) as events:
        assert await events.next() is None


async def test_a_name_in_the_path_is_no_watch(api):
    await make(api, "a")
    answer = await api.call("GET", api.path(CONFIG_MAPS, "a"), watch="true")
    assert answer.body["kind"] == "ConfigMap"


async def test_one_object(api):
    await make(api, "a")
    await make(api, "b")
    async with watching(api, fieldSelector="metadata.name=a") as events:
        assert await events.take(1) == [("ADDED", "a")]
        for name in ("b", "a"):
            await api.client.patch(CONFIG_MAPS, name, {"data": {"x": "y"}}, api.namespace)
        assert await events.take(1) == [("MODIFIED", "a")]
