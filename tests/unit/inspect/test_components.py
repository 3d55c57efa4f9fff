"""Components can be looked into while they work, and no longer."""

from types import SimpleNamespace
from typing import Any, cast

from liqod.inspect.components import Components


def peer(name: str) -> Any:
    """As much of a peer as is shown."""
    return SimpleNamespace(id=name)


def test_a_peer_is_there_while_its_task_runs():
    components, milan, engine = Components(), peer("milan"), cast("Any", "engine")
    with components.peer(milan):
        assert components.peers == {"milan": milan}
        assert components.borrowing() == {}, "nothing is borrowed from it yet"
        with components.borrows("milan", engine):
            assert components.borrowing() == {"milan": engine}
        assert components.borrowing() == {}
    assert components.peers == {}


def test_who_goes_takes_nothing_of_who_came_after():
    components, old, new = Components(), peer("milan"), peer("milan")
    first, second = components.peer(old), components.peer(new)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert components.peers == {"milan": new}
    second.__exit__(None, None, None)
    assert components.peers == {}
