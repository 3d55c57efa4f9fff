"""The merge rules of an object's lists and maps: by key, as a set, or as one atom.

The knowledge that real API servers take from their OpenAPI schemas. For built-in kinds it is a
table of field names (what the kinds served here have); for custom resources it is read from the
CRD's schema. Used by strategic merge and server-side apply.
"""

from typing import Any, NamedTuple

Json = dict[str, Any]

_NAME = ("name",)
_KEYED: dict[str, tuple[str, ...]] = {
    "containers": _NAME,
    "initContainers": _NAME,
    "ephemeralContainers": _NAME,
    "volumes": _NAME,
    "env": _NAME,
    "imagePullSecrets": _NAME,
    "secrets": _NAME,
    "resourceClaims": _NAME,
    "schedulingGates": _NAME,
    "webhooks": _NAME,
    "matchConditions": _NAME,
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
    "ownerReferences": ("uid",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_PARENTED: dict[tuple[str, str], tuple[str, ...]] = {
    ("containers", "ports"): ("containerPort", "protocol"),
    ("initContainers", "ports"): ("containerPort", "protocol"),
    ("spec", "ports"): ("port", "protocol"),
    ("spec", "variables"): _NAME,
    ("status", "conditions"): ("type",),
    ("status", "addresses"): ("type",),
}
_ATOMIC_MAPS = {
    "selector",
    "labelSelector",
    "podSelector",
    "namespaceSelector",
    "objectSelector",
    "nodeSelector",
    "nodeSelectorTerms",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "configMapKeyRef",
    "secretKeyRef",
    "fieldRef",
    "resourceFieldRef",
    "targetRef",
    "secretRef",
    "roleRef",
    "scopeSelector",
}
_SETS = {"finalizers", "podCIDRs"}


class Shape(NamedTuple):
    """The merge rules at one place of an object.

    Attributes:
        keys: the fields that identify an item of a keyed list; empty for other lists.
        is_set: a list of scalars merged as a set.
        atomic: replaced as a whole.
    """

    name: str = ""
    parent: str = ""
    keys: tuple[str, ...] = ()
    is_set: bool = False
    atomic: bool = False
    schema: Json | None = None

    @property
    def item(self) -> "Shape":
        """The shape of an item of this list."""
        if self.schema is not None:
            return of_schema(self.schema.get("items") or {})
        return Shape(name=self.name, parent=self.parent)

    def field(self, name: str) -> "Shape":
        """The shape of a field of this map."""
        if self.schema is not None and self.name != "metadata":
            if not self.name and name == "metadata":
                return Shape(name="metadata")
            return of_schema(_property(self.schema, name), self.name + "." + name)
        return _builtin(self.name, name)


def of_schema(schema: Json, name: str = "") -> Shape:
    """The shape that a structural schema says; what it leaves out is granular or atomic."""
    listed = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ())) if listed == "map" else ()
    return Shape(
        name=name,
        keys=keys,
        is_set=listed == "set",
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        schema=schema,
    )


def _property(schema: Json, name: str) -> Json:
    properties = schema.get("properties") or {}
    if name in properties:
        found: Json = properties[name]
        return found
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, dict) else {}


def _builtin(parent: str, name: str) -> Shape:
    keys = _PARENTED.get((parent, name)) or _KEYED.get(name, ())
    if parent == "resources":
        keys = ()
    return Shape(
        name=name,
        parent=parent,
        keys=keys,
        is_set=name in _SETS,
        atomic=name in _ATOMIC_MAPS,
    )


BUILTIN = Shape()
"""The root of an object of a built-in kind."""
