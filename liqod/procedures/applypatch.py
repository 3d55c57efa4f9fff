"""The patch that ``kubectl apply`` sends for an object that it has applied before. Pure.

It has all that is written, and takes out what was applied and is written no more. The API server
merges some lists of built-in kinds by a key of their items: of these the items that are gone have
to be named.
"""

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), "name"),
    **dict.fromkeys(("volumes", "env", "imagePullSecrets", "secrets"), "name"),
    **dict.fromkeys(("schedulingGates", "resourceClaims"), "name"),
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
    ("spec", "taints"): "key",
}
"""The same, by the field around it: that of an item is the list's."""
SETS: Final = {"finalizers"}
"""Lists of texts that are merged as sets."""


def merge_patch(applied: Json, written: Json) -> Json:
    """The merge patch of a custom resource, whose lists are replaced.

    Args:
        applied: as it was applied last.
        written: as it is written now.
    """
    return _fields(applied, written, "", keyed=False)


def strategic_patch(applied: Json, written: Json) -> Json:
    """The strategic merge patch of an object of a built-in kind.

    Args:
        applied: as it was applied last.
        written: as it is written now.
    """
    return _fields(applied, written, "", keyed=True)


def _fields(applied: Json, written: Json, within: str, *, keyed: bool) -> Json:
    made = dict(written)
    for name, was in applied.items():
        if name not in written:
            made[name] = None
            continue
        now = written[name]
        if isinstance(was, dict) and isinstance(now, dict):
            made[name] = _fields(was, now, name, keyed=keyed)
        elif keyed and isinstance(was, list) and isinstance(now, list):
            made |= _list(was, now, within, name)
    return made


def _list(applied: list[Any], written: list[Any], within: str, name: str) -> Json:
    """A list in a strategic merge patch, with what takes items out of it."""
    if name in SETS:
        gone = [each for each in applied if each not in written]
        return {name: written, **({f"$deleteFromPrimitiveList/{name}": gone} if gone else {})}
    key = KEYS_WITHIN.get((within, name)) or KEYS.get(name, "")
    every = (*applied, *written)
    if not key or not all(isinstance(each, dict) and key in each for each in every):
        return {name: written}
    before, kept = {each[key]: each for each in applied}, {each[key] for each in written}
    if len(before) < len(applied) or len(kept) < len(written):
        # One port by two protocols: a merge by the key would make two of the same.
        return {name: [{"$patch": "replace"}, *written]}
    items = [_fields(before.get(each[key], {}), each, name, keyed=True) for each in written]
    gone = [{"$patch": "delete", key: each} for each in before if each not in kept]
    return {name: [*items, *gone]}
