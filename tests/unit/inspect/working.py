"""Components as they look to those who look, with as much of a peer as a test needs."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from liqod.errors import Forbidden
from liqod.inspect.components import Components
from liqod.kube.cache.store import Key, StoreChange


def components(peer: str = "milan", **borrowing: Any) -> Components:
    """Components in which one peer works."""
    found = Components()
    stand_in: Any = SimpleNamespace(id=peer)
    made: Any = SimpleNamespace(**borrowing)
    found.peers[peer] = stand_in
    stand_in.shown = found.borrows(peer, made)  # else it ends when it is collected
    stand_in.shown.__enter__()
    return found


async def refused(method: str, path: str) -> Any:
    """The answer of an API server that gives no rights."""
    raise Forbidden(f"no right to {path}")


class Listed:
    """As much of an informer as a cache of its objects needs.

    Args:
        objects: those that it has.
    """

    def __init__(self, *objects: Any) -> None:
        self._objects = {(each.metadata.namespace, each.metadata.name): each for each in objects}
        self.store = self

    def subscribe(self, tell: Callable[[StoreChange], None]) -> Callable[[], None]:
        """Tell of all that there are."""
        for key, found in self._objects.items():
            tell(StoreChange(key, None, msgspec.json.encode(found)))
        return lambda: None

    def decode(self, key: Key, type: type[Any]) -> Any:
        """One of them."""
        return self._objects.get(key)
