"""The kinds that a simulated API server serves, with the properties of each.

A :class:`Resource` describes one kind at one version; the built-in ones are shared by all
clusters of a process, those of CustomResourceDefinitions come and go in a cluster's
:class:`Catalog`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

Json = dict[str, Any]


class Column(msgspec.Struct, frozen=True):
    """One column of ``kubectl get``.

    Attributes:
        name: the heading.
        path: the simple JSONPath of its value, or the name of a function in ``table``.
        type: ``string``, ``integer``, ``date``, ``boolean`` or ``number``.
        priority: above 0 it is shown with ``-o wide`` only.
    """

    name: str
    path: str
    type: str = "string"
    priority: int = 0


class Resource(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One kind at one version, as it is served.

    Attributes:
        storage: the version its objects are stored at (differs for other versions of a CRD).
        status: whether ``/status`` is a sub-resource.
        generation: whether changes of the desired state count ``metadata.generation``.
        unconditional: whether a PUT may come without a resourceVersion.
        upsert: whether a PUT may create.
        returns_deleted: whether DELETE answers the object instead of a ``Status``.
        names: the rule for names: ``subdomain``, ``label``, ``service`` or ``segment``.
        schema: the structural schema of a custom resource.
        ephemeral: a kind that is only ever posted (reviews), never stored.
        terminating: whether its definition is being deleted, so that nothing new is taken.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage: str = ""
    status: bool = False
    generation: bool = False
    unconditional: bool = True
    upsert: bool = False
    returns_deleted: bool = False
    names: str = "subdomain"
    custom: bool = False
    schema: Json | None = None
    columns: tuple[Column, ...] = ()
    subresources: tuple[str, ...] = ()
    ephemeral: bool = False
    terminating: bool = False

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of a manifest: group and version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The resource as errors name it: ``pods`` or ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> bytes:
        """The bytes with which every stored object of this kind begins."""
        stored = self.storage or self.version
        api = f"{self.group}/{stored}" if self.group else stored
        return f'{{"apiVersion":"{api}","kind":"{self.kind}",'.encode()

    @property
    def served_prefix(self) -> bytes:
        """The bytes with which an object begins when served at this version."""
        return f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}",'.encode()


class Catalog:
    """The kinds served by one cluster at this moment."""

    def __init__(self, builtins: Iterable[Resource]) -> None:
        self._served: dict[tuple[str, str, str], Resource] = {}
        for resource in builtins:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a kind, in place of an older description of it."""
        self._served[resource.group, resource.version, resource.plural] = resource

    def remove(self, group: str, plural: str) -> None:
        """Serve a custom kind no longer, at any version."""
        for key, resource in list(self._served.items()):
            if resource.custom and (key[0], key[2]) == (group, plural):
                del self._served[key]

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The kind at that path, or None."""
        return self._served.get((group, version, plural))

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._served.values()))

    def versions(self, group: str) -> list[str]:
        """The versions a group is served at, the preferred one first."""
        found = dict.fromkeys(r.version for r in self._served.values() if r.group == group)
        return sorted(found, key=_version_order)

    def groups(self) -> list[str]:
        """The groups served, without the core group."""
        return sorted({r.group for r in self._served.values() if r.group})


def _version_order(version: str) -> tuple[int, str]:
    stable = "alpha" not in version and "beta" not in version
    return (0 if stable else 1 if "beta" in version else 2, version)
