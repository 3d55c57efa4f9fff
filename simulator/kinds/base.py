"""The plain strategy: what holds for a kind that has nothing particular about it.

The names follow ``k8s.io/apiserver``'s ``rest`` strategies, because that is what is imitated.
All steps change plain JSON values in place and do no I/O.
"""

from typing import Any, Protocol

from simulator.catalog import Resource
from simulator.storage.storage import Item
from simulator.wire.failures import Cause

Json = dict[str, Any]


class Surroundings(Protocol):
    """The part of the cluster that a strategy may read beyond its object."""

    def find(self, qualified: str, namespace: str, name: str) -> Item | None:
        """A stored object."""
        ...

    @property
    def families(self) -> list[str]:
        """The address families of the cluster, the first one first."""
        ...

    def allocate_address(self, family: str, wanted: str = "") -> str:
        """A free cluster IP, or the wanted one. Raises ApiError if it is taken or outside."""
        ...

    def allocate_port(self, wanted: int = 0) -> int:
        """A free node port, or the wanted one. Raises ApiError if it is taken."""
        ...


class Strategy:
    """Prepares and checks the objects of one kind."""

    def defaults(self, obj: Json) -> None:
        """Set the kind's defaults. Runs before admission and again after it."""

    def admit(self, obj: Json, around: Surroundings) -> None:
        """Change a new object as the admission plugins built into the server do."""

    def create(self, resource: Resource, obj: Json, around: Surroundings) -> None:
        """Last preparation of a new object: fields that only the server sets."""
        if resource.status:
            obj.pop("status", None)

    def update(self, resource: Resource, new: Json, old: Json, around: Surroundings) -> None:
        """Preparation of an update of the main resource."""
        if resource.status:
            keep(new, old, "status")

    def update_status(self, resource: Resource, new: Json, old: Json) -> None:
        """Preparation of an update of ``/status``: everything but status is the old object's."""
        for key in set(new) | set(old):
            if key in ("status", "apiVersion", "kind"):
                continue
            if key != "metadata":
                keep(new, old, key)
            elif resource.custom:
                new["metadata"] = dict(old["metadata"])

    def update_part(self, resource: Resource, part: str, new: Json, old: Json) -> None:
        """Take of an update by another sub-resource what that is for, and check it."""

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """The faults of an object; ``old`` is the one that it replaces."""
        return []


def keep(new: Json, old: Json, key: str) -> None:
    """Make a field what it was."""
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


def default(obj: Json, **values: object) -> None:
    """Set fields that are missing or null."""
    for key, value in values.items():
        if obj.get(key) is None:
            obj[key] = value


def section(obj: Json, key: str) -> Json:
    """A sub-object, made if missing or null."""
    if not isinstance(obj.get(key), dict):
        obj[key] = {}
    found: Json = obj[key]
    return found
