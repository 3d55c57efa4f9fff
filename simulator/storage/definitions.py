"""CustomResourceDefinitions: from a manifest to kinds that are served.

Schemas are shared between the clusters of a process by their content, since a hundred clusters
install the same ones.
"""

from functools import lru_cache
from typing import Any

import msgspec

from simulator.catalog import Column, Resource
from simulator.wire.failures import Cause, required, wrong

Json = dict[str, Any]


def complete(definition: Json, now: str) -> None:
    """Fill names and status of a CRD, in place: it is accepted and established at once."""
    spec = definition["spec"]
    names = spec["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})
    status = definition.setdefault("status", {})
    status["acceptedNames"] = names
    stored = [each["name"] for each in spec["versions"] if each.get("storage")]
    status["storedVersions"] = list(dict.fromkeys([*status.get("storedVersions", []), *stored]))
    status.setdefault(
        "conditions",
        [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ],
    )


def check(definition: Json) -> list[Cause]:
    """The faults of a CRD."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    causes = [
        required(f"spec.names.{field}") for field in ("plural", "kind") if not names.get(field)
    ]
    causes += [required(f"spec.{field}") for field in ("group", "scope") if not spec.get(field)]
    versions = spec.get("versions") or []
    if not versions:
        causes.append(required("spec.versions"))
    if not causes:
        causes += _check_versions(versions)
        expected = f"{names['plural']}.{spec['group']}"
        name = definition["metadata"]["name"]
        if name != expected:
            causes.append(wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    return causes


def _check_versions(versions: list[Json]) -> list[Cause]:
    causes = []
    if sum(1 for each in versions if each.get("storage")) != 1:
        causes.append(
            wrong("spec.versions", len(versions), "must have exactly one version marked as storage")
        )
    for index, each in enumerate(versions):
        schema = (each.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
        elif schema.get("type") != "object":
            path = f"spec.versions[{index}].schema.openAPIV3Schema.type"
            causes.append(wrong(path, schema.get("type", ""), "must be object at the root"))
    return causes


def to_resources(definition: Json) -> list[Resource]:
    """The kinds that a CRD serves, one per served version."""
    return list(_resources(msgspec.json.encode(definition["spec"])))


@lru_cache(maxsize=256)
def _resources(spec_raw: bytes) -> tuple[Resource, ...]:
    spec = msgspec.json.decode(spec_raw)
    storage = next(each["name"] for each in spec["versions"] if each.get("storage"))
    return tuple(
        _resource(spec, version, storage) for version in spec["versions"] if version.get("served")
    )


def _resource(spec: Json, version: Json, storage: str) -> Resource:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    columns = tuple(
        Column(each["name"], each["jsonPath"], each.get("type", "string"), each.get("priority", 0))
        for each in version.get("additionalPrinterColumns") or ()
    )
    name = Column("Name", ".metadata.name")
    age = Column("Age", ".metadata.creationTimestamp", "date")
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular", ""),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        storage=storage,
        status="status" in subresources,
        subresources=("scale",) if "scale" in subresources else (),
        generation=True,
        unconditional=False,
        custom=True,
        schema=version["schema"]["openAPIV3Schema"],
        columns=(name, *columns) if columns else (name, age),
    )
