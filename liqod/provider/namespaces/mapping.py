"""Plans the namespaces that a consumer's NamespaceMap makes, accepts, refuses and removes.

Pure. A namespace is the map's own only if its annotation names the map; one that was here before
is never touched, despite the map. It belongs to the one namespace of the consumer's that it
was made for, by that one's UID where the consumer gives it and by its name in any case: no other
one inherits it, or its content.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.config import GuestSettings
from liqod.model import ids
from liqod.model.crossing import exclusions
from liqod.provider.policies.podrestrictions import namespace_problem, remedy
from liqod.resources.offloading import (
    MAPPING_ACCEPTED,
    MAPPING_BACK_OFF,
    MAPPING_TERMINATING,
    RemoteNamespace,
)

RESERVED = (*exclusions.RESERVED, ids.TENANT_PREFIX)
RESERVED_ENDS = ("-system",)
"""Beginnings and ends of names that no consumer can have: those of Kubernetes, of distributions and
of add-ons, to which rights are given by name, and those of tenants."""
QUOTA_NAME = "liqod-objects"


class MappingStep(msgspec.Struct, frozen=True):
    """The plan for one entry of the map.

    Attributes:
        local: the namespace's name at the consumer.
        remote: its name here.
        phase: the phase for the status, once ``make`` and ``keep`` are done.
        make: the namespace has to be created.
        keep: it exists and is ours: its binding and quota have to be right.
        reason: the reason that it cannot be had, for the log and the inspector.
        uid: the UID of the consumer's namespace; empty where it gives none.
    """

    local: str
    remote: str
    phase: str
    make: bool = False
    keep: bool = False
    reason: str = ""
    uid: str = ""


def is_of(namespace: Partial, owner: str, peer: str) -> bool:
    """True if a namespace was made for the map ``owner`` (``<tenant namespace>/<map>``)."""
    meta = namespace.metadata
    return (
        meta.annotations.get(labels.MANAGED_BY_NAMESPACE_MAP) == owner
        and meta.labels.get(labels.REMOTE_CLUSTER_ID) == peer
    )


def is_for(namespace: Partial, local: str, uid: str) -> bool:
    """True if a namespace was made for that one of the consumer's, as far as both are known.

    Args:
        namespace: one that was made for the consumer's map.
        local: a name at the consumer.
        uid: the UID of the namespace of that name there; empty where the consumer gives none.
    """
    notes = namespace.metadata.annotations
    noted = notes.get(labels.LOCAL_UID) or uid
    return notes.get(labels.ORIGINAL_NAME, local) == local and noted == (uid or noted)


def plan(
    desired: Mapping[str, str],
    live: Mapping[str, Partial],
    owner: str,
    peer: str,
    liqo: str,
    guests: GuestSettings,
    *,
    others: int = 0,
    uids: Mapping[str, str] | None = None,
) -> list[MappingStep]:
    """The steps for a map's entries, in the order of their local names.

    If there are more than one consumer may have, existing ones come first; of the rest
    as many get a reason as may be made.

    Args:
        desired: name here by name at the consumer.
        live: the namespaces of this cluster, by name; at least those named in ``desired``.
        owner: ``<tenant namespace>/<map>``.
        peer: the consumer's id.
        liqo: liqod's own namespace.
        guests: what consumers may request.
        others: the peer's namespaces that were made for other maps.
        uids: UIDs of the consumer's namespaces by their names, as far as it gives them.
    """
    steps = []
    uids = uids or {}
    claimed = _claims(desired, live)
    places = max(guests.max_namespaces - others, 0)
    known = {name for name, each in live.items() if is_of(each, owner, peer)}
    ranked = sorted(desired.items(), key=lambda entry: (entry[1] not in known, entry))
    beyond = {local for local, _ in ranked[places:]}
    for local, remote in sorted(ranked[: places + guests.max_namespaces]):
        reason = _refusal(remote, liqo) or namespace_problem(remote, peer, guests)
        if not reason and local in beyond:
            most = guests.max_namespaces
            reason = f"one consumer may have {most} namespaces here: {remedy('max_namespaces')}"
        if not reason and claimed[remote] != local:
            reason = f"{claimed[remote]} is mapped to {remote} already"
        step = MappingStep(local, remote, MAPPING_BACK_OFF, reason=reason, uid=uids.get(local, ""))
        steps.append(step if reason else _step(step, live.get(remote), owner, peer))
    return steps


def orphans(
    desired: Mapping[str, str],
    live: Iterable[Partial],
    owner: str,
    peer: str,
    uids: Mapping[str, str] | None = None,
) -> list[Partial]:
    """The namespaces made for the map that it no longer names, or names for another than before.

    Args:
        desired: name here by name at the consumer.
        live: the namespaces of this cluster.
        owner: ``<tenant namespace>/<map>``.
        peer: the consumer's id.
        uids: UIDs of the consumer's namespaces by their names, as far as it gives them.
    """
    ours = {each.metadata.name: each for each in live if is_of(each, owner, peer)}
    uids = uids or {}
    wanted = {
        remote
        for local, remote in desired.items()
        if remote in ours and is_for(ours[remote], local, uids.get(local, ""))
    }
    return [each for name, each in ours.items() if name not in wanted]


def status_of(steps: Iterable[MappingStep], leaving: Iterable[Partial]) -> dict[str, Any]:
    """``status.currentMapping`` as JSON: the steps' phases, and Terminating for what goes."""
    current: dict[str, RemoteNamespace] = {}
    for each in leaving:
        local = each.metadata.annotations.get(labels.ORIGINAL_NAME)
        if local:
            current[local] = RemoteNamespace(each.metadata.name, MAPPING_TERMINATING)
    for step in steps:
        current[step.local] = RemoteNamespace(step.remote, step.phase)
    result: dict[str, Any] = msgspec.to_builtins(current)
    return result


def manifest(
    step: MappingStep,
    owner: str,
    peer: str,
    pod_security: str,
    notes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The namespace of an entry; ``notes`` are further annotations."""
    return {
        "metadata": {
            "name": step.remote,
            "labels": {
                labels.REMOTE_CLUSTER_ID: peer,
                f"{labels.POD_SECURITY_PREFIX}enforce": pod_security,
            },
            "annotations": {
                labels.MANAGED_BY_NAMESPACE_MAP: owner,
                **marks(step),
                **(notes or {}),
            },
        }
    }


def marks(step: MappingStep) -> dict[str, str]:
    """The annotations that name the consumer's namespace that one here was made for."""
    return {labels.ORIGINAL_NAME: step.local} | ({labels.LOCAL_UID: step.uid} if step.uid else {})


def quota(name: str, namespace: str, peer: str, hard: Mapping[str, str]) -> dict[str, Any]:
    """A bound on a consumer's objects in a namespace."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {labels.MANAGED: labels.TRUE, labels.REMOTE_CLUSTER_ID: peer},
        },
        "spec": {"hard": dict(hard)},
    }


def _refusal(remote: str, liqo: str) -> str:
    ours = remote in (liqo, "default")
    if ours or remote.startswith(RESERVED) or remote.endswith(RESERVED_ENDS):
        return f"the name {remote} is reserved"
    return ids.namespace_problem(remote) or ""


def _claims(desired: Mapping[str, str], live: Mapping[str, Partial]) -> dict[str, str]:
    """The owner of each name here among its requesters: the present one, else the first."""
    claims: dict[str, str] = {}
    for local, remote in sorted(desired.items()):
        there = live.get(remote)
        if there is not None and there.metadata.annotations.get(labels.ORIGINAL_NAME) == local:
            claims[remote] = local
        claims.setdefault(remote, local)
    return claims


def _step(step: MappingStep, live: Partial | None, owner: str, peer: str) -> MappingStep:
    """The step of an entry whose name it can have."""
    if live is None:
        return msgspec.structs.replace(step, phase=MAPPING_ACCEPTED, make=True)
    if not is_of(live, owner, peer):
        reason = f"a namespace {step.remote} exists already and was not made for {owner}"
        return msgspec.structs.replace(step, reason=reason)
    leaving = live.metadata.deletion_timestamp is not None
    if leaving or not is_for(live, step.local, step.uid):
        return msgspec.structs.replace(step, phase=MAPPING_TERMINATING)
    return msgspec.structs.replace(step, phase=MAPPING_ACCEPTED, keep=True)
