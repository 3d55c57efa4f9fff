"""Decides which terminated containers may run again, by the rules that an API server enforces.

A container's own ``restartPolicy`` replaces the pod's, and its ``restartPolicyRules`` go before
both: the first whose exit codes match decides. If any container's end may restart all, none has
ended for good. A version of Kubernetes without these fields refuses them.
"""

from collections.abc import Mapping
from typing import Any, Final

RESTART: Final = "Restart"
RESTART_ALL: Final = "RestartAllContainers"
GROUPS: Final = ("initContainers", "containers")


def has_ended(status: Mapping[str, Any]) -> bool:
    """True if a container has terminated, by its status."""
    return (status.get("state") or {}).get("terminated") is not None


def final(spec: Mapping[str, Any], group: str, status: Mapping[str, Any]) -> bool:
    """True if a container has terminated and may never run again in this pod.

    Args:
        spec: the pod's.
        group: ``containers`` or ``initContainers``.
        status: the container's, as the pod's status has it; of one that the spec does not name,
            the pod's policy decides.
    """
    end = (status.get("state") or {}).get("terminated")
    if end is None or _all_may(spec):
        return False
    declared = (each for each in spec.get(group) or () if each.get("name") == status.get("name"))
    return not _may(spec, next(declared, {}), end.get("exitCode") or 0)


def _all_may(spec: Mapping[str, Any]) -> bool:
    return any(
        rule.get("action") == RESTART_ALL
        for group in GROUPS
        for container in spec.get(group) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


def _may(spec: Mapping[str, Any], container: Mapping[str, Any], code: int) -> bool:
    own = container.get("restartPolicy")
    if own and _rule(container, code) == RESTART:
        return True
    policy = own or spec.get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _rule(container: Mapping[str, Any], code: int) -> str:
    """The action of the first rule for that exit code; empty if there is none."""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        among = code in (codes.get("values") or ())
        if (codes.get("operator"), among) in (("In", True), ("NotIn", False)):
            return str(rule.get("action") or "")
    return ""
