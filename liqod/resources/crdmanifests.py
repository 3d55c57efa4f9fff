"""The CRDs themselves: made from the structs, kept as YAML, merged into those of a live cluster.

The files in ``crds/`` are made by ``python -m liqod.resources`` and committed, so that they can be
read, applied by hand and compared in a review; a test keeps them fresh.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

import msgspec
import yaml
from msgspec import inspect as types

from liqod.apimachinery import labels
from liqod.resources import CRD_REVISION, DEFINITIONS
from liqod.resources.base import Column, Definition, Resource

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


Manifest = dict[str, Any]
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads the definitions in a tenth of the time where PyYAML was built with libyaml."""
HEADER: Final = "# Made by `python -m liqod.resources` from the structs in liqod/resources.\n"


class _Plain(yaml.SafeDumper):
    """Writes equal parts out each time: CRDs are read by people and by other YAML readers."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def file_name(definition: Definition) -> str:
    """The file of a CRD: ``<group>_<plural>.yaml``."""
    kind = definition.resource.KIND
    return f"{kind.group}_{kind.plural}.yaml"


def make_crd(definition: Definition) -> Manifest:
    """The CRD of a kind, from its struct."""
    kind = definition.resource.KIND
    names: dict[str, Any] = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        "categories": [definition.category],
    }
    if definition.short:
        names["shortNames"] = list(definition.short)
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(each) for each in definition.columns],
        "schema": {"openAPIV3Schema": object_schema(definition)},
    }
    if definition.status:
        version["subresources"] = {"status": {}}
    others = [{**version, "name": each, "storage": False} for each in definition.also]
    metadata: dict[str, Any] = {
        "name": f"{kind.plural}.{kind.group}",
        "annotations": {labels.CRD_REVISION: str(CRD_REVISION), **definition.annotations},
    }
    if definition.labels:
        metadata["labels"] = dict(definition.labels)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version, *others],
        },
    }


def render_crd(definition: Definition) -> str:
    """The text of a CRD's file."""
    body = yaml.dump(make_crd(definition), Dumper=_Plain, sort_keys=False, width=100)
    return f"{HEADER}{body}"


def crd_manifests() -> list[Manifest]:
    """The committed CRDs, in the order of installation; each call gives fresh values."""
    folder = resources.files(__package__) / "crds"
    return [yaml.load((folder / file_name(each)).read_text(), _LOADER) for each in DEFINITIONS]


def merge_crd(live: Mapping[str, Any] | None, ours: Manifest) -> Manifest:
    """The CRD to be written over a live one: it gains what ours has and loses nothing.

    Versions, fields, printer columns and short names that only the live one has stay, as do its
    enumerated values and its free-form objects. Where both say something about a field, ours
    counts, but a field that the live schema does not ask for is not asked for by ours either, and
    a revision is never lowered. Fields of the server are kept, so that the result equals the live
    CRD where nothing is to be written, and can be PUT where something is.

    Args:
        live: the CRD of the cluster, or None if there is none.
        ours: the one of this version.
    """
    if live is None:
        return ours
    spec, mine = live["spec"], ours["spec"]
    metadata = dict(live["metadata"])
    for marks in ("labels", "annotations"):
        both = {**(metadata.get(marks) or {}), **(ours["metadata"].get(marks) or {})}
        if both:
            metadata[marks] = both
    metadata["annotations"][labels.CRD_REVISION] = str(max(_revision(live), _revision(ours)))
    merged = {
        **spec,
        "names": _merge_names(spec.get("names") or {}, mine["names"]),
        "versions": _merge_versions(spec["versions"], mine["versions"]),
    }
    return {**live, "metadata": metadata, "spec": merged}


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
    }
    return shown | {"priority": column.priority} if column.priority else shown


def _revision(crd: Mapping[str, Any]) -> int:
    text = (crd["metadata"].get("annotations") or {}).get(labels.CRD_REVISION, "")
    return int(text) if text.isdigit() else 0


def _merge_names(live: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    names = {**live, **ours}
    for many in ("shortNames", "categories"):
        both = [*(live.get(many) or ()), *(ours.get(many) or ())]
        if both:
            names[many] = list(dict.fromkeys(both))
    return names


def _merge_versions(live: Sequence[Manifest], ours: Sequence[Manifest]) -> list[Manifest]:
    mine = {version["name"]: version for version in ours}
    merged = [
        _merge_version(version, mine.pop(version["name"]))
        if version["name"] in mine
        else dict(version)
        for version in live
    ]
    # One version is stored; where the live CRD stores one of its own, that stays.
    stored = any(version.get("storage") for version in merged)
    for version in mine.values():
        merged.append({**version, "storage": not stored and version["storage"]})
        stored = stored or version["storage"]
    return merged


def _merge_version(live: Manifest, ours: Manifest) -> Manifest:
    columns = [*ours["additionalPrinterColumns"]]
    known = {column["name"].strip() for column in columns}
    columns += [
        each
        for each in live.get("additionalPrinterColumns") or ()
        if each["name"].strip() not in known
    ]
    there = (live.get("schema") or {}).get("openAPIV3Schema") or {}
    schema = merge_schema(there, ours["schema"]["openAPIV3Schema"])
    merged = {
        **ours,
        "served": True,
        "storage": bool(live.get("storage")),
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
    }
    both = {**(live.get("subresources") or {}), **(ours.get("subresources") or {})}
    return {**merged, "subresources": both} if both else merged


def merge_schema(live: Schema, ours: Schema) -> Schema:
    """One schema over another: every field and value that either knows, demands that both make."""
    if not live:
        return ours
    if live.get("type") != ours.get("type"):
        # a live schema of another type is another idea of the field; what is stored follows it
        return live
    merged = {**live, **ours}
    for key in ("required", "enum", "properties"):
        merged.pop(key, None)
    required = [name for name in ours.get("required", ()) if name in live.get("required", ())]
    if required:
        merged["required"] = required
    if "enum" in live and "enum" in ours:
        merged["enum"] = list(dict.fromkeys([*ours["enum"], *live["enum"]]))
    if "properties" in live or "properties" in ours:
        merged["properties"] = _merge_properties(
            live.get("properties") or {}, ours.get("properties") or {}
        )
    for inner in ("items", "additionalProperties"):
        if isinstance(live.get(inner), dict) and isinstance(ours.get(inner), dict):
            merged[inner] = merge_schema(live[inner], ours[inner])
    return merged


def _merge_properties(live: Schema, ours: Schema) -> Schema:
    return {
        name: merge_schema(live[name], ours[name])
        if name in live and name in ours
        else live.get(name, ours.get(name))
        for name in dict.fromkeys([*ours, *live])
    }
