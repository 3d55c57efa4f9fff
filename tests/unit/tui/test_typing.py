"""Typed and read text: the prompt, names that confirm, long texts, no colours."""

from __future__ import annotations

import pytest
from msgspec import structs

from liqod.inspect.protocol import Act
from liqod.model.view.rows import Line
from tests.unit.model.states import NOW, failing, peer, state
from tests.unit.tui.driven import answers, asked, run, several
from tests.unit.tui.links import FakeLink
from tests.unit.tui.screens import Terminal
from tests.unit.tui.sessions import update
from tui.plain import Plain
from tui.table import Place
from tui.widgets.grid import Grid


def test_a_filter_begins_empty_and_its_mark_cannot_be_deleted() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.type("/milan")
        assert "peers (1)  /milan" in screen.text()
        await screen.press("slash", "b", "e")
        assert "peers (1)  /be" in screen.text()
        await screen.press("escape")
        assert "peers (1)  /milan" in screen.text()
        await screen.press("slash", "x", "x", "ctrl+u", "t", "u", "r")
        assert "peers (1)  /tur" in screen.text()
        await screen.press("enter", "escape", "colon", "ctrl+u", *"log", "enter")
        assert screen.app.view_state.place == Place("log")

    run(scenario)


def test_a_filter_that_fits_nothing_says_so() -> None:
    async def scenario(screen: Terminal) -> None:
        await screen.settle()
        assert "the daemon has not answered" in screen.text()
        assert "no peers yet" not in screen.text()
        screen.link.show(several())
        await screen.type("/nobody")
        assert "nothing here matches nobody" in screen.text()

    run(scenario)


def test_several_are_deleted_only_where_each_is_named() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("space", "space", "ctrl+d")
        assert "type bern turin to do it" in screen.text()
        await screen.type("turin")
        assert not asked(screen, Act)
        for _ in "turin":
            await screen.press("backspace")
        await screen.type("bern turin")
        assert len(asked(screen, Act)) == 2

    run(scenario, links=[FakeLink(answers)], size=(120, 40))


CURE = "ask the administrator of milan to run `liqod install` there and then look again here"


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_the_whole_sentence_and_what_to_do_is_on_the_screen(columns: int) -> None:
    async def scenario(screen: Terminal) -> None:
        found = failing("milan", "clock", evidence="its clock is five seconds ahead of this one")
        last = structs.replace(found.checks[-1], remedy=CURE)
        sick = peer("milan", layer="clock", layer_since=NOW - 60, verdict="five seconds ahead")
        ladder = structs.replace(found, checks=(*found.checks[:-1], last))
        screen.link.show(state(sick, ladders={"milan": ladder}))
        await screen.settle()
        assert CURE in " ".join(screen.text().split())
        for keys in (("0",), ("1", "enter")):
            await screen.press(*keys)
            assert CURE in " ".join(" ".join(screen.lines()[4:]).split())

    run(scenario, size=(columns, 24))


def test_long_lines_of_the_log_go_on_below() -> None:
    words = [f"word{number}" for number in range(40)]

    async def scenario(screen: Terminal) -> None:
        screen.link.show(state(peer()))
        lines = (Line(NOW, "info", " ".join(words)), Line(NOW, "info", "short"))
        screen.link.say(update(8, lines=lines))
        await screen.press("8")
        assert all(word in screen.text() for word in words)
        await screen.press("j", "d")
        assert all(word in screen.text() for word in words)

    run(scenario, size=(80, 30))


def test_the_cursor_goes_from_row_to_row_however_tall_they_are() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(state(peer()))
        tall = tuple(Line(NOW, "info", f"line{n} " + "and more " * 30) for n in range(20))
        screen.link.say(update(8, lines=tall))
        await screen.press("8", "j", "j")
        grid = screen.app.query_one(Grid)
        assert grid.row is not None
        assert "line17" in grid.row.cells[-1].text
        await screen.press("G")
        assert "line0 " in grid.row.cells[-1].text
        assert "line0 " in screen.text()
        await screen.press("g")
        assert "line19" in screen.text()

    run(scenario, size=(80, 24))


def test_without_colour_nothing_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("j", "space")
        strips = screen.app.screen._compositor.render_strips()
        styles = [part.style for strip in strips for part in strip if part.style is not None]
        for style in styles:
            assert style.color is None or style.color.is_default
            assert style.bgcolor is None or style.bgcolor.is_default
        assert any(style.reverse for style in styles), "the cursor is seen"
        assert [type(each) for each in screen.app.get_line_filters()] == [Plain]

    run(scenario)
