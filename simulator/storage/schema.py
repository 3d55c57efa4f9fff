"""Structural schemas of custom resources: pruning, defaults and validation.

Does what ``apiextensions-apiserver`` does for types, ``required``, ``enum``, bounds, lengths,
``pattern``, ``default``, ``nullable``, ``x-kubernetes-preserve-unknown-fields``,
``x-kubernetes-int-or-string`` and embedded resources. Of CEL only the immutability rule
``self == oldSelf`` is understood; other rules are not evaluated.
"""

import re
from copy import deepcopy
from functools import cache
from typing import Any

from simulator.wire.failures import Cause, required, wrong

Json = dict[str, Any]
Schema = dict[str, Any]

_ENVELOPE = {"apiVersion", "kind", "metadata"}
_NESTED = (dict, list)
_compiled = cache(re.compile)
"""Without a look into re's own cache for each of the thousands of values that a map can have."""


def prune(value: Any, schema: Schema, *, root: bool = True, path: str = "") -> list[str]:
    """Remove what the schema does not know, in place; returns the paths removed."""
    removed: list[str] = []
    if isinstance(value, list):
        items = schema.get("items") or {}
        for index, each in enumerate(value):
            if isinstance(each, _NESTED):
                removed += prune(each, items, root=False, path=f"{path}[{index}]")
        return removed
    if not isinstance(value, dict):
        return removed
    embedded = root or schema.get("x-kubernetes-embedded-resource")
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    preserve = schema.get("x-kubernetes-preserve-unknown-fields") or extra is True
    for key, each in list(value.items()):
        if embedded and key in _ENVELOPE:
            continue
        inner = properties.get(key, extra)
        if isinstance(inner, dict):
            if isinstance(each, _NESTED):
                below = f"{path}.{key}" if path else key
                removed += prune(each, inner, root=False, path=below)
        elif not preserve:
            del value[key]
            removed.append(f"{path}.{key}" if path else key)
    return removed


def fill(value: Any, schema: Schema) -> None:
    """Set defaults, in place, outermost first; a null where null is not allowed is replaced."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for key, inner in properties.items():
            if "default" in inner and (
                key not in value or (value[key] is None and not inner.get("nullable"))
            ):
                value[key] = deepcopy(inner["default"])
            elif key in value and value[key] is None and not inner.get("nullable"):
                del value[key]
            if key in value:
                fill(value[key], inner)
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            for key, each in value.items():
                if isinstance(each, _NESTED) and key not in properties:
                    fill(each, extra)
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for each in value:
            if isinstance(each, _NESTED):
                fill(each, items)


def validate(value: Any, schema: Schema, old: Any = None, path: str = "") -> list[Cause]:
    """The faults of a value; ``old`` is what it replaces, for immutability rules."""
    if value is None and schema.get("nullable"):
        return []
    causes = _check_type(value, schema, path)
    if causes:
        return causes
    if old is not None and "x-kubernetes-validations" in schema:
        causes = _check_rules(value, old, schema, path)
    if isinstance(value, str):
        causes += _check_text(value, schema, path)
    elif isinstance(value, dict):
        causes += _check_object(value, schema, old, path)
    elif isinstance(value, list):
        causes += _check_list(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes += _check_number(value, schema, path)
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(f'"{each}"' for each in schema["enum"])
        causes.append(
            Cause(
                path,
                f'Unsupported value: "{value}": supported values: {allowed}',
                "FieldValueNotSupported",
            )
        )
    return causes


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def _check_type(value: Any, schema: Schema, path: str) -> list[Cause]:
    if schema.get("x-kubernetes-int-or-string"):
        good = isinstance(value, int | str) and not isinstance(value, bool)
        expected = "integer,string"
    else:
        expected = schema.get("type", "")
        if not expected:
            return []
        good = isinstance(value, _TYPES[expected]) and (
            expected == "boolean" or not isinstance(value, bool)
        )
    if good:
        return []
    found = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}.get(
        type(value), "null" if value is None else "number"
    )
    detail = f'{path} in body must be of type {expected}: "{found}"'
    return [Cause(path, f'Invalid value: "{found}": {detail}', "FieldValueTypeInvalid")]


def _check_rules(value: Any, old: Any, schema: Schema, path: str) -> list[Cause]:
    causes = []
    for rule in schema.get("x-kubernetes-validations") or ():
        text = re.sub(r"\s+", "", rule.get("rule", ""))
        if text == "self==oldSelf" and old is not None and old != value:
            message = rule.get("message") or "failed rule: self == oldSelf"
            causes.append(wrong(path, value, message))
    return causes


def _check_object(value: Json, schema: Schema, old: Any, path: str) -> list[Cause]:
    prefix = f"{path}." if path else ""
    before = old if isinstance(old, dict) else {}
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    causes = [required(prefix + key) for key in schema.get("required", ()) if key not in value]
    for key, each in value.items():
        inner = properties.get(key, extra if isinstance(extra, dict) else None)
        if inner is not None and not (not path and key == "metadata"):
            causes += validate(each, inner, before.get(key), prefix + key)
    for bound, bad in (("minProperties", len(value).__lt__), ("maxProperties", len(value).__gt__)):
        if bound in schema and bad(schema[bound]):
            causes.append(wrong(path, len(value), f"must satisfy {bound} {schema[bound]}"))
    return causes


def _check_list(value: list[Any], schema: Schema, path: str) -> list[Cause]:
    causes = []
    for index, each in enumerate(value):
        causes += validate(each, schema.get("items") or {}, None, f"{path}[{index}]")
    for bound, bad in (("minItems", len(value).__lt__), ("maxItems", len(value).__gt__)):
        if bound in schema and bad(schema[bound]):
            causes.append(wrong(path, len(value), f"must satisfy {bound} {schema[bound]}"))
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys and schema.get("x-kubernetes-list-type") == "map":
        seen = [tuple(each.get(key) for key in keys) for each in value if isinstance(each, dict)]
        for index, key in enumerate(seen):
            if key in seen[:index]:
                causes.append(
                    Cause(f"{path}[{index}]", f"Duplicate value: {key}", "FieldValueDuplicate")
                )
    return causes


def _check_text(value: str, schema: Schema, path: str) -> list[Cause]:
    causes = []
    pattern = schema.get("pattern")
    if pattern is not None and _compiled(pattern).search(value) is None:
        causes.append(wrong(path, value, f"{path} in body should match '{pattern}'"))
    least, most = schema.get("minLength"), schema.get("maxLength")
    if least is not None and len(value) < least:
        detail = f"{path} in body should be at least {least} chars long"
        causes.append(wrong(path, value, detail))
    if most is not None and len(value) > most:
        causes.append(Cause(path, f"Too long: may not be more than {most} bytes"))
    return causes


def _check_number(value: float, schema: Schema, path: str) -> list[Cause]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        detail = f"{path} in body should be greater than or equal to {least}"
        return [wrong(path, value, detail)]
    if most is not None and value > most:
        return [wrong(path, value, f"{path} in body should be less than or equal to {most}")]
    return []
