"""The rules of roles (RBAC), as JSON values."""

from typing import Any


def rule(
    groups: tuple[str, ...],
    resources: tuple[str, ...],
    verbs: tuple[str, ...],
    names: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A ``PolicyRule``."""
    made: dict[str, Any] = {
        "apiGroups": list(groups),
        "resources": list(resources),
        "verbs": list(verbs),
    }
    if names:
        made["resourceNames"] = list(names)
    return made
