"""Reads lists page by page; other tasks get a turn between objects."""

from collections.abc import Awaitable, Callable, Iterable

import msgspec

from liqod.apimachinery import rawobjects
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.rawobjects import MAX_OBJECT, UNREADABLE, Key, Slim
from liqod.errors import ProtocolError
from liqod.kube.cache import deepjson
from liqod.kube.failures import TooLarge
from liqod.kube.http.cpubudget import CpuBudget, Turn

PAGE_LIMIT = 500
"""Objects per page of a list."""
MAX_PAGE = 8 << 20
"""Most bytes of one page of a list; a larger page is requested again with fewer objects."""
MAX_TOKEN = 16384
"""Most bytes of the continue token of a list; it goes into the next request."""


class Page(msgspec.Struct, frozen=True):
    """A part of a list.

    Attributes:
        found: the objects, without ``managedFields``.
        resource_version: of the list; watch from there.
        continue_token: token of the next page, ``""`` on the last one.
        skipped: keys of objects that are too large or too deeply nested to be decoded.
    """

    found: list[Slim]
    resource_version: str
    continue_token: str
    skipped: tuple[Key, ...] = ()

    @property
    def items(self) -> list[bytes]:
        """The objects as JSON."""
        return [item.body for item in self.found]


class Pages:
    """Iterates over the pages of a list; a page that is too large is requested in parts."""

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
    items: list[msgspec.Raw] | None = None


_list = msgspec.json.Decoder(_List)
_meta = msgspec.json.Decoder(_ListMeta)


async def read_page(body: bytes, kind: Kind, budget: CpuBudget | None = None) -> Page:
    """Parse a page. Raises ProtocolError for an invalid one."""
    try:
        meta, items = _split(body)
    except UNREADABLE as error:
        raise ProtocolError(f"not a list: {error}") from error
    if kind.versioned and not meta.resource_version:
        raise ProtocolError("not a list: it has no version")
    if len(meta.continue_token) > MAX_TOKEN:
        raise ProtocolError("not a list: what continues it is too large")
    found: list[Slim] = []
    skipped: list[Key] = []
    turn = Turn(budget)
    for raw in items:
        size = len(memoryview(raw))
        if size > MAX_OBJECT:
            skipped.append(deepjson.key_of(bytes(raw)))
        else:
            try:
                found.append(rawobjects.slim_raw(raw, kind))
            except RecursionError:
                skipped.append(deepjson.key_of(bytes(raw)))
        await turn.spend(size)
    return Page(found, meta.resource_version, meta.continue_token, tuple(skipped))


def _split(body: bytes) -> tuple[_ListMeta, Iterable[msgspec.Raw | bytes]]:
    """A list's metadata and its items. One item too deeply nested must not hide the others."""
    try:
        whole = _list.decode(body)
    except RecursionError:
        members = dict(deepjson.members(body))
        return _meta.decode(members[b"metadata"]), deepjson.elements(members[b"items"])
    return whole.metadata, whole.items or ()
