"""Components as they look to those who look, with as much of a peer as a test needs."""

from types import SimpleNamespace
from typing import Any

from liqod.errors import Forbidden
from liqod.inspect.components import Components


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
