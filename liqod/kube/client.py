"""The verbs of the Kubernetes API, for one identity at one API server.

Writes request a metadata-only response and carry the field manager ``liqod``; deletions carry the
UID of the object. An error response of the server is raised as one of the project's errors.
"""

import builtins
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import msgspec

from liqod.apimachinery import rawobjects
from liqod.apimachinery.kinds import LEASES, Kind
from liqod.apimachinery.meta import Partial
from liqod.apimachinery.rawobjects import MAX_OBJECT, decode_as
from liqod.errors import Expired, NotFound
from liqod.kube import restrequest
from liqod.kube.cache.outage import Outage
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.failures import TooLarge
from liqod.kube.http.cpubudget import CpuBudget, Turn
from liqod.kube.http.proxies import Dial
from liqod.kube.http.transport import (
    ApiRequest,
    ApiResponse,
    ApiStream,
    ClientStats,
    Transport,
    Upgraded,
)
from liqod.kube.http.wire import connect
from liqod.kube.pages import MAX_PAGE, PAGE_LIMIT, Page, Pages, read_page
from liqod.kube.restrequest import JSON, Query
from liqod.kube.selection import EVERY, Selection
from liqod.kube.watch import WatchStream

__all__ = ["ApiResponse", "ApiStream", "Client", "ClientStats", "Page", "Selection"]

T = TypeVar("T")

Object = Mapping[str, Any] | msgspec.Struct | bytes
"""An object to write: plain JSON values, a struct, or JSON."""

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
MANAGER = "liqod"
"""Field manager of our writes."""
URGENT = frozenset({LEASES.plural})
"""Kinds whose requests do not wait behind others: the holder of a late Lease counts as dead."""
MAX_LIST = 16 << 20
"""Bytes of a whole list from a peer: decoding it takes several times that."""
ITEM = 1024
"""Bytes that an object in it counts at the least."""
LIST_TRIES = 3
"""Attempts to read a list that expires between its pages."""
METADATA_ONLY = Kind("meta.k8s.io", "v1", "PartialObjectMetadata", "")
"""The kind that objects carry where only their metadata is requested."""


class Client:
    """One identity at one API server. Owns its connections: use ``async with``, or :meth:`aclose`.

    Args:
        credentials: the identity and the server; files they come from are read again on change.
        connections: most concurrent requests; watches and logs do not count.
        deadline: seconds for a request, retries included.
        user_agent: value of the ``User-Agent`` header.
        dial: makes connections; tests pass their own.
        budget: of the peer whose API server it is; None for this cluster's own.

    Every method raises the errors of :mod:`liqod.errors`; Unreachable after the deadline.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        connections: int = 8,
        deadline: float = 30.0,
        user_agent: str = "liqod",
        dial: Dial = connect,
        budget: CpuBudget | None = None,
    ) -> None:
        self.deadline = deadline
        self.dial = dial
        """Makes its connections; connections to peers use the same function."""
        self.budget = budget
        self.watch_list = True
        """True if the server may support ``sendInitialEvents``; an informer clears it if not."""
        self.outage = Outage()
        """The informers that cannot follow: the first logs it for all, and the first that recovers
        has the others try again."""
        self.missing: dict[Kind, float] = {}
        """The Trio time at which the definition of a kind was last seen to be missing."""
        self.definitions: dict[Kind, str] = {}
        """The UID of the definition of a kind: another UID means it was missing in between."""
        self._transport = Transport(
            credentials,
            connections=connections,
            user_agent=user_agent,
            dial=dial,
            budget=budget,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; those in use close when their request ends."""
        self._transport.close()

    def tidy(self) -> None:
        """Close the connections that a burst has left and that have been idle for a while."""
        self._transport.tidy()

    def reconnect(self) -> None:
        """Never reuse a connection made before now: the path to the server was lost."""
        self._transport.reconnect()

    def wake(self) -> None:
        """Wake the informers that wait after a failure: the server is reported to be back."""
        self.outage.wake()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._transport.source.peek().server

    @property
    def namespace(self) -> str:
        """The default namespace of the credentials."""
        return self._transport.source.peek().namespace

    @property
    def authority(self) -> bytes | None:
        """PEM of the authorities trusted for the server; None for those of the system."""
        return self._transport.source.peek().ca

    @property
    def certificate(self) -> bytes | None:
        """PEM of the client certificate in use, if there is one."""
        return self._transport.source.peek().client_cert

    @property
    def stats(self) -> ClientStats:
        """Requests by verb and kind, bytes, retries, connections."""
        return self._transport.stats

    def busy(self) -> tuple[int, int, int]:
        """Counts of requests in progress, requests waiting for a connection, and open streams."""
        return self._transport.busy()

    def renew(self, credentials: Credentials) -> None:
        """Replace the credentials; requests in progress finish on their old connections."""
        self._transport.source.replace(credentials)

    @overload
    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]: ...
    @overload
    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, *, decode: type[T]
    ) -> T: ...
    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, *, decode: Any = dict
    ) -> Any:
        """Read one object. Raises NotFound. ``decode=Partial`` requests its metadata only."""
        response = await self._send(
            "GET",
            kind.path(namespace, name),
            restrequest.label("get", kind),
            accept=PARTIAL if decode is Partial else JSON,
        )
        return decode_as(response.body, decode)

    @overload
    async def find(
        self, kind: Kind, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None: ...
    @overload
    async def find(
        self, kind: Kind, name: str, namespace: str | None = None, *, decode: type[T]
    ) -> T | None: ...
    async def find(
        self, kind: Kind, name: str, namespace: str | None = None, *, decode: Any = dict
    ) -> Any:
        """Read one object; None if it does not exist."""
        try:
            return await self.get(kind, name, namespace, decode=decode)
        except NotFound:
            return None

    @overload
    async def list(
        self, kind: Kind, selection: Selection = EVERY, *, limit: int = PAGE_LIMIT
    ) -> builtins.list[dict[str, Any]]: ...
    @overload
    async def list(
        self,
        kind: Kind,
        selection: Selection = EVERY,
        *,
        decode: type[T],
        limit: int = PAGE_LIMIT,
    ) -> builtins.list[T]: ...
    async def list(
        self,
        kind: Kind,
        selection: Selection = EVERY,
        *,
        decode: Any = dict,
        limit: int = PAGE_LIMIT,
    ) -> Any:
        """Read the objects of a kind, page by page; restarted if a page is too old (410).

        ``decode=Partial`` requests their metadata only.

        Raises TooLarge for an object that is: an incomplete list that seems whole would mislead.
        """
        if decode is Partial:
            selection = msgspec.structs.replace(selection, metadata_only=True)
        for attempt in range(LIST_TRIES):
            found: builtins.list[Any] = []
            size = 0
            turn = Turn(self.budget)
            try:
                async for page in self.pages(kind, selection, limit=limit):
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

    def pages(self, kind: Kind, selection: Selection = EVERY, *, limit: int = PAGE_LIMIT) -> Pages:
        """Iterate over the pages of a list. Raises Expired when the rest is gone: start again."""

        async def fetch(token: str, limit: int) -> Page:
            query = selection.query() | {"limit": str(limit)}
            if token:
                query["continue"] = token
            response = await self._send(
                "GET",
                kind.path(selection.namespace),
                restrequest.label("list", kind),
                query=query,
                accept=PARTIAL_LIST if selection.metadata_only else JSON,
                limit=MAX_PAGE,
            )
            said = METADATA_ONLY if selection.metadata_only else kind
            return await read_page(response.body, said, self.budget)

        return Pages(fetch, limit)

    async def version(self, kind: Kind, namespace: str | None = None) -> str:
        """The server's current resource version of a kind."""
        page = await anext(self.pages(kind, Selection(namespace, metadata_only=True), limit=1))
        return page.resource_version

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind,
        selection: Selection = EVERY,
        *,
        resource_version: str = "",
        initial: bool = False,
        seconds: int = 300,
        budget: CpuBudget | None = None,
    ) -> AsyncIterator[WatchStream]:
        """Watch a kind's objects from ``resource_version``, on a connection of its own.

        Args:
            kind: what to watch.
            selection: the objects to watch.
            resource_version: of the list, or the last event seen.
            initial: request the existing objects first, ended by a bookmark.
            seconds: after which the server ends it.
            budget: CPU budget for reading it, if it is not the client's.

        Raises Expired when the version is too old, Invalid if ``initial`` is not supported.
        """
        query = selection.query() | {
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
            kind.path(selection.namespace),
            query=query,
            headers={"Accept": PARTIAL if selection.metadata_only else JSON},
            label=restrequest.label("watch", kind),
        ) as stream:
            yield WatchStream(stream, budget or self.budget)

    async def create(self, kind: Kind, obj: Object, namespace: str | None = None) -> Partial:
        """Create an object, in ``namespace`` or in the namespace of its metadata.

        Raises AlreadyExists, Invalid, Forbidden.
        """
        return restrequest.decode_written(await self._create(kind, obj, namespace, PARTIAL))

    async def create_full(
        self, kind: Kind, obj: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create or only validate an object, and return the full response: reviews, dry runs."""
        body = await self._create(kind, obj, namespace, JSON, dry_run=dry_run)
        made: dict[str, Any] = decode_as(body, dict)
        return made

    async def create_subresource(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        subresource: str,
        obj: Mapping[str, Any],
        *,
        decode: type[T],
    ) -> T:
        """Create a subresource of an object, such as ``token`` or ``eviction``; the full response.

        Raises NotFound, Invalid, Forbidden, EvictionBlocked.
        """
        response = await self._send(
            "POST",
            kind.path(namespace, name, subresource),
            restrequest.label("create", kind, subresource),
            query={"fieldManager": MANAGER},
            body=msgspec.json.encode(obj),
        )
        found: T = decode_as(response.body, decode)
        return found

    async def update(
        self, kind: Kind, obj: Object, namespace: str | None = None, *, subresource: str = ""
    ) -> Partial:
        """Replace an object (PUT). Raises Conflict where its ``resourceVersion`` is old."""
        body, key = rawobjects.encode(obj, kind)
        response = await self._send(
            "PUT",
            kind.path(restrequest.namespace_of(kind, namespace, key), key[1], subresource),
            restrequest.label("update", kind, subresource),
            query={"fieldManager": MANAGER},
            accept=PARTIAL,
            body=body,
        )
        return restrequest.decode_written(response.body)

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Mapping[str, Any] | bytes,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Partial:
        """Change an object by a JSON merge patch. Raises NotFound, Invalid, Conflict."""
        response = await self._send(
            "PATCH",
            kind.path(namespace, name, subresource),
            restrequest.label("patch", kind, subresource),
            query={"fieldManager": MANAGER},
            accept=PARTIAL,
            body=patch if isinstance(patch, bytes) else msgspec.json.encode(patch),
            content=MERGE_PATCH,
        )
        return restrequest.decode_written(response.body)

    async def apply(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None = None,
        *,
        manager: str,
        force: bool = True,
    ) -> Partial:
        """Server-side apply: own the fields of ``obj``, as ``manager``.

        Raises Conflict without ``force`` where another manager owns one of them.
        """
        body, key = rawobjects.encode(obj, kind)
        response = await self._send(
            "PATCH",
            kind.path(restrequest.namespace_of(kind, namespace, key), key[1]),
            restrequest.label("apply", kind),
            query={"fieldManager": manager, "force": "true" if force else "false"},
            accept=PARTIAL,
            body=body,
            content=APPLY_PATCH,
        )
        return restrequest.decode_written(response.body)

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> bool:
        """Delete an object; False if it did not exist.

        Args:
            kind: its kind.
            namespace: its namespace.
            uid: its UID: raises Conflict if another object has its name.
            version: its resourceVersion: raises Conflict if it was changed since.
            grace: seconds, 0 for at once.
            propagation: ``Background``, ``Foreground`` or ``Orphan`` for its dependents.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        exact = {"uid": uid, "resourceVersion": version}
        if any(exact.values()):
            options["preconditions"] = {key: each for key, each in exact.items() if each}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if propagation is not None:
            options["propagationPolicy"] = propagation
        try:
            await self._send(
                "DELETE",
                kind.path(namespace, name),
                restrequest.label("delete", kind),
                accept=PARTIAL,
                body=msgspec.json.encode(options),
            )
        except NotFound:
            return False
        return True

    async def delete_selected(
        self, kind: Kind, selection: Selection, *, spared: Container[str] = ()
    ) -> int:
        """Delete each object of a list by its UID; returns the number deleted.

        Objects that are being deleted are left alone, and so are names in ``spared``, which is
        checked when their turn comes.
        """
        gone = 0
        for each in await self.list(kind, selection, decode=Partial):
            meta = each.metadata
            if meta.deletion_timestamp is None and meta.name not in spared:
                gone += await self.delete(kind, meta.name, meta.namespace or None, uid=meta.uid)
        return gone

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
        limit: int = MAX_OBJECT,
    ) -> ApiResponse:
        """Send any request; returns the response if it is a success.

        Args:
            method: such as ``GET``.
            path: such as ``/version``, percent-encoded.
            query: parameters, encoded here.
            body: sent as ``application/json`` unless ``headers`` give another type.
            headers: more headers.
            deadline: seconds, instead of the client's.
            limit: bytes of the response; TooLarge is raised for more.
        """
        request = ApiRequest(
            method,
            restrequest.target(path, query),
            (method.lower(), "raw"),
            restrequest.headers_of(JSON if headers is None else "", body, headers),
            body,
            limit,
        )
        return await self._transport.send(request, deadline or self.deadline)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        deadline: float | None = None,
        label: tuple[str, str] | None = None,
    ) -> AbstractAsyncContextManager[ApiStream]:
        """Send a request with a streamed response, such as ``logs -f``, on its own connection.

        ``deadline`` is for the response head; the reader decides how long to wait for more.
        """
        request = ApiRequest(
            method,
            restrequest.target(path, query),
            label or (method.lower(), "stream"),
            restrequest.headers_of("*/*", body, headers),
            body,
        )
        return self._transport.open(request, deadline or self.deadline)

    async def upgrade(
        self,
        method: str,
        path: str,
        *,
        query: Query,
        headers: Sequence[tuple[str, str]],
        label: tuple[str, str],
    ) -> Upgraded:
        """Request another protocol, such as ``exec``; the caller owns the connection.

        Args:
            method: ``GET`` or ``POST``.
            path: percent-encoded.
            query: parameters, encoded here.
            headers: the protocols requested.
            label: its name in statistics.
        """
        asked = (*headers, ("Content-Length", "0")) if method == "POST" else tuple(headers)
        request = ApiRequest(method, restrequest.target(path, query), label, asked, upgrade=True)
        return await self._transport.upgrade(request, self.deadline)

    async def _create(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None,
        accept: str,
        *,
        dry_run: bool = False,
    ) -> bytes:
        body, key = rawobjects.encode(obj, kind)
        query = {"fieldManager": MANAGER}
        if dry_run:
            query["dryRun"] = "All"
        response = await self._send(
            "POST",
            kind.path(restrequest.namespace_of(kind, namespace, key)),
            restrequest.label("create", kind),
            query=query,
            accept=accept,
            body=body,
        )
        return response.body

    async def _send(
        self,
        method: str,
        path: str,
        label: tuple[str, str],
        *,
        query: Query | None = None,
        accept: str = JSON,
        body: bytes | None = None,
        content: str = JSON,
        limit: int = MAX_OBJECT,
    ) -> ApiResponse:
        headers = [("Accept", accept)]
        if body is not None:
            headers.append(("Content-Type", content))
        urgent = label[1] in URGENT
        request = ApiRequest(
            method, restrequest.target(path, query), label, tuple(headers), body, limit, urgent
        )
        return await self._transport.send(request, self.deadline)
