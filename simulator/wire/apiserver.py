"""The API server of one embedded cluster: from an HTTP request to its answer.

The order is the real server's: who asks, may they, what do they ask, do it. Faults strike
between the first two, so that they can be aimed at a user.
"""

import logging
from collections import Counter
from email.utils import formatdate

import msgspec

from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from simulator import metrics
from simulator.access.admission import Admission
from simulator.access.identities import ANONYMOUS, AUTHENTICATED, Authenticator, User, account_user
from simulator.access.rights import Access, Authorizer, access_of
from simulator.faults import Faults
from simulator.storage.registry import Registry
from simulator.wire import bodies, discovery
from simulator.wire.failures import ApiError, no_route
from simulator.wire.handlers import Handlers
from simulator.wire.reviews import Reviews
from simulator.wire.routes import WRITTEN, Route, parse
from simulator.wire.subresources import LogSource, Subresources

log = logging.getLogger(__name__)

_HEALTH = ("/livez", "/readyz", "/healthz")
_OPEN = (*_HEALTH, "/version")


class ApiServer:
    """Answers every request for one cluster; :meth:`handle` is what the HTTP server calls."""

    def __init__(self, registry: Registry, faults: Faults, logs: LogSource) -> None:
        self.registry = registry
        self.faults = faults
        faults.wake = registry.storage.wake
        self.authenticator = Authenticator(registry.storage)
        self.authorizer = Authorizer(registry.storage)
        self.admission = Admission(registry)
        self._handlers = Handlers(registry, self.admission, self.authorizer, faults)
        self._subresources = Subresources(registry, self.authenticator, self.authorizer, logs)
        self._reviews = Reviews(self.authenticator, self.authorizer)
        self.served: metrics.Served = Counter()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer one request, with the time; what is refused is answered as a ``Status``."""
        response = await self._answer(request)
        response.headers = {**response.headers, "date": formatdate(usegmt=True)}
        return response

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        try:
            user = self.authenticator.identify(request)
            route = self._route(request)
            verb = route.verb if route is not None else request.method.lower()
            fault = await self.faults.strike(verb, request, user.name)
            user = self._impersonate(request, user)
            if route is None:
                return self._plain(request, user)
            metrics.note(self.served, route, request)
            self.authorizer.check(user, access_of(route))
            if route.resource.ephemeral:
                return self._reviews.answer(route, request, user)
            if route.subresource not in WRITTEN:
                answered = self._subresources.answer(route, request, user)
                if answered is not None:
                    return answered
                raise no_route()
            return await self._handlers.answer(route, request, user, fault)
        except ApiError as error:
            return bodies.refuse(error)
        except (msgspec.ValidationError, ValueError, TypeError, AttributeError, KeyError) as error:
            # An object of a shape that the real server's decoder would not have let in.
            log.debug("refused: %s %s", request.method, request.path, exc_info=True)
            message = f"the object provided cannot be handled: {type(error).__name__}: {error}"
            return bodies.refuse(ApiError(400, "BadRequest", message))

    def _route(self, request: HttpRequest) -> Route | None:
        """The resource asked for, or None for discovery, health and the like."""
        if discovery.answer(request.path, self.registry.catalog) is not None:
            return None
        if not request.path.startswith(("/api/", "/apis/")):
            return None
        return parse(request, self.registry.catalog)

    def _plain(self, request: HttpRequest, user: User) -> HttpResponse:
        path = request.path
        verb = request.method.lower()
        if not path.startswith(_OPEN):
            self.authorizer.check(user, Access(verb, path=path))
        if path.startswith(_HEALTH):
            return HttpResponse(200, b"ok", {"content-type": "text/plain; charset=utf-8"})
        if path == "/metrics":
            return metrics.answer(self.served)
        found = discovery.answer(path, self.registry.catalog)
        if found is None:
            raise no_route()
        return bodies.answer(found)

    def _impersonate(self, request: HttpRequest, user: User) -> User:
        name = request.headers.get("impersonate-user", "")
        if not name:
            return user
        self.authorizer.check(user, Access("impersonate", "", "users", name=name))
        groups = tuple(filter(None, request.headers.get("impersonate-group", "").split(", ")))
        for group in groups:
            self.authorizer.check(user, Access("impersonate", "", "groups", name=group))
        parts = name.split(":")
        if not groups and parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
            return account_user(parts[2], parts[3])
        if name == ANONYMOUS.name:
            return ANONYMOUS
        return User(name, (*groups, AUTHENTICATED))
