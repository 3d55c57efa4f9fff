"""Reading from the Kubernetes API: get, find, list page by page, watch."""

import builtins
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, overload

import msgspec
import trio

from liqod.errors import Expired, NotFound
from liqod.kube import objects
from liqod.kube.caller import JSON, PARTIAL, PARTIAL_LIST, Caller, decode_as, label, selectors
from liqod.kube.failures import TooLarge
from liqod.kube.kinds import Kind
from liqod.kube.meta import Partial
from liqod.kube.objects import MAX_OBJECT, Key, Slim
from liqod.kube.watch import Watch

T = TypeVar("T")

PAGE_LIMIT = 500
"""Objects per page of a list."""
MAX_PAGE = 16 << 20
"""Bytes of one page of a list; a page over that is asked for again with fewer objects."""
LIST_TRIES = 3
TURN_OBJECTS = 64
"""Objects of a page read before others get a turn."""
METADATA_ONLY = Kind("meta.k8s.io", "v1", "PartialObjectMetadata", "")
"""What objects say they are where only their metadata is asked for."""


class Page(msgspec.Struct, frozen=True):
    """A part of a list.

    Attributes:
        found: the objects, without ``managedFields``.
        resource_version: of the list; watch from there.
        continue_token: what continues it, ``""`` on the last page.
        skipped: keys of objects that are too large to be taken.
    """

    found: builtins.list[Slim]
    resource_version: str
    continue_token: str
    skipped: tuple[Key, ...] = ()

    @property
    def items(self) -> builtins.list[bytes]:
        """The objects as JSON."""
        return [item.body for item in self.found]


class Pages:
    """Iterates over the pages of a list; one that is too large is asked for in parts."""

    def __init__(self, fetch: Callable[[str, int], Awaitable[Page]], limit: int) -> None:
        self._fetch = fetch
        self._limit = limit
        self._token: str | None = ""

    def __aiter__(self) -> "Pages":
        return self

    async def __anext__(self) -> Page:
        if self._token is None:
            raise StopAsyncIteration
        while True:
            try:
                page = await self._fetch(self._token, self._limit)
            except TooLarge:
                if self._limit == 1:
                    raise
                self._limit = max(1, self._limit // 8)
            else:
                self._token = page.continue_token or None
                return page


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: builtins.list[msgspec.Raw] | None = None


class Reads(Caller):
    """The verbs that change nothing."""

    @overload
    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, *, subresource: str = ""
    ) -> dict[str, Any]: ...
    @overload
    async def get(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        decode: type[T],
        subresource: str = "",
    ) -> T: ...
    async def get(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        decode: Any = dict,
        subresource: str = "",
    ) -> Any:
        """One object. Raises NotFound. ``decode=Partial`` asks for no more than its metadata."""
        response = await self._send(
            "GET",
            kind.path(namespace, name, subresource),
            label("get", kind, subresource),
            accept=PARTIAL if decode is Partial else JSON,
        )
        return decode_as(response.body, decode)

    @overload
    async def find(
        self, kind: Kind, name: str, namespace: str | None = None, *, subresource: str = ""
    ) -> dict[str, Any] | None: ...
    @overload
    async def find(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        decode: type[T],
        subresource: str = "",
    ) -> T | None: ...
    async def find(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        decode: Any = dict,
        subresource: str = "",
    ) -> Any:
        """One object, or None where there is none."""
        try:
            return await self.get(kind, name, namespace, decode=decode, subresource=subresource)
        except NotFound:
            return None

    @overload
    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        limit: int = PAGE_LIMIT,
    ) -> builtins.list[dict[str, Any]]: ...
    @overload
    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        decode: type[T],
        limit: int = PAGE_LIMIT,
    ) -> builtins.list[T]: ...
    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        decode: Any = dict,
        limit: int = PAGE_LIMIT,
    ) -> Any:
        """All objects of a kind, read page by page; started again if a page is too old (410).

        Raises TooLarge where one of them is: a list that seems whole and is not would mislead.
        """
        for attempt in range(LIST_TRIES):
            found = []
            try:
                async for page in self.pages(
                    kind,
                    namespace,
                    labels=labels,
                    fields=fields,
                    metadata_only=metadata_only,
                    limit=limit,
                ):
                    if page.skipped:
                        raise TooLarge(f"{kind.plural} {page.skipped[0]} is too large")
                    found += [decode_as(item, decode) for item in page.items]
            except Expired:
                if attempt == LIST_TRIES - 1:
                    raise
            else:
                return found
        raise AssertionError("the last try returns or raises")

    def pages(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        limit: int = PAGE_LIMIT,
    ) -> Pages:
        """The pages of a list, to iterate. Raises Expired when the rest is gone: start again."""

        async def fetch(token: str, limit: int) -> Page:
            query = selectors(labels, fields) | {"limit": str(limit)}
            if token:
                query["continue"] = token
            response = await self._send(
                "GET",
                kind.path(namespace),
                label("list", kind),
                query=query,
                accept=PARTIAL_LIST if metadata_only else JSON,
                limit=MAX_PAGE,
            )
            return await _read_page(response.body, METADATA_ONLY if metadata_only else kind)

        return Pages(fetch, limit)

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        initial: bool = False,
        metadata_only: bool = False,
        seconds: int = 300,
    ) -> AsyncIterator[Watch]:
        """The changes to a kind's objects since ``resource_version``, on a connection of its own.

        Args:
            kind: what to watch.
            namespace: None for all.
            labels: label selector.
            fields: field selector.
            resource_version: of the list, or the last event seen.
            initial: ask for the objects that there are first, ended by a bookmark.
            metadata_only: ask for metadata only.
            seconds: after which the server ends it.

        Raises Expired when the version is too old, Invalid where ``initial`` is not understood.
        """
        query = selectors(labels, fields) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if resource_version:
            query["resourceVersion"] = resource_version
        async with self.stream(
            "GET",
            kind.path(namespace),
            query=query,
            headers={"Accept": PARTIAL if metadata_only else JSON},
            label=label("watch", kind),
        ) as stream:
            yield Watch(stream)


async def _read_page(body: bytes, kind: Kind) -> Page:
    """Take a page apart, giving others a turn now and then."""
    whole: _List = decode_as(body, _List)
    found: builtins.list[Slim] = []
    skipped: builtins.list[Key] = []
    for number, raw in enumerate(whole.items or (), 1):
        item = objects.slim_raw(raw, kind)
        if len(memoryview(raw)) > MAX_OBJECT:
            skipped.append(item.key)
        else:
            found.append(item)
        if number % TURN_OBJECTS == 0:
            await trio.lowlevel.checkpoint()
    meta = whole.metadata
    return Page(found, meta.resource_version, meta.continue_token, tuple(skipped))
