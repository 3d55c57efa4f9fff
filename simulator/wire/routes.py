"""Parses a request: verb, kind, namespace, name, sub-resource, and the form of the answer.

Follows ``k8s.io/apiserver/pkg/endpoints/request.RequestInfo``, whose attributes are also what
authorization decides by.
"""

from typing import Final

import msgspec

from liqod.kube.http.httpserver import HttpRequest
from simulator.catalog import Catalog, Resource
from simulator.wire.failures import ApiError, no_route

_ITEM_VERBS = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_LIST_VERBS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_TRUE = {"true", "1", "True"}


class Route(msgspec.Struct, frozen=True):
    """A request for a resource.

    Attributes:
        namespace: the namespace in the path, ``""`` for none.
        name: the object in the path, ``""`` for the collection.
        selected: the one name that a request for the collection selects: rules may be for it.
    """

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    selected: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its sub-resource, as rules and messages write it."""
        return (
            f"{self.resource.plural}/{self.subresource}"
            if self.subresource
            else (self.resource.plural)
        )


class Form(msgspec.Struct, frozen=True):
    """The form in which the client wants objects: ``full``, ``meta`` or ``table``."""

    shape: str = "full"
    include: str = "Metadata"


def parse(request: HttpRequest, catalog: Catalog) -> Route:
    """The resource that a path under ``/api`` or ``/apis`` asks for.

    Raises:
        ApiError: 404, no such kind or path is served.
    """
    parts = [part for part in request.path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_route()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and catalog.find(group, version, rest[2]):
        namespace, rest = rest[1], rest[2:]
    resource = catalog.find(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_route()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and not _has(resource, subresource):
        raise no_route()
    if resource.qualified == "namespaces":
        namespace = name
    selected = "" if name else _selected(request)
    return Route(_verb(request, name), resource, namespace, name, subresource, selected)


def _selected(request: HttpRequest) -> str:
    """The name that a field selector pins a request for a collection to."""
    for part in request.one("fieldSelector").split(","):
        field, _, name = part.partition("=")
        if field == "metadata.name":
            return name.removeprefix("=")
    return ""


WRITTEN: Final = ("", "status", "resize", "ephemeralcontainers")
"""Sub-resources that are read and written as the whole object, and the object itself."""


def _has(resource: Resource, subresource: str) -> bool:
    return subresource in resource.subresources or (subresource == "status" and resource.status)


def _verb(request: HttpRequest, name: str) -> str:
    if request.method in ("GET", "HEAD") and not name and wants(request, "watch"):
        return "watch"
    if name and request.method == "POST":
        return "create"
    verb = (_ITEM_VERBS if name else _LIST_VERBS).get(request.method)
    if verb is None:
        raise no_route()
    return verb


def wants(request: HttpRequest, parameter: str) -> bool:
    """True if a boolean query parameter is set."""
    return request.one(parameter) in _TRUE


def form_of(request: HttpRequest) -> Form:
    """The form of the first entry of the ``Accept`` header that is understood.

    Raises:
        ApiError: 406, none is.
    """
    for entry in request.headers.get("accept", "").split(","):
        media, *parameters = [part.strip() for part in entry.split(";")]
        if media not in ("application/json", "*/*", "", "application/*"):
            continue
        found = dict(part.partition("=")[::2] for part in parameters)
        kind = found.get("as", "")
        if not kind:
            return Form()
        if found.get("g") != "meta.k8s.io" or found.get("v") != "v1":
            continue
        if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form("meta")
        if kind == "Table":
            return Form("table", request.one("includeObject", "Metadata"))
    if "accept" in request.headers:
        raise ApiError(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json,"
            " application/json;as=Table;g=meta.k8s.io;v=v1",
        )
    return Form()
