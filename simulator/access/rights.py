"""Authorization: Roles and bindings evaluated as Kubernetes' RBAC authorizer does.

Rules are compiled from the stored objects when a request comes after one of them has changed.
``system:masters`` may do everything. Aggregated ClusterRoles hold the rules of those they select.
A user who writes a role or a binding must hold what it gives (or ``escalate`` / ``bind``).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from simulator import builtins
from simulator.access.identities import MASTERS, User
from simulator.storage.selectors import LabelSelector
from simulator.storage.storage import Change, Storage
from simulator.wire.failures import ApiError
from simulator.wire.routes import Route

Json = dict[str, Any]


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """``rbac.PolicyRule``."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())


class Access(msgspec.Struct, frozen=True):
    """One thing somebody may want to do; ``path`` for what is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def describe(self, user: User) -> str:
        """The refusal, in the real server's words."""
        if self.path:
            return f'User "{user.name}" cannot {self.verb} path "{self.path}"'
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return (
            f'User "{user.name}" cannot {self.verb} resource "{self.resource}" in API group'
            f' "{self.group}" {where}'
        )

    def refusal(self, user: User) -> ApiError:
        """403 as the authorizer's."""
        plain = self.resource.partition("/")[0]
        qualified = f"{plain}.{self.group}" if self.group else plain
        subject = (
            f'{qualified} "{self.name}" is forbidden' if self.name else f"{qualified} is forbidden"
        )
        if self.path:
            subject = "forbidden"
        details = {"name": self.name, "group": self.group, "kind": plain}
        return ApiError(
            403,
            "Forbidden",
            f"{subject}: {self.describe(user)}",
            details={key: value for key, value in details.items() if value},
        )


def access_of(route: Route) -> Access:
    """The access that a request needs, as authorization decides about it."""
    return Access(
        route.verb,
        route.resource.group,
        route.full_resource,
        route.namespace,
        route.name or route.selected,
    )


def allows(rule: Rule, access: Access) -> bool:
    """True if a rule covers an access."""
    if "*" not in rule.verbs and access.verb not in rule.verbs:
        return False
    if access.path:
        return any(_path_covered(pattern, access.path) for pattern in rule.non_resource_urls)
    if "*" not in rule.api_groups and access.group not in rule.api_groups:
        return False
    if rule.resource_names and access.name not in rule.resource_names:
        return False
    _, slash, sub = access.resource.partition("/")
    return (
        "*" in rule.resources
        or access.resource in rule.resources
        or (bool(slash) and f"*/{sub}" in rule.resources)
    )


def _path_covered(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))


class _RoleRef(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Subject(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Binding(msgspec.Struct, rename="camel"):
    role_ref: _RoleRef = _RoleRef()
    subjects: list[_Subject] | None = None


class _RoleMetadata(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] = {}


class _Aggregation(msgspec.Struct, rename="camel"):
    cluster_role_selectors: list[LabelSelector] | None = None


class _Role(msgspec.Struct, rename="camel"):
    metadata: _RoleMetadata
    rules: list[Rule] | None = None
    aggregation_rule: _Aggregation | None = None


class Authorizer:
    """Decides by the RBAC objects of one cluster."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._grants: dict[tuple[str, str], list[tuple[str, list[Rule]]]] | None = None
        for kind in _KINDS:
            storage.of(kind.qualified).listeners.append(self._forget)

    def _forget(self, change: Change) -> None:
        self._grants = None

    def allowed(self, user: User, access: Access) -> bool:
        """True if the user has this access."""
        if MASTERS in user.groups:
            return True
        return any(allows(rule, access) for rule in self.rules(user, access.namespace))

    def check(self, user: User, access: Access) -> None:
        """Raise ApiError 403 unless the user may."""
        if not self.allowed(user, access):
            raise access.refusal(user)

    def rules(self, user: User, namespace: str) -> Iterable[Rule]:
        """The rules a user holds in a namespace, or at the cluster scope for ``""``."""
        grants = self._compiled()
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for subject in subjects:
            for where, rules in grants.get(subject, ()):
                if where in ("", namespace):
                    yield from rules

    def _compiled(self) -> dict[tuple[str, str], list[tuple[str, list[Rule]]]]:
        if self._grants is not None:
            return self._grants
        cluster_roles = self.cluster_roles()
        grants: dict[tuple[str, str], list[tuple[str, list[Rule]]]] = {}
        for kind in (builtins.CLUSTER_ROLE_BINDINGS, builtins.ROLE_BINDINGS):
            for item in self._storage.of(kind.qualified).items():
                binding = msgspec.json.decode(item.raw, type=_Binding)
                rules = self._rules_of(binding.role_ref, item.namespace, cluster_roles)
                for subject in binding.subjects or ():
                    key = _key(subject, item.namespace)
                    grants.setdefault(key, []).append((item.namespace, rules))
        self._grants = grants
        return grants

    def cluster_roles(self) -> dict[str, list[Rule]]:
        """The rules of every ClusterRole, aggregated ones computed."""
        collection = self._storage.of(builtins.CLUSTER_ROLES.qualified)
        roles = [msgspec.json.decode(item.raw, type=_Role) for item in collection.items()]
        found = {role.metadata.name: list(role.rules or ()) for role in roles}
        aggregated = {
            role.metadata.name: _selected(role, roles)
            for role in roles
            if role.aggregation_rule is not None
        }
        # Aggregates may select aggregates: as many rounds as there are is always enough.
        for _ in aggregated:
            for name, selected in aggregated.items():
                chosen = (rule for other in selected for rule in found[other])
                found[name] = list(dict.fromkeys(chosen))
        return found

    def _rules_of(
        self, ref: _RoleRef, namespace: str, cluster_roles: dict[str, list[Rule]]
    ) -> list[Rule]:
        if ref.kind == "ClusterRole":
            return cluster_roles.get(ref.name, [])
        item = self._storage.of(builtins.ROLES.qualified).get(namespace, ref.name)
        if item is None:
            return []
        return msgspec.json.decode(item.raw, type=_Role).rules or []

    def check_escalation(self, user: User, route: Route, obj: Json) -> None:
        """Raise ApiError 403 if writing this role or binding gives more than its writer holds."""
        if route.resource not in _KINDS or MASTERS in user.groups or route.subresource:
            return
        if route.resource in (builtins.ROLES, builtins.CLUSTER_ROLES):
            verb, target = "escalate", route.resource
            rules = msgspec.convert(obj.get("rules") or [], list[Rule])
            name = obj["metadata"].get("name", "")
        else:
            ref = msgspec.convert(obj.get("roleRef") or {}, _RoleRef)
            verb, name = "bind", ref.name
            target = builtins.CLUSTER_ROLES if ref.kind == "ClusterRole" else builtins.ROLES
            rules = self._rules_of(ref, route.namespace, self.cluster_roles())
        access = Access(verb, target.group, target.plural, route.namespace, name)
        if self.allowed(user, access):
            return
        held = list(self.rules(user, route.namespace))
        missing = [rule for rule in rules if not _covered(rule, held)]
        if missing:
            raise _escalation(user, route, obj, missing)


_KINDS = (
    builtins.ROLES,
    builtins.CLUSTER_ROLES,
    builtins.ROLE_BINDINGS,
    builtins.CLUSTER_ROLE_BINDINGS,
)


def _key(subject: _Subject, namespace: str) -> tuple[str, str]:
    if subject.kind == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.namespace or namespace}:{subject.name}"
    return subject.kind, subject.name


def _selected(role: _Role, roles: list[_Role]) -> list[str]:
    """The roles that an aggregated one consists of."""
    selectors = (role.aggregation_rule and role.aggregation_rule.cluster_role_selectors) or ()
    return [
        other.metadata.name
        for other in roles
        if other is not role and any(each.holds(other.metadata.labels) for each in selectors)
    ]


def _covered(rule: Rule, held: list[Rule]) -> bool:
    """True if every single right of a rule is held."""
    for verb in rule.verbs:
        for path in rule.non_resource_urls:
            if not any(allows(each, Access(verb, path=path)) for each in held):
                return False
        for group in rule.api_groups:
            for resource in rule.resources:
                for name in rule.resource_names or ("",):
                    access = Access(verb, group, resource, name=name)
                    if not any(allows(each, access) for each in held):
                        return False
    return True


def _escalation(user: User, route: Route, obj: Json, missing: list[Rule]) -> ApiError:
    name = obj["metadata"].get("name", "")
    listed = "\n".join(map(_describe, missing))
    groups = ", ".join(f'"{group}"' for group in user.groups)
    return ApiError(
        403,
        "Forbidden",
        f'{route.resource.qualified} "{name}" is forbidden: user "{user.name}" (groups=[{groups}])'
        f" is attempting to grant RBAC permissions not currently held:\n{listed}",
        details={"name": name, "group": route.resource.group, "kind": route.resource.plural},
    )


def _describe(rule: Rule) -> str:
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.resource_names),
        ("NonResourceURLs", rule.non_resource_urls),
        ("Verbs", rule.verbs),
    )
    shown = (
        f"{name}:[" + ", ".join(f'"{each}"' for each in values) + "]"
        for name, values in parts
        if values
    )
    return "{" + ", ".join(shown) + "}"
