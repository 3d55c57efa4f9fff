"""What consumers may ask of this cluster, as far as nothing in Kubernetes says it. Pure.

Host namespaces, host paths, privileges and host ports are Pod Security's, counts of objects and
affinity across namespaces ResourceQuotas', fields of other objects admission policies'
(:mod:`liqod.provider.policies.guestobjects`). Here is the rest: what depends on this cluster's own
RuntimeClasses, taints, ServiceAccounts and drivers. How much one consumer may have at all is in
:mod:`liqod.provider.slices.shares`. The configuration decides (``[guests]``), and every refusal
names the setting.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from liqod.config import Guests
from liqod.errors import Invalid

NOT_ALLOWED: Final = "NotAllowed"
"""Reason of a ShadowPod that asks for what this cluster's owner does not lend."""


class NotAllowed(Invalid):
    """The pod asks for what guests may not have; the message says what, and who can change it."""


def remedy(setting: str) -> str:
    """Who can change what was refused, as the end of a sentence."""
    return f"the provider's administrator can allow it ({setting} under [guests])"


def check_pod(spec: Mapping[str, Any], guests: Guests) -> None:
    """See that a pod asks for nothing that guests may not have.

    Raises:
        NotAllowed: it does.
    """
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    runtime = spec.get("runtimeClassName")
    if not allowed(account, guests.service_accounts):
        raise NotAllowed(
            f"its ServiceAccount {_shown(account)} is not for guests: {remedy('service_accounts')}"
        )
    if runtime and not allowed(runtime, guests.runtime_classes):
        raise NotAllowed(
            f"its RuntimeClass {_shown(runtime)} is not for guests: {remedy('runtime_classes')}"
        )
    volumes = spec.get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        for kind in volume if isinstance(volume, dict) else ():
            if kind != "name" and not allowed(kind, guests.volumes):
                raise NotAllowed(
                    f"volumes of type {_shown(kind)} are not for guests: {remedy('volumes')}"
                )


def tolerations(spec: Mapping[str, Any], guests: Guests) -> list[Any]:
    """The pod's tolerations without those of taints that keep guests off.

    A toleration is leave, not a wish: without it the pod still runs wherever no taint forbids.
    """
    found = spec.get("tolerations")
    return [
        each
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, dict) and allowed(each.get("key") or "", guests.tolerations)
    ]


def allowed(name: object, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is of that name."""
    return isinstance(name, str) and any(fnmatchcase(name, pattern) for pattern in patterns)


def namespace_problem(name: str, peer: str, guests: Guests) -> str:
    """Why a consumer may not have a namespace of that name; empty if it may."""
    if allowed(name, (pattern.replace("{peer}", peer) for pattern in guests.namespaces)):
        return ""
    return f"the name {name} is not for guests: {remedy('namespaces')}"


def _shown(text: object) -> str:
    return str(text)[:64]
