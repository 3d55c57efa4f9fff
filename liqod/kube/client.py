"""The verbs of the Kubernetes API, for one identity at one API server.

Writes ask for a metadata-only answer, carry the field manager ``liqod`` and, where they delete, the
UID of what is meant. What the server refuses is raised as one of the project's errors.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, overload

import msgspec

from liqod.errors import NotFound, ProtocolError
from liqod.kube import objects
from liqod.kube.caller import JSON, PARTIAL, decode_as, label
from liqod.kube.http.transport import ClientStats, Response, Stream
from liqod.kube.kinds import Kind
from liqod.kube.meta import Partial
from liqod.kube.pages import Page
from liqod.kube.reads import Reads

__all__ = ["Client", "ClientStats", "Page", "Response", "Stream"]

T = TypeVar("T")

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
MANAGER = "liqod"
"""Field manager of our writes."""

Object = Mapping[str, Any] | msgspec.Struct | bytes
"""An object to write: plain JSON values, a struct, or JSON."""


class Client(Reads):
    """All verbs; see :class:`liqod.kube.caller.Caller` for its making and its end."""

    async def create(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        subresource: str = "",
        name: str | None = None,
    ) -> Partial:
        """Create an object. Raises AlreadyExists, Invalid, Forbidden.

        Args:
            kind: what it is.
            obj: the object.
            namespace: where; None for the one that the object names.
            dry_run: check it only.
            subresource: such as ``token`` or ``eviction``, of the object ``name``.
            name: the object whose sub-resource is created.
        """
        body = await self._create(kind, obj, namespace, PARTIAL, dry_run, subresource, name)
        if subresource:  # an eviction is answered by a Status
            found: Partial = decode_as(body, Partial)
            return found
        return _partial(body)

    @overload
    async def create_full(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        subresource: str = "",
        name: str | None = None,
    ) -> dict[str, Any]: ...
    @overload
    async def create_full(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None = None,
        *,
        decode: type[T],
        dry_run: bool = False,
        subresource: str = "",
        name: str | None = None,
    ) -> T: ...
    async def create_full(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None = None,
        *,
        decode: Any = dict,
        dry_run: bool = False,
        subresource: str = "",
        name: str | None = None,
    ) -> Any:
        """Create, and take the whole answer: reviews, tokens, requests, dry runs."""
        body = await self._create(kind, obj, namespace, JSON, dry_run, subresource, name)
        return decode_as(body, decode)

    async def update(
        self, kind: Kind, obj: Object, namespace: str | None = None, *, subresource: str = ""
    ) -> Partial:
        """Replace an object (PUT). Raises Conflict where its ``resourceVersion`` is old."""
        body, meta = objects.encode(obj, kind)
        response = await self._send(
            "PUT",
            kind.path(_namespace(kind, namespace, meta), meta.metadata.name, subresource),
            label("update", kind, subresource),
            query={"fieldManager": MANAGER},
            accept=PARTIAL,
            body=body,
        )
        return _partial(response.body)

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
            label("patch", kind, subresource),
            query={"fieldManager": MANAGER},
            accept=PARTIAL,
            body=patch if isinstance(patch, bytes) else msgspec.json.encode(patch),
            content=MERGE_PATCH,
        )
        return _partial(response.body)

    async def apply(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None = None,
        *,
        manager: str,
        force: bool = True,
        subresource: str = "",
    ) -> Partial:
        """Server-side apply: own the fields that ``obj`` has, as ``manager``.

        Raises Conflict without ``force`` where another manager owns one of them.
        """
        body, meta = objects.encode(obj, kind)
        response = await self._send(
            "PATCH",
            kind.path(_namespace(kind, namespace, meta), meta.metadata.name, subresource),
            label("apply", kind, subresource),
            query={"fieldManager": manager, "force": "true" if force else "false"},
            accept=PARTIAL,
            body=body,
            content=APPLY_PATCH,
        )
        return _partial(response.body)

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> bool:
        """Delete an object; False if it was not there.

        Args:
            kind: what it is.
            name: its name.
            namespace: where.
            uid: which one is meant: Conflict where another has its name by now.
            grace: seconds, 0 for at once.
            propagation: ``Background``, ``Foreground`` or ``Orphan`` for its dependents.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if propagation is not None:
            options["propagationPolicy"] = propagation
        try:
            await self._send(
                "DELETE",
                kind.path(namespace, name),
                label("delete", kind),
                accept=PARTIAL,
                body=msgspec.json.encode(options),
            )
        except NotFound:
            return False
        return True

    async def _create(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None,
        accept: str,
        dry_run: bool,
        subresource: str,
        name: str | None,
    ) -> bytes:
        body, meta = objects.encode(obj, kind)
        query = {"fieldManager": MANAGER}
        if dry_run:
            query["dryRun"] = "All"
        response = await self._send(
            "POST",
            kind.path(_namespace(kind, namespace, meta), name, subresource),
            label("create", kind, subresource),
            query=query,
            accept=accept,
            body=body,
        )
        return response.body


def _namespace(kind: Kind, given: str | None, meta: Partial) -> str | None:
    """Where an object goes. Raises ValueError for one that needs a namespace and names none."""
    namespace = given or meta.metadata.namespace or None
    if kind.namespaced and namespace is None:
        raise ValueError(f"{kind.name} {meta.metadata.name}: no namespace")
    return namespace


def _partial(body: bytes) -> Partial:
    """The answer to a write. Raises ProtocolError where it is not the object that was written."""
    found: Partial = decode_as(body, Partial)
    if not found.metadata.name:
        raise ProtocolError("the answer to a write is no object")
    return found
