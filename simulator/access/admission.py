"""Mutating admission webhooks: called over TLS as the real server calls them.

Honoured: rules, namespace and object selectors, ``clientConfig`` by URL (a Service has no address
that reaches this process, so a webhook given by Service fails as unreachable), ``caBundle``,
timeout, failure policy, JSON patches. Not evaluated: ``matchConditions``, reinvocation,
validating webhooks and ValidatingAdmissionPolicies (they are stored only).
"""

import base64
from typing import Any

import msgspec
import trio

from liqod.errors import LiqodError
from simulator import builtins
from simulator.access.calls import Calls
from simulator.access.identities import User
from simulator.storage.patch import apply_operations
from simulator.storage.registry import Registry
from simulator.storage.selectors import labels_of, to_selector
from simulator.storage.storage import Change, Item
from simulator.texts import new_uid
from simulator.wire.failures import ApiError
from simulator.wire.routes import Route

Json = dict[str, Any]


class Review(msgspec.Struct, frozen=True):
    """One write that webhooks may change.

    Attributes:
        operation: ``CREATE`` or ``UPDATE``.
        obj: the object as it would be stored.
        old: what it replaces.
        dry: whether nothing will be stored.
    """

    route: Route
    user: User
    operation: str
    obj: Json
    old: Item | None
    dry: bool


class Admission:
    """The webhooks of one cluster.

    Attributes:
        calls: how they are asked.
    """

    def __init__(self, registry: Registry) -> None:
        self.calls = Calls()
        self._registry = registry
        self._hooks: list[Json] | None = None
        collection = registry.storage.of(builtins.MUTATING_WEBHOOKS.qualified)
        collection.listeners.append(self._forget)

    def _forget(self, change: Change) -> None:
        self._hooks = None
        self.calls.forget()

    def hooks(self) -> list[Json]:
        """Every mutating webhook, in the order they are called."""
        if self._hooks is None:
            collection = self._registry.storage.of(builtins.MUTATING_WEBHOOKS.qualified)
            self._hooks = [
                hook for item in collection.items() for hook in item.decode().get("webhooks") or ()
            ]
        return self._hooks

    async def mutate(self, review: Review) -> Json:
        """The object after every webhook that wants to see it.

        Raises:
            ApiError: a webhook refused, or failed and its policy is to fail.
        """
        obj = review.obj
        for hook in self.hooks():
            if self._matches(hook, review, obj):
                obj = await self._call(hook, review, obj)
        return obj

    def _matches(self, hook: Json, review: Review, obj: Json) -> bool:
        route = review.route
        if route.resource.group == "admissionregistration.k8s.io" or not any(
            _rule_matches(rule, review) for rule in hook.get("rules") or ()
        ):
            return False
        if not to_selector(hook.get("objectSelector")).holds(obj["metadata"].get("labels") or {}):
            return False
        if not route.resource.namespaced:
            return True
        namespace = self._registry.find("namespaces", "", route.namespace)
        labels = labels_of(namespace) if namespace is not None else {}
        return to_selector(hook.get("namespaceSelector")).holds(labels)

    async def _call(self, hook: Json, review: Review, obj: Json) -> Json:
        request = _request(review, obj)
        try:
            response = await self._send(hook, request)
        except (LiqodError, OSError, ValueError, trio.TooSlowError) as error:
            if hook["failurePolicy"] == "Ignore":
                return obj
            raise ApiError(
                500,
                "InternalError",
                f'Internal error occurred: failed calling webhook "{hook["name"]}": failed to call'
                f" webhook: {error or type(error).__name__}",
            ) from error
        if not response.get("allowed"):
            status = response.get("status") or {}
            why = status.get("message") or status.get("reason") or "without explanation"
            raise ApiError(
                int(status.get("code") or 403),
                status.get("reason") or "Forbidden",
                f'admission webhook "{hook["name"]}" denied the request: {why}',
            )
        if not response.get("patch"):
            return obj
        try:
            operations = msgspec.json.decode(base64.b64decode(response["patch"]))
            changed: Json = apply_operations(obj, operations)
        except (ApiError, ValueError) as error:
            message = f"Internal error occurred: {error}"
            raise ApiError(500, "InternalError", message) from error
        self._registry.normalise(review.route.resource, changed)
        return changed

    async def _send(self, hook: Json, request: Json) -> Json:
        """Post a review; the ``response`` part of the answer.

        Raises:
            LiqodError, OSError, TooSlowError, ValueError: it did not answer properly.
        """
        config = hook["clientConfig"]
        if not config.get("url"):
            service = config.get("service") or {}
            name = f"{service.get('name')}.{service.get('namespace')}.svc"
            raise OSError(f"Post https://{name}:{service.get('port', 443)}: no endpoints available")
        envelope = {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": request,
        }
        with trio.fail_after(hook["timeoutSeconds"]):
            answer = await self.calls.post(
                config["url"], config.get("caBundle", ""), msgspec.json.encode(envelope)
            )
        found = msgspec.json.decode(answer, type=dict[str, Any]).get("response")
        if not isinstance(found, dict) or found.get("uid") != request["uid"]:
            raise ValueError("received invalid webhook response")
        return found


def _rule_matches(rule: Json, review: Review) -> bool:
    route = review.route
    wanted = (
        ("operations", review.operation),
        ("apiGroups", route.resource.group),
        ("apiVersions", route.resource.version),
        ("resources", route.full_resource),
    )
    for key, value in wanted:
        allowed = rule.get(key) or ()
        if "*" not in allowed and "*/*" not in allowed and value not in allowed:
            return False
    scope: str = rule.get("scope", "*")
    return scope == "*" or (scope == "Namespaced") == route.resource.namespaced


def _request(review: Review, obj: Json) -> Json:
    route, resource = review.route, review.route.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    where = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    found = {
        "uid": new_uid(),
        "kind": kind,
        "resource": where,
        "requestKind": kind,
        "requestResource": where,
        "name": obj["metadata"].get("name", ""),
        "namespace": route.namespace,
        "operation": review.operation,
        "userInfo": {"username": review.user.name, "groups": list(review.user.groups)},
        "object": {**obj, "apiVersion": resource.api_version, "kind": resource.kind},
        "oldObject": review.old.decode() if review.old is not None else None,
        "dryRun": review.dry,
        "options": None,
    }
    return {key: value for key, value in found.items() if value != ""}
