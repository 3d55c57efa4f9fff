"""Selects this cluster's pods to watch: those on virtual nodes, and those that have no node yet.

A field selector can only leave out what is on a named node, so it names this cluster's own nodes,
as they were when the daemon started. More than is needed may come through it (a node that is new,
or of which there was no room in the selector), never less: a virtual node that takes the name of
one that was left out has the selection changed.
"""

import logging
from collections.abc import Iterable
from typing import Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.apimachinery.meta import Partial
from liqod.errors import LiqodError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.runtime.observable import Notifier

NOT_GUESTS: Final = labels.NO_GUEST_PODS
"""Selector without pods that were made here for consumers: they are kept off virtual nodes, and the
controllers that lend hold them already, within bounds."""
LONGEST: Final = 4000
"""Characters of the selector: it is part of an URL, which proxies bound at 8,000."""

log = logging.getLogger(__name__)


class PodSelection:
    """The selection of pods, the same for all who watch them.

    Attributes:
        selection: as it is now.
    """

    def __init__(self) -> None:
        self.selection = Selection(labels=NOT_GUESTS)
        self._left_out: frozenset[str] = frozenset()
        self._news = Notifier()

    async def changed(self) -> None:
        """Wait until the selection changes."""
        await self._news.wait()

    def exclude(self, nodes: Iterable[str]) -> None:
        """Leave out what is on these nodes, as far as there is room for their names."""
        terms: dict[str, str] = {}
        room = LONGEST
        for name in sorted(nodes):
            term = f"spec.nodeName!={name}"
            room -= len(term) + 1
            if room < 0:
                break
            terms[name] = term
        self._left_out = frozenset(terms)
        selection = Selection(labels=NOT_GUESTS, fields=",".join(terms.values()))
        if selection != self.selection:
            self.selection = selection
            self._news.notify()

    def need(self, nodes: Iterable[str]) -> None:
        """These are virtual nodes: nothing on them is left out (any more)."""
        if not self._left_out.isdisjoint(nodes):
            self.exclude(self._left_out.difference(nodes))


async def select_pods(client: Client) -> PodSelection:
    """The selection that goes by the nodes of this cluster."""
    found = PodSelection()
    own = Selection(labels=f"{labels.TYPE}!={labels.VIRTUAL_NODE_TYPE}", metadata_only=True)
    try:
        nodes = await client.list(NODES, own, decode=Partial)
    except LiqodError as error:
        log.warning("the nodes of this cluster cannot be listed: all pods are watched: %s", error)
    else:
        found.exclude(each.metadata.name for each in nodes)
    return found
