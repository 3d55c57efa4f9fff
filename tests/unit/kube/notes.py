"""A controller from top to bottom: docs/background/architecture.md shows it, a test runs it.

A namespace's label ``example.io/note`` becomes a ConfigMap with that text, named after the
namespace, among liqod's own. It goes with the label, or with the namespace.
"""

from typing import Any

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched, by_name

NOTE = "example.io/note"
NOTE_OF = "example.io/note-of"
"""The label of our ConfigMaps: what does not carry it is not ours."""


def note(name: str, text: str, place: str) -> dict[str, Any]:
    """The ConfigMap of a namespace."""
    metadata = {"name": name, "namespace": place, "labels": {NOTE_OF: name}}
    return {"metadata": metadata, "data": {"text": text}}


class Notes(Controller[str]):
    """Keeps a ConfigMap for each namespace that is labelled; a key is a namespace's name.

    Args:
        context: this cluster.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._client = context.client
        self._place = context.namespace
        self._namespaces = Watched(NAMESPACES, by_name)
        self._notes = Watched(CONFIG_MAPS, by_name, Selection(self._place, labels=NOTE_OF))
        super().__init__(context, "notes", self._namespaces, self._notes)

    async def reconcile(self, name: str) -> float | None:
        """Make, repair or remove the ConfigMap of one namespace."""
        namespace = self._namespaces.store.decode(("", name), Partial)
        text = namespace.metadata.labels.get(NOTE) if namespace is not None else None
        live = self._notes.store.get((self._place, name))
        if text is not None:
            await ensure(self._client, CONFIG_MAPS, note(name, text, self._place), live=live)
            return None
        if live is None:
            return None
        if namespace is None and not await self._namespaces.surely_gone(("", name)):
            return DOUBT
        found = self._notes.store.decode((self._place, name), Partial)
        await delete_all(self._client, CONFIG_MAPS, [found] if found is not None else [])
        return None
