"""Rooms can be looked into while they work, and no longer."""

from types import SimpleNamespace
from typing import Any, cast

from liqod.inspect.rooms import Rooms


def peer(name: str) -> Any:
    """As much of a peer as is shown."""
    return SimpleNamespace(id=name)


def test_a_peer_is_there_while_its_task_runs():
    rooms, milan, engine = Rooms(), peer("milan"), cast("Any", "engine")
    with rooms.peer(milan):
        assert rooms.peers == {"milan": milan}
        assert rooms.borrowing() == {}, "nothing is borrowed from it yet"
        with rooms.borrows("milan", engine):
            assert rooms.borrowing() == {"milan": engine}
        assert rooms.borrowing() == {}
    assert rooms.peers == {}


def test_who_goes_takes_nothing_of_who_came_after():
    rooms, old, new = Rooms(), peer("milan"), peer("milan")
    first, second = rooms.peer(old), rooms.peer(new)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert rooms.peers == {"milan": new}
    second.__exit__(None, None, None)
    assert rooms.peers == {}
