"""The patch that ``kubectl apply`` sends for an object that it has applied before. Pure.

It has all that is written, and takes out what was applied and is written no more. The API server
merges some lists of built-in kinds by a key of their items: of these the items that are gone have
to be named, and the order of those that stay.
"""

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), "name"),
    **dict.fromkeys(("volumes", "env", "secrets"), "name"),
    **dict.fromkeys(("schedulingGates", "resourceClaims"), "name"),
    **dict.fromkeys(("webhooks", "matchConditions"), "name"),
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
}
"""The keys by which lists are merged, wherever they are."""
KEYS_WITHIN: Final[Mapping[tuple[str, str], str]] = {
    ("spec", "ports"): "port",
    ("containers", "ports"): "containerPort",
    ("initContainers", "ports"): "containerPort",
    ("ephemeralContainers", "ports"): "containerPort",
    **dict.fromkeys(
        (("spec", each) for each in ("imagePullSecrets", "variables", "drivers")), "name"
    ),
}
"""The same, by the field around it: that of an item is the list's."""
SETS: Final = frozenset((("metadata", "finalizers"), ("spec", "podCIDRs")))
"""Lists of texts that are merged as sets, by the field around them."""
UNIONS: Final = frozenset(("strategy", "volumes", "resourceClaims"))
"""Objects, or items of lists, of which only fields that are written stay."""
WHOLE: Final = frozenset((("PodDisruptionBudget", "selector"),))
"""Objects that are replaced, by the kind and the field."""
BUILT_IN: Final = frozenset(
    (
        *("", "apps", "autoscaling", "batch", "policy"),
        *(
            f"{each}.k8s.io"
            for each in (
                *("admissionregistration", "apiregistration", "certificates", "coordination"),
                *("discovery", "events", "flowcontrol.apiserver", "internal.apiserver"),
                *("networking", "node", "rbac.authorization", "resource", "scheduling"),
                *("storage", "storagemigration"),
            )
        ),
    )
)
"""Groups of the API server's own, whose objects ``kubectl`` merges by the keys above."""


def merge_patch(applied: Json, written: Json) -> Json:
    """The merge patch of a custom resource, whose lists are replaced.

    Args:
        applied: as it was applied last.
        written: as it is written now.
    """
    made = dict(written)
    for name, was in applied.items():
        now = written.get(name)
        if isinstance(was, dict) and isinstance(now, dict):
            made[name] = merge_patch(was, now)
        elif name not in written:
            made[name] = None
    return made


def strategic_patch(applied: Json, written: Json) -> Json:
    """The strategic merge patch of an object of a built-in kind.

    Args:
        applied: as it was applied last.
        written: as it is written now.
    """
    return _fields(applied, written, "", str(written.get("kind", "")))


def _fields(applied: Json, written: Json, within: str, kind: str) -> Json:
    """An object in a strategic merge patch.

    Args:
        applied, written: before and after.
        within: the field that has it.
        kind: that of the whole.
    """
    made: Json = {name: None for name in applied if name not in written}
    for name, now in written.items():
        was = applied.get(name)
        if isinstance(now, dict) and (kind, name) not in WHOLE:
            made[name] = _fields(was if isinstance(was, dict) else {}, now, name, kind)
        elif isinstance(now, list):
            made |= _list(was if isinstance(was, list) else [], now, within, name, kind)
        else:
            made[name] = now
    if within in UNIONS:
        made["$retainKeys"] = [*written]
    return made


def _list(applied: list[Any], written: list[Any], within: str, name: str, kind: str) -> Json:
    """A list in a strategic merge patch, with what takes items out of it, and their order."""
    if (within, name) in SETS:
        gone = [each for each in applied if each not in written]
        taken = {f"$deleteFromPrimitiveList/{name}": gone} if gone else {}
        return {**_ordered(name, written, written), **taken}
    key = KEYS_WITHIN.get((within, name)) or KEYS.get(name, "")
    every = (*applied, *written)
    if not key or not all(_has_key(each, key) for each in every):
        return {name: written}
    before, kept = {each[key]: each for each in applied}, {each[key] for each in written}
    if len(before) < len(applied) or len(kept) < len(written):
        # One port by two protocols: a merge by the key would make two of the same.
        return {name: [{"$patch": "replace"}, *written]}
    items = [_fields(before.get(each[key], {}), each, name, kind) for each in written]
    gone = [{"$patch": "delete", key: each} for each in before if each not in kept]
    return _ordered(name, [*items, *gone], [{key: each[key]} for each in written])


def _has_key(item: Any, key: str) -> bool:
    """True if an item of a list can be found by its key; a manifest may have anything there."""
    return isinstance(item, dict) and isinstance(item.get(key), str | int)


def _ordered(name: str, items: list[Any], order: list[Any]) -> Json:
    """A list that is merged, and the order of its items; the API server takes no empty one."""
    return {
        **({name: items} if items else {}),
        **({f"$setElementOrder/{name}": order} if order else {}),
    }
