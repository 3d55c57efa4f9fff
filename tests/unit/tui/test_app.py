"""The program driven by keys, with a link that is not there."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

from liqod.inspect.protocol import (
    Act,
    ExplainPod,
    GetLogs,
    GetTasks,
    Preview,
)
from liqod.model.view.requests import RequestRow as Asking
from tests.unit.model.states import NOW, peer, state
from tests.unit.tui.driven import answers, asked, run, several
from tests.unit.tui.links import FakeLink
from tests.unit.tui.screens import Terminal
from tests.unit.tui.sessions import hello, update
from tui.recording import load
from tui.session import Lost
from tui.table import Place


def test_it_says_that_it_connects_and_then_what_is_worst() -> None:
    async def scenario(screen: Terminal) -> None:
        await screen.settle()
        assert "connecting to rome.sock" in screen.text()
        screen.link.show(several())
        await screen.settle()
        lines = screen.lines()
        assert lines[0].startswith("liqod rome · 0.1.0 up 2 h · 2 up 0 degraded 1 down")
        assert lines[1].startswith("✗ turin: API unreachable for 14 s (no answer)")
        assert [line.split()[1] for line in lines[4:7]] == ["turin", "bern", "milan"]

    run(scenario)


def test_enter_leads_into_a_peer_and_escape_back() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("G", "enter")
        assert "5 s apart" in screen.text()
        assert "to do: mend it" in screen.text()
        assert "peers › milan" in screen.text()
        await screen.press("right")
        assert "over quota" in screen.text()
        await screen.press("escape")
        assert "[1 Peers]" in screen.text()

    run(scenario)


def test_the_cursor_stays_with_its_peer_when_the_order_changes() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("j")
        assert screen.app.view_state.options.cursor == "bern"
        down = peer("bern", link="down", since=NOW - 99, reason="cut", pods_out=9)
        screen.link.say(update(8, peers={"bern": down, "turin": None}))
        await screen.press("enter")
        assert screen.app.view_state.place == Place("peer", "bern")

    run(scenario)


def test_a_filter_works_while_it_is_typed_and_escape_takes_it_away() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("slash", "m", "i")
        assert "bern" not in "\n".join(screen.lines()[3:])
        assert "peers (1)  /mi" in screen.text()
        await screen.press("enter", "escape")
        assert "peers (3)" in screen.text()

    run(scenario)


def test_commands_go_places_and_mistakes_are_named() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.type(":offloaded")
        assert screen.app.view_state.place == Place("offloaded")
        await screen.type(":peer milan log")
        assert screen.app.view_state.place == Place("peer", "milan", "log")
        await screen.type(":nowhere")
        assert "there is no `nowhere`" in screen.said()

    run(scenario, size=(120, 30))


def test_sorting_marks_the_column() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("s", "s")
        assert "PEER↑" in screen.text()
        await screen.press("S")
        assert "PEER↓" in screen.text()
        assert [line.split()[1] for line in screen.lines()[4:7]] == ["turin", "milan", "bern"]

    run(scenario)


def test_frozen_nothing_moves() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("f")
        screen.link.say(update(8, peers={"bern": None}))
        await screen.settle()
        assert "FROZEN" in screen.text()
        assert "bern" in screen.text()
        await screen.press("f")
        assert "bern" not in screen.text()

    run(scenario)


def test_help_names_the_keys_of_this_view() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("question_mark")
        assert "Every peer on one line" in screen.text()
        assert "unpeer" in screen.text()
        await screen.press("escape")
        assert "[1 Peers]" in screen.text()

    run(scenario, size=(120, 60))


def test_an_action_says_what_changes_and_asks_for_the_name() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("ctrl+d")
        assert "the tenant of turin goes" in screen.text()
        assert "$ liqod unpeer turin" in screen.text()
        await screen.type("milan")
        assert not asked(screen, Act)
        for _ in "milan":
            await screen.press("backspace")
        await screen.type("turin")
        done = asked(screen, Act)
        assert [(each.verb, each.subject) for each in done if isinstance(each, Act)] == [
            ("unpeer", "turin")
        ]
        assert "it is gone" in screen.said()

    run(scenario, links=[FakeLink(answers)], size=(120, 40))


def test_an_action_on_several_is_asked_once() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("space", "space", "c")
        assert "cordon bern" in screen.text()
        assert "cordon turin" in screen.text()
        await screen.press("y")
        done = [each.subject for each in asked(screen, Act) if isinstance(each, Act)]
        assert done == ["bern", "turin"]

    run(scenario, links=[FakeLink(answers)], size=(120, 40))


def test_a_description_is_read_from_its_beginning() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("d")
        assert "turin is" in screen.text()
        await screen.press("f")
        assert "turin is" not in screen.text()

    run(scenario, size=(80, 10))


@pytest.mark.parametrize("key", ["n", "escape"])
def test_no_means_no(key: str) -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("c", key)
        assert not asked(screen, Act)

    run(scenario, links=[FakeLink(answers)])


def test_who_may_only_look_is_offered_nothing_else() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several(), acting=False)
        await screen.press("ctrl+d", "c")
        assert not screen.link.asked or not asked(screen, Preview)
        assert "unpeer" not in screen.lines()[-1]
        await screen.type(":unpeer turin")
        assert "may look, but not act" in screen.said()
        assert not asked(screen, Preview)

    run(scenario, links=[FakeLink(answers)], size=(120, 30))


def test_read_only_holds_whatever_the_daemon_allows() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("ctrl+d")
        await screen.type(":drain milan")
        assert not asked(screen, Preview)
        assert "--read-only" in screen.said()

    run(scenario, links=[FakeLink(answers)], read_only=True, size=(120, 30))


def test_the_inbox_peers_with_the_cluster_not_with_its_row() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("3", "a", "y")
        done = [each.subject for each in asked(screen, Act) if isinstance(each, Act)]
        assert done == ["oslo"]

    run(scenario, links=[FakeLink(answers)])


def test_who_asks_is_let_in_or_not_after_what_would_be_granted_was_shown() -> None:
    waiting = {"oslo-1": Asking("oslo-1", "oslo", "copper-lantern-otter", state="Waiting")}

    async def scenario(screen: Terminal) -> None:
        screen.link.show(state(peer("milan"), incoming=waiting))
        await screen.press("3")
        assert "1 waiting to be let in" in screen.lines()[0]
        assert "copper-lantern-otter" in screen.text()
        await screen.press("a")
        assert "there is nothing to do that to" in screen.said()
        await screen.press("A")
        assert "$ liqod accept oslo-1" in screen.text()
        assert not asked(screen, Act)
        await screen.press("n", "X", "y")
        await screen.type(":accept oslo-1 cpu=2")
        await screen.press("y")
        assert [
            (each.verb, each.subject, each.options)
            for each in asked(screen, Act)
            if isinstance(each, Act)
        ] == [("deny", "oslo-1", {}), ("accept", "oslo-1", {"cpu": "2"})]

    run(scenario, links=[FakeLink(answers)], size=(120, 30))


def test_pages_show_yaml_and_logs_as_plain_text() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("2", "G", "y")
        assert "kind: Pod" in screen.text()
        assert "\x1b" not in screen.text()
        await screen.press("escape", "l")
        shown = [line.strip(" ┃│▌▐") for line in screen.lines()]
        begin = shown.index("one")
        assert shown[begin : begin + 4] == ["one", "two", "", "three"]
        wanted = asked(screen, GetLogs)[0]
        assert isinstance(wanted, GetLogs)
        assert (wanted.namespace, wanted.pod, wanted.follow) == ("shop", "b", True)
        await screen.press("escape", "e")
        assert "not to milan:" in screen.text()
        (about,) = asked(screen, ExplainPod)
        assert isinstance(about, ExplainPod)
        assert (about.namespace, about.pod) == ("shop", "b")
        await screen.press("escape", "d")
        assert "why: over quota" in screen.text()

    run(scenario, links=[FakeLink(answers)])


def test_tasks_are_asked_for_while_they_are_looked_at() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.settle()
        assert not asked(screen, GetTasks)
        await screen.press("6")
        for _ in range(50):
            if asked(screen, GetTasks):
                break
            await asyncio.sleep(0.1)
        assert asked(screen, GetTasks)

    run(scenario, links=[FakeLink(answers)])


def test_a_daemon_that_goes_and_comes_again_is_said() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        screen.link.say(Lost("the daemon stopped", NOW, NOW + 2))
        await screen.settle()
        assert "✗ the daemon stopped; shown is how it was at" in screen.text()
        assert "; next try in 2 s" in screen.text()
        assert "milan" in screen.text()
        screen.link.show(several(), started=NOW)
        await screen.settle()
        assert "the daemon stopped" not in screen.text()
        assert "1 restart seen" in screen.text()

    run(scenario)


def test_several_daemons_are_one_row_of_tabs() -> None:
    async def scenario(screen: Terminal) -> None:
        screen.links[0].show(several())
        screen.links[1].say(hello(cluster_id="milan"))
        await screen.settle()
        assert screen.lines()[0].startswith("[✗ rome]")
        await screen.press("ctrl+n")
        assert "[· milan]" in screen.lines()[0]

    run(scenario, links=[FakeLink(), FakeLink()])


def test_a_recording_begins_with_what_is_known(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.press("w")
        screen.link.say(update(8, peers={"bern": None}), Lost("gone", NOW))
        await screen.press("w")
        (path,) = (tmp_path / name for name in os.listdir(tmp_path))
        kinds = [type(message).__name__ for message in load(path)]
        assert kinds == ["InspectorHello", "StateSnapshot", "Update", "Lost"]

    run(scenario)


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (200, 60)])
def test_it_is_usable_at_every_size(size: tuple[int, int]) -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        for key in "123456":
            await screen.press(key)
            assert all(len(line) <= size[0] for line in screen.lines())
        await screen.press("1")
        assert "turin" in screen.text()

    run(scenario, size=size)


def test_the_palette_offers_the_views(monkeypatch) -> None:
    async def scenario(screen: Terminal) -> None:
        screen.link.show(several())
        await screen.settle()
        titles = [each.title for each in screen.app.get_system_commands(screen.app.screen)]
        assert {"Peers", "Offloaded", "unpeer"} <= set(titles)

    run(partial(scenario))
