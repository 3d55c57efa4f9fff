"""Replication as a decision: the changes that a source and its replica need. Pure.

Spec flows to the provider, status back. Labels and annotations go with the creation only, but for
the UIDs of a map's namespaces, which go with its entries. Objects are plain JSON, so that no field
is lost that is new to this version.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.model.objects import bounded
from liqod.model.objects.patches import exact_patch
from liqod.resources.authentication import ACCEPTED, AUTHENTICATION, DENIED, RESOURCES
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.resources.offloading import MAPPING_ACCEPTED, MAPPING_BACK_OFF, MAPPING_TERMINATING

PHASES = (None, "", MAPPING_ACCEPTED, MAPPING_BACK_OFF, MAPPING_TERMINATING)
"""Phases of a mapped namespace that this version supports."""

Json = dict[str, Any]

TOLD = (
    labels.GUEST_RULES,
    labels.REFUSED_NAMES,
    labels.NODES_READY,
    labels.NODES_CORDONED,
    labels.FREE_CAPACITY,
    labels.BEYOND_NODES,
    labels.KNOWN_KEY,
    labels.PROVIDER_SUCCESSION,
)
"""Annotations of a provider for values that have no field in Liqo."""
LONGEST = 16384
"""Bytes of one that is noted."""
LARGEST = 1024
"""Bytes of a provider's statements on one mapped namespace; its name has 63 at the most."""


class ReplicaPlan(msgspec.Struct, frozen=True):
    """The changes to make; each is None if there is nothing to do.

    Attributes:
        create: the replica to create.
        patch: the merge patch of the replica: of its ``spec``, and of its annotations.
        delete: UID of the replica to delete.
        status: the merge patch of the source's ``status``.
        notes: the provider's annotations, to be noted on the source's annotations.
    """

    create: Json | None = None
    patch: Json | None = None
    delete: str | None = None
    status: Json | None = None
    notes: Json | None = None


def replica_of(source: Mapping[str, Any], namespace: str, origin: str) -> Json:
    """A source as it is created at the provider.

    Args:
        source: the local object.
        namespace: this cluster's tenant namespace there.
        origin: this cluster's id.
    """
    meta = source["metadata"]
    marks = {key: value for key, value in meta.get("labels", {}).items() if key != labels.OWNERSHIP}
    marks |= {
        labels.REPLICATION: labels.FALSE,
        labels.REPLICATED: labels.TRUE,
        labels.ORIGIN_ID: origin,
        labels.REMOTE_CLUSTER_ID: origin,
    }
    metadata: Json = {"name": meta["name"], "namespace": namespace, "labels": marks}
    # Values that only this cluster uses (our own notes, kubectl's) stay here, as does a cordon,
    # which is the provider's to set.
    annotations = {
        key: value
        for key, value in meta.get("annotations", {}).items()
        if not key.startswith(("liqod.io/", "kubectl.kubernetes.io/", labels.CORDON))
    }
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": source.get("spec", {})}


def understood(status: Mapping[str, Any], source: Mapping[str, Any]) -> Json | None:
    """A provider's status without the verdicts and phases that this version does not support.

    This cluster's API server would refuse all of it for the sake of one. An unknown verdict counts
    as none yet, a namespace in an unknown phase as not ready. Of a map only the namespaces
    count that its source names, or named before; and what is larger than any honest provider has
    reason for is cut: each change of it is written here, and read by many. If it cannot be cut
    to that, the result is None.
    """
    if source.get("kind") == SERVICE_EXCHANGES.name:
        # Its parts are bounded one by one, by the definition as well as where they are read.
        parts = {each: status.get(each) for each in ("exports", "confirmed")}
        found = {key: dict(part) for key, part in parts.items() if isinstance(part, Mapping)}
        return {"shared": status.get("shared") is True, "exports": {}, "confirmed": {}, **found}
    known = dict(status)
    mapping = known.pop("currentMapping", None)
    known = dict(bounded.fit(known))
    if bounded.size(known) > bounded.ENOUGH:
        return None
    conditions = known.get("conditions")
    if isinstance(conditions, list):
        known["conditions"] = [
            each
            for each in conditions
            if isinstance(each, Mapping)
            and each.get("type") in (AUTHENTICATION, RESOURCES)
            and each.get("status") in (ACCEPTED, DENIED)
        ]
    if isinstance(mapping, Mapping):
        asked = (source.get("spec", {}).get("desiredMapping") or {}).keys()
        ours = asked | (source.get("status", {}).get("currentMapping") or {}).keys()
        known["currentMapping"] = {
            local: entry
            if not isinstance(entry, Mapping) or entry.get("phase") in PHASES
            else {**entry, "phase": MAPPING_BACK_OFF}
            for local, entry in mapping.items()
            if local in ours and bounded.size(entry) <= LARGEST
        }
    return known


def plan(
    source: Mapping[str, Any] | None,
    replica: Mapping[str, Any] | None,
    *,
    namespace: str,
    origin: str,
    told: Mapping[str, str] | None = None,
) -> ReplicaPlan:
    """The changes that make the replica follow its source, and the source's status the replica's.

    Args:
        source: the local object; None if there is none that is to be replicated.
        replica: the object at the provider that carries our marks; None if there is none.
        namespace: this cluster's tenant namespace there.
        origin: this cluster's id.
        told: annotations of the replica that follow this cluster's state.
    """
    leaving = replica is not None and replica["metadata"].get("deletionTimestamp") is not None
    if source is None:
        if replica is None or leaving:
            return ReplicaPlan()
        return ReplicaPlan(delete=replica["metadata"]["uid"])
    if replica is None:
        made = replica_of(source, namespace, origin)
        if told:
            made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), **told}
        return ReplicaPlan(create=made)
    if leaving:
        return ReplicaPlan()
    spec = exact_patch(replica.get("spec", {}), source.get("spec", {}))
    theirs = replica.get("status")
    # An empty one means that nothing is left; a missing one means nothing yet.
    heard = None if theirs is None else understood(theirs, source)
    status = None if heard is None else exact_patch(source.get("status", {}), heard)
    said, known = (each["metadata"].get("annotations") or {} for each in (replica, source))
    notes = {key: said.get(key) for key in TOLD if said.get(key) != known.get(key)}
    notes = {key: text for key, text in notes.items() if len(text or "") <= LONGEST}
    patch: Json = {"spec": spec} if spec else {}
    marks = {key: text for key, text in (told or {}).items() if said.get(key) != text}
    if marks:
        patch["metadata"] = {"annotations": marks}
    return ReplicaPlan(patch=patch or None, status=status or None, notes=notes or None)
