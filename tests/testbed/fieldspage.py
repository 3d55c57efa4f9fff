"""Writes ``docs/reference/fields.md``: every field of pods and services, and what becomes of it.

Run ``python -m tests.testbed.fieldspage`` after a change of :mod:`liqod.model.crossing.fields`. The
names of the fields are Kubernetes' own, in ``tests/fixtures/kubernetes-fields.json``; for a new
minor, fetch its Go module ``k8s.io/api`` and run this with the folders of all modules that are to
count.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from liqod.model.crossing import fields
from liqod.model.crossing.fields import Fate, Field
from liqod.plugins.reflectors import disruptionbudgets
from liqod.provider.workloads.podshape import DROPPED

ROOT: Final = Path(__file__).parents[2]
DATA: Final = ROOT / "tests" / "fixtures" / "kubernetes-fields.json"
PAGE: Final = ROOT / "docs" / "reference" / "fields.md"

_FIELD: Final = re.compile(
    r"  (?:optional|repeated|map<\w+,)\s?(?P<type>[\w.]+)>? (?P<name>\w+) = \d+;"
)
"""A line of a message in ``generated.proto``."""

Types = dict[str, dict[str, str]]
"""By type, its fields; of each the type, empty where it is a plain value."""

TABLES: Final[Mapping[str, Mapping[str, Field]]] = {
    "PodSpec": fields.POD,
    "ServiceSpec": fields.SERVICE,
    "ServicePort": fields.SERVICE_PORT,
    "EndpointSlice": fields.ENDPOINT_SLICE,
    "Endpoint": fields.ENDPOINT,
    "EndpointConditions": fields.ENDPOINT_CONDITIONS,
    "IngressSpec": fields.INGRESS,
    "PodDisruptionBudgetSpec": disruptionbudgets.FIELDS,
}
"""The types whose every field has a line of its own."""
PROVIDER: Final = {
    **dict.fromkeys(DROPPED, "never taken from a consumer"),
    **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC"), "Pod Security"),
    "tolerations": "those of `tolerations`",
    "serviceAccountName": "`service_accounts`",
    "runtimeClassName": "`runtime_classes`",
    "volumes": "`volumes`, Pod Security",
    "containers": "`always_pull`, Pod Security",
    "initContainers": "as containers",
    "terminationGracePeriodSeconds": "at most `max_grace_seconds`",
    "affinity": "kept off virtual nodes; none across namespaces",
    "securityContext": "Pod Security",
    "ingressClassName": "`ingress_classes`",
    "rules": "hosts of `ingress_hosts`",
    "tls": "hosts of `ingress_hosts`",
    "defaultBackend": "where `ingress_hosts` is `*`",
    "externalIPs": "refused",
    "loadBalancerClass": "`load_balancer_classes`",
    **dict.fromkeys(("clusterIP", "healthCheckNodePort", "loadBalancerIP", "nodePort"), "`fields`"),
    "minAvailable": "where `disruption_budgets` is on: a number",
    "maxUnavailable": "refused",
}
"""Fields that a provider of liqod's checks, with the setting under ``[guests]`` that decides."""
_INLINE: Final = {"volumeSource", "handler", "ephemeralContainerCommon", "ingressRuleValue"}
_INLINE_TOO: Final = "localObjectReference"
ROOTS: Final = (
    *("PodSpec", "ServiceSpec", "EndpointSlice", "IngressSpec"),
    "PodDisruptionBudgetSpec",
)


def known() -> tuple[list[str], Types]:
    """The versions that were read, and the types."""
    found = json.loads(DATA.read_text())
    return found["versions"], found["types"]


def undecided(types: Types) -> list[str]:
    """The fields of Kubernetes that no table has, and those of tables that Kubernetes has not."""
    lines = []
    for name, table in {**TABLES, **fields.INSIDE}.items():
        there = set(types.get(name, {}))
        if name in TABLES:
            lines += [f"{name}.{each}: nobody has decided" for each in sorted(there - set(table))]
        lines += [f"{name}.{each}: no such field" for each in sorted(set(table) - there)]
    return lines


def news(schemas: Mapping[str, Any], types: Types) -> list[str]:
    """The fields of known types that an API server serves and that nobody has read here.

    Args:
        schemas: ``components.schemas`` of its OpenAPI, version 3.
        types: the types as they are known.
    """
    found = []
    for name, schema in schemas.items():
        of = name.rpartition(".")[2]
        if of in types and ".api." in name:
            served = set(schema.get("properties", {})) - {"apiVersion", "kind"}
            found += [f"{of}.{each}" for each in sorted(served - set(types[of]))]
    return found


def carried(types: Types) -> list[str]:
    """The types that are inside of a field that crosses, whole or translated."""
    seen: list[str] = []
    waiting = [name for name in TABLES if name in types]
    while waiting:
        name = waiting.pop(0)
        table = TABLES.get(name) or fields.INSIDE.get(name) or {}
        for field, of in sorted(types[name].items()):
            fate = table.get(field, Field(Fate.CROSSES)).fate
            new = of and of not in TABLES and of not in seen
            if new and of in types and fate in (Fate.CROSSES, Fate.CHANGED):
                seen.append(of)
                waiting.append(of)
    return sorted(seen)


def render() -> str:
    """The page."""
    versions, types = known()
    newest = versions[-1].removeprefix("0.").rpartition(".")[0]
    parts = [_head(newest)]
    for title, names in (
        ("Pods", ("PodSpec",)),
        ("Services", ("ServiceSpec", "ServicePort")),
        ("EndpointSlices", ("EndpointSlice", "Endpoint", "EndpointConditions")),
        ("Ingresses", ("IngressSpec",)),
        ("PodDisruptionBudgets", ("PodDisruptionBudgetSpec",)),
    ):
        parts.append(f"## {title}\n")
        parts += [_table(name, types[name]) for name in names]
    parts.append(_inside(types))
    return "\n".join(parts)


def _head(newest: str) -> str:
    return f"""# Fields

<!-- Made by `python -m tests.testbed.fieldspage`; do not edit. -->

Every field that Kubernetes has up to 1.{newest}, alpha ones included, and what becomes of it when
the object that has it goes to a peer. A field that is not listed keeps a pod here, with the reason
`UnsupportedField`; of other objects it stays. The third column is what a liqod provider looks at,
with its setting under `[guests]` (see [configuration.md](configuration.md)).
"""


def _table(name: str, present: Mapping[str, str]) -> str:
    table = TABLES[name]
    lines = [f"### `{name}`\n", "| field | what becomes of it | at the provider |"]
    lines.append("| --- | --- | --- |")
    for field in sorted(present):
        fate, why = table[field]
        said = f"{fate.value}: {why}" if why else fate.value
        lines.append(f"| `{field}` | {said} | {PROVIDER.get(field, '')} |")
    return "\n".join(lines) + "\n"


def _inside(types: Types) -> str:
    lines = [
        "## Inside of fields that cross\n",
        "All of these go with the field that holds them, but for what is said.\n",
        "| type | crosses | other |",
        "| --- | --- | --- |",
    ]
    for name in carried(types):
        table = fields.INSIDE.get(name, {})
        whole = ", ".join(f"`{each}`" for each in sorted(types[name]) if each not in table)
        other = "; ".join(
            f"`{each}` {table[each].fate.value}: {table[each].why}" for each in sorted(table)
        )
        lines.append(f"| `{name}` | {whole} | {other} |")
    return "\n".join(lines) + "\n"


# --- Reading Kubernetes' own definitions ----------------------------------------------------------


def read(modules: Iterable[Path]) -> dict[str, Any]:
    """The types of all those ``k8s.io/api`` modules together."""
    folders = list(modules)
    union: Types = {}
    for folder in folders:
        for name, found in _reached(_module(folder)).items():
            union.setdefault(name, {}).update(found)
    types = {
        name: {field: of if of in union else "" for field, of in sorted(found.items())}
        for name, found in sorted(union.items())
    }
    return {"versions": [each.name.rpartition("@v")[2] for each in folders], "types": types}


def _module(folder: Path) -> Types:
    types: Types = {}
    for room in ("networking", "core", "discovery", "policy"):
        types |= _messages((folder / room / "v1" / "generated.proto").read_text())

    def flat(name: str) -> dict[str, str]:
        made: dict[str, str] = {}
        for field, of in types[name].items():
            made |= flat(of) if field in _INLINE or field == _INLINE_TOO else {field: of}
        return made

    return {name: flat(name) for name in types}


def _messages(text: str) -> Types:
    types: Types = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        if opened := re.match(r"message (\w+) \{", line):
            current = types.setdefault(opened[1], {})
        else:
            found = _FIELD.match(line)
            if found:
                current[found["name"]] = found["type"].rpartition(".")[2]
    return types


def _reached(types: Types) -> Types:
    seen: Types = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in seen and name in types:
            seen[name] = types[name]
            waiting += types[name].values()
    return seen


def main(folders: list[str]) -> None:
    """Write the page, after reading the modules that are named."""
    if folders:
        found = read(Path(each) for each in folders)
        lines = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in found["types"].items()
        )
        versions = json.dumps(found["versions"])
        DATA.write_text(f'{{\n"versions": {versions},\n"types": {{\n{lines}\n}}\n}}\n')
    PAGE.write_text(render())


if __name__ == "__main__":
    main(sys.argv[1:])
