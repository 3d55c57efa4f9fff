"""From a frozen struct to the structural OpenAPI v3 schema of its CRD.

Types come from the annotations, descriptions from the first line of a struct's docstring and the
``Attributes`` section of its owner's, constraints from :func:`liqod.resources.base.schema`.
"""

import inspect
import re
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from liqod.resources.base import Definition, Resource

Schema = dict[str, Any]

_ENVELOPE: Final[Schema] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}
_PRESERVE: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_ATTRIBUTE = re.compile(r"^    (\w+): (.+?)(?=^    \w+: |\Z)", re.MULTILINE | re.DOTALL)


def object_schema(definition: Definition) -> Schema:
    """The schema of a whole custom resource."""
    struct = definition.resource
    inherited = {field.name for field in msgspec.structs.fields(Resource)}
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    own = [field for field in info.fields if field.name not in inherited]
    properties = dict(_ENVELOPE) | {f.encode_name: _schema(f.type, top=True) for f in own}
    schema: Schema = {
        "type": "object",
        "description": summary(struct),
        "properties": properties,
    }
    if definition.required:
        schema["required"] = list(definition.required)
    return schema


def summary(struct: type[msgspec.Struct]) -> str:
    """The first paragraph of the struct's docstring on one line, without markup."""
    return _plain(inspect.getdoc(struct) or "").split("\n\n")[0].replace("\n", " ").strip()


def _schema(kind: types.Type, *, top: bool = False) -> Schema:
    """The schema of one value; ``top`` marks spec and status, which are always described."""
    if isinstance(kind, types.Metadata):
        extra = dict(kind.extra_json_schema or {})
        inner = _schema(kind.type, top=top)
        if extra.get("x-kubernetes-int-or-string"):
            inner = {}
        return inner | extra
    if isinstance(kind, types.UnionType):
        known = [each for each in kind.types if not isinstance(each, types.NoneType)]
        if len(known) == 1:
            return _schema(known[0], top=top)
        return {"x-kubernetes-int-or-string": True}
    if isinstance(kind, types.StructType):
        return _struct(kind, described=top)
    return _simple(kind)


def _simple(kind: types.Type) -> Schema:
    match kind:
        case types.StrType():
            return {"type": "string"}
        case types.BytesType():
            return {"type": "string", "format": "byte"}
        case types.BoolType():
            return {"type": "boolean"}
        case types.IntType():
            return {"type": "integer"}
        case types.AnyType():
            return {"x-kubernetes-preserve-unknown-fields": True}
        case types.VarTupleType() | types.ListType():
            return {"type": "array", "items": _schema(kind.item_type)}
        case types.DictType(value_type=types.AnyType()):
            return dict(_PRESERVE)
        case types.DictType():
            return {"type": "object", "additionalProperties": _schema(kind.value_type)}
    raise TypeError(f"no schema for {kind}")


def _struct(kind: types.StructType, *, described: bool) -> Schema:
    texts = _attributes(kind.cls)
    properties: Schema = {}
    required: list[str] = []
    for field in kind.fields:
        value = _schema(field.type)
        if field.name in texts:
            value = {"description": texts[field.name]} | value
        properties[field.encode_name] = value
        asked = isinstance(field.type, types.Metadata) and (field.type.extra or {}).get("required")
        if field.required or asked:
            required.append(field.encode_name)
    schema: Schema = {"type": "object", "properties": properties}
    if described:
        schema = {"description": summary(kind.cls)} | schema
    if required:
        schema["required"] = required
    return schema


def _attributes(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Descriptions by attribute name, from the docstring's ``Attributes`` section."""
    text = _plain(inspect.getdoc(struct) or "")
    _, found, section = text.partition("Attributes:\n")
    if not found:
        return {}
    section = re.sub(r"\n {8,}", " ", section)
    return {name: " ".join(line.split()) for name, line in _ATTRIBUTE.findall(section)}


def _plain(text: str) -> str:
    """Without the markup of docstrings."""
    text = re.sub(r":\w+:`[~.]*([^`<]*?)`", r"\1", text)
    return text.replace("``", "")
