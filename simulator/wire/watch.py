"""Watches: a cursor into a kind's history, rendered as newline-delimited events.

A watch holds no queue. It remembers the last version that it sent and reads on from the kind's
history when that changes; one that falls behind the history is ended with 410, as a slow client
of a real server is.
"""

import random
from collections.abc import AsyncGenerator, Callable

import msgspec
import trio

from liqod.kube.http.httpserver import Drop
from simulator.catalog import Resource
from simulator.storage.storage import Change, Collection, Item
from simulator.wire.failures import expired
from simulator.wire.forms import Render, renderer
from simulator.wire.routes import Form

BOOKMARK_EVERY = 60.0
"""Seconds between bookmarks of a quiet watch, as the real server's."""
LONGEST = 1800.0
INITIAL_END = "k8s.io/initial-events-end"


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a watch.

    Attributes:
        namespace: None for all.
        selects: whether an object belongs to it.
        since: the version to start after; None to start with what there is now.
        initial_end: whether the end of the initial events is marked by a bookmark.
        seconds: how long it lasts; 0 for the server's choice.
        alive: asked at each turn; a watch that is no longer is cut without an end.
    """

    resource: Resource
    form: Form
    namespace: str | None = None
    selects: Callable[[Item], bool] | None = None
    since: int | None = None
    bookmarks: bool = False
    initial_end: bool = False
    seconds: float = 0.0
    alive: Callable[[], bool] = lambda: True


async def stream(
    watch: Watch, collection: Collection, current: Callable[[], int]
) -> AsyncGenerator[bytes, None]:
    """The events of a watch, in pieces of whole lines."""
    render = renderer(watch.resource, watch.form)
    deadline = trio.current_time() + (watch.seconds or LONGEST * (1 + random.random()))
    cursor = current() if watch.since is None else watch.since
    if watch.since is None:
        lines = [_line("ADDED", render(item)) for item in _existing(watch, collection)]
        if watch.initial_end and watch.bookmarks:
            lines.append(_bookmark(watch, cursor, initial=True))
        yield b"".join(lines)
    while True:
        if not watch.alive():
            raise Drop
        changed = collection.changed
        changes = collection.since(cursor)
        if changes is None:
            error = expired(f"too old resource version: {cursor} ({collection.oldest})")
            yield _line("ERROR", msgspec.json.encode(error.status()))
            return
        if changes:
            cursor = changes[-1].version
            piece = b"".join(_event(watch, change, render) for change in changes)
            if piece:
                yield piece
            continue
        with trio.move_on_at(min(deadline, trio.current_time() + BOOKMARK_EVERY)) as waiting:
            await changed.wait()
        # A change in the same turn as the end of the wait is sent before any bookmark passes it.
        if waiting.cancelled_caught and collection.changed is changed:
            if watch.bookmarks:
                # Nothing of this kind has happened up to here: the next watch may start here.
                cursor = max(cursor, current())
                yield _bookmark(watch, cursor)
            if trio.current_time() >= deadline:
                return


def _existing(watch: Watch, collection: Collection) -> list[Item]:
    items = collection.items(watch.namespace)
    return [item for item in items if watch.selects is None or watch.selects(item)]


def _event(watch: Watch, change: Change, render: Render) -> bytes:
    if watch.namespace is not None and change.last.namespace != watch.namespace:
        return b""
    selects = watch.selects
    was = change.before is not None and (selects is None or selects(change.before))
    now = change.after is not None and (selects is None or selects(change.after))
    if now and change.after is not None:
        return _line("MODIFIED" if was else "ADDED", render(change.after))
    if was and change.before is not None:
        # It left the selection, not the cluster: shown as it last was in it, at the new version.
        last = change.last if change.after is None else _at(change.before, change.version)
        return _line("DELETED", render(last))
    return b""


def _at(item: Item, version: int) -> Item:
    obj = item.decode()
    obj["metadata"]["resourceVersion"] = str(version)
    raw = msgspec.json.encode(obj)
    return Item(item.namespace, item.name, item.uid, version, raw)


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"


def _bookmark(watch: Watch, version: int, *, initial: bool = False) -> bytes:
    meta: dict[str, object] = {"resourceVersion": str(version)}
    if initial:
        meta["annotations"] = {INITIAL_END: "true"}
    kind, api_version = watch.resource.kind, watch.resource.api_version
    if watch.form.shape == "meta":
        kind, api_version = "PartialObjectMetadata", "meta.k8s.io/v1"
    obj = {"kind": kind, "apiVersion": api_version, "metadata": meta}
    return _line("BOOKMARK", msgspec.json.encode(obj))
