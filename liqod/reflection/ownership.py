"""The marks on what is reflected: its owner, its source, and the last write.

``offloading.liqo.io/origin`` and ``…/destination`` are the protocol's: an object without both is
never touched. ``liqod.io/source`` is liqod's own and names the reflector and the local object, so
that one object may become several, under other names; where it is missing (Liqo made the object)
the name is the local one. The hash of the object wanted at the last write shows if another
is wanted now.

The next step for a wanted object follows from its metadata (:func:`judge`): labels and
annotations are compared as they are, and the content is taken as unchanged while its generation
(or, for kinds without one, its resourceVersion) is the one that our last write left. Only where
is unknown is the object read whole: after a restart, or after another wrote to it. Pure.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, SECRETS, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.kube import ensure
from liqod.model import ids
from liqod.model.crossing.adoption import is_adopted
from liqod.model.objects.fieldpaths import overlay, select
from liqod.model.objects.patches import (
    decode_keys,
    digest,
    encode_keys,
    exact_patch,
    keys_of,
    owned_patch,
)
from liqod.plugins.contracts import SERVER_FIELDS, Json, Names, Reflector, RemoteKind, Scope, Write

TOKENS: Final = "tokens"
"""The reflector of pods' tokens: those that Liqo made name their pod."""


class OwnershipMeta(msgspec.Struct, frozen=True):
    """The few fields of metadata that ownership goes by; read at each event of a peer's objects."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def selector(consumer: str, peer: str) -> str:
    """The label selector of everything that one cluster reflects to another."""
    return f"{labels.ORIGIN}={consumer},{labels.DESTINATION}={peer}"


def ours(marks: Mapping[str, str], consumer: str, peer: str) -> bool:
    """True if an object with these labels is a reflection from ``consumer`` to ``peer``."""
    return marks.get(labels.ORIGIN) == consumer and marks.get(labels.DESTINATION) == peer


def decorate(
    wanted: Json,
    *,
    reflector: Reflector,
    remote: RemoteKind,
    source: Json,
    names: Names,
    creator: str = "",
) -> Json:
    """A wanted object as it is to be written: in its namespace, with the marks of ownership.

    Nothing is changed in place. Fields of metadata that must not cross are dropped. A reflection
    of an object on a node names its ``creator``, the user who writes it: providers book by it.
    """
    meta = {k: v for k, v in wanted.get("metadata", {}).items() if k not in SERVER_FIELDS}
    own = source["metadata"]
    marks = dict(meta.get("labels") or {})
    notes = dict(meta.get("annotations") or {})
    marks[labels.ORIGIN] = names.consumer
    marks[labels.DESTINATION] = names.peer
    notes[labels.SOURCE] = f"{reflector.name}/{own['name']}"
    if reflector.scope is Scope.NODE:
        marks[labels.NODE_NAME] = node_label(source.get("spec", {}).get("nodeName", ""))
        if creator:
            marks[labels.CREATOR_USER] = creator
    if remote.write is Write.ONCE or remote.fixed:
        notes[labels.LOCAL_UID] = own["uid"]
    meta.update(namespace=names.remote_namespace, labels=marks, annotations=notes)
    return {**wanted, "metadata": meta}


def node_label(node: str) -> str:
    """A node's name as a label value; a name that cannot be one is left empty."""
    return node if len(node) <= ids.LABEL_LIMIT else ""


def source_of(
    marked: OwnershipMeta, kind: Kind, reflectors: Iterable[Reflector]
) -> tuple[str, str] | None:
    """The reflector and the name of the local object that a peer's object was made from.

    None where no local reflector is responsible for it: it is then left alone.
    """
    concerned = [
        reflector
        for reflector in reflectors
        if any(remote.kind == kind for remote in reflector.remote)
    ]
    noted = marked.annotations.get(labels.SOURCE)
    if noted is not None:
        name, _, local = noted.partition("/")
        return (name, local) if any(found.name == name for found in concerned) else None
    if not concerned:
        return None
    pod = marked.annotations.get(labels.SERVICE_ACCOUNT_POD_NAME)
    if pod and kind == SECRETS and any(found.name == TOKENS for found in concerned):
        return TOKENS, pod
    return concerned[0].name, _local_name(marked, kind)


def _local_name(marked: OwnershipMeta, kind: Kind) -> str:
    """The name in this cluster of an object that Liqo made: the same, but for the root CA."""
    root = ids.root_ca_name(marked.labels.get(labels.ORIGIN, ""))
    return labels.ROOT_CA if kind == CONFIG_MAPS and marked.name == root else marked.name


class WriteAction(Enum):
    """The next step for one object."""

    CREATE = "create"
    UPDATE = "update"
    VERIFY = "verify"
    """Read the object whole; update it if it is not as wanted."""
    REMOVE = "remove"
    """Remove an object that was made for another local one of the same name; then ours comes."""
    WAIT = "wait"
    """The object is being deleted; its end causes another reconciliation."""
    KEEP = "keep"


def version(meta: ObjectMeta) -> str:
    """The version of an object's content: its UID and generation, or else its resourceVersion."""
    return f"{meta.uid}/{meta.generation or meta.resource_version}"


def hash_of(wanted: Json, remote: RemoteKind) -> str:
    """The hash that is recorded with a write: of the fields that may still change.

    Of an object written once it is that of its labels and annotations, and after a dot that of the
    part of its content that follows; of one that is applied that of all, and then of what is fixed.
    """
    if remote.write is Write.ONCE:
        return _joined(digest({"metadata": _marks(wanted)}), _content(wanted, remote))
    return _joined(digest(wanted), _content(wanted, remote))


def _content(wanted: Json, remote: RemoteKind) -> str:
    paths = (*remote.follows, *remote.fixed)
    return digest(select(wanted, paths)) if paths else ""


def _joined(marks: str, content: str) -> str:
    return f"{marks}.{content}" if content else marks


def _recorded(live: Partial) -> str:
    """The hash of the content at the last write; empty where it is unknown."""
    return live.metadata.annotations.get(labels.APPLIED_HASH, "").partition(".")[2]


def changed(wanted: Json, live: Partial, remote: RemoteKind) -> bool:
    """True if the fields that follow, or are fixed, differ from those of the last write."""
    return _content(wanted, remote) != _recorded(live)


def contains(live: Mapping[str, str], wanted: Mapping[str, str] | None) -> bool:
    """True if labels or annotations hold all that is wanted."""
    return all(live.get(key) == value for key, value in (wanted or {}).items())


def as_made(wanted: Json, live: Partial | None, remote: RemoteKind) -> Json:
    """The wanted form of an object, given who made it.

    An object that Liqo made is adopted: it gets our marks, and keeps its creator, which is fixed
    when a ShadowPod is made.
    """
    if live is None or remote.write is not Write.ONCE or not is_adopted(live.metadata.annotations):
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
    remote: RemoteKind,
    settled: str | None,
    *,
    stands: bool = True,
) -> WriteAction:
    """The next step for one wanted object.

    Args:
        wanted: the wanted object, with the marks of ownership, without the hash.
        live: the metadata of the existing object.
        remote: how its kind is written.
        settled: :func:`version` of the object when it last was as wanted; None if unknown.
        stands: the existing object was made for this very one, if its marks do not name one.
    """
    if live is None:
        return WriteAction.CREATE
    meta = live.metadata
    if meta.deletion_timestamp is not None:
        return WriteAction.WAIT
    once = remote.write is Write.ONCE
    own = wanted["metadata"]
    noted = meta.annotations.get(labels.LOCAL_UID)
    if once and (noted != own["annotations"][labels.LOCAL_UID] if noted else not stands):
        return WriteAction.REMOVE
    # Made again locally, unseen by us: an apply would leave the fields it does not name any more.
    another = bool(remote.fixed and noted) and noted != own["annotations"][labels.LOCAL_UID]
    if another and changed(wanted, live, remote):
        return WriteAction.REMOVE
    same = (
        meta.annotations.get(labels.APPLIED_HASH) == hash_of(wanted, remote)
        and contains(meta.labels, own.get("labels"))
        and contains(meta.annotations, own.get("annotations"))
    )
    if not same:
        return WriteAction.UPDATE
    return WriteAction.VERIFY if edited(live, remote, settled) else WriteAction.KEEP


def edited(live: Partial, remote: RemoteKind, settled: str | None) -> bool:
    """True if another may have written to the content since our last write.

    Of an object written once only a generation shows it: without one, any write of a label or a
    status would have the object read.
    """
    meta = live.metadata
    if meta.generation == 1 or (remote.write is Write.ONCE and not meta.generation):
        return False
    return settled != version(meta)


def stamped(wanted: Json, remote: RemoteKind, over: Partial | None = None) -> Json:
    """A wanted object with the record of its write, in the form in which its kind is written.

    Args:
        wanted: the object.
        remote: how its kind is written.
        over: the existing object, where the content is not to follow with this write.
    """
    if remote.write is Write.MERGE:
        return ensure.stamped(remote.kind, wanted)
    meta = wanted["metadata"]
    hashed = hash_of(wanted, remote)
    if over is not None and remote.follows:
        hashed = _joined(hashed.partition(".")[0], _recorded(over))
    notes = {**(meta.get("annotations") or {}), labels.APPLIED_HASH: hashed}
    if remote.write is Write.ONCE:
        notes[labels.APPLIED_KEYS] = encode_keys(keys_of({"metadata": _marks(wanted)}))
    return {**wanted, "metadata": {**meta, "annotations": notes}}


def restored(wanted: Json, whole: Json) -> Json:
    """Merge patch that gives an object written once the content back that it was made with."""
    names = (name for name in wanted if name not in ("apiVersion", "kind", "metadata"))
    content = {name: wanted[name] for name in names}
    return exact_patch({name: whole.get(name) for name in content}, content)


def followed(wanted: Json, whole: Json, remote: RemoteKind) -> Json:
    """Merge patch by which the content of an object written once follows, against that version."""
    patch = exact_patch(whole, overlay(whole, wanted, remote.follows))
    version = whole["metadata"]["resourceVersion"]
    return {**patch, "metadata": {"resourceVersion": version}} if patch else {}


def relabel(wanted: Json, live: Partial, remote: RemoteKind, *, alone: bool = False) -> Json:
    """Merge patch that brings labels and annotations of an object written once up to date.

    Keys that others added stay; those that we wanted at our last write and want no more go.

    Args:
        wanted: the wanted object.
        live: the existing object.
        remote: how its kind is written.
        alone: the content does not follow with this write.
    """
    meta = live.metadata
    recorded = decode_keys(meta.annotations.get(labels.APPLIED_KEYS, "{}"))
    return owned_patch(
        {"metadata": {"labels": meta.labels, "annotations": meta.annotations}},
        {"metadata": _marks(stamped(wanted, remote, over=live if alone else None))},
        recorded,
    )


def _marks(wanted: Json) -> Json:
    meta = wanted["metadata"]
    return {field: meta.get(field) or {} for field in ("labels", "annotations")}
