"""Roles and bindings: defaults of subjects and the fixed ``roleRef``."""

from typing import Any

from simulator.kinds.base import Strategy, default
from simulator.wire.failures import Cause, required, wrong

Json = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    """``rules`` is always there, as the real server shows it."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        obj.setdefault("rules", None)

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        return [
            required(f"rules[{index}].verbs", "verbs must contain at least one value")
            for index, rule in enumerate(obj.get("rules") or ())
            if not rule.get("verbs")
        ]


class BindingStrategy(Strategy):
    """Bindings: the role of one never changes; its subjects may."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        if isinstance(obj.get("roleRef"), dict):
            default(obj["roleRef"], apiGroup=RBAC)
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = RBAC

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        role = obj.get("roleRef") or {}
        causes = [required(f"roleRef.{key}") for key in ("kind", "name") if not role.get(key)]
        for index, subject in enumerate(obj.get("subjects") or ()):
            if not subject.get("name"):
                causes.append(required(f"subjects[{index}].name"))
            if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
                causes.append(required(f"subjects[{index}].namespace"))
        if old is not None and old.get("roleRef") != role:
            causes.append(wrong("roleRef", role, "cannot change roleRef"))
        return causes


RIGHTS: dict[str, Strategy] = {
    f"roles.{RBAC}": RoleStrategy(),
    f"clusterroles.{RBAC}": RoleStrategy(),
    f"rolebindings.{RBAC}": BindingStrategy(),
    f"clusterrolebindings.{RBAC}": BindingStrategy(),
}
