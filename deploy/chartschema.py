"""The schema of the chart's values, by which Helm refuses a name that is none and a wrong type.

That of the daemon's settings is made of the structs that the daemon itself decodes them into.
"""

from typing import Any, Final

import msgspec

from liqod.config import Config, GuestSettings
from liqod.install.workload import ARCHITECTURES
from liqod.model import ids
from liqod.plugins import declared

Schema = dict[str, Any]

_SWITCH: Final[Schema] = {"type": "boolean"}
_TEXT: Final[Schema] = {"type": "string"}
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_URL: Final = r"https?://[^\s/?#@]+(/[^\s?#]*)?"
_DEFINITIONS: Final = "$defs"
_SAID: Final = frozenset({"title", "description", "default", "required"})
"""Keywords that say nothing of what is refused here: the daemon requires, and tells why."""


def schema() -> Schema:
    """The whole schema."""
    config, definitions = _config()
    values: Schema = {
        "clusterID": {
            "type": "string",
            "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            "maxLength": ids.ID_LIMIT,
        },
        "apiServer": _table({"address": {**_TEXT, "pattern": f"^({_URL})?$"}, "ca": _TEXT}),
        "image": _TEXT,
        "nodeImage": _TEXT,
        "architectures": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": list(ARCHITECTURES)},
        },
        "imagePullSecrets": _objects(),
        "replicas": {"type": "integer", "minimum": 1},
        "networking": _table({"enabled": _SWITCH, "proxySecret": _TEXT}),
        "clusterProfiles": _SWITCH,
        "storage": _SWITCH,
        "services": _SWITCH,
        "dnsServer": _table({"enabled": _SWITCH, "image": _TEXT}),
        # Helm gives the part of this name what it gives to all of them.
        "clusterset": _table(
            {
                "enabled": _SWITCH,
                "name": {**_TEXT, "pattern": f"^({_SUBDOMAIN})?$", "maxLength": 253},
                "global": {"type": "object"},
            }
        ),
        "pluginRights": _by_reflector(_rule()),
        "unpeerOnUninstall": _SWITCH,
        "config": config,
        "resources": _table(
            {
                "requests": {"type": "object"},
                "limits": {"type": "object"},
                "claims": _objects(),
            }
        ),
        "nodeSelector": {"type": "object", "additionalProperties": _TEXT},
        "tolerations": _objects(),
        "priorityClassName": _TEXT,
        "podDisruptionBudget": _SWITCH,
        "monitoring": _table(
            dict.fromkeys(("serviceMonitor", "prometheusRule", "dashboard"), _SWITCH)
        ),
        "networkPolicy": _SWITCH,
        # What a chart that has this one as a part gives to all its parts.
        "global": {"type": "object"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_table(values),
        "required": ["clusterID"],
        _DEFINITIONS: definitions,
    }


def _config() -> tuple[Schema, Schema]:
    """The schema of the daemon's settings, and the definitions that it refers to."""
    made = msgspec.json.schema(Config)
    definitions: Schema = made[_DEFINITIONS]
    guests = definitions[GuestSettings.__name__]["properties"]
    del guests["opt_ins"]
    guests |= {each.setting: _SWITCH for each, _ in declared.opt_ins()}
    return {"$ref": made["$ref"]}, {
        name: _bare(definition) for name, definition in definitions.items()
    }


def _bare(definition: Schema) -> Schema:
    """A definition of a struct without what is said of it and of its fields."""
    bare = {key: value for key, value in definition.items() if key not in _SAID}
    bare["properties"] = {
        name: {key: value for key, value in each.items() if key not in _SAID}
        for name, each in definition["properties"].items()
    }
    return bare


def _table(properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _objects() -> Schema:
    return {"type": "array", "items": {"type": "object"}}


def _by_reflector(rule: Schema) -> Schema:
    """Lists of rules by the names of reflectors."""
    return {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        "additionalProperties": {"type": "array", "minItems": 1, "items": rule},
    }


def _rule() -> Schema:
    """A rule of RBAC, without wildcards."""
    names = {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[^*]*$"}}
    fields = ("apiGroups", "resources", "verbs")
    return {**_table(dict.fromkeys(fields, names)), "required": list(fields)}
