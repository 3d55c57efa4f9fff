"""The admission policies for what a consumer writes into its namespaces here, beside ShadowPods.

It writes ConfigMaps, Secrets, Services, claims, Ingresses and ShadowEndpointSlices itself, with the
rights that Liqo's consumers need, and PodDisruptionBudgets where it may. Some fields of those reach
beyond the namespace, or cannot be undone without the consumer; no reflection needs them, so they
are refused by the API server. How many objects there may be is a ResourceQuota's business, what
pods may ask for Pod Security's and :mod:`liqod.provider.policies.guests`'. The functions are pure
and return manifests.
"""

from typing import Final

from liqod.provider.policies.cel import (
    GUEST_CLAIMS,
    WRITES,
    Manifest,
    for_guests,
    no_finalizers,
    no_owners,
    refusal,
    rule,
    written,
)

OBJECTS_POLICY: Final = "liqod-guest-objects"
SERVICES_POLICY: Final = "liqod-guest-services"
SECRETS_POLICY: Final = "liqod-guest-secrets"
CLAIMS_POLICY: Final = "liqod-guest-claims"
INGRESSES_POLICY: Final = "liqod-guest-ingresses"
BUDGETS_POLICY: Final = "liqod-guest-budgets"

_CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
"""Finalizer that an admission plugin of the API server puts on every claim."""


def policies() -> list[Manifest]:
    """All policies, each followed by its binding."""
    return [
        *for_guests(
            OBJECTS_POLICY,
            written(),
            no_finalizers(_CLAIM_PROTECTION),
            no_owners(),
        ),
        *for_guests(
            SERVICES_POLICY,
            [rule("", ["services"], WRITES)],
            refusal(
                "object.spec.?externalIPs.orValue([]).size() == 0",
                "a consumer may not claim addresses for its services (externalIPs)",
            ),
        ),
        *for_guests(
            SECRETS_POLICY,
            [rule("", ["secrets"], ["CREATE"])],
            refusal(
                "object.?type.orValue('') != 'kubernetes.io/service-account-token'",
                "a consumer may not ask for the token of a ServiceAccount",
            ),
        ),
        *_claims(),
        *_budgets(),
        *for_guests(
            INGRESSES_POLICY,
            [rule("networking.k8s.io", ["ingresses"], WRITES)],
            refusal(
                "object.metadata.?annotations.orValue({})"
                ".all(k, !k.endsWith('-snippet') && !k.endsWith('-snippets'))",
                "a consumer may not put configuration into an ingress controller (-snippet)",
            ),
            refusal(
                "object.metadata.?annotations.orValue({})"
                ".all(k, !k.endsWith('-secret')"
                " || !object.metadata.annotations[k].contains('/')"
                " || object.metadata.annotations[k].startsWith(request.namespace + '/'))",
                "a consumer may not name a Secret of another namespace",
            ),
        ),
    ]


def _budgets() -> list[Manifest]:
    """A number is what Kubernetes can hold here: of the rest it would allow no eviction at all.

    The pods of guests have no controller that says how many of them there should be, as a
    percentage and ``maxUnavailable`` need.
    """
    return for_guests(
        BUDGETS_POLICY,
        [rule("policy", ["poddisruptionbudgets"], WRITES)],
        refusal(
            "(!has(object.spec.maxUnavailable) && has(object.spec.minAvailable)"
            " && type(object.spec.minAvailable) == int)",
            "a consumer's budget says how many pods have to be available, as a number "
            "(minAvailable)",
        ),
    )


def _claims() -> list[Manifest]:
    """Volumes that are there already may be somebody's; a consumer's claims get new ones."""
    return for_guests(
        CLAIMS_POLICY,
        [rule("", ["persistentvolumeclaims"], WRITES)],
        refusal(
            "!variables.names || variables.before",
            "a consumer may not claim a volume that exists (volumeName, selector)",
        ),
        refusal(
            "!variables.copies || request.operation == 'UPDATE'",
            "a consumer may not claim a copy of what exists (dataSource, dataSourceRef)",
        ),
        variables={
            "names": "has(object.spec.volumeName) && object.spec.volumeName != ''"
            " || has(object.spec.selector)",
            "copies": "has(object.spec.dataSource) || has(object.spec.dataSourceRef)",
            "before": "request.operation == 'UPDATE' && has(oldObject.spec.volumeName)"
            " && oldObject.spec.volumeName != ''",
        },
        held=GUEST_CLAIMS,
    )
