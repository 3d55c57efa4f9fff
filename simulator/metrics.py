"""The number of requests served, in the form of the real API server's metrics."""

from collections import Counter

from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from simulator.wire.handlers import APPLY
from simulator.wire.routes import Route

Served = Counter[tuple[str, str, str]]
"""Requests by (verb, resource, sub-resource), verbs as the real metric has them."""

_LISTED = ("list", "watch", "deletecollection")


def note(served: Served, route: Route, request: HttpRequest) -> None:
    """Count one request."""
    verb = route.verb.upper() if route.verb in _LISTED else request.method
    if request.headers.get("content-type", "") in APPLY:
        verb = "APPLY"
    served[verb, route.resource.plural, route.subresource] += 1


def answer(served: Served) -> HttpResponse:
    """The metric ``apiserver_request_total`` as Prometheus reads it."""
    lines = [
        f'apiserver_request_total{{resource="{resource}",subresource="{part}",verb="{verb}"}} {n}\n'
        for (verb, resource, part), n in sorted(served.items())
    ]
    return HttpResponse(200, "".join(lines).encode(), {"content-type": "text/plain; version=0.0.4"})
