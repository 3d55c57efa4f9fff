"""Refuses declarations of a package's reflector beyond the needs of its own kinds. Pure.

``liqod install`` grants a package's declarations in the cluster, and its author is a stranger: so
they are limited to the engine's work with the reflector's kinds, and kinds by which somebody could
take more than that are granted to no package. An administrator can still grant by ClusterRoles of
his own the rights refused here.
"""

import re
from typing import Final

from liqod.apimachinery.kinds import Kind
from liqod.model.text import is_fit
from liqod.plugins.contracts import Reflector
from liqod.plugins.declared import needed
from liqod.plugins.grants import Grant, Right

GROUPS: Final = frozenset(
    {
        *("", "apps", "batch", "extensions", "autoscaling", "policy", "node.k8s.io"),
        *("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"),
        *("authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io"),
        *("rbac.authorization.k8s.io", "storage.k8s.io", "discovery.k8s.io"),
        *("coordination.k8s.io", "networking.k8s.io", "resource.k8s.io", "scheduling.k8s.io"),
        *("flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "storagemigration.k8s.io"),
    }
)
"""API groups of Kubernetes itself, with whose kinds pods, rights, volumes and policies are made."""
OURS: Final = ("liqo.io", "liqod.io")
"""Domains of the groups by which clusters communicate."""
MOST: Final = 10_000
"""Objects of one kind that a package may allow a consumer in a namespace."""
LONGEST: Final = 256
"""Characters of a reason."""
_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PLURAL: Final = re.compile(r"[a-z][a-z0-9]{0,62}")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,5}")
_VARIABLE: Final = re.compile(r"[a-z][A-Za-z0-9]{0,62}")
_TAKEN: Final = frozenset({"annotations", "labels", "strangeAnnotations", "strangeLabels"})
"""Variables that the policy of a package's kinds has anyway."""


def overreach(reflector: Reflector) -> str | None:
    """Why the declarations of a package's reflector are refused, in a sentence; None if not."""
    if reflector.rights:
        for kind in (reflector.kind, *(each.kind for each in reflector.reads), *reflector.local):
            wrong = _of_name(kind)
            if wrong is not None:
                return wrong
    for right in reflector.rights:
        wrong = _of_right(right, reflector)
        if wrong is not None:
            return wrong
    return None if reflector.grant is None else _of_grant(reflector.grant, reflector)


def barred(group: str) -> bool:
    """True if nothing of an API group is granted to a package or by one."""
    return group in GROUPS or any(group == each or group.endswith(f".{each}") for each in OURS)


def _of_right(right: Right, reflector: Reflector) -> str | None:
    if not right.why or not is_fit(right.why) or len(right.why) > LONGEST:
        return f"a right without a reason of one line, of {LONGEST} characters at the most"
    if not right.resources or not right.verbs:
        return "a right names no resource, or no verb"
    wanted = needed(reflector)
    for resource in right.resources:
        shown = f"{resource} ({right.group or 'core'})"
        for verb in right.verbs:
            if (right.group, resource, verb) not in wanted:
                return f"rights has {verb} of {shown}, which its kinds do not need"
            if barred(right.group):
                return f"rights has {verb} of {shown}, which no package is granted"
    return None


def _of_name(kind: Kind) -> str | None:
    """Why a kind's plural and group are no names: a wildcard, or a sub-resource."""
    if (kind.group and not _GROUP.fullmatch(kind.group)) or not _PLURAL.fullmatch(kind.plural):
        return f"{kind.plural[:64]!r} of the group {kind.group[:64]!r} is no resource's name"
    return None


def _of_grant(grant: Grant, reflector: Reflector) -> str | None:
    if grant.opt_in is not None:
        return "grant.opt_in is for what liqod brings: who grants a package's kind has consented"
    if grant.pods:
        return "grant.pods is for ShadowPods"
    if grant.finalizers:
        return "grant.finalizers would let a consumer hold back what is taken from it"
    kinds = [each.kind for each in reflector.written]
    if not kinds:
        return "grant is for kinds that it writes, and it writes none"
    for kind in kinds:
        wrong = _of_written(kind)
        if wrong is not None:
            return wrong
    return _of_quota(grant, kinds) or _of_policy(grant)


def _of_written(kind: Kind) -> str | None:
    if not kind.namespaced:
        return f"grant: {kind.name} is in no namespace, and consumers have namespaces only"
    if barred(kind.group):
        return f"grant: {kind.plural} ({kind.group or 'core'}) are granted by no package"
    return _of_name(kind)


def _of_quota(grant: Grant, kinds: list[Kind]) -> str | None:
    counts = {f"count/{each.plural}.{each.group}" for each in kinds}
    if counts != grant.quota.keys():
        return f"grant.quota is to bound {', '.join(sorted(counts))}, and nothing else"
    for key, bound in grant.quota.items():
        if not _COUNT.fullmatch(bound) or int(bound) > MOST:
            return f"grant.quota[{key}] is to be a number of 1 to {MOST}, and is {bound[:32]!r}"
    return None


def _of_policy(grant: Grant) -> str | None:
    if grant.policy is None:
        return None
    for name in grant.policy.variables:
        if not _VARIABLE.fullmatch(name) or name in _TAKEN:
            return f"grant.policy.variables: {name[:64]!r} cannot be a variable's name"
    if not set(grant.policy.operations) <= {"CREATE", "UPDATE"} or not grant.policy.operations:
        return "grant.policy.operations is to be of CREATE and UPDATE"
    for each in grant.policy.validations:
        if not each.message or not is_fit(each.message) or len(each.message) > LONGEST:
            return f"grant.policy: a message of one line, of {LONGEST} characters at the most"
    return None
