"""The parts that admission policies are put together from: CEL expressions and manifests. Pure."""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.plugins import declared

GROUP: Final = "admissionregistration.k8s.io/v1"

Manifest = dict[str, Any]


def may(verb: str, group: str, resource: str, subresource: str = "") -> str:
    """A CEL expression: true if the requester may do that in the request's namespace."""
    part = f".subresource('{subresource}')" if subresource else ""
    return (
        f"authorizer.group('{group}').resource('{resource}'){part}"
        f".namespace(request.namespace).check('{verb}').allowed()"
    )


PRIVILEGED: Final = may("patch", "offloading.liqo.io", "shadowpods", "status")
"""In a consumer's namespaces: the daemon, administrators, the garbage collector; no consumer."""
GUEST: Final = f"{may('create', 'offloading.liqo.io', 'shadowpods')} && !{PRIVILEGED}"
"""In a consumer's namespaces: that consumer."""
GUEST_CLAIMS: Final = (
    "request.operation == 'CREATE' && request.resource.resource == 'persistentvolumeclaims'"
    f" ? !{PRIVILEGED} : ({GUEST})"
)
"""There: that consumer, and any that makes claims without the daemon's rights: those of ephemeral
volumes are made by a controller, from the consumer's fields. Binding one is an update."""
_LENDING: Final = may("patch", "authentication.liqo.io", "tenants", "status")
TENANT: Final = f"{may('create', 'authentication.liqo.io', 'resourceslices')} && !{_LENDING}"
"""In a tenant namespace: the consumer's control plane."""
_ASKING: Final = (
    f"(request.operation == 'CREATE' ? {may('create', 'authentication.liqo.io', 'tenants')}"
    f" : {may('delete', 'authentication.liqo.io', 'tenants')})"
)
"""One check or the other, not both: the API server counts the cost of an expression."""
PEERING_USER: Final = f"{_ASKING} && !{_LENDING}"
"""In a tenant namespace: a peering user."""

NAMESPACES_OF_PEERS: Final[Manifest] = {"key": labels.REMOTE_CLUSTER_ID, "operator": "Exists"}
TENANT_NAMESPACES: Final[Manifest] = {
    "key": labels.TENANT_NAMESPACE,
    "operator": "In",
    "values": [labels.TRUE],
}


def refusal(expression: str, message: str) -> Manifest:
    """A validation: the expression that has to hold, and the message where it does not."""
    return {"expression": expression, "message": message, "reason": "Forbidden"}


def no_finalizers(*spared: str, unless: str = "false") -> Manifest:
    """The validation that a consumer adds no finalizer, which would block deletions here.

    Args:
        spared: finalizers that the API server itself adds to new objects.
        unless: CEL: when this does not hold.
    """
    before = "oldObject.metadata.?finalizers.orValue([])"
    known = "".join(f" || f == '{each}'" for each in spared)
    return refusal(
        "object.metadata.?finalizers.orValue([])"
        f".all(f, request.operation == 'UPDATE' && f in {before}{known}) || {unless}",
        "a consumer may not add finalizers",
    )


def no_owners(*, unless: str = "false") -> Manifest:
    """A validation that a consumer's object has no owner, which would hold back its deletion."""
    before = "oldObject.metadata.?ownerReferences.orValue([])"
    same = "p.uid == o.uid && p.?blockOwnerDeletion == o.?blockOwnerDeletion"
    return refusal(
        "object.metadata.?ownerReferences.orValue([])"
        f".all(o, request.operation == 'UPDATE' && {before}.exists(p, {same})) || {unless}",
        "a consumer may not add owner references",
    )


def label(root: str, key: str) -> str:
    """A CEL expression: the label of ``object`` or ``oldObject``, empty where there is none."""
    return f"{root}.metadata.?labels[?'{key}'].orValue('')"


def rule(group: str, resources: list[str], operations: list[str] | None = None) -> Manifest:
    """The resources and operations that a policy matches; only updates by default."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": operations or ["UPDATE"],
        "resources": resources,
        "scope": "Namespaced",
    }


WRITES: Final = ["CREATE", "UPDATE"]


def written() -> list[Manifest]:
    """The kinds that a consumer writes itself, beside ShadowPods, and that follow its own here."""
    return [rule(group, plurals, WRITES) for group, plurals in declared.held().items()]


def policy(
    name: str,
    *,
    rules: list[Manifest],
    validations: list[Manifest],
    variables: dict[str, str] | None = None,
    namespaces: Manifest | None = None,
    held: str = "",
) -> list[Manifest]:
    """A policy and its binding.

    Args:
        name: of both.
        rules: the matched resources (:func:`rule`).
        validations: the conditions that have to hold.
        variables: CEL that validations share, by name.
        namespaces: their selector; all, where none are named.
        held: CEL: the requesters held to it; all, if empty. For all others the server
            converts the object for CEL once, where validations and their messages take three times.
    """
    selector = {"matchExpressions": [namespaces]} if namespaces else {}
    spec: Manifest = {
        "matchConstraints": {"namespaceSelector": selector, "resourceRules": rules},
        "variables": [{"name": key, "expression": text} for key, text in (variables or {}).items()],
        "validations": validations,
    }
    if held:
        spec["matchConditions"] = [{"name": "held", "expression": held}]
    return bound(name, spec)


def for_guests(
    name: str,
    rules: list[Manifest],
    *validations: Manifest,
    variables: dict[str, str] | None = None,
    held: str = GUEST,
) -> list[Manifest]:
    """A policy for writes of consumers, or for them, in their namespaces; its binding."""
    return policy(
        name,
        rules=rules,
        validations=list(validations),
        variables=variables,
        namespaces=NAMESPACES_OF_PEERS,
        held=held,
    )


def bound(name: str, spec: Manifest) -> list[Manifest]:
    """A policy that refuses also where it cannot be evaluated, and its binding."""
    made: Manifest = {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"failurePolicy": "Fail", **spec},
    }
    binding: Manifest = {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [made, binding]
