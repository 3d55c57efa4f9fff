"""Kinds that are posted and answered, never stored: access reviews, token reviews, who am I."""

from typing import Any

from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from simulator.access.identities import ISSUER, Authenticator, User
from simulator.access.rights import Access, Authorizer
from simulator.wire import bodies
from simulator.wire.failures import no_route
from simulator.wire.routes import Route

Json = dict[str, Any]


class Reviews:
    """Answers reviews."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def answer(self, route: Route, request: HttpRequest, user: User) -> HttpResponse:
        """The review with its status.

        Raises:
            ApiError: 400 for another kind in the body; 404 for another verb.
        """
        if route.verb != "create" or route.name:
            raise no_route()
        review = bodies.read_object(request, route.resource)
        spec = review.setdefault("spec", {})
        match route.resource.kind:
            case "TokenReview":
                review["status"] = self._token(spec)
            case "SelfSubjectReview":
                review["status"] = {"userInfo": _user_info(user)}
            case "SelfSubjectAccessReview":
                review["status"] = self._access(user, spec)
            case "SelfSubjectRulesReview":
                review["status"] = self._rules(user, spec.get("namespace", ""))
            case _:
                groups = tuple(spec.get("groups") or ())
                subject = User(spec.get("user", ""), groups, spec.get("uid", ""))
                review["status"] = self._access(subject, spec)
        review.setdefault("metadata", {})
        return bodies.answer(review, 201)

    def _access(self, user: User, spec: Json) -> Json:
        attributes = spec.get("resourceAttributes")
        if attributes is None:
            plain = spec.get("nonResourceAttributes") or {}
            access = Access(plain.get("verb", ""), path=plain.get("path", "/"))
        else:
            resource = attributes.get("resource", "")
            if attributes.get("subresource"):
                resource = f"{resource}/{attributes['subresource']}"
            access = Access(
                attributes.get("verb", ""),
                attributes.get("group", ""),
                resource,
                attributes.get("namespace", ""),
                attributes.get("name", ""),
            )
        return {"allowed": self._authorizer.allowed(user, access)}

    def _rules(self, user: User, namespace: str) -> Json:
        found: list[Json] = []
        paths: list[Json] = []
        for rule in self._authorizer.rules(user, namespace):
            verbs = list(rule.verbs)
            if rule.non_resource_urls:
                paths.append({"verbs": verbs, "nonResourceURLs": list(rule.non_resource_urls)})
                continue
            entry: Json = {
                "verbs": verbs,
                "apiGroups": list(rule.api_groups),
                "resources": list(rule.resources),
            }
            if rule.resource_names:
                entry["resourceNames"] = list(rule.resource_names)
            found.append(entry)
        return {"resourceRules": found, "nonResourceRules": paths, "incomplete": False}

    def _token(self, spec: Json) -> Json:
        audiences = tuple(spec.get("audiences") or ()) or (ISSUER,)
        user = self._authenticator.of_token(spec.get("token", ""), audiences)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user_info(user), "audiences": list(audiences)}


def _user_info(user: User) -> Json:
    found: Json = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        found["uid"] = user.uid
    return found
