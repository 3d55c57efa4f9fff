"""Names that the daemon's components remember, found by walking the objects in memory.

A daemon runs for months while namespaces, pods and peers come and go; whatever it keeps by the name
of one has to go with it. So nothing here knows any component: each container that an object of ours
holds is looked through.
"""

import gc
from collections import deque
from collections.abc import Iterator, Mapping, Set
from typing import Any

from tests.testbed import garbage

OTHERS = ("simulator", "liqod.model.view.rows", "liqod.model.view.state")
"""Not the daemon's components: the clusters themselves, and rows of a history that has an end."""


def holders(text: str) -> set[str]:
    """The attributes of objects of liqod that hold something under a name with this text in it."""
    garbage.collect_all()
    return {
        f"{type(owner).__name__}.{name}"
        for owner in gc.get_objects()
        if _is_ours(type(owner).__module__)
        for name, value in _attributes(owner)
        if _names(value, text)
    }


def _is_ours(module: Any) -> bool:
    return isinstance(module, str) and module.startswith("liqod.") and not module.startswith(OTHERS)


def _attributes(owner: object) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(owner, "__dict__", {}).items())
    for made_of in type(owner).__mro__:
        slots = made_of.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(owner, name):
                yield name, getattr(owner, name)


def _names(value: Any, text: str) -> bool:
    if isinstance(value, Mapping | Set | list | deque):
        return any(_is_named(each, text) for each in list(value))
    return False


def _is_named(key: Any, text: str) -> bool:
    if isinstance(key, tuple | frozenset):
        return any(_is_named(each, text) for each in key)
    return isinstance(key, str) and text in key
