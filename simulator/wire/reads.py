"""Lists and watches: what a request selects, page by page or as it changes."""

import base64
import binascii

import msgspec

from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from simulator.catalog import Resource
from simulator.faults import Fault, Faults
from simulator.storage.selectors import ItemTest, labels_of, parse_fields, parse_labels
from simulator.storage.storage import Item, Storage
from simulator.wire import bodies, failures, watch
from simulator.wire.failures import ApiError, bad_request
from simulator.wire.forms import listing
from simulator.wire.routes import Route, form_of, wants


class Reads:
    """Answers requests for collections.

    Args:
        storage: what is read.
        faults: cut and expire watches.
    """

    def __init__(self, storage: Storage, faults: Faults) -> None:
        self._storage = storage
        self._faults = faults

    def list(self, route: Route, request: HttpRequest, fault: Fault | None) -> HttpResponse:
        """A list, or a page of one. Raises ApiError."""
        storage, resource = self._storage, route.resource
        selects = _shown(fault, selection(request, resource))
        collection = storage.of(resource.qualified)
        items = collection.items(route.namespace or None)
        found = [item for item in items if selects is None or selects(item)]
        limit, version, remaining, token = int(request.one("limit") or 0), storage.version, 0, ""
        start = request.one("continue")
        if start:
            version, after = _read_token(start)
            if version < collection.oldest:
                raise failures.expired(
                    "The provided continue parameter is too old to display a consistent list"
                    " result."
                )
            found = [item for item in found if (item.namespace, item.name) > after]
        if limit and len(found) > limit:
            remaining = len(found) - limit
            found = found[:limit]
            token = _make_token(version, found[-1])
        form = form_of(request)
        body = listing(resource, form, found, version=version, token=token, remaining=remaining)
        return bodies.answer(body)

    def watch(self, route: Route, request: HttpRequest, fault: Fault | None) -> HttpResponse:
        """A watch. Raises ApiError before it begins."""
        initial = wants(request, "sendInitialEvents")
        since = request.one("resourceVersion")
        if request.one("sendInitialEvents") and not request.one("resourceVersionMatch"):
            cause = failures.forbidden_field(
                "sendInitialEvents",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )
            error = failures.invalid(route.resource, "", [cause])
            rest = str(error).partition(" ")[2]
            raise ApiError(422, "Invalid", f"ListOptions.meta.k8s.io {rest}")
        if since and not since.isdigit():
            raise bad_request(
                f'Invalid value: "{since}": strconv.ParseUint: parsing "{since}": invalid syntax'
            )
        epoch, faults = self._faults.epoch, self._faults
        asked = watch.Watch(
            resource=route.resource,
            form=form_of(request),
            namespace=route.namespace or None,
            selects=_shown(fault, selection(request, route.resource, name=route.name)),
            since=None if initial or since in ("", "0") else int(since),
            bookmarks=wants(request, "allowWatchBookmarks"),
            initial_end=initial,
            seconds=float(request.one("timeoutSeconds") or 0),
            alive=lambda: faults.epoch == epoch,
        )
        storage = self._storage
        collection = storage.of(route.resource.qualified)
        pieces = watch.stream(asked, collection, lambda: storage.version)
        return HttpResponse(200, faults.through(pieces, fault), bodies.JSON)


def selection(request: HttpRequest, resource: Resource, name: str = "") -> ItemTest | None:
    """The test of the label and field selectors of a request; None for everything."""
    labels, fields = request.one("labelSelector"), request.one("fieldSelector")
    by_field = parse_fields(
        ",".join(filter(None, (fields, f"metadata.name={name}" if name else ""))),
        resource.qualified,
        resource.namespaced,
    )
    if not labels:
        return by_field
    by_label = parse_labels(labels)
    if by_field is None:
        return lambda item: by_label(labels_of(item))
    return lambda item: by_label(labels_of(item)) and by_field(item)


def _shown(fault: Fault | None, selects: ItemTest | None) -> ItemTest | None:
    """The test of the objects that a fault lets be seen."""
    return (lambda item: False) if fault is not None and fault.empty else selects


def _make_token(version: int, last: Item) -> str:
    text = msgspec.json.encode([version, last.namespace, last.name])
    return base64.urlsafe_b64encode(text).decode()


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        version, namespace, name = msgspec.json.decode(
            base64.urlsafe_b64decode(token), type=tuple[int, str, str]
        )
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
    return version, (namespace, name)
