"""How the program looks: drawings of fixed size and time, compared as pictures.

`pytest tests/unit/tui/test_snapshots.py --snapshot-update` takes what is drawn now as right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from liqod.model.view.state import LiveState
from tests.unit.model.states import NOW, failing, peer, state
from tests.unit.tui.driven import several
from tests.unit.tui.links import FakeLink
from tests.unit.tui.rooms import scene
from tui.app import Top

Compare = Callable[..., bool]


def look(
    compare: Compare, of: LiveState, size: tuple[int, int], *keys: str, **options: Any
) -> bool:
    """True if the program looks as it did, after it is shown a state and some keys are pressed."""
    link = FakeLink()
    app = Top([link], wall=lambda: NOW, steady=lambda: 0.0, **options)

    async def before(pilot: Pilot[None]) -> None:
        await pilot.pause()
        link.show(of)
        await pilot.press(*keys)
        app._draw()
        await pilot.pause()

    return compare(app, terminal_size=size, run_before=before)


def test_peers(snap_compare: Compare) -> None:
    assert look(snap_compare, several(), (120, 14))


def test_peers_on_a_small_terminal(snap_compare: Compare) -> None:
    assert look(snap_compare, several(), (80, 24), "j", "space")


def test_the_ladder_of_a_peer(snap_compare: Compare) -> None:
    of = state(
        peer("milan", layer="clock", layer_since=NOW - 60),
        ladders={"milan": failing("milan", "clock", evidence="5 s apart")},
    )
    assert look(snap_compare, of, (100, 14), "enter")


def test_pods_and_why_they_wait(snap_compare: Compare) -> None:
    assert look(snap_compare, several(), (100, 14), "2")


def test_room_with_a_peer_that_is_gone_and_one_that_tells_nothing(snap_compare: Compare) -> None:
    of = scene(milan={"link": "down", "since": NOW - 60, "reason": "no answer"})
    assert look(snap_compare, of, (120, 14), "r")


def test_room_on_a_small_terminal(snap_compare: Compare) -> None:
    assert look(snap_compare, scene(), (80, 24), "r")


def test_what_waits_and_why(snap_compare: Compare) -> None:
    assert look(snap_compare, scene(), (100, 14), "r", "right")


@pytest.fixture
def colourless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without colours."""
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.usefixtures("colourless")
def test_without_colour(snap_compare: Compare) -> None:
    assert look(snap_compare, several(), (100, 12))
