"""Sub-resources that are actions or other views: binding, eviction, log, scale, token, approval."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from liqod.kube import times
from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from simulator import builtins
from simulator.access.identities import Authenticator, User
from simulator.access.rights import Access, Authorizer
from simulator.nodes import budgets, disruptiontarget
from simulator.storage import deletion, patch
from simulator.storage.deletion import DeleteOptions
from simulator.storage.registry import Registry
from simulator.storage.storage import Item
from simulator.wire import bodies, failures, streams
from simulator.wire.failures import ApiError, bad_request
from simulator.wire.routes import Route

Json = dict[str, Any]

LogSource = Callable[[Item, str, bool], AsyncIterator[bytes]]
"""Gives the log of a pod's container: (pod, container, follow)."""

SHORTEST_TOKEN = 600


class Subresources:
    """Answers requests for sub-resources other than ``status``."""

    def __init__(
        self,
        registry: Registry,
        authenticator: Authenticator,
        authorizer: Authorizer,
        logs: LogSource,
    ) -> None:
        self._registry = registry
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._logs = logs

    def answer(self, route: Route, request: HttpRequest, user: User) -> HttpResponse | None:
        """The response, or None if this sub-resource is written like an object.

        Raises:
            ApiError: it is refused.
        """
        match route.subresource, route.verb:
            case "binding", "create":
                return self._bind(route, request)
            case "eviction", "create":
                return self._evict(route, request)
            case "log", "get":
                return self._log(route, request)
            case (("attach" | "exec" | "portforward"), ("create" | "get")):
                return streams.answer(self._get(route), route.subresource, request)
            case "token", "create":
                return self._token(route, request)
            case "scale", _:
                return self._scale(route, request)
            case "approval", ("update" | "patch"):
                return self._approve(route, request, user)
            case "finalize", "update":
                return self._finalize(route, request)
        return None

    def _get(self, route: Route) -> Item:
        namespace = route.namespace if route.resource.namespaced else ""
        return self._registry.get(route.resource, namespace, route.name)

    def _bind(self, route: Route, request: HttpRequest) -> HttpResponse:
        target = bodies.read(request).get("target") or {}
        if not target.get("name"):
            raise bad_request("target.name is required")
        bind(self._registry, self._get(route), target["name"])
        return bodies.answer(_done(201), 201)

    def _evict(self, route: Route, request: HttpRequest) -> HttpResponse:
        options = msgspec.convert(bodies.read(request).get("deleteOptions") or {}, DeleteOptions)
        item = self._get(route)
        dry = bodies.is_dry(request) or bool(options.dry_run)
        budgets.check_eviction(self._registry.storage, item)
        if not dry:
            message = "Eviction API: evicting"
            item = disruptiontarget.mark(self._registry, item, "EvictionByEvictionAPI", message)
        deletion.delete(self._registry, route.resource, item, options, dry=dry)
        return bodies.answer(_done(201), 201)

    def _log(self, route: Route, request: HttpRequest) -> HttpResponse:
        item = self._get(route)
        pod = item.decode()
        names = [each["name"] for each in pod["spec"]["containers"]]
        container = request.one("container") or names[0]
        if container not in names:
            raise bad_request(f"container {container} is not valid for pod {item.name}")
        if len(names) > 1 and not request.one("container"):
            raise bad_request(
                f"a container name must be specified for pod {item.name}, choose one of:"
                f" [{' '.join(names)}]"
            )
        if (pod.get("status") or {}).get("phase") == "Pending":
            raise bad_request(
                f'container "{container}" in pod "{item.name}" is waiting to start:'
                " ContainerCreating"
            )
        text = self._logs(item, container, request.one("follow") in ("true", "1"))
        return HttpResponse(200, text, {"content-type": "text/plain"})

    def _token(self, route: Route, request: HttpRequest) -> HttpResponse:
        account = self._get(route)
        asked = bodies.read(request)
        spec = asked.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or 3600)
        if seconds < SHORTEST_TOKEN:
            cause = failures.wrong(
                "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
            )
            raise failures.invalid(
                builtins.builtin("tokenreviews", "authentication.k8s.io"), "", [cause]
            )
        bound = spec.get("boundObjectRef")
        pod = None
        if bound and bound.get("kind") == "Pod":
            found = self._registry.get(builtins.PODS, account.namespace, bound.get("name", ""))
            if bound.get("uid") and bound["uid"] != found.uid:
                why = f"the UID in the bound object reference ({bound['uid']}) does not match"
                raise failures.conflict(builtins.PODS, found.name, why)
            pod = {"name": found.name, "uid": found.uid}
        token = self._authenticator.issue(
            account.namespace,
            account.name,
            account.uid,
            seconds=seconds,
            audiences=list(spec.get("audiences") or ()),
            pod=pod,
        )
        asked |= {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        asked["spec"] = {**spec, "expirationSeconds": seconds}
        asked["status"] = {
            "token": token,
            "expirationTimestamp": times.of(time.time() + seconds),
        }
        return bodies.answer(asked, 201)

    def _scale(self, route: Route, request: HttpRequest) -> HttpResponse:
        item = self._get(route)
        if route.verb == "get":
            return bodies.answer(_scale_of(item))
        changes = bodies.read(request)
        scale = _scale_of(item)
        if route.verb == "patch":
            scale = patch.merge(scale, changes)
        else:
            scale["spec"] = changes.get("spec") or {}
        obj = item.decode()
        obj["spec"]["replicas"] = int(scale["spec"].get("replicas") or 0)
        dry = bodies.is_dry(request)
        return bodies.answer(_scale_of(self._registry.update(route.resource, item, obj, dry=dry)))

    def _approve(self, route: Route, request: HttpRequest, user: User) -> HttpResponse:
        item = self._get(route)
        obj = item.decode()
        signer = obj["spec"]["signerName"]
        domain = signer.partition("/")[0]
        access = [
            Access("approve", "certificates.k8s.io", "signers", name=name)
            for name in (signer, f"{domain}/*")
        ]
        if not any(self._authorizer.allowed(user, each) for each in access):
            why = f'user not permitted to approve requests with signerName "{signer}"'
            raise failures.forbidden(route.resource, item.name, why)
        wanted = bodies.read(request)
        if route.verb == "patch":
            wanted = patch.merge(obj, wanted)
        conditions = (wanted.get("status") or {}).get("conditions") or []
        for condition in conditions:
            condition.setdefault("status", "True")
            condition.setdefault("lastUpdateTime", times.now())
            condition.setdefault("lastTransitionTime", times.now())
        obj["status"] = {**(obj.get("status") or {}), "conditions": conditions}
        version = (wanted.get("metadata") or {}).get("resourceVersion")
        if version:
            obj["metadata"]["resourceVersion"] = version
        dry = bodies.is_dry(request)
        return bodies.answer(
            self._registry.update(route.resource, item, obj, dry=dry, force=True).raw
        )

    def _finalize(self, route: Route, request: HttpRequest) -> HttpResponse:
        item = self._registry.get(route.resource, "", route.name)
        obj = item.decode()
        obj["spec"] = bodies.read(request).get("spec") or {}
        if obj["metadata"].get("deletionTimestamp") and not obj["spec"].get("finalizers"):
            return bodies.answer(self._registry.erase(route.resource, obj).raw)
        return bodies.answer(self._registry.update(route.resource, item, obj, force=True).raw)


def bind(registry: Registry, pod: Item, node: str) -> Item:
    """Bind a pod to a node, once.

    Raises:
        ApiError: 409, it is bound or going.
    """
    obj = pod.decode()
    spec, meta = obj["spec"], obj["metadata"]
    why = ""
    if meta.get("deletionTimestamp"):
        why = f"pod {pod.name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {pod.name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {pod.name} has non-empty .spec.schedulingGates"
    if why:
        message = f'Operation cannot be fulfilled on pods/binding "{pod.name}": {why}'
        details = {"name": pod.name, "kind": "pods/binding"}
        raise ApiError(409, "Conflict", message, details=details)
    spec["nodeName"] = node
    status = obj.setdefault("status", {})
    others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": times.now(),
    }
    status["conditions"] = [*others, scheduled]
    return registry.update(builtins.PODS, pod, obj, force=True)


def _scale_of(item: Item) -> Json:
    obj = item.decode()
    selector = ((obj["spec"].get("selector") or {}).get("matchLabels")) or {}
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": obj["spec"].get("replicas", 0)},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in selector.items()),
        },
    }


def _done(code: int) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": code,
    }
