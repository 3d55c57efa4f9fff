"""OverridePolicies for one peer's reflection, and their operations that found no path.

Each engine holds the policies that are in force for its peer (:class:`PoliciesInForce`), from the
informer that all engines share. All of them report failing operations in one place
(:class:`OverrideProblems`), from which :mod:`liqod.reflection.overridecontroller` writes the
policies' conditions.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from liqod.apimachinery.kinds import Kind
from liqod.consumer.namespaces.overridepolicies import overrides_of
from liqod.kube.cache.store import IndexedStore
from liqod.model.crossing.overrides import Override, overridden
from liqod.plugins.contracts import Json, Reflector
from liqod.reflection.view import Key, ReflectedObject
from liqod.runtime.observable import Notifier

NOT_APPLIED: Final = "OverrideNotApplied"
"""Reason of an object of which an operation of a policy has no path."""
MOST_TOLD: Final = 64
"""Objects of one policy that are remembered; a condition names one of them."""


class PoliciesInForce:
    """The policies for each namespace, in the order in which they are applied.

    Args:
        own: liqod's own namespace, whose policies are for all namespaces.
        peer: the id of the peer.
    """

    def __init__(self, own: str, peer: str) -> None:
        self._own, self._peer = own, peer
        self._store: IndexedStore | None = None
        self._known: dict[str, tuple[Override, ...]] = {}

    def read(self, store: IndexedStore) -> None:
        """Go by the policies in a store from now on."""
        self._store = store
        self._known.clear()

    def changed(self, key: Key) -> str | None:
        """Note a policy that has changed; the namespace that it concerns, None for all."""
        if key[0] == self._own:
            self._known.clear()
            return None
        self._known.pop(key[0], None)
        return key[0]

    def of(self, namespace: str) -> tuple[Override, ...]:
        """The valid policies for this peer and a namespace; the same tuple until one changes."""
        if self._store is None:
            return ()
        if namespace == self._own or not self._store.indexed("namespace", namespace):
            namespace = ""  # nothing is remembered of a namespace without policies
        known = self._known.get(namespace)
        if known is None:
            known = self._known[namespace] = self._read(self._store, namespace)
        return known

    def _read(self, store: IndexedStore, namespace: str) -> tuple[Override, ...]:
        found = overrides_of(store, self._own, namespace)
        mine = (each for each in found if not each.spec.peers or self._peer in each.spec.peers)
        return tuple(mine)


class Overriding:
    """Changes what is written for one object by the policies that concern it.

    Args:
        reflector: of the object.
        source: the object.
        found: the policies for its namespace and the peer, in order.
        peer: the id of the peer.

    Attributes:
        problems: by policy, an operation that has no path in what is written.
    """

    def __init__(
        self, reflector: Reflector, source: Json, found: Sequence[Override], peer: str
    ) -> None:
        self.problems: dict[str, str] = {}
        self._reflector = reflector
        kind = reflector.kind
        self._found = [each for each in found if each.concerns(kind, source, peer)]

    def change(self, made: Json) -> Json:
        """An object for the peer as the policies want it; it is not changed itself."""
        content = self._content(made) if self._found else None
        if content is None:
            return made
        changed, problems = overridden(made, content, self._found)
        self.problems |= problems
        return changed

    def _content(self, made: Json) -> str | None:
        """Where an object has the local object's spec; None where it is of another kind."""
        own: Kind = self._reflector.kind
        if made.get("kind") == own.name and made.get("apiVersion") == own.api_version:
            return ""
        declared = self._reflector.declaration(made.get("apiVersion", ""), made.get("kind", ""))
        return declared.content or None if declared is not None else None


class OverrideProblems:
    """Operations of policies that found no path, of all peers."""

    def __init__(self) -> None:
        self._told: dict[str, dict[tuple[str, ReflectedObject], str]] = {}
        self._of: dict[tuple[str, ReflectedObject], frozenset[str]] = {}
        self._changed: set[str] = set()
        self._news = Notifier()

    def report(self, peer: str, subject: ReflectedObject, problems: Mapping[str, str]) -> None:
        """Set the problems of one object at one peer, by ``namespace/name`` of the policy."""
        who = (peer, subject)
        before = self._of.get(who, frozenset())
        if not problems and not before:
            return
        for policy in before - problems.keys():
            self._told[policy].pop(who, None)
            self._note(policy)
        for policy, text in problems.items():
            told = self._told.setdefault(policy, {})
            if told.get(who) != text and (who in told or len(told) < MOST_TOLD):
                told[who] = text
                self._note(policy)
        if problems:
            self._of[who] = frozenset(problems)
        else:
            del self._of[who]

    def forget(self, peer: str) -> None:
        """Drop all that was reported of a peer: its reflection ends, or begins anew."""
        for who in [each for each in self._of if each[0] == peer]:
            self.report(*who, {})

    def first(self, policy: str) -> str:
        """One problem of a policy, a sentence; empty for none."""
        told = self._told.get(policy)
        if not told:
            return ""
        (peer, subject), text = min(told.items())
        more = ", and in others" if len(told) > 1 else ""
        place = f"{subject.namespace}/{subject.name}"
        return f"{text} in {place} ({subject.reflector}) at {peer}{more}"

    def changed(self) -> list[str]:
        """The policies whose problems have changed since the last call."""
        found, self._changed = sorted(self._changed), set()
        return found

    async def wait_changed(self) -> None:
        """Wait until any changes."""
        if not self._changed:
            await self._news.wait()

    def _note(self, policy: str) -> None:
        if not self._told.get(policy):
            self._told.pop(policy, None)
        self._changed.add(policy)
        self._news.notify()
