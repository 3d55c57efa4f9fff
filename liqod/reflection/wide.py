"""What a peer's reflectors watch in all namespaces: objects on nodes, and kinds read everywhere.

The informers are shared with all other peers and rooms; of the objects on nodes an engine hears
only those on its own peer's virtual nodes.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import NoReturn, Protocol

import trio

from liqod.kube.cache.informer import Informer
from liqod.kube.kinds import Kind
from liqod.plugins.contracts import Reflector, Scope
from liqod.reflection.placement import Told, placement
from liqod.reflection.view import Key, Subject


class Share(Protocol):
    """Opens a shared informer (:meth:`liqod.kube.cache.informers.Informers.share`)."""

    def __call__(self, kind: Kind) -> AbstractAsyncContextManager[Informer]:
        """An informer of all objects of a kind."""
        ...


class Wide:
    """The cluster-wide side of one engine.

    Args:
        reflectors: those that run.
        subject: called with each object on one of the peer's nodes.
        changed: called with each change of a kind that is watched everywhere.
    """

    def __init__(
        self,
        reflectors: Iterable[Reflector],
        subject: Callable[[Subject], None],
        changed: Callable[[Kind, Key], None],
    ) -> None:
        self._reflectors = tuple(reflectors)
        self._subject = subject
        self._changed = changed
        self._informers: dict[Kind, Informer] = {}
        self._events = {each.name: trio.Event() for each in self._reflectors}
        self._nodes: frozenset[str] = frozenset()
        self._followed: dict[tuple[Kind, str], Callable[[], None]] = {}

    def informer(self, kind: Kind) -> Informer | None:
        """The informer of a kind that is watched everywhere, once it is open."""
        return self._informers.get(kind)

    def placed(self, reflector: Reflector) -> trio.Event:
        """Set once the objects on nodes of a reflector are known."""
        return self._events[reflector.name]

    def keys(self, reflector: Reflector, nodes: Collection[str]) -> list[Key]:
        """The objects of a reflector on these nodes."""
        informer = self._informers.get(reflector.kind)
        if informer is None:
            return []
        on = placement(informer).on
        return [key for node in nodes for key in on(node)]

    def follow(self, nodes: Iterable[str]) -> None:
        """Hear of the objects on these nodes, and no longer of those on others."""
        self._nodes = frozenset(nodes)
        kinds = self._on_nodes()
        wanted = {(kind, node) for kind in kinds for node in self._nodes}
        for gone in self._followed.keys() - wanted:
            self._followed.pop(gone)()
        for kind, node in wanted - self._followed.keys():
            informer = self._informers.get(kind)
            if informer is not None:
                told = self._told(kinds[kind])
                self._followed[kind, node] = placement(informer).follow(node, told)

    async def run(self, share: Share) -> NoReturn:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            for kind in self._kinds():
                nursery.start_soon(self._keep, kind, share)
            await trio.sleep_forever()
        raise AssertionError("watching ends by cancellation only")

    async def _keep(self, kind: Kind, share: Share) -> None:
        async with share(kind) as informer:
            self._informers[kind] = informer
            stop = informer.subscribe(lambda change: self._changed(kind, change.key))
            try:
                for name in self._on_nodes().get(kind, ()):
                    self._events[name].set()
                self.follow(self._nodes)
                await trio.sleep_forever()
            finally:
                stop()
                for key in [key for key in self._followed if key[0] == kind]:
                    self._followed.pop(key)()

    def _kinds(self) -> list[Kind]:
        read = [
            reads.kind
            for reflector in self._reflectors
            for reads in reflector.reads
            if reads.everywhere or not reads.kind.namespaced
        ]
        return list(dict.fromkeys([*self._on_nodes(), *read]))

    def _on_nodes(self) -> dict[Kind, list[str]]:
        """The kinds whose objects are on nodes, with the reflectors whose own they are."""
        kinds: dict[Kind, list[str]] = {}
        for reflector in self._reflectors:
            if reflector.scope is Scope.NODE:
                kinds.setdefault(reflector.kind, []).append(reflector.name)
        return kinds

    def _told(self, reflectors: Iterable[str]) -> Told:
        names = tuple(reflectors)

        def told(key: Key) -> None:
            for name in names:
                self._subject(Subject(name, *key))

        return told
