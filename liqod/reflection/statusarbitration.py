"""Arbitrates the status of an object that several peers reflect, by the reflector's rule.

Each peer's engine *says* what its plan wants of the object's status and makes from it here, whether
or not it is written; the rule (:class:`liqod.plugins.contracts.Several`) decides who writes what.
When one says something else, or falls silent, those whose turn it may be now are asked again. The
status written last is remembered, so that what nobody says any more is taken back: by the next who
writes, or, when the last one has gone, by :mod:`liqod.reflection.statuscleanup`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from liqod.model.objects.patches import exact_patch, merged
from liqod.plugins.contracts import Json, Reflector, Several
from liqod.reflection.view import ReflectedObject

Made = tuple[str, str]
"""Kind and name of an object that is made here."""
ALL = ""
"""The key, in place of a peer's, of a status that is that of all peers together."""


class DesiredStatus(msgspec.Struct, frozen=True):
    """The status and the objects here that one peer's engine wants for an object.

    Attributes:
        status: what its status is to be; None for nothing.
        made: what is made from it here.
    """

    status: Json | None = None
    made: frozenset[Made] = frozenset()

    @property
    def anything(self) -> bool:
        """True if a status or any object is wanted."""
        return self.status is not None or bool(self.made)


class Retraction(msgspec.Struct, frozen=True):
    """A status and objects to take back, as a peer does not say anything of an object any more.

    Attributes:
        reflector: whose object it is.
        subject: the object.
        uid: its UID.
        peer: who fell silent.
        shown: what had been written of its status and is nobody's any more.
    """

    reflector: Reflector
    subject: ReflectedObject
    uid: str
    peer: str
    shown: Json


class _ArbitratedObject(msgspec.Struct):
    """One object: its UID, what each peer says and how to ask it again, and what was written."""

    reflector: Reflector
    uid: str
    desired: dict[str, DesiredStatus] = {}
    again: dict[str, Callable[[], None]] = {}
    shown: dict[str, Json] = {}

    @property
    def first(self) -> str:
        """The first of those that say anything; empty when none does."""
        return min(self.desired, default="")


class StatusArbiter:
    """Arbitrates between all peers over the status of each object and the objects made from it.

    Attributes:
        retracted: called with what is to be taken back, where no peer is left to do it.
    """

    def __init__(self) -> None:
        self._objects: dict[ReflectedObject, _ArbitratedObject] = {}
        self._left: dict[tuple[str, str], set[ReflectedObject]] = {}
        self.retracted: Callable[[Retraction], None] = lambda _: None

    def tracks(self, subject: ReflectedObject, peer: str) -> bool:
        """True if a peer says anything of an object, or has to take back what was said."""
        found = self._objects.get(subject)
        return found is not None and (
            peer in found.desired or peer in found.shown or not found.desired
        )

    def has_desired(self, subject: ReflectedObject, peer: str) -> bool:
        """True if a peer says anything of an object."""
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
        """A peer says this of an object now; ``again`` has that peer's engine reconcile it anew."""
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
            peer: whose engine asks.
            combine: makes one status of what several say.
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
        """The merge patch by which the status holds what is wanted, and no more what was; empty
        where it does already."""
        found = self._objects[subject]
        shown = found.shown.get(_whose(found.reflector, peer), {})
        kept = merged(live, taken_back(shown, live, wanted))
        return exact_patch(live, merged(kept, wanted))

    def writing(self, subject: ReflectedObject, peer: str, wanted: Json) -> None:
        """The status is about to be written: it may hold from now on what is wanted, too."""
        found = self._objects.get(subject)
        if found is not None and wanted:
            whose = _whose(found.reflector, peer)
            found.shown[whose] = merged(found.shown.get(whose, {}), wanted)

    def written(self, subject: ReflectedObject, peer: str, wanted: Json) -> None:
        """The status holds now what was wanted."""
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
        """The objects that other peers' engines make here, so that this one does not."""
        found = self._objects.get(subject)
        if found is None:
            return frozenset()
        before = (each.made for name, each in found.desired.items() if name < peer)
        return frozenset().union(*before)

    def makes(self, subject: ReflectedObject, peer: str) -> bool:
        """True if it is this peer's turn to make objects here."""
        found = self._objects.get(subject)
        if found is None or found.reflector.several is not Several.FIRST:
            return True
        return found.first in (peer, "")

    def forget(self, subject: ReflectedObject, peer: str) -> None:
        """The object is gone: nobody says anything of it, and there is nothing to take back."""
        found = self._objects.get(subject)
        if found is not None and peer in found.desired:
            self._silence(subject, found, peer)
        if found is not None and not found.desired:
            self._objects.pop(subject, None)

    def namespaces(self, peer: str) -> set[str]:
        """The namespaces of whose objects a peer says anything."""
        return {namespace for name, namespace in self._left if name == peer}

    def end(self, peer: str, namespaces: Iterable[str] | None = None) -> None:
        """A peer says nothing any more, of these namespaces or at all: take back what it said."""
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
    """Merge patch that removes of a status what was shown, is still so, and is wanted no more.

    A value that somebody else has written in its place stays.
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
