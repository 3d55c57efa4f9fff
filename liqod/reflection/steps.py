"""What to do about one wanted object, given the metadata of what is there.

Pure, and needs no more than metadata: the hash recorded at our last write says whether something
else is wanted now, labels and annotations are compared as they are, and the content is taken as
unchanged while its generation (or, for kinds without one, its resourceVersion) is the one that our
last write left. Only where that is not known is the object read whole: after a restart, or after
somebody wrote to it.
"""

from collections.abc import Mapping
from enum import Enum

from liqod.kube import ensure
from liqod.kube.meta import ObjectMeta, Partial
from liqod.model import labels
from liqod.model.crossing.adoption import is_adopted
from liqod.model.objects.patches import (
    decode_keys,
    digest,
    encode_keys,
    exact_patch,
    keys_of,
    owned_patch,
)
from liqod.plugins.contracts import Json, RemoteKind, Write


class Step(Enum):
    """What comes next for one object."""

    CREATE = "create"
    UPDATE = "update"
    VERIFY = "verify"
    """Read it whole; update it if it is not as wanted."""
    REMOVE = "remove"
    """It stands for another local object of the same name: it goes, then ours comes."""
    WAIT = "wait"
    """It is going; its end calls us again."""
    KEEP = "keep"


def version(meta: ObjectMeta) -> str:
    """What identifies the content of an object: its generation where it has one."""
    return f"{meta.uid}/{meta.generation or meta.resource_version}"


def hash_of(wanted: Json, there: RemoteKind) -> str:
    """The hash that is recorded with a write: of what may still change."""
    if there.write is Write.ONCE:
        return digest({"metadata": _marks(wanted)})
    return digest(wanted)


def contains(live: Mapping[str, str], wanted: Mapping[str, str] | None) -> bool:
    """Whether labels or annotations hold all that is wanted."""
    return all(live.get(key) == value for key, value in (wanted or {}).items())


def as_made(wanted: Json, live: Partial | None, there: RemoteKind) -> Json:
    """What is wanted of an object, given who made it.

    What Liqo made is adopted: it gets our marks, and keeps its creator, which is fixed when a
    ShadowPod is made.
    """
    if live is None or there.write is not Write.ONCE or not is_adopted(live.metadata.annotations):
        return wanted
    own = wanted["metadata"]
    marks = {k: v for k, v in (own.get("labels") or {}).items() if k != labels.CREATOR_USER}
    creator = live.metadata.labels.get(labels.CREATOR_USER)
    if creator is not None:
        marks[labels.CREATOR_USER] = creator
    notes = {**own["annotations"], labels.ADOPTED: labels.TRUE}
    return {**wanted, "metadata": {**own, "labels": marks, "annotations": notes}}


def judge(
    wanted: Json,
    live: Partial | None,
    there: RemoteKind,
    settled: str | None,
    *,
    stands: bool = True,
) -> Step:
    """The next step for one wanted object.

    Args:
        wanted: what is wanted, with the marks of ownership, without the hash.
        live: the metadata of what is there.
        there: how its kind is written.
        settled: :func:`version` of the object when it last was as wanted; None if not known.
        stands: what is there was made for this very object, if it does not say for which.
    """
    if live is None:
        return Step.CREATE
    meta = live.metadata
    if meta.deletion_timestamp is not None:
        return Step.WAIT
    once = there.write is Write.ONCE
    own = wanted["metadata"]
    noted = meta.annotations.get(labels.LOCAL_UID)
    if once and (noted != own["annotations"][labels.LOCAL_UID] if noted else not stands):
        return Step.REMOVE
    same = (
        meta.annotations.get(labels.APPLIED_HASH) == hash_of(wanted, there)
        and contains(meta.labels, own.get("labels"))
        and contains(meta.annotations, own.get("annotations"))
    )
    if not same:
        return Step.UPDATE
    return Step.VERIFY if edited(live, there, settled) else Step.KEEP


def edited(live: Partial, there: RemoteKind, settled: str | None) -> bool:
    """Whether somebody may have written to the content since our last write.

    Of an object written once only a generation tells: without one, everybody who writes a label
    or a status would have it read.
    """
    meta = live.metadata
    if meta.generation == 1 or (there.write is Write.ONCE and not meta.generation):
        return False
    return settled != version(meta)


def stamped(wanted: Json, there: RemoteKind) -> Json:
    """A wanted object with the record of its write, for the way in which its kind is written."""
    if there.write is Write.MERGE:
        return ensure.stamped(there.kind, wanted)
    meta = wanted["metadata"]
    notes = {**(meta.get("annotations") or {}), labels.APPLIED_HASH: hash_of(wanted, there)}
    if there.write is Write.ONCE:
        notes[labels.APPLIED_KEYS] = encode_keys(keys_of({"metadata": _marks(wanted)}))
    return {**wanted, "metadata": {**meta, "annotations": notes}}


def restored(wanted: Json, whole: Json) -> Json:
    """Merge patch that gives an object written once the content back that it was made with."""
    names = (name for name in wanted if name not in ("apiVersion", "kind", "metadata"))
    content = {name: wanted[name] for name in names}
    return exact_patch({name: whole.get(name) for name in content}, content)


def relabel(wanted: Json, live: Partial, there: RemoteKind) -> Json:
    """Merge patch that brings labels and annotations of an object written once up to date.

    What others added stays; what we wanted at our last write and want no more goes.
    """
    meta = live.metadata
    recorded = decode_keys(meta.annotations.get(labels.APPLIED_KEYS, "{}"))
    return owned_patch(
        {"metadata": {"labels": meta.labels, "annotations": meta.annotations}},
        {"metadata": _marks(stamped(wanted, there))},
        recorded,
    )


def _marks(wanted: Json) -> Json:
    meta = wanted["metadata"]
    return {field: meta.get(field) or {} for field in ("labels", "annotations")}
