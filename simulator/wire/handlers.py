"""The verbs on resources: from a parsed route to the registry and back to a response."""

from collections.abc import Callable
from typing import Any

import msgspec

from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from simulator.access.admission import Admission, Review
from simulator.access.identities import User
from simulator.access.rights import Access, Authorizer
from simulator.catalog import Resource
from simulator.faults import Fault, Faults
from simulator.storage import apply, deletion, patch, schema
from simulator.storage.deletion import DeleteOptions
from simulator.storage.registry import Registry
from simulator.storage.storage import Item
from simulator.wire import bodies, failures
from simulator.wire.failures import ApiError, bad_request
from simulator.wire.forms import listing, renderer
from simulator.wire.reads import Reads, selection
from simulator.wire.routes import Route, form_of, wants

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
OPERATIONS = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")
PATCH_TRIES = 5


class Handlers:
    """Answers requests for stored kinds."""

    def __init__(
        self, registry: Registry, admission: Admission, authorizer: Authorizer, faults: Faults
    ) -> None:
        self.registry = registry
        self.admission = admission
        self.authorizer = authorizer
        self._reads = Reads(registry.storage, faults)

    async def answer(
        self, route: Route, request: HttpRequest, user: User, fault: Fault | None
    ) -> HttpResponse:
        """Do what the route says.

        Raises:
            ApiError: it is refused.
        """
        match route.verb:
            case "get":
                item = self.registry.get(route.resource, _namespace(route), route.name)
                return _object(route, request, item)
            case "list":
                return self._reads.list(route, request, fault)
            case "watch":
                return self._reads.watch(route, request, fault)
            case "create":
                return await self._create(route, request, user)
            case "update":
                return await self._update(route, request, user)
            case "patch":
                return await self._patch(route, request, user)
            case "delete":
                return self._delete(route, request)
            case _:
                return self._delete_collection(route, request)

    # Writes:

    async def _create(self, route: Route, request: HttpRequest, user: User) -> HttpResponse:
        resource, dry = route.resource, bodies.is_dry(request)
        obj = bodies.read_object(request, resource)
        dropped = _unknown(resource, obj, request)
        self.registry.prepare(resource, route.namespace, obj)
        if resource.qualified == "certificatesigningrequests.certificates.k8s.io":
            _sign_request(obj, user)
        obj = await self.admission.mutate(Review(route, user, "CREATE", obj, None, dry))
        self.authorizer.check_escalation(user, route, obj)
        item = self.registry.create(resource, route.namespace, obj, dry=dry)
        return _object(route, request, item, 201, warn=dropped)

    async def _update(self, route: Route, request: HttpRequest, user: User) -> HttpResponse:
        resource = route.resource
        obj = bodies.read_object(request, resource)
        dropped = _unknown(resource, obj, request)
        old = self.registry.find(resource.qualified, _namespace(route), route.name)
        if old is None:
            if not resource.upsert or route.subresource or obj.get("metadata", {}).get("uid"):
                raise failures.not_found(resource, route.name)
            obj.setdefault("metadata", {}).setdefault("name", route.name)
            obj["metadata"].pop("resourceVersion", None)
            request.body = msgspec.json.encode(obj)
            created = Route("create", resource, route.namespace)
            return await self._create(created, request, user)
        version = obj.get("metadata", {}).get("resourceVersion")
        if not version and not resource.unconditional:
            cause = failures.wrong("metadata.resourceVersion", 0, "must be specified for an update")
            raise failures.invalid(resource, route.name, [cause])
        item = await self._write(route, request, user, old, obj)
        return _object(route, request, item, warn=dropped)

    async def _patch(self, route: Route, request: HttpRequest, user: User) -> HttpResponse:
        content = request.headers.get("content-type", "").partition(";")[0].strip()
        if content in APPLY:
            return await self._apply(route, request, user)
        changes = bodies.read(request)
        change = _patcher(content, changes, route.resource)
        for left in reversed(range(PATCH_TRIES)):
            old = self.registry.get(route.resource, _namespace(route), route.name)
            new = change(old.decode())
            pinned = _named_version(changes)
            if pinned and pinned != str(old.version):
                raise failures.conflict(route.resource, route.name)
            dropped = _unknown(route.resource, new, request)
            try:
                item = await self._write(route, request, user, old, new, patched=True)
            except ApiError as error:
                if error.reason != "Conflict" or not left or pinned:
                    raise
                continue
            return _object(route, request, item, warn=dropped)
        raise AssertionError("the last try answers or raises")

    async def _write(
        self,
        route: Route,
        request: HttpRequest,
        user: User,
        old: Item,
        new: Json,
        *,
        patched: bool = False,
    ) -> Item:
        """The common end of updates and patches."""
        resource = route.resource
        before = old.decode()
        if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
            raise bad_request("metadata is missing")
        name = bodies.manager_of(request, user)
        manager = apply.FieldManager(name, "Update", resource.api_version, route.subresource)
        apply.track_update(resource, before, new, manager)
        return await self._finish(route, request, user, old, new, patched)

    async def _finish(
        self, route: Route, request: HttpRequest, user: User, old: Item, new: Json, patched: bool
    ) -> Item:
        dry = bodies.is_dry(request)
        if not route.subresource:
            review = Review(route, user, "UPDATE", new, old, dry)
            new = await self.admission.mutate(review)
            self.authorizer.check_escalation(user, route, new)
        return self.registry.update(
            route.resource,
            old,
            new,
            subresource=route.subresource,
            dry=dry,
            patched=patched,
        )

    async def _apply(self, route: Route, request: HttpRequest, user: User) -> HttpResponse:
        resource, name = route.resource, request.one("fieldManager")
        if not name:
            raise bad_request(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required'
                " for apply patch"
            )
        wanted = bodies.read_object(request, resource)
        meta = wanted.setdefault("metadata", {})
        if meta.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if meta.setdefault("name", route.name) != route.name:
            raise bad_request("the name of the object does not match the name on the URL")
        dropped = _unknown(resource, wanted, request)
        manager = apply.FieldManager(name, "Apply", resource.api_version, route.subresource)
        force = wants(request, "force")
        for left in reversed(range(PATCH_TRIES)):
            old = self.registry.find(resource.qualified, _namespace(route), route.name)
            if old is None:
                return await self._apply_new(route, request, user, wanted, manager)
            new = apply.apply(resource, old.decode(), wanted, manager, force=force)
            try:
                item = await self._finish(route, request, user, old, new, True)
            except ApiError as error:
                if error.reason != "Conflict" or not left or meta.get("resourceVersion"):
                    raise
                continue
            return _object(route, request, item, warn=dropped)
        raise AssertionError("the last try answers or raises")

    async def _apply_new(
        self,
        route: Route,
        request: HttpRequest,
        user: User,
        wanted: Json,
        manager: apply.FieldManager,
    ) -> HttpResponse:
        resource, dry = route.resource, bodies.is_dry(request)
        if route.subresource or wanted["metadata"].get("uid"):
            raise failures.not_found(resource, route.name)
        self.authorizer.check(user, _create_access(route))
        obj = apply.apply(resource, None, wanted, manager, force=True)
        self.registry.prepare(resource, route.namespace, obj)
        obj = await self.admission.mutate(Review(route, user, "CREATE", obj, None, dry))
        self.authorizer.check_escalation(user, route, obj)
        item = self.registry.create(resource, route.namespace, obj, dry=dry)
        return _object(route, request, item, 201)

    # Deletion:

    def _delete(self, route: Route, request: HttpRequest) -> HttpResponse:
        if route.subresource:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method")
        options, dry = _delete_options(request)
        resource = route.resource
        item = self.registry.get(resource, _namespace(route), route.name)
        last, gone = deletion.delete(self.registry, resource, item, options, dry=dry)
        if gone and not resource.returns_deleted:
            return bodies.answer(bodies.success(resource, item.name, item.uid))
        return _object(route, request, last)

    def _delete_collection(self, route: Route, request: HttpRequest) -> HttpResponse:
        options, dry = _delete_options(request)
        resource = route.resource
        selects = selection(request, resource)
        items = list(self.registry.storage.of(resource.qualified).items(route.namespace or None))
        chosen = [item for item in items if selects is None or selects(item)]
        version = self.registry.storage.version
        done = [
            deletion.delete(self.registry, resource, item, options, dry=dry)[0] for item in chosen
        ]
        body = listing(resource, form_of(request), done, version=version)
        return bodies.answer(body)


def _namespace(route: Route) -> str:
    return route.namespace if route.resource.namespaced else ""


def _create_access(route: Route) -> Access:
    return Access("create", route.resource.group, route.resource.plural, route.namespace)


def _object(
    route: Route, request: HttpRequest, item: Item, status: int = 200, warn: list[str] | None = None
) -> HttpResponse:
    response = bodies.answer(renderer(route.resource, form_of(request))(item), status)
    if warn:
        response.headers = {**response.headers, "warning": f'299 - "unknown field \\"{warn[0]}\\""'}
    return response


def _unknown(resource: Resource, obj: Any, request: HttpRequest) -> list[str]:
    """Prune a custom resource as asked by ``fieldValidation``; returns what to warn about.

    Raises:
        ApiError: 400, strictness was asked for and a field is unknown.
    """
    if resource.schema is None or not isinstance(obj, dict):
        return []
    dropped = schema.prune(obj, resource.schema)
    asked = request.one("fieldValidation", "Warn")
    if dropped and asked == "Strict":
        listed = ", ".join(f'unknown field "{each}"' for each in dropped)
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a'
            f" {resource.kind}: strict decoding error: {listed}"
        )
    return dropped if asked == "Warn" else []


def _patcher(content: str, changes: Any, resource: Resource) -> Callable[[Json], Any]:
    match content:
        case _ if content == MERGE:
            if not isinstance(changes, dict):
                raise bad_request("error decoding patch: a merge patch is an object")
            return lambda obj: patch.merge(obj, changes)
        case _ if content == OPERATIONS:
            return lambda obj: patch.apply_operations(obj, changes)
        case _ if content == STRATEGIC and not resource.custom:
            shape = apply.shape_of(resource)
            return lambda obj: patch.strategic(obj, changes, shape)
        case _:
            raise failures.unsupported(content)


def _named_version(changes: Any) -> str:
    """The resourceVersion that a patch pins itself to."""
    if not isinstance(changes, dict) or not isinstance(changes.get("metadata"), dict):
        return ""
    return str(changes["metadata"].get("resourceVersion") or "")


def _delete_options(request: HttpRequest) -> tuple[DeleteOptions, bool]:
    given: Json = {}
    if request.body:
        found = bodies.read(request)
        given = found if isinstance(found, dict) else {}
    if request.one("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = int(request.one("gracePeriodSeconds"))
    if request.one("propagationPolicy"):
        given["propagationPolicy"] = request.one("propagationPolicy")
    try:
        options = msgspec.convert(given, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"invalid DeleteOptions: {error}") from error
    return options, bodies.is_dry(request) or bool(options.dry_run)


def _sign_request(obj: Json, user: User) -> None:
    """Set the requesting user of a certificate to the user of this request."""
    spec = obj.setdefault("spec", {})
    spec["username"] = user.name
    spec["groups"] = list(user.groups)
    if user.uid:
        spec["uid"] = user.uid
