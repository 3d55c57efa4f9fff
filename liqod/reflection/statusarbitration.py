"""Arbitrates the status of an object that several peers reflect, by the reflector's rule.

Each peer's engine *declares* the status of the object, and the objects made from it, that its plan
wants, whether or not they are written; the rule (:class:`liqod.plugins.contracts.Several`) decides
which engine writes which. When one declares another state, or none any more, those that may write
now are called again. The status written last is remembered, so that values that no peer declares
any more are taken back: by the next writer, or, after the last, by
:mod:`liqod.reflection.statuscleanup`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from liqod.model.objects.patches import exact_patch, merged
from liqod.plugins.contracts import Json, Reflector, Several
from liqod.reflection.view import ReflectedObject

Made = tuple[str, str]
"""Kind and name of an object that is made in this cluster."""
ALL = ""
"""The key, in place of a peer's, of a status combined from all peers."""


class DesiredStatus(msgspec.Struct, frozen=True):
    """The status and the local objects that one peer's engine wants for an object.

    Attributes:
        status: its wanted status; None for none.
        made: the local objects made from it.
    """

    status: Json | None = None
    made: frozenset[Made] = frozenset()

    @property
    def anything(self) -> bool:
        """True if a status or any object is wanted."""
        return self.status is not None or bool(self.made)


class Retraction(msgspec.Struct, frozen=True):
    """A status and objects to take back, as a peer declares nothing of an object any more.

    Attributes:
        reflector: the reflector of the object.
        subject: the object.
        uid: its UID.
        peer: the peer that declares nothing any more.
        shown: the written part of its status that no peer declares any more.
    """

    reflector: Reflector
    subject: ReflectedObject
    uid: str
    peer: str
    shown: Json


class _ArbitratedObject(msgspec.Struct):
    """One object: its UID, each peer's declared state and callback, and the last write."""

    reflector: Reflector
    uid: str
    desired: dict[str, DesiredStatus] = {}
    again: dict[str, Callable[[], None]] = {}
    shown: dict[str, Json] = {}

    @property
    def first(self) -> str:
        """The first of the peers that declare anything; empty when none does."""
        return min(self.desired, default="")


class StatusArbiter:
    """Arbitrates between all peers over the status of each object and the objects made from it.

    Attributes:
        retracted: called with a retraction that no peer is left to carry out.
    """

    def __init__(self) -> None:
        self._objects: dict[ReflectedObject, _ArbitratedObject] = {}
        self._left: dict[tuple[str, str], set[ReflectedObject]] = {}
        self.retracted: Callable[[Retraction], None] = lambda _: None

    def tracks(self, subject: ReflectedObject, peer: str) -> bool:
        """True if a peer declares anything of an object, or has to take back a declared state."""
        found = self._objects.get(subject)
        return found is not None and (
            peer in found.desired or peer in found.shown or not found.desired
        )

    def has_desired(self, subject: ReflectedObject, peer: str) -> bool:
        """True if a peer declares anything of an object."""
        found = self._objects.get(subject)
        return found is not None and peer in found.desired

    def set_desired(
        self,
        reflector: Reflector,
        subject: ReflectedObject,
        uid: str,
        peer: str,
        said: DesiredStatus,
        again: Callable[[], None],
    ) -> None:
        """Record a peer's declared state of an object; ``again`` has its engine reconcile it."""
        found = self._objects.get(subject)
        if found is None or found.uid != uid:
            if not said.anything:
                return
            found = self._objects[subject] = _ArbitratedObject(reflector, uid)
        before, first = found.desired.get(peer, DesiredStatus()), found.first
        if said.anything:
            found.desired[peer], found.again[peer] = said, again
            self._left.setdefault((peer, subject.namespace), set()).add(subject)
        else:
            self._silence(subject, found, peer)
        shared = reflector.several is Several.MERGED and before != said
        if first != found.first or shared or before.made - said.made:
            self._requeue(found, but=peer)

    def resolve(
        self,
        subject: ReflectedObject,
        peer: str,
        combine: Callable[[Mapping[str, Json]], Json],
    ) -> Json | None:
        """The status that a peer's engine is to write; None where it is not its turn.

        Args:
            subject: the object.
            peer: the peer of the calling engine.
            combine: makes one status of those of several peers.
        """
        found = self._objects.get(subject)
        if found is None:
            return None
        if found.reflector.several is Several.BY_PEER:
            said = found.desired.get(peer, DesiredStatus())
            return said.status or {}
        if found.desired and found.first != peer:
            return None
        if found.reflector.several is Several.FIRST:
            return found.desired.get(peer, DesiredStatus()).status or {}
        statuses = {
            name: each.status
            for name, each in sorted(found.desired.items())
            if each.status is not None
        }
        return combine(statuses) if statuses else {}

    def patch(self, subject: ReflectedObject, peer: str, wanted: Json, live: Json) -> Json:
        """The merge patch by which the status holds the wanted values, and not the former; empty
        where it does already."""
        found = self._objects[subject]
        shown = found.shown.get(_whose(found.reflector, peer), {})
        kept = merged(live, taken_back(shown, live, wanted))
        return exact_patch(live, merged(kept, wanted))

    def writing(self, subject: ReflectedObject, peer: str, wanted: Json) -> None:
        """Note that the status is about to be written: it may hold the wanted one, too."""
        found = self._objects.get(subject)
        if found is not None and wanted:
            whose = _whose(found.reflector, peer)
            found.shown[whose] = merged(found.shown.get(whose, {}), wanted)

    def written(self, subject: ReflectedObject, peer: str, wanted: Json) -> None:
        """Note that the status now holds the wanted one."""
        found = self._objects.get(subject)
        if found is None:
            return
        if wanted:
            found.shown[_whose(found.reflector, peer)] = wanted
        else:
            found.shown.pop(_whose(found.reflector, peer), None)
        if not found.desired and not found.shown:
            del self._objects[subject]

    def others(self, subject: ReflectedObject, peer: str) -> frozenset[Made]:
        """The objects that other peers' engines make locally, so that this one does not."""
        found = self._objects.get(subject)
        if found is None:
            return frozenset()
        before = (each.made for name, each in found.desired.items() if name < peer)
        return frozenset().union(*before)

    def makes(self, subject: ReflectedObject, peer: str) -> bool:
        """True if it is this peer's turn to make local objects."""
        found = self._objects.get(subject)
        if found is None or found.reflector.several is not Several.FIRST:
            return True
        return found.first in (peer, "")

    def forget(self, subject: ReflectedObject, peer: str) -> None:
        """Drop the record of an object that is gone: there is nothing to take back."""
        found = self._objects.get(subject)
        if found is not None and peer in found.desired:
            self._silence(subject, found, peer)
        if found is not None and not found.desired:
            self._objects.pop(subject, None)

    def namespaces(self, peer: str) -> set[str]:
        """The namespaces in which a peer declares the state of any object."""
        return {namespace for name, namespace in self._left if name == peer}

    def end(self, peer: str, namespaces: Iterable[str] | None = None) -> None:
        """End a peer's declared states, in some or all namespaces, and take back their writes."""
        for namespace in self.namespaces(peer) if namespaces is None else set(namespaces):
            for subject in list(self._left.get((peer, namespace), ())):
                self._end(subject, peer)

    def _end(self, subject: ReflectedObject, peer: str) -> None:
        found = self._objects[subject]
        first = found.first
        self._silence(subject, found, peer)
        own = found.reflector.several is Several.BY_PEER
        shown = found.shown.pop(peer, {}) if own else {}
        if not found.desired:
            shown = {**found.shown.pop(ALL, {}), **shown}
            del self._objects[subject]
        elif first != found.first or found.reflector.several is not Several.FIRST:
            self._requeue(found)
        self.retracted(Retraction(found.reflector, subject, found.uid, peer, shown))

    def _silence(self, subject: ReflectedObject, found: _ArbitratedObject, peer: str) -> None:
        found.desired.pop(peer, None)
        found.again.pop(peer, None)
        left = self._left.get((peer, subject.namespace))
        if left is not None:
            left.discard(subject)
            if not left:
                del self._left[peer, subject.namespace]

    def _requeue(self, found: _ArbitratedObject, but: str = "") -> None:
        for name, again in list(found.again.items()):
            if name != but:
                again()


def taken_back(shown: Json, live: Json, wanted: Json) -> dict[str, Any]:
    """Merge patch that removes of a status the values shown, unchanged since, and not wanted now.

    A value that another has written in its place stays.
    """
    patch: dict[str, Any] = {}
    for key, value in shown.items():
        if value is None or key not in live:
            continue
        now, next_ = live[key], wanted.get(key)
        if isinstance(value, Mapping) and isinstance(now, Mapping):
            inner = taken_back(dict(value), dict(now), next_ if isinstance(next_, dict) else {})
            if inner:
                patch[key] = inner
        elif next_ is None and now == value:
            patch[key] = None
    return patch


def _whose(reflector: Reflector, peer: str) -> str:
    return peer if reflector.several is Several.BY_PEER else ALL
