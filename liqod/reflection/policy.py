"""Which objects follow their namespace: the policy of their kind, and what they say themselves.

Annotations of the object win over those of the object that governs it (the Service of an
EndpointSlice), and both over the policy.
"""

from collections.abc import Mapping
from typing import Any

from liqod.model import labels
from liqod.model.crossing.annotations import says
from liqod.plugins.contracts import Policy


def verdict(annotations: Mapping[str, Any], policy: Policy) -> bool | None:
    """What an object's own annotations decide under a policy; None where they say nothing.

    Under a deny list only ``skip-reflection`` speaks, under an allow list only
    ``allow-reflection``: an annotation that a policy has no use for decides nothing.
    """
    if policy is Policy.DENY_LIST:
        skip = says(annotations, labels.SKIP_REFLECTION)
        return None if skip is None else not skip
    return says(annotations, labels.ALLOW_REFLECTION)


def allowed(
    policy: Policy,
    annotations: Mapping[str, Any],
    *,
    governing: Mapping[str, Any] | None = None,
    governing_policy: Policy | None = None,
) -> bool:
    """Whether an object is to be reflected.

    Args:
        policy: the policy of its kind.
        annotations: its annotations.
        governing: annotations of the object that governs it, if there is one.
        governing_policy: the policy of that object's kind; it then counts instead of ``policy``.
    """
    if policy is Policy.ALWAYS:
        return True
    effective = governing_policy or policy
    own = verdict(annotations, effective)
    if own is not None:
        return own
    inherited = None if governing is None else verdict(governing, effective)
    return inherited if inherited is not None else effective is not Policy.ALLOW_LIST
