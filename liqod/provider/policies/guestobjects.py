"""The admission policies for a consumer's writes into its namespaces here, beside ShadowPods.

It writes them itself, with the rights that follow from the reflectors' grants. Some fields reach
beyond the namespace, or cannot be undone without the consumer; no reflection needs them, so they
are refused by the API server: of all kinds here, of one by the policy that its reflector declares.
The number of objects is limited by a ResourceQuota, the fields of pods by Pod Security and
:mod:`liqod.provider.policies.podrestrictions`. The functions are pure and return manifests.
"""

from typing import Final

from liqod.plugins import declared
from liqod.plugins.contracts import AdmissionPolicy, Reflector
from liqod.provider.policies.cel import (
    GUEST,
    GUEST_CLAIMS,
    Manifest,
    for_guests,
    no_finalizers,
    no_owners,
    refusal,
    rule,
    written,
)

OBJECTS_POLICY: Final = "liqod-guest-objects"
PREFIX: Final = "liqod-guest-"
"""Prefix of the names of the reflectors' policies."""


def policies() -> list[Manifest]:
    """All policies, each followed by its binding."""
    found = list(declared.grants())
    spared = (each for _, grant in found for each in grant.finalizers)
    made = for_guests(OBJECTS_POLICY, written(), no_finalizers(*spared), no_owners())
    for reflector, grant in found:
        if grant.policy is not None:
            made += of(reflector, grant.policy)
    return made


def of(reflector: Reflector, policy: AdmissionPolicy) -> list[Manifest]:
    """The policy that a reflector declares for the kinds that it writes, and its binding."""
    kinds = declared.by_group(each.kind for each in reflector.written)
    return for_guests(
        f"{PREFIX}{policy.name}",
        [rule(group, plurals, list(policy.operations)) for group, plurals in kinds.items()],
        *(refusal(each.expression, each.message) for each in policy.validations),
        variables=dict(policy.variables),
        held=GUEST_CLAIMS if policy.controllers else GUEST,
    )
