"""Checks consumers' pods against the restrictions that nothing in Kubernetes enforces. Pure.

Host namespaces, host paths, privileges and host ports are Pod Security's, counts of objects and
affinity across namespaces ResourceQuotas', fields of other objects admission policies'
(:mod:`liqod.provider.policies.guestobjects`). The rest is here: what depends on this cluster's own
RuntimeClasses, taints, ServiceAccounts and drivers. How much one consumer may have at all is in
:mod:`liqod.provider.slices.allocation`. The configuration decides (``[guests]``), and every refusal
names the setting.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from liqod.config import GuestSettings
from liqod.errors import Invalid
from liqod.model.crossing import allowedkeys

NOT_ALLOWED: Final = "NotAllowed"
"""Reason of a ShadowPod that requests a feature that this cluster's owner does not lend."""
PROJECTED: Final = frozenset(
    {"clusterTrustBundle", "configMap", "downwardAPI", "secret", "serviceAccountToken"}
)
"""Volume sources that ``projected`` allows; all others have to be allowed by their own names, first
of all a certificate of a signer of this cluster's (``podCertificate``)."""


class NotAllowed(Invalid):
    """The pod requests a forbidden field; the message names it, and the one to change that."""


def remedy(setting: str) -> str:
    """The end of a refusal: the setting that allows it, and that the administrator can set it."""
    return f"the provider's administrator can allow it ({setting} under [guests])"


def check_pod(spec: Mapping[str, Any], guests: GuestSettings) -> None:
    """Check that a pod requests nothing that guests may not have.

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
        for kind in _kinds(_object(volume)):
            if not allowed(kind, guests.volumes):
                raise NotAllowed(
                    f"volumes of type {_shown(kind)} are not for guests: {remedy('volumes')}"
                )
        _check_claim(_object(volume), guests)


def _kinds(volume: Mapping[str, Any]) -> Iterable[str]:
    """The types of a volume, and the unusual ones that are projected into it."""
    yield from volume.keys() - {"name"}
    sources = _object(volume.get("projected")).get("sources")
    for source in sources if isinstance(sources, list) else ():
        yield from _object(source).keys() - PROJECTED


def _check_claim(volume: Mapping[str, Any], guests: GuestSettings) -> None:
    """Check that the claim of an ephemeral volume names nothing that guests may not name.

    A controller makes it, and the fields not checked here are refused to that one by admission
    policies (:mod:`liqod.provider.policies.guestkeys`), without a notification.

    Raises:
        NotAllowed: it does.
    """
    template = _object(_object(volume.get("ephemeral")).get("volumeClaimTemplate"))
    meta, spec = _object(template.get("metadata")), _object(template.get("spec"))
    name = f"the claim of its volume {_shown(volume.get('name'))}"
    for what, patterns in (("annotations", guests.annotations), ("labels", guests.labels)):
        strange = [key for key in _object(meta.get(what)) if not allowedkeys.brings(key, patterns)]
        if strange:
            shown = ", ".join(sorted(strange))[:256]
            raise NotAllowed(f"{name} has {what} of others: {shown}; {remedy(what)}")
    storage = spec.get("storageClassName")
    if storage and not allowed(storage, guests.storage_classes):
        raise NotAllowed(
            f"{name} is of the class {_shown(storage)}, which is not for guests: "
            f"{remedy('storage_classes')}"
        )
    if spec.get("volumeAttributesClassName") and "volumeAttributesClassName" not in guests.fields:
        raise NotAllowed(f"{name} names a VolumeAttributesClass: {remedy('fields')}")


def tolerations(spec: Mapping[str, Any], guests: GuestSettings) -> list[Any]:
    """The pod's tolerations without those of taints that keep guests off.

    A toleration only permits: without it the pod still runs wherever no taint forbids.
    """
    found = spec.get("tolerations")
    return [
        each
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, dict) and allowed(each.get("key") or "", guests.tolerations)
    ]


def allowed(name: object, patterns: Iterable[str]) -> bool:
    """True if one of the patterns matches that name."""
    return isinstance(name, str) and any(fnmatchcase(name, pattern) for pattern in patterns)


def namespace_problem(name: str, peer: str, guests: GuestSettings) -> str:
    """The reason why a consumer may not have a namespace of that name; empty if it may."""
    if allowed(name, (pattern.replace("{peer}", peer) for pattern in guests.namespaces)):
        return ""
    return f"the name {name} is not for guests: {remedy('namespaces')}"


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(text: object) -> str:
    return str(text)[:64]
