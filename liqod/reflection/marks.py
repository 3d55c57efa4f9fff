"""The marks of ownership on what is reflected: whose it is, and from which object it was made.

``offloading.liqo.io/origin`` and ``…/destination`` are the protocol's: an object without both is
never touched. ``liqod.io/source`` is liqod's own and names the reflector and the local object, so
that one object may become several, under other names; where it is missing (Liqo made the object)
the name is the local one.
"""

from collections.abc import Iterable, Mapping

import msgspec

from liqod.kube.kinds import CONFIG_MAPS, Kind
from liqod.model import ids, labels
from liqod.plugins.contracts import SERVER_FIELDS, Json, Names, Reflector, RemoteKind, Scope, Write


class Marked(msgspec.Struct, frozen=True):
    """The few fields of metadata that ownership goes by."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def selector(consumer: str, peer: str) -> str:
    """The label selector of everything that one cluster reflects to another."""
    return f"{labels.ORIGIN}={consumer},{labels.DESTINATION}={peer}"


def ours(marks: Mapping[str, str], consumer: str, peer: str) -> bool:
    """Whether an object with these labels is a reflection from ``consumer`` to ``peer``."""
    return marks.get(labels.ORIGIN) == consumer and marks.get(labels.DESTINATION) == peer


def decorate(
    wanted: Json,
    *,
    reflector: Reflector,
    there: RemoteKind,
    source: Json,
    names: Names,
    creator: str = "",
) -> Json:
    """A wanted object as it is to be written: in its namespace, with the marks of ownership.

    Nothing is changed in place. Fields of metadata that must not cross are dropped. What is made
    for objects on nodes names its ``creator``, the user who writes it: providers book by it.
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
    if there.write is Write.ONCE:
        notes[labels.LOCAL_UID] = own["uid"]
    meta.update(namespace=names.remote_namespace, labels=marks, annotations=notes)
    return {**wanted, "metadata": meta}


def node_label(node: str) -> str:
    """A node's name as a label value; a name that cannot be one is left empty."""
    return node if len(node) <= ids.LABEL_LIMIT else ""


def source_of(
    marked: Marked, kind: Kind, reflectors: Iterable[Reflector]
) -> tuple[str, str] | None:
    """The reflector and the name of the local object that something there was made from.

    None where no reflector here answers for it: it is then left alone.
    """
    concerned = [
        reflector
        for reflector in reflectors
        if any(there.kind == kind for there in reflector.remote)
    ]
    noted = marked.annotations.get(labels.SOURCE)
    if noted is not None:
        name, _, local = noted.partition("/")
        return (name, local) if any(found.name == name for found in concerned) else None
    if not concerned:
        return None
    return concerned[0].name, _local_name(marked, kind)


def _local_name(marked: Marked, kind: Kind) -> str:
    """The name at home of what Liqo made: the same, but for the root CA."""
    root = ids.root_ca_name(marked.labels.get(labels.ORIGIN, ""))
    return labels.ROOT_CA if kind == CONFIG_MAPS and marked.name == root else marked.name
