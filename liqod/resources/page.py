"""``docs/reference/resources.md``: custom resources with their fields, made of the definitions."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from liqod.resources import DEFINITIONS
from liqod.resources.base import Definition
from liqod.resources.crdmanifests import make_crd

FILE: Final = Path(__file__).parents[2] / "docs" / "reference" / "resources.md"
UNUSED: Final = (
    *("FirewallConfiguration", "GeneveTunnel", "RouteConfiguration"),
    *("WgGatewayClient", "WgGatewayClientTemplate", "WgGatewayServer"),
    "WgGatewayServerTemplate",
)
"""Kinds that are there for Liqo's clients."""
INTRODUCTION: Final = """\
# Resources

Made by `python -m liqod.resources` from the definitions that `liqod install` applies. They are
Liqo's, but for those of the group `peering.liqod.io`. `kubectl get liqo -A` lists the objects of
all of them; `kubectl explain KIND` has every field.

Kubernetes has a kind `resourceslices` of its own, of `resource.k8s.io`, which `kubectl` takes where
only that word is given: say `rslice` or `resourceslices.authentication.liqo.io`.
"""
NETWORK: Final = """\
## Of the network

Liqo's clients expect these; none of them does anything here.
"""


def render() -> str:
    """The whole page."""
    used = [each for each in DEFINITIONS if each.resource.KIND.name not in UNUSED]
    others = [each for each in DEFINITIONS if each.resource.KIND.name in UNUSED]
    lines = [INTRODUCTION, *_table(used), ""]
    for each in used:
        lines += _section(each)
    return "\n".join([*lines, NETWORK, *_table(others), ""])


def _table(definitions: Iterable[Definition]) -> list[str]:
    rows = ["| kind | name for `kubectl` | short | what it is |", "| --- | --- | --- | --- |"]
    for each in definitions:
        kind = each.resource.KIND
        short = ", ".join(f"`{name}`" for name in each.short)
        about = _schema(each).get("description", "")
        rows.append(f"| {kind.name} | `{kind.plural}.{kind.group}` | {short} | {about} |")
    return rows


def _schema(definition: Definition) -> dict[str, Any]:
    (version,) = make_crd(definition)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def _section(definition: Definition) -> list[str]:
    kind, schema = definition.resource.KIND, _schema(definition)
    where = "in a namespace" if kind.namespaced else "of the cluster"
    lines = [f"## {kind.name}", "", f"{schema.get('description', '')} It is {where}.", ""]
    rows = []
    for part in ("spec", "status"):
        fields = schema["properties"].get(part, {}).get("properties", {})
        for name, field in fields.items():
            about = field.get("description", "").replace("|", "\\|")
            rows.append(f"| `{part}.{name}` | {_type(field)} | {about} |")
    if rows:
        lines += ["| field | type | meaning |", "| --- | --- | --- |", *rows, ""]
    return lines


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"] if value) or "string"
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    if "additionalProperties" in field:
        return "map"
    return str(field.get("type", "any"))
