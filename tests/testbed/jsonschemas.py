"""The schemas of a cluster's kinds as files for kubeconform, from the OpenAPI of its API server.

A schema is as strict as `kubectl apply --validate=strict`: a field that a kind does not have is an
error. Kinds of custom resources come as the definitions in the cluster have them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.testbed.api import Api

LOCATION = "{{ .Group }}-{{ .ResourceKind }}-{{ .ResourceAPIVersion }}.json"
"""The files' names as kubeconform's template has them; the core's group is its version there."""
_REFERENCE = "#/components/schemas/"
_DEFINITIONS = "#/definitions/"
_KINDS = "x-kubernetes-group-version-kind"
_OPEN = "x-kubernetes-preserve-unknown-fields"


def write(api: Api, folder: Path) -> Path:
    """Writes a file for each kind of the cluster; the location for kubeconform."""
    for place in api.get("/openapi/v3")["paths"].values():
        schemas = api.get(place["serverRelativeURL"])["components"].get("schemas", {})
        shared = {name: _strict(each) for name, each in schemas.items()}
        for name, group, version, kind in _kinds(schemas):
            made = {"$ref": f"{_DEFINITIONS}{name}", "definitions": _needed(shared, name)}
            file = folder / f"{group or version}-{kind.lower()}-{version}.json"
            file.write_text(json.dumps(made))
    return folder / LOCATION


def _kinds(schemas: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Name, group, version and kind of each schema that is a kind's alone."""
    for name, schema in schemas.items():
        found = schema.get(_KINDS, ())
        if len(found) == 1:
            yield name, found[0]["group"], found[0]["version"], found[0]["kind"]


def _needed(shared: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema of that name and all that it refers to."""
    found: dict[str, Any] = {}
    left = [name]
    while left:
        each = left.pop()
        if each not in found:
            found[each] = shared[each]
            left += _references(shared[each])
    return found


def _references(schema: dict[str, Any]) -> list[str]:
    own = [schema["$ref"].removeprefix(_DEFINITIONS)] if "$ref" in schema else []
    return own + [name for each in _parts(schema) for name in _references(each)]


def _parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas right within a schema."""
    found = list(schema.get("properties", {}).values())
    for word in ("allOf", "anyOf", "oneOf"):
        found += schema.get(word, ())
    for word in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(word), dict):
            found.append(schema[word])
    return found


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema in JSON Schema's own words, which takes no field that is not in it."""
    made = copy.deepcopy(schema)
    left = [made]
    while left:
        each = left.pop()
        left += _parts(each)
        if "$ref" in each:
            each["$ref"] = each["$ref"].replace(_REFERENCE, _DEFINITIONS)
        if each.pop("nullable", False) and "type" in each:
            each["type"] = [each["type"], "null"]
        if "properties" in each and not each.get(_OPEN):
            each.setdefault("additionalProperties", False)
    return made
