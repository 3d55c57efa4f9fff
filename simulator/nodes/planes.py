"""The way of a node agent to its API server: over the wire, or into an embedded cluster.

:class:`liqod.kube.client.Client` is a plane as it is; :class:`LocalPlane` has the same verbs for
a cluster in this process, where a connection per cluster would only cost.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import trio

from liqod.apimachinery.kinds import Kind
from liqod.errors import AlreadyExists, Conflict, Forbidden, Invalid, LiqodError, NotFound
from simulator.catalog import Resource
from simulator.storage import deletion, patch
from simulator.storage.deletion import DeleteOptions, Preconditions
from simulator.storage.registry import Registry
from simulator.storage.storage import Change
from simulator.wire.failures import ApiError

Json = dict[str, Any]


class Plane(Protocol):
    """The verbs that a node agent needs."""

    async def create(self, kind: Kind, obj: Json, namespace: str | None = None) -> object:
        """Create an object. Raises AlreadyExists."""
        ...

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Json,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> object:
        """Merge-patch an object. Raises NotFound."""
        ...

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace: int | None = None,
    ) -> bool:
        """Delete an object; False if it was not there. Raises Conflict for another UID."""
        ...

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
        """An object, or None."""
        ...


class LocalPlane:
    """An embedded cluster, without its wire."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def create(self, kind: Kind, obj: Json, namespace: str | None = None) -> None:
        """As :class:`Plane`."""
        await trio.lowlevel.checkpoint()
        try:
            self._registry.prepare(self._resource(kind), namespace or "", obj)
            self._registry.create(self._resource(kind), namespace or "", obj)
        except ApiError as error:
            raise translate(error) from error

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Json,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> None:
        """As :class:`Plane`."""
        await trio.lowlevel.checkpoint()
        resource = self._resource(kind)
        try:
            old = self._registry.get(resource, namespace or "", name)
            self._registry.update(
                resource, old, _merged(old.raw, patch), subresource=subresource, patched=True
            )
        except ApiError as error:
            raise translate(error) from error

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace: int | None = None,
    ) -> bool:
        """As :class:`Plane`."""
        await trio.lowlevel.checkpoint()
        resource = self._resource(kind)
        item = self._registry.find(resource.qualified, namespace or "", name)
        if item is None:
            return False
        options = DeleteOptions(
            grace_period_seconds=grace,
            preconditions=Preconditions(uid=uid) if uid is not None else None,
        )
        try:
            deletion.delete(self._registry, resource, item, options)
        except ApiError as error:
            raise translate(error) from error
        return True

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
        """As :class:`Plane`."""
        await trio.lowlevel.checkpoint()
        item = self._registry.find(self._resource(kind).qualified, namespace or "", name)
        return item.decode() if item is not None else None

    def follow_pods(self, notice: Callable[[tuple[str, str], bytes | None], None]) -> None:
        """Notify of every existing pod and of every change."""
        collection = self._registry.storage.of("pods")

        def listen(change: Change) -> None:
            after = change.after
            key = (change.last.namespace, change.last.name)
            notice(key, after.raw if after is not None else None)

        collection.listeners.append(listen)
        for item in list(collection.items()):
            notice((item.namespace, item.name), item.raw)

    def _resource(self, kind: Kind) -> Resource:
        found = self._registry.catalog.find(kind.group, kind.version, kind.plural)
        if found is None:
            raise NotFound(f"{kind.plural} are not served")
        return found


def _merged(raw: bytes, changes: Json) -> Json:
    merged: Json = patch.merge(msgspec.json.decode(raw), changes)
    return merged


_ERRORS: dict[int, type[LiqodError]] = {403: Forbidden, 404: NotFound, 409: Conflict}


def translate(error: ApiError) -> LiqodError:
    """A refusal, as a client of the wire would have raised it."""
    if error.reason == "AlreadyExists":
        return AlreadyExists(str(error))
    return _ERRORS.get(error.code, Invalid)(str(error))
