"""Changes objects by OverridePolicies on their way to a peer. Pure.

A policy is compiled once (:func:`compiled`); :func:`overridden` applies those that concern an
object to its manifest for the peer, in the order of :func:`in_order`. The object here is
never changed. Changes that policies may not make are refused in their schema, and here again
(:func:`problem`), so that a definition of another version opens nothing.
"""

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from liqod.apimachinery.kinds import CLAIMS, INGRESSES, Kind
from liqod.resources.overrides import (
    MAX_PATH,
    MAX_VALUE,
    WIDENING,
    ImageOverride,
    OverridePolicy,
    OverridePolicySpec,
    OverrideTarget,
    PatchOperation,
)

Json = dict[str, Any]

OURS: Final = ("liqo.io", "liqod.io", "kubernetes.io", "k8s.io")
"""Domains of labels and annotations by which programs act; policies set none of theirs."""
COMPILED: Final = 4096
"""Policies that are kept in their compiled form."""
_METADATA: Final = re.compile(r"/metadata/(labels|annotations)/[^/]+\Z")
_FIXED: Final = re.compile(r"/(apiVersion|kind|status)(/|\Z)")
_WIDENING: Final = frozenset(WIDENING)
_CONTAINERS: Final = ("containers", "initContainers")


class Override(msgspec.Struct, frozen=True, eq=False):
    """A policy in its compiled form; two of them are equal if they are the same one.

    Attributes:
        namespace, name: of the policy.
        generation: of the spec that it was compiled from.
        spec: the policy's.
        patch: its operations, with their values decoded.
        problem: why nothing of it is applied; empty where it is valid.
    """

    namespace: str
    name: str
    generation: int
    spec: OverridePolicySpec
    patch: tuple[Json, ...] = ()
    problem: str = ""

    @property
    def full_name(self) -> str:
        """The policy as ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def concerns(self, kind: Kind, source: Mapping[str, Any], peer: str) -> bool:
        """True if it is for an object of this cluster, on its way to a peer."""
        if self.problem or (self.spec.peers and peer not in self.spec.peers):
            return False
        return any(_selects(target, kind, source) for target in self.spec.objects)


@lru_cache(maxsize=COMPILED)
def compiled(body: bytes) -> Override:
    """The compiled form of a policy, given as JSON."""
    try:
        found = msgspec.json.decode(body, type=OverridePolicy)
    except msgspec.DecodeError as error:
        broken = msgspec.json.decode(body)["metadata"]
        place, name = broken.get("namespace", ""), broken["name"]
        return Override(place, name, 0, OverridePolicySpec(), problem=str(error))
    why = problem(found.spec)
    patch = () if why else tuple(_operation(each) for each in found.spec.patch)
    generation = found.metadata.generation or 0
    return Override(found.namespace, found.name, generation, found.spec, patch, why)


def in_order(found: Iterable[Override], own: str) -> tuple[Override, ...]:
    """Policies in the order in which they are applied: of a later one what it changes holds.

    Args:
        found: all that are for one namespace.
        own: liqod's own namespace, whose policies come first.
    """
    return tuple(sorted(found, key=lambda each: (each.namespace != own, each.name)))


def overridden(made: Json, content: str, found: Sequence[Override]) -> tuple[Json, dict[str, str]]:
    """An object for a peer with all changes, and by policy the operation that has no path in it.

    Args:
        made: the object as it would be without policies; it is not changed.
        content: where it holds what is the object's own ``spec`` here, such as ``spec.pod``; empty
            where it is of the same kind.
        found: the policies that concern it, in order.

    Returns:
        The object, and the problems by ``namespace/name`` of the policy.
    """
    whole = copy.deepcopy(made)
    inner = _inner(whole, content)
    problems: dict[str, str] = {}
    for each in found:
        failed = _apply(each, inner)
        if failed:
            problems[each.full_name] = failed
    return _put_back(whole, inner, content), problems


def _inner(whole: Json, content: str) -> Json:
    """The object as it looks to a policy."""
    if not content:
        return whole
    spec: Any = whole
    for step in content.split("."):
        spec = spec.get(step) or {}
    return {"metadata": whole["metadata"], "spec": spec}


def _put_back(whole: Json, inner: Json, content: str) -> Json:
    if not content:
        return inner
    *steps, last = content.split(".")
    place: Any = whole
    for step in steps:
        place = place[step]
    place[last] = inner["spec"]
    return {**whole, "metadata": inner["metadata"]}


def problem(spec: OverridePolicySpec) -> str:
    """Why nothing of a policy may be applied; empty where all may."""
    if not spec.objects:
        return "it selects no objects"
    if any(each.kind == "Secret" for each in spec.objects):
        return "what a Secret is at peers is not changed by policies"
    for key in (*spec.labels, *spec.annotations):
        if is_acted_on(key):
            return f"{key} is of a domain by whose keys programs act"
    return next((told for each in spec.patch if (told := _refused(each))), "")


def is_acted_on(key: str) -> bool:
    """True if a label or an annotation is of a domain by whose keys programs act."""
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(domain == each or domain.endswith(f".{each}") for each in OURS)


def _refused(operation: PatchOperation) -> str:
    """Why an operation may not be; empty where it may."""
    path = operation.path
    if operation.op not in ("add", "remove", "replace"):
        return f"{operation.op!r} is no operation that policies have"
    if len(path) > MAX_PATH or len(operation.value) > MAX_VALUE:
        return "an operation is too long"
    if not path.startswith("/") or _FIXED.match(path):
        return f"{path or 'the whole object'} is not changed by policies"
    if path.startswith("/metadata") and not _METADATA.match(path):
        return f"{path}: of metadata only single labels and annotations are changed"
    if path.startswith("/metadata") and is_acted_on(path.rpartition("/")[2].replace("~1", "/")):
        return f"{path} is of a domain by whose keys programs act"
    named = _WIDENING.intersection(path.split("/"))
    value = "" if operation.op == "remove" else decoded(operation.value)
    named |= _WIDENING.intersection(_keys(value))
    return f"{path}: {min(named)} is not changed by policies" if named else ""


def decoded(text: str) -> Any:
    """The value of an operation: JSON, or the text itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _keys(value: Any) -> Iterable[str]:
    """All keys of a value, however deep, and its texts, which may be names of fields in a list."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each)


def _operation(operation: PatchOperation) -> Json:
    made: Json = {"op": operation.op, "path": operation.path}
    return made if operation.op == "remove" else {**made, "value": decoded(operation.value)}


def _selects(target: OverrideTarget, kind: Kind, source: Mapping[str, Any]) -> bool:
    meta = source["metadata"]
    if target.kind != kind.name or target.api_version not in ("", kind.api_version):
        return False
    if target.names and meta["name"] not in target.names:
        return False
    has = meta.get("labels") or {}
    return all(has.get(key) == value for key, value in target.labels.items())


def _apply(override: Override, made: Json) -> str:
    """Change an object in place; why an operation was left out, empty for none."""
    spec = override.spec
    for field, wanted in (("labels", spec.labels), ("annotations", spec.annotations)):
        if wanted:
            made["metadata"][field] = {**(made["metadata"].get(field) or {}), **wanted}
    body = made.get("spec")
    if isinstance(body, dict):
        if isinstance(body.get("containers"), list):
            _change_pod(spec, body)
        else:
            _change_classes(spec, body, made.get("kind", ""))
    failed = ""
    for operation in override.patch:
        try:
            jsonpatch.apply_patch(made, [operation], in_place=True)
        except (
            jsonpatch.JsonPatchException,
            jsonpointer.JsonPointerException,
            TypeError,
            KeyError,
            IndexError,
        ):
            failed = failed or f"there is no {operation['path']} to {operation['op']}"
    return failed


def _change_pod(spec: OverridePolicySpec, body: Json) -> None:
    amounts = {"requests": dict(spec.requests), "limits": dict(spec.limits)}
    for container in (each for field in _CONTAINERS for each in body.get(field) or ()):
        if spec.containers and container.get("name") not in spec.containers:
            continue
        if spec.image is not None and container.get("image"):
            container["image"] = image(container["image"], spec.image)
        if spec.env:
            values = {each.name: each.value for each in spec.env}
            kept = [each for each in container.get("env") or () if each.get("name") not in values]
            added = [{"name": name, "value": value} for name, value in values.items()]
            container["env"] = [*kept, *added]
        if any(amounts.values()):
            before = container.get("resources") or {}
            changed = {
                field: {**(before.get(field) or {}), **wanted}
                for field, wanted in amounts.items()
                if wanted
            }
            container["resources"] = {**before, **changed}
    if spec.node_selector:
        body["nodeSelector"] = {**(body.get("nodeSelector") or {}), **spec.node_selector}
    if spec.tolerations:
        has = body.get("tolerations") or []
        more = [msgspec.to_builtins(each) for each in spec.tolerations]
        body["tolerations"] = [*has, *(each for each in more if each not in has)]
    if spec.priority_class_name:
        body["priorityClassName"] = spec.priority_class_name
        body.pop("priority", None)  # the number of the class here


def _change_classes(spec: OverridePolicySpec, body: Json, kind: str) -> None:
    """Classes and hosts, where an object of another kind has them."""
    if spec.storage_class_name and kind == CLAIMS.name:
        body["storageClassName"] = spec.storage_class_name
    if spec.ingress_class_name and kind == INGRESSES.name:
        body["ingressClassName"] = spec.ingress_class_name
    if not spec.hosts:
        return
    for rule in body.get("rules") or ():
        if isinstance(rule, dict) and rule.get("host") in spec.hosts:
            rule["host"] = spec.hosts[rule["host"]]
    for entry in body.get("tls") or ():
        entry["hosts"] = [spec.hosts.get(each, each) for each in entry.get("hosts") or ()]
    if isinstance(body.get("hostnames"), list):
        body["hostnames"] = [spec.hosts.get(each, each) for each in body["hostnames"]]


def image(text: str, wanted: ImageOverride) -> str:
    """A container's image with other parts.

    The first part of a name is a registry where it has a dot, a port, or is ``localhost``. A digest
    stays unless there is another tag: it is of the image, wherever that comes from.
    """
    name, _, digest = text.partition("@")
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path, tag = name, ""
    first, slash, rest = path.partition("/")
    has_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, repository = (first, rest) if has_registry else ("", path)
    registry, repository = wanted.registry or registry, wanted.repository or repository
    if wanted.tag:
        tag, digest = wanted.tag, ""
    made = f"{registry}/{repository}" if registry else repository
    made += f":{tag}" if tag else ""
    return f"{made}@{digest}" if digest else made
