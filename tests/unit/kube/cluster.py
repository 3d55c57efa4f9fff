"""A very small API server for one kind: lists, watches, history that ends, and faults on demand."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from tests.unit.kube.peers import Asked, listing, pod

Fault = Callable[[Asked], Awaitable[bool]]


class Cluster:
    """Pods of one namespace. Use it as the ``answer`` of a :func:`tests.unit.kube.peers.peer`.

    Attributes:
        watch_list: whether ``sendInitialEvents`` is known.
        faults: each is asked once, for one request; one that returns True has answered it.
        asked: verb and version of each request; ``look`` is a list of one object at most.
        hides: lists name no object, although each can be had.
        since: versions below this are forgotten: 410.
        watches: ends of the watches under way.
    """

    def __init__(self, count: int = 0, *, watch_list: bool = True) -> None:
        self.version = 10
        self.objects = {f"p{i}": pod(f"p{i}", version=10) for i in range(count)}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.watch_list = watch_list
        self.faults: list[Fault] = []
        self.since = 0
        self.watches: list[Asked] = []
        self.asked: list[tuple[str, str]] = []
        self.hides = False
        self._changed = trio.Event()

    def put(self, name: str, **more: Any) -> None:
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = pod(name, version=self.version, **more)
        self._tell(kind, self.objects[name])

    def remove(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", gone)

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        self.history.append((self.version, kind, obj))
        self._changed.set()
        self._changed = trio.Event()

    def forget(self) -> None:
        """Drop all history: who asks for it gets 410."""
        self.since = self.version + 1
        self.version += 1

    def cut(self) -> None:
        """Break all watches off."""
        for asked in self.watches:
            asked.conn.drop()
        self.watches.clear()

    async def __call__(self, asked: Asked) -> None:
        name = asked.path.partition("/pods/")[2]
        if name:
            await self._get(asked, name)
            return
        watching = "watch" in asked.query
        initial = "sendInitialEvents" in asked.query
        verb = ("initial" if initial else "watch") if watching else "list"
        if asked.query.get("limit") == "1":
            verb = "look"
        self.asked.append((verb, asked.query.get("resourceVersion", "")))
        if self.faults and verb != "look" and await self.faults.pop(0)(asked):
            return
        if watching:
            await self._watch(asked, initial)
        else:
            await self._list(asked)

    async def _get(self, asked: Asked, name: str) -> None:
        self.asked.append(("get", ""))
        if name in self.objects:
            await asked.reply(200, self.objects[name])
        else:
            await asked.refuse(404, "NotFound", f"pods {name} not found")

    async def _list(self, asked: Asked) -> None:
        limit, start = int(asked.query["limit"]), int(asked.query.get("continue", "0"))
        items = [] if self.hides else list(self.objects.values())
        token = str(start + limit) if start + limit < len(items) else ""
        await asked.reply(200, listing(items[start : start + limit], self.version, token))

    async def _watch(self, asked: Asked, initial: bool) -> None:
        if initial and not self.watch_list:
            await asked.refuse(422, "Invalid", "sendInitialEvents: Forbidden")
            return
        seen = int(asked.query.get("resourceVersion", self.version))
        if seen < self.since:
            await asked.refuse(410, "Expired", "too old resource version")
            return
        self.watches.append(asked)
        await asked.begin()
        if initial:
            seen = self.version
            for obj in [] if self.hides else list(self.objects.values()):
                await asked.event("ADDED", obj)
            await asked.bookmark(seen, initial_end=True)
        with trio.move_on_after(int(asked.query["timeoutSeconds"])):
            await self._follow(asked, seen)
        await asked.end()

    async def _follow(self, asked: Asked, seen: int) -> None:
        while True:
            changed = self._changed
            for version, kind, obj in list(self.history):
                if version > seen:
                    seen = version
                    await asked.event(kind, obj)
            with trio.move_on_after(60) as idle:
                await changed.wait()
            if idle.cancelled_caught and self._changed is changed:
                seen = max(seen, self.version)
                await asked.bookmark(seen)
