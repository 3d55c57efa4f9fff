"""Reading from the Kubernetes API: get, find, list page by page, watch."""

import builtins
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar, overload

from liqod.errors import Expired, NotFound
from liqod.kube.caller import JSON, PARTIAL, PARTIAL_LIST, Caller, decode_as, label, selectors
from liqod.kube.failures import TooLarge
from liqod.kube.http.turns import Turn
from liqod.kube.kinds import Kind
from liqod.kube.meta import Partial
from liqod.kube.pages import MAX_PAGE, PAGE_LIMIT, Page, Pages, read_page
from liqod.kube.watch import Watch

T = TypeVar("T")

MAX_LIST = 16 << 20
"""Bytes of a whole list of a peer's: it is decoded, which takes several times that."""
ITEM = 1024
"""Bytes that an object in it counts at the least."""
LIST_TRIES = 3
"""How often a list is begun that expires on the way."""
METADATA_ONLY = Kind("meta.k8s.io", "v1", "PartialObjectMetadata", "")
"""What objects say they are where only their metadata is asked for."""


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
            found: builtins.list[Any] = []
            size = 0
            turn = Turn(self.budget)
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
                        name = "/".join(page.skipped[0])
                        raise TooLarge(f"{kind.plural} {name}: too large or too deeply nested")
                    for item in page.found:
                        size += ITEM + len(item.body)
                        if size > MAX_LIST and self.budget is not None:
                            raise TooLarge(f"{kind.plural}: the list is larger than is read")
                        found.append(decode_as(item.body, decode))
                        await turn.spend(len(item.body))
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
            said = METADATA_ONLY if metadata_only else kind
            return await read_page(response.body, said, self.budget)

        return Pages(fetch, limit)

    async def version(self, kind: Kind, namespace: str | None = None) -> str:
        """The resource version at which the server is for a kind."""
        page = await anext(self.pages(kind, namespace, metadata_only=True, limit=1))
        return page.resource_version

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
            yield Watch(stream, self.budget)
